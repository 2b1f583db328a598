"""The indices of any recorded clustering: replayed sample by sample (`validate`), or from their definitions (`batch`).

What was recorded about a sample is one row of numbers beside it. The panel is scanned over these rows as a pipeline is
over samples, with the same operation.
"""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import array_api_compat
import jax
import jax.numpy as jnp
import numpy as np

from icvi_jax.engine import inputs
from icvi_jax.engine.executor import native_code, run_natively
from icvi_jax.engine.scan import scan_step
from icvi_jax.engine.xla import RunInput, precise, scan_plainly
from icvi_jax.numerics.arrays import cast, library, namespace, slots, usable
from icvi_jax.numerics.moments import weights
from icvi_jax.origin import first_origin
from icvi_jax.panel import Panel, PanelState, complete, punctual
from icvi_jax.spec import made
from icvi_jax.statistics import Dispersion, RecordedClustering
from icvi_jax.statistics.groups import gathered
from icvi_jax.types import Array, ArrayLike, Prototypes, State


class RecordedPanel(NamedTuple):
    """A panel, and what is the same for all samples; None where it changes, or is not known."""

    panel: Panel  # the indices
    centers: Array | None = None  # (k, p), relative to the origin
    active: Array | None = None  # (k,), slots in use
    names: Array | None = None  # (k,), the cluster of each slot


@dataclass(frozen=True)
class Replay:
    """The step: a row of numbers gives the values of all indices. Compared by value.

    A row holds the sample, then either its slot (−1 for none), where centres are the running means of the members, or
    its memberships, and then the centres, active slots and clusters of slots that change.
    """

    k: int  # slots
    features: int
    labelled: bool  # the row has the slot of the sample
    named: bool = False  # the clusters of slots change

    def __call__(
        self, known: RecordedPanel, state: tuple[PanelState, Array | None], row: Array, elapsed: Array | None = None
    ) -> tuple[tuple[PanelState, Array | None], dict[str, Array]]:
        """Process one row (columns, *streams). The state is that of the panel, and how many members each slot had."""
        (panel, members), k, p, xp, streams = state, self.k, self.features, namespace(row), row.shape[1:]

        def wide(a: Array | None) -> Array | None:
            return a if a is None else xp.broadcast_to(xp.reshape(a, a.shape + (1,) * len(streams)), a.shape + streams)

        x, rest = row[:p, ...], row[p:, ...]
        names, centers, active = map(wide, (known.names, known.centers, known.active))
        if members is not None:
            u = xp.astype(xp.astype(slots(members, k), row.dtype) == rest[0, ...], row.dtype)
            seen, old = xp.all(usable(x), axis=0) & punctual(elapsed, x), panel.prototypes.centers
            members = members + xp.astype((u > 0) & seen, members.dtype)
            share = xp.where(seen, u / xp.astype(xp.maximum(members, 1), row.dtype), 0)
            centers, active = old + share[:, None, ...] * (xp.where(seen, x, 0) - old), members > 0
        else:
            u, rest = rest[:k, ...], rest[k:, ...]
            if centers is None:
                centers, rest = xp.reshape(rest[: k * p, ...], (k, p, *streams)), rest[k * p :, ...]
            if active is None:
                active, rest = rest[:k, ...] > 0, rest[k:, ...]
            names = xp.astype(rest, xp.int32) if self.named else names
        panel, values = known.panel.advance(panel, x, u, centers, active, elapsed, names)
        return (panel, members), values


