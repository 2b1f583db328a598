"""Collectives: exchange between all processes of a fleet, over a mesh of all their devices along "streams"."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

NAME_BYTES = 128
"""Longer names are cut in summaries."""


def everywhere(numbers: Sequence[int] | np.ndarray) -> np.ndarray:
    """Gather numbers (n,) of each process to (processes, n); all processes must call it."""
    return np.asarray(multihost_utils.process_allgather(np.asarray(numbers), tiled=False)).reshape(-1, len(numbers))


@lru_cache(maxsize=1)
def mesh() -> Mesh:
    """All devices of all processes, in order of processes."""
    devices = sorted(jax.devices(), key=lambda d: (d.process_index, d.id))
    return Mesh(np.array(devices), ("streams",))


def spread_out(local: np.ndarray) -> Array:
    """Join arrays (…, n), with equal n in all processes, to one (…, n · processes), sharded over streams."""
    sharding = NamedSharding(mesh(), PartitionSpec(*[None] * (local.ndim - 1), "streams"))
    spread: Array = jax.make_array_from_process_local_data(sharding, local)
    return spread


def padded(a: np.ndarray, length: int, fill: float) -> np.ndarray:
    """`a` (…, n) with its last axis padded to `length`."""
    return np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, length - a.shape[-1])], constant_values=fill)


@partial(jax.jit, static_argnames=("worst", "mesh"))
def fleet(values: Array, scores: Array, counts: Array, worst: int, mesh: Mesh) -> tuple[Array, ...]:
    """Reduce over all streams.

    Parameters
    ----------
    values : (rows, N), where NaN does not count: → count, mean, standard deviation, smallest, largest, each (rows,).
    scores : (rows, N), larger is worse, NaN is never worst: → the `worst` largest and their places in N.
    counts : (things, N), integers: → their sums (things,).
    """
    split, whole = PartitionSpec(None, "streams"), PartitionSpec()

    def body(values: Array, scores: Array, counts: Array) -> tuple[Array, ...]:
        fine = jnp.isfinite(values)
        n = jax.lax.psum(jnp.sum(fine, axis=1), "streams")
        mean = jax.lax.psum(jnp.sum(jnp.where(fine, values, 0), axis=1), "streams") / jnp.maximum(n, 1)
        off = jnp.where(fine, values - mean[:, None], 0)
        spread = jnp.sqrt(jax.lax.psum(jnp.sum(off * off, axis=1), "streams") / jnp.maximum(n, 1))
        least = jax.lax.pmin(jnp.min(jnp.where(fine, values, jnp.inf), axis=1), "streams")
        most = jax.lax.pmax(jnp.max(jnp.where(fine, values, -jnp.inf), axis=1), "streams")
        own = scores.shape[1]
        top, place = jax.lax.top_k(jnp.where(jnp.isnan(scores), -jnp.inf, scores), min(worst, own))
        place = place + own * jax.lax.axis_index("streams")
        top, place = (jax.lax.all_gather(a, "streams", axis=1, tiled=True) for a in (top, place))
        order = jnp.lexsort((place, -top), axis=1)[
            :, :worst
        ]  # ties go to the lower place, however streams are distributed
        top, place = (jnp.take_along_axis(a, order, axis=1) for a in (top, place))
        return n, mean, spread, least, most, top, place, jax.lax.psum(jnp.sum(counts, axis=1), "streams")

    spread = jax.shard_map(body, mesh=mesh, in_specs=(split,) * 3, out_specs=(whole,) * 8, check_vma=False)
    return spread(values, scores, counts)


def names_at(places: np.ndarray, names: tuple[str, ...], length: int) -> list[str]:
    """The names of streams anywhere in the fleet; each process gives those it has."""
    first = jax.process_index() * length
    told = np.zeros((len(places), NAME_BYTES), np.uint8)
    for row, place in enumerate(places):
        if first <= place < first + len(names):
            name = names[place - first].encode()[:NAME_BYTES]
            told[row, : len(name)] = np.frombuffer(name, np.uint8)
    heard = everywhere(told.ravel()).max(axis=0).reshape(told.shape)
    return [bytes(row).rstrip(b"\0").decode(errors="ignore") for row in heard]
