"""Afar: a fleet whose samples are not in the memory of the host: on another device, traced, or torch with gradients.

Nothing is moved: results are on the devices of the samples.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from icvi_jax.engine import inputs
from icvi_jax.engine.engine import Walk
from icvi_jax.engine.loop import loop
from icvi_jax.engine.sample_batch import Done
from icvi_jax.engine.scan import scan_fleet
from icvi_jax.numerics.arrays import namespace
from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.types import Array, Reading


class Afar:
    """The states of many streams; `icvi_jax.engine.engine.Engine` is the same for samples of the host.

    Parameters
    ----------
    pipe, keep : the pipeline, and the fields of its readings that are wanted.
    given : the first samples (N, T, p).
    state : (…, N), not consumed; None: from the first sample.
    mesh : devices on one axis "streams", to go to. None: where the samples are.

    Attributes
    ----------
    streams : N.
    """

    def __init__(
        self,
        pipe: Pipeline,
        given: inputs.Given,
        state: PipelineState | None,
        keep: tuple[str, ...],
        mesh: Mesh | None = None,
    ) -> None:
        self._pipe, self._step, self._torch, self._phase = pipe, Walk(keep), given.library == "torch", 0
        self._mesh, self._axis = (mesh, "streams") if mesh is not None else _divided(given.x)
        self.streams, _, p = given.x.shape
        if state is None:
            xp = namespace(given.x) if self._torch else jnp
            state = pipe.init(p, (self.streams,), xp=xp, dtype=given.x.dtype)
        self._kept = state if self._torch else jax.tree.map(jnp.asarray, state)
        self._more = 0 if mesh is None else -self.streams % mesh.size  # equal numbers on all devices
        self._kept = jax.tree.map(lambda a: self._filled(a, -1, 0), self._kept)

    @property
    def state(self) -> PipelineState:
        """The states of all streams, (…, N)."""
        kept: PipelineState = jax.tree.map(lambda a: a[..., : self.streams], self._kept) if self._more else self._kept
        return kept

    def advance(self, X: Array, elapsed: Array | None = None, every: int = 1, done: Done | None = None) -> Reading:
        """Take in X (N, t, p), with elapsed (t,) or (N, t); the readings (N, rows, …) of each `every`-th sample."""
        N, T, _ = X.shape
        readings: Reading
        if self._torch:
            xp = namespace(X)
            gaps = None if elapsed is None else xp.asarray(elapsed.T, dtype=X.dtype)
            turned = xp.permute_dims(X, (1, 2, 0))
            self._kept, made = loop(self._step, self._pipe, self._kept, turned, gaps, every, self._phase)
            readings = jax.tree.map(lambda a: xp.moveaxis(a, -1, 0), made)
        else:
            times = None if elapsed is None else jnp.asarray(elapsed, X.dtype)
            times = times if times is None or times.ndim == 1 else self._filled(times, 0, 1)
            Z = self._filled(jnp.asarray(X), 0, jnp.nan)
            if self._mesh is not None:
                Z = jax.device_put(Z, NamedSharding(self._mesh, P(self._axis)))
            self._kept, readings = scan_fleet(
                self._step, self._pipe, self._kept, Z, times, every, self._phase, self._mesh, self._axis
            )
            readings = jax.tree.map(lambda a: a[:N], readings) if self._more else readings
        self._phase = (self._phase + T) % every
        if done is not None:
            done(N * T)
        return readings

    def _filled(self, a: jax.Array, axis: int, value: float) -> jax.Array:
        """Pad the streams so that all devices have the same number."""
        if not self._more:
            return a
        widths = [(0, 0)] * a.ndim
        widths[axis] = (0, self._more)
        return jnp.pad(a, widths, constant_values=value)


def _divided(X: Array) -> tuple[Mesh | None, object]:
    """The mesh and its axis over which the streams of X (N, T, p) are divided, or nothing."""
    if not isinstance(X, jax.Array) or isinstance(X, jax.core.Tracer) or len(X.devices()) == 1:
        return None, None
    where = X.sharding
    if not isinstance(where, NamedSharding) or not isinstance(where.mesh, Mesh):
        return None, None
    return (where.mesh, where.spec[0]) if where.spec and where.spec[0] is not None else (None, None)