def validate(
    panel: Panel,
    X: ArrayLike,
    labels: ArrayLike | None = None,
    memberships: ArrayLike | None = None,
    centers: ArrayLike | None = None,
    active: ArrayLike | None = None,
    elapsed: ArrayLike | None = None,
    parallel: bool = False,
    clusters: ArrayLike | None = None,
) -> dict[str, Array]:
    """Index values after every sample of a recorded clustering.

    Give either `labels`, or `memberships` and `centers`.

    Parameters
    ----------
    panel : the indices.
    X : (T, p), samples; rows that are not finite are missing.
    labels : (T,), crisp integer labels of any values; −1 is noise. Centres are the running means of the members.
    memberships : (T, k), memberships of each sample; all zero is noise.
    centers : (T, k, p), the centres after each sample; (k, p) if they never move.
    active : (T, k), the slots in use after each sample; all by default.
    elapsed : (T,), time since the previous sample; the panel's forgetting is per unit of this time.
    parallel : no effect any more; native code has made it unnecessary.
    clusters : (k,) or (T, k), which cluster each slot belongs to, with `memberships`; see `Panel.step`.

    Returns
    -------
    Values by index name, each (T,).

    Examples
    --------
    >>> import numpy as np, icvi_jax as icvi
    >>> values = icvi.validate(icvi.Panel(indices=(icvi.XieBeni(),)), [[0.0], [4.0], [1.0], [5.0]], labels=[7, 9, 7, 9])
    >>> print(np.round(values["xb"], 4))
    [   inf    nan 0.0136 0.0156]
    """
    if (labels is None) == (memberships is None):
        raise ValueError("validate: give either labels=, or memberships= and centers=")
    made("validate", "panel", panel, Panel, "icvi.Panel(indices=(icvi.XieBeni(),))")
    given = inputs.given("validate", X)
    x = given.x
    if x.ndim != 2 or 0 in x.shape:
        raise ValueError(f"validate(X=…): expected the axes (T, p) and at least one sample, got shape {tuple(x.shape)}")
    gaps = inputs.gaps("validate", elapsed, x.shape[:1])
    host = given.host and not inputs.traced(panel, memberships, centers, active, gaps)
    x = np.asarray(x) if host else jnp.asarray(x)
    xp, (T, p), dtype = namespace(x), x.shape, given.dtype if host else x.dtype
    origin = first_origin(x, xp.all(usable(x), axis=1))  # in the precision of the samples
    parts: list[Array]
    if labels is not None:
        if clusters is not None:
            raise ValueError("validate(clusters=…): not with labels=; give memberships= and centers= of the slots")
        if centers is not None or active is not None:
            raise ValueError("validate: centers= and active= go with memberships=; with labels=, centres are means")
        slot, k = slots_of(labels, T)
        known, step, parts = RecordedPanel(panel), Replay(k, p, True), [slot[:, None]]
    else:
        U, V, A, names = recorded("validate", panel, x, memberships, centers, active, clusters)
        k = U.shape[1]
        # Values that never change are not in the rows.
        fixed, always = np.ndim(0 if centers is None else centers) == 2, active is None or np.ndim(active) == 1
        moving = names is not None and names.ndim == 2
        V = V - origin
        center = xp.asarray(V[0, ...], dtype=dtype) if fixed else None
        known = RecordedPanel(panel, center, A[0, ...] if always else None, None if moving else names)
        step = Replay(k, p, False, moving)
        parts = [U, *([] if fixed else [xp.reshape(V, (T, k * p))]), *([] if always else [A])]
        parts += [names] if names is not None and moving else []
    rows = xp.concat([xp.asarray(a, dtype=dtype) for a in (x - origin, *parts)], axis=1)
    none: State = None  # the origin of the panel is not needed
    members = None if labels is None else xp.zeros(k, dtype=xp.int32)
    start = panel.init(k, p, xp=np if host else jnp, dtype=dtype)._replace(anchor=none), members
    code = native_code(step, known, start, dtype, rows.shape[1], gaps is not None, alone=True) if host else None
    values: State
    if code is not None:  # the rows as those of a fleet of one
        times = None if gaps is None else np.asarray(gaps)
        feed = RunInput(np.asarray(rows)[None], np.zeros((1, rows.shape[1])), times)
        words = code.words(jax.tree.map(lambda a: a[..., None], start))
        values = {name: a[0] for name, a in run_natively(code, words, code.numbers(known), feed).items()}
    else:
        with precise(np.dtype(dtype)) if host else nullcontext():
            scanned = jnp.asarray(rows), None if gaps is None else jnp.asarray(gaps, dtype)
            values = (scan_plainly if host else scan_step)(step, known, start, *scanned)[1]
    found: dict[str, Array] = inputs.returned(inputs.on_host(values), given.library) if host else values
    return found


