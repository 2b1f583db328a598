r"""Silhouettes: how much nearer each sample was to its own centre than to the next, at its time.

.. math:: a = ‖x − v_{own}‖, \quad b = \min_{i ≠ own} \sqrt{‖x − v_i‖² + S_i/M_i}, \quad s = (b − a)/\max(a, b)

with centres, S and M before the sample. Samples that start a cluster, and samples with no other cluster, are left out;
only samples that count fade the mean.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from icvi_jax.numerics import moments
from icvi_jax.numerics.arrays import namespace, smallest, squares
from icvi_jax.statistics.base import RecordedClustering, States, Statistic, Step
from icvi_jax.statistics.dispersion import Dispersion
from icvi_jax.types import Array, DType, Namespace


class SilhouettesState(NamedTuple):
    """Faded means of s and their weights: for samples in clusters, and for these and noise, which counts as 0."""

    mean: Array
    weight: Array
    noisy_mean: Array
    noisy_weight: Array


class Silhouettes(Statistic[SilhouettesState, SilhouettesState]):
    """Faded mean of the samples' silhouettes against the clusters as they were before each sample.

    It depends on the path of the centres: two combined shards do not have the samples between them, and a sample that
    is removed stays in the mean.
    """

    name: ClassVar = "silhouettes"
    needs: ClassVar = (Dispersion,)
    shards: ClassVar = False

    @staticmethod
    def init(k: int, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> SilhouettesState:
        return SilhouettesState(*(xp.zeros(streams, dtype=dtype),) * 4)

    @staticmethod
    def update(old: States, step: Step) -> SilhouettesState:
        active, born = step.before.active, step.born
        s, counts = of_sample(step.x, step.u, step.before.centers, active, old[Dispersion], born)
        counts = counts & step.seen
        noise = step.seen & ~namespace(s).any(step.u > 0, axis=0) & namespace(s).any(active, axis=0)
        return _add_sample(old[Silhouettes], s, counts, noise, step.fade)

    @staticmethod
    def batch(recording: RecordedClustering) -> SilhouettesState:
        xp, n = namespace(recording.x), recording.x.shape[0]
        time = xp.arange(n)[:, None]
        state = Silhouettes.init(0, 0, (), xp, recording.x.dtype)
        for t in range(1, n):
            active = recording.active[t - 1, :]
            off = xp.where(recording.active[:t, :], -1, time[:t, :])
            members = xp.where(time[:t, :] > xp.max(off, axis=0), recording.given[:t, :], 0.0)
            past = moments.batch(recording.x[:t, :], members, recording.fades[:t] / recording.fades[t - 1])
            x, u = recording.x[t, :], recording.u[t, :]
            s, counts = of_sample(x, u, recording.centers[t - 1, ...], active, past, None)
            noise = ~xp.any(u > 0) & xp.any(active)
            state = _add_sample(state, s, counts, noise, recording.fades[t - 1] / recording.fades[t])
        return state

    @staticmethod
    def fade(state: SilhouettesState, by: Array, alive: Array) -> SilhouettesState:
        return state._replace(weight=by * state.weight, noisy_weight=by * state.noisy_weight)

    @staticmethod
    def combine(a: States, b: States) -> SilhouettesState:
        joined: list[Array] = []
        for one, two in zip(_means(a[Silhouettes]), _means(b[Silhouettes])):
            (mean, weight), (other, more) = one, two
            total, part = moments.share(weight, 1, more)
            joined += [mean + part * (other - mean), total]
        return SilhouettesState(*joined)

    @staticmethod
    def remove(old: States, step: Step) -> SilhouettesState:
        return old[Silhouettes]  # where the centres were is not known any more


def of_sample(
    x: Array, u: Array, centers: Array, active: Array, past: moments.Moments, born: Array | None
) -> tuple[Array, Array]:
    """The silhouette of a sample (*streams), 0 where it has none, and whether it has one."""
    xp = namespace(x)
    own = smallest(-u) & (u > 0)
    known = active if born is None else active & ~born
    d = squares(x - centers, 1)
    spread = d + xp.where(past.mass > 0, past.scatter, 0.0)
    other = active & ~own
    a = _root(xp.sum(xp.where(own & known, d, 0.0), axis=0))
    b = _root(xp.min(xp.where(other, spread, xp.inf), axis=0))
    counts = xp.any(own & known, axis=0) & xp.any(other, axis=0)
    b = xp.where(counts, b, a)
    worse = xp.maximum(a, b)
    s = (b - a) / xp.where(worse > 0, worse, 1.0)
    return xp.where(counts, s, 0.0), counts


def _root(a: Array) -> Array:
    """Square root with a finite slope at 0; infinity stays."""
    xp = namespace(a)
    some = (a > 0) & (a < xp.inf)
    return xp.where(some, xp.sqrt(xp.where(some, a, 1.0)), a)


def _means(state: SilhouettesState) -> tuple[tuple[Array, Array], ...]:
    """The two means, each with its weight."""
    return (state.mean, state.weight), (state.noisy_mean, state.noisy_weight)


def _add_sample(state: SilhouettesState, s: Array, counts: Array, noise: Array, fade: Array) -> SilhouettesState:
    """The state with the silhouette of one more sample, where it counts, or where it is noise."""
    xp, new = namespace(s), []
    for (mean, weight), taken in zip(_means(state), (counts, counts | noise)):
        total = fade * weight + 1
        new += [xp.where(taken, mean + (s - mean) / total, mean), xp.where(taken, total, weight)]
    return SilhouettesState(*new)