def slots_of(labels: ArrayLike, samples: int) -> tuple[np.ndarray, int]:
    """Slots 0, 1, … of integer labels in order of their values (−1 stays −1), and how many there are."""
    if np.ma.is_masked(labels):
        raise ValueError("validate(labels=…): some are masked; −1 is noise")
    labels = np.asarray(labels)
    if labels.ndim != 1 or len(labels) != samples:
        raise ValueError(f"validate(labels=…): expected one label per sample, ({samples},), got shape {labels.shape}")
    if not np.issubdtype(labels.dtype, np.integer):
        if not np.issubdtype(labels.dtype, np.floating) or not np.all(labels == np.round(labels)):
            raise ValueError(f"validate(labels=…): expected integers, −1 for noise; got {labels.dtype}")
        labels = labels.astype(np.int64)
    known = np.unique(labels[labels != -1])
    slots = np.searchsorted(known, labels)
    return np.where(labels == -1, -1, slots).astype(np.int32), max(len(known), 1)


def recorded(
    caller: str,
    panel: Panel,
    X: Array,
    memberships: ArrayLike | None,
    centers: ArrayLike | None,
    active: ArrayLike | None,
    clusters: ArrayLike | None,
) -> tuple[Array, Array, Array, Array | None]:
    """Memberships (T, k), centres (T, k, p), active slots (T, k) and their clusters, (k,) or (T, k), or an error."""
    xp = namespace(X)
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"{caller}(X=…): expected the axes (T, p) and at least one sample, got shape {tuple(X.shape)}")
    given = [np.asarray(a).dtype for a in (memberships, centers) if a is not None] if isinstance(X, np.ndarray) else []
    wide = np.float64 if np.float64 in given else X.dtype  # of the centres, too, which matters near a large offset
    U = xp.asarray(memberships, dtype=wide)
    T, p = X.shape
    if U.ndim != 2 or U.shape[0] != T or centers is None:
        raise ValueError(
            f"{caller}(memberships=…): expected the axes ({T}, k), and centers=; got shape {tuple(U.shape)}"
        )
    if not isinstance(U, jax.core.Tracer) and bool(xp.any(U < 0)):
        raise ValueError(f"{caller}(memberships=…): expected numbers of 0 or more, got {float(xp.min(U)):g}")
    k = U.shape[1]
    V = xp.asarray(centers, dtype=wide)
    A = xp.ones(k, dtype=xp.bool) if active is None else xp.asarray(active, dtype=xp.bool)
    names = None if clusters is None else xp.astype(xp.asarray(clusters), xp.int32)
    if names is None and panel.of == "clusters":
        raise ValueError(f'{caller}(clusters=None): Panel(of="clusters") needs the cluster of each slot')
    for field, a, shape in (("centers", V, (k, p)), ("active", A, (k,)), ("clusters", names, (k,))):
        if a is not None and tuple(a.shape) not in (shape, (T, *shape)):
            raise ValueError(f"{caller}({field}=…): expected shape {shape} or {(T, *shape)}, got {tuple(a.shape)}")
    return U, xp.broadcast_to(V, (T, k, p)), xp.broadcast_to(A, (T, k)), names


def batch(
    panel: Panel,
    X: ArrayLike,
    memberships: ArrayLike,
    centers: ArrayLike,
    active: ArrayLike | None = None,
    elapsed: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
) -> dict[str, Array]:
    """Index values after the last sample, from the sums that define them: O(n k), nothing incremental.

    Parameters
    ----------
    panel : the indices.
    X : (T, p), samples; rows that are not finite are missing. Its array library is used; lists become NumPy.
    memberships : (T, k); all zero is noise.
    centers : (k, p) or (T, k, p); the last counts. With a single cluster h depends on the path, so give (T, k, p).
    active : (k,) or (T, k), slots in use; all by default. Samples before a slot's last birth are not its members.
    elapsed : (T,), time since the previous sample.
    clusters : (k,) or (T, k), which cluster each slot belongs to; the last counts. See `Panel.step`.

    Returns
    -------
    Values by index name, each a scalar.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.XieBeni(),))
    >>> exact = icvi.batch(panel, [[0.0], [4.0], [1.0], [5.0]], [[1, 0], [0, 1], [1, 0], [0, 1]], [[0.5], [4.5]])
    >>> float(exact["xb"])
    0.015625
    """
    recording = record(panel, X, memberships, centers, active, elapsed, clusters)
    xp = namespace(recording.x)
    states = {part.name: part.batch(recording) for part in panel.statistics}
    now = _last(recording)
    if panel.of == "clusters" and int(xp.sum(xp.astype(gathered((), {}, now)[1].active, xp.int32))) == 1:
        path = _cluster_path(recording)
        states |= {part.name: part.batch(path) for part in panel.statistics if part.follows}
    plain = dataclasses.replace(panel, norm=None)  # the recording is already in this norm
    return plain.values(states, now, xp.ones_like(recording.active[-1, 0]))


def _last(recording: RecordedClustering) -> Prototypes:
    """The prototypes at the end of a recording."""
    names = None if recording.names is None else recording.names[-1, :]
    return Prototypes(recording.centers[-1, ...], recording.active[-1, :], names)


def _cluster_path(recording: RecordedClustering) -> RecordedClustering:
    """The recording with the path of its clusters instead of its slots: O(n²), and only needed for a single cluster."""
    xp = namespace(recording.x)
    centers, active = [], []
    for end in range(1, recording.x.shape[0] + 1):
        part: RecordedClustering = jax.tree.map(lambda a: a[:end, ...], recording)  # noqa: B023
        part = part._replace(fades=part.fades / part.fades[-1], w=_since_birth(part.active, part.given))
        now = gathered((Dispersion,), {"dispersion": Dispersion.batch(part)}, _last(part))[1]
        centers.append(now.centers)
        active.append(now.active)
    return recording._replace(centers=xp.stack(centers), active=xp.stack(active))


def _since_birth(active: Array, weights: Array) -> Array:
    """Weights (n, k), 0 for samples before the last birth of their slot."""
    xp = namespace(weights)
    time = xp.arange(active.shape[0])[:, None]
    born = xp.max(xp.where(active, -xp.ones_like(time), time), axis=0)  # the last moment a slot was not in use
    return xp.where(time > born, weights, xp.zeros_like(weights))


def record(
    panel: Panel,
    X: ArrayLike,
    memberships: ArrayLike,
    centers: ArrayLike,
    active: ArrayLike | None = None,
    elapsed: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
) -> RecordedClustering:
    """A recorded clustering for batch definitions: without missing samples, relative to the first sample, faded."""
    raw: State = X
    own = array_api_compat.is_array_api_obj(X) and not isinstance(X, np.ndarray)
    x: Array = raw if own else inputs.given("batch", X).x
    times = inputs.gaps("batch", elapsed, x.shape[:1])
    xp = namespace(x)
    x = x if xp.isdtype(x.dtype, "real floating") else xp.astype(x, library(xp).asarray(0.0).dtype)
    U, V, A, names = recorded("batch", panel, x, memberships, centers, active, clusters)
    whole = complete(x.T, U.T, xp.permute_dims(V, (1, 2, 0)), A.T)
    if not bool(xp.any(whole)):
        raise ValueError("batch(X=…): every sample is missing (not finite, or larger than 1e15)")
    anchor = first_origin(x, whole)
    x, V = x - anchor, V - anchor
    seen = complete(x.T, U.T, xp.permute_dims(V, (1, 2, 0)), A.T)
    gaps = xp.ones_like(x[:, 0]) if times is None else xp.asarray(times, dtype=x.dtype)
    spots = xp.nonzero(seen)[0]
    names = names if names is None else xp.take(xp.broadcast_to(names, U.shape), spots, axis=0)
    x, U, V, A, gaps = (xp.take(a, spots, axis=0) for a in (x, U, V, A, gaps))
    V = xp.where(A[:, :, None], V, xp.zeros_like(V))
    U = xp.where(A, U, xp.zeros_like(U))
    given = weights(U, cast(panel.fuzzifier, x))
    clock = xp.cumulative_sum(gaps)
    x = panel.seen_by(x.T).T
    V = xp.permute_dims(panel.seen_by(xp.permute_dims(V, (2, 0, 1))), (1, 2, 0))
    fades = cast(panel.forgetting, x) ** (clock[-1] - clock)
    return RecordedClustering(x, U, _since_birth(A, given), fades, V, A, given, names)
