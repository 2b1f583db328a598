"""The laws of indices and of statistics, each a function of the part and a backend that raises AssertionError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import jax
import numpy as np

from icvi_jax.indices.base import Index
from icvi_jax.numerics.arrays import usable
from icvi_jax.panel import Panel, PanelState
from icvi_jax.spec import spec, static
from icvi_jax.statistics import AnyStatistic, Covariance, States, Stats, closure
from icvi_jax.testing.backends import Backend, Example, check_laws, example, kinds, steps
from icvi_jax.types import Array, State
from icvi_jax.validation import batch, record, validate

MEMORIES = (1.0, 0.99, 0.9)


def trace(panel: Panel, e: Example, b: Backend) -> tuple[PanelState, dict[str, np.ndarray]]:
    """The final state and the values (T, *streams) of a panel along an example, with a backend.

    The example may be a fleet: streams trail in all its arrays.
    """
    k, p, *streams = e.centers.shape[1:]
    with b.precision():
        state = panel.init(k, p, streams=tuple(streams), xp=b.xp, dtype=b.dtype)
        return steps(panel, state, e, b)


def same(got: Mapping[str, Array], want: Mapping[str, Array], tolerance: float, law: str) -> None:
    """Assert that two sets of values agree, NaN with NaN and infinity with infinity."""
    for name in want:
        g, w = np.asarray(got[name], float), np.asarray(want[name], float)
        np.testing.assert_array_equal(np.isnan(g), np.isnan(w), err_msg=f"{law}: {name} is NaN in other places")
        np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance, err_msg=f"{law}: {name}")


def incremental_equals_batch(indices: tuple[Index, ...], b: Backend) -> None:
    """1: steps equal the batch definition, for every memory, crisp and soft, with births, deaths and gaps."""
    for i, lam in enumerate(MEMORIES):
        panel = Panel(indices=indices, forgetting=lam)
        e = example(seed=i, soft=i % 2 == 1, deaths=i > 0, noise=True, missing=True)
        got = trace(panel, e, b)[1]
        for t in range(12, len(e.x), 9):
            want = batch(panel, e.x[: t + 1], e.u[: t + 1], e.centers[: t + 1], e.active[: t + 1])
            same({n: v[t] for n, v in got.items()}, want, b.tolerance, f"incremental equals batch at {t}, λ = {lam}")


def carry_is_stable(indices: tuple[Index, ...], b: Backend) -> None:
    """2: a step returns a state of the same structure, shapes and types."""
    panel, e = Panel(indices=indices, forgetting=0.9), example(samples=3)
    with b.precision():
        start = panel.init(4, 2, xp=b.xp, dtype=b.dtype)
        end = trace(panel, e, b)[0]
        assert kinds(start, b) == kinds(end, b), f"the carry became {kinds(end, b)}"


def fleet_equals_loop(indices: tuple[Index, ...], b: Backend) -> None:
    """3: a fleet gives the same as each stream alone."""
    panel = Panel(indices=indices, forgetting=0.95)
    examples = [example(seed=s, soft=s == 1, missing=True) for s in range(3)]
    alone = [trace(panel, e, b)[1] for e in examples]
    together = trace(panel, Example(*(np.stack(parts, -1) for parts in zip(*examples))), b)[1]
    want = {name: np.stack([one[name] for one in alone], -1) for name in together}
    if np.finfo(np.asarray(together[indices[0].name]).dtype).bits <= 32:
        # The determinant of a covariance of few members is rounding error in single precision, and processors differ.
        sure = np.stack([_well_conditioned(e) for e in examples], -1)
        for index in indices:
            if Covariance in closure(index.needs):
                np.testing.assert_array_equal(np.isnan(together[index.name]), np.isnan(want[index.name]))
                together[index.name], want[index.name] = (a[index.name][sure] for a in (together, want))
    same(together, want, b.tolerance, "fleet equals loop")


def _well_conditioned(e: Example) -> np.ndarray:
    """Samples (T,) after which every active cluster has enough members for a covariance: 2 (p + 1) since its birth."""
    members = np.zeros(e.active.shape[1])
    sure = []
    for x, u, active in zip(e.x, e.u, e.active):
        members = np.where(active, members + (u > 0) * usable(x).all(), 0)
        sure.append((members[active] >= 2 * (e.x.shape[1] + 1)).all())
    return np.array(sure)


def permuting_slots(indices: tuple[Index, ...], b: Backend) -> None:
    """5: another order of slots gives the same values, and permutes the state."""
    panel, e, order = Panel(indices=indices, forgetting=0.9), example(seed=5, soft=True), np.array([2, 0, 3, 1])
    (state, want), (other, got) = trace(panel, e, b), trace(panel, e.permuted(order), b)
    same(got, want, 10 * b.tolerance, "permuting slots")
    for a, c in zip(jax.tree.leaves(state.statistics), jax.tree.leaves(other.statistics)):
        a, c = np.asarray(a, float), np.asarray(c, float)
        a = a[order] if a.shape[:1] == (4,) else a
        a = a[:, order] if a.shape[:2] == (4, 4) else a  # counts by pairs of slots
        np.testing.assert_allclose(c, a, rtol=10 * b.tolerance, atol=10 * b.tolerance, err_msg="permuting slots: state")


def moving_and_scaling(indices: tuple[Index, ...], b: Backend) -> None:
    """6: translation does not change values; scaling changes them as the index says."""
    panel, e = Panel(indices=indices, forgetting=0.95), example(seed=6, soft=True, births=False)
    want = trace(panel, e, b)[1]
    same(trace(panel, e.moved(by=np.array([3e3, -7e3])), b)[1], want, max(1e-6, 3 * b.tolerance), "translation")
    got = trace(panel, e.moved(scale=8.0), b)[1]
    for index in indices:  # from the tenth sample on: the δI in a covariance of one or two samples does not scale
        law = np.array([index.scaled(v, 8.0, 2, 4) for v in want[index.name][10:]])
        same({index.name: got[index.name][10:]}, {index.name: law}, max(1e-3, b.tolerance), "scaling by 8")


def spare_slots(indices: tuple[Index, ...], b: Backend) -> None:
    """7: slots that are never used change nothing."""
    panel, e = Panel(indices=indices, forgetting=0.9), example(seed=7, soft=True)
    same(trace(panel, e.widened(2), b)[1], trace(panel, e, b)[1], 10 * b.tolerance, "spare slots")


def degenerate_inputs(indices: tuple[Index, ...], b: Backend) -> None:
    """10: no active slot, equal centres, constants, NaN, infinity: never the best value, and normal values
    afterwards."""
    panel, good = Panel(indices=indices, forgetting=0.9), example(seed=10, births=False, samples=30)
    clean = trace(panel, good, b)[1]
    holes = Example(*(np.insert(a, 12, a[12], axis=0)[:30] for a in good))
    holes.x[12] = np.nan
    got = trace(panel, holes, b)[1]
    same({n: v[13:] for n, v in got.items()}, {n: v[12:29] for n, v in clean.items()}, 0.0, "a missing sample")
    same({n: v[12] for n, v in got.items()}, {n: v[11] for n, v in clean.items()}, 0.0, "a missing sample repeats")
    nobody = good._replace(active=np.zeros_like(good.active), u=0 * good.u)
    for name, v in trace(panel, nobody, b)[1].items():
        assert np.isnan(v).all(), f"no active slot: {name} says {v[-1]}, not NaN"
    dull = good._replace(centers=np.zeros_like(good.centers), x=np.zeros_like(good.x))
    values = trace(panel, Example(*(np.concatenate([d[:12], g[12:]]) for d, g in zip(dull, good))), b)[1]
    for index in indices:
        v, ends = values[index.name], index.range
        if index.scattered:
            best = ends[0] if index.goal == "min" else ends[1]
            assert not (v[:12] == best).any(), f"coincident centres, constant data: {index.name} says {best}, the best"
        assert np.isfinite(v[-1]) or np.isnan(clean[index.name][-1]), f"after constants {index.name} stays {v[-1]}"


def large_values_are_missing(indices: tuple[Index, ...], b: Backend) -> None:
    """10: a value beyond 1e15 is missing for a step, `validate` and `batch` alike; one of 1e14 is a sample."""
    panel, good = Panel(indices=indices, forgetting=0.9), example(seed=3, births=False, samples=24)
    holes, large = (good._replace(x=good.x.copy()) for _ in range(2))
    holes.x[[0, 9], 1] = np.nan
    large.x[[0, 9], 1] = 1e16, -1e300 if b.dtype == "float64" else -1e30
    law = "a value too large"
    same(trace(panel, large, b)[1], trace(panel, holes, b)[1], 0.0, law)
    same(batch(panel, *large), batch(panel, *holes), 0.0, f"{law}, batch")
    far = large._replace(x=np.where(np.abs(large.x) > 1e15, 1e14, large.x))
    seen = [int(trace(panel, e, b)[0].statistics["count"].samples) for e in (far, large)]
    assert seen == [24, 22], (
        f"{seen[0]} of 24 samples up to 1e14 were counted, and {seen[1]} beside two that are larger"
    )
    if b.xp is np:  # `validate` has engines of its own
        label = good.u.argmax(axis=1)
        same(validate(panel, large.x, label), validate(panel, holes.x, label), 0.0, f"{law}, validate labels")
        got, want = (validate(panel, e.x, None, e.u, e.centers, e.active) for e in (large, holes))
        same(got, want, 0.0, f"{law}, validate memberships")


def shared_equals_separate(indices: tuple[Index, ...], b: Backend) -> None:
    """12: an index has the same value on a shared panel and alone."""
    e = example(seed=12, soft=True)
    shared = trace(Panel(indices=indices, forgetting=0.9), e, b)[1]
    for index in indices:
        alone = trace(Panel(indices=(index,), forgetting=0.9), e, b)[1]
        same(alone, {index.name: shared[index.name]}, b.tolerance, "shared equals separate")


INDEX_LAWS = (
    incremental_equals_batch,
    carry_is_stable,
    fleet_equals_loop,
    permuting_slots,
    moving_and_scaling,
    spare_slots,
    degenerate_inputs,
    large_values_are_missing,
    shared_equals_separate,
)


def check_index(index: Index, backends: tuple[str, ...] | None = None) -> None:
    """Check an index against all laws on all installed backends; AssertionError names the law that is broken."""
    assert index.goal in ("min", "max"), f"{type(index).__name__}.goal is {index.goal!r}: 'min' or 'max'"
    check_laws((index,), INDEX_LAWS, backends)


def probe(statistic: type[AnyStatistic], forgetting: float) -> Panel:
    """A panel with only this statistic and those it needs."""

    class Probe(Index):
        """Has no value of its own."""

        name: str = static("probe")
        goal: ClassVar[str] = "min"
        needs: ClassVar[tuple[type[AnyStatistic], ...]] = (statistic,)

        def value(self, stats: Stats, forgetting: Array) -> Array:
            return stats.k

    return Panel(indices=(spec(Probe)(),), forgetting=forgetting)


def close(got: State, want: State, active: np.ndarray, tolerance: float, law: str) -> None:
    """Assert that two states agree in the slots that are active."""
    assert type(got) is type(want), f"{law}: {type(got).__name__} is not {type(want).__name__}"
    for field, a, b in zip(got._fields, got, want):
        a, b = np.asarray(a, float), np.asarray(b, float)
        if a.shape[:1] == active.shape and len(active) > 1:
            a, b = a[active], b[active]
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=f"{law}: {type(got).__name__}.{field}")


def updates_equal_batch(statistic: type[AnyStatistic], b: Backend) -> None:
    """1: updates equal the batch definition."""
    for i, lam in enumerate(MEMORIES):
        panel = probe(statistic, lam)
        e = example(seed=20 + i, soft=i % 2 == 0, deaths=i > 0, noise=True, missing=True)
        state = trace(panel, e, b)[0].statistics[statistic.name]
        want = statistic.batch(record(panel, e.x, e.u, e.centers, e.active))
        # in both, coordinates are relative to the first usable sample
        close(state, want, e.active[-1], b.tolerance, f"updates equal batch, λ = {lam}")


def combining_shards(statistic: type[AnyStatistic], b: Backend) -> None:
    """9: two shards with the same centres combine to the state of all samples, unless the statistic says otherwise."""
    if not statistic.shards:
        return
    panel, e = probe(statistic, 1.0), example(seed=30, soft=True, births=False)
    fixed = e._replace(centers=np.broadcast_to(e.centers[-1], e.centers.shape))
    whole = trace(panel, fixed, b)[0]
    first, second = (trace(panel, Example(*(a[s] for a in fixed)), b)[0] for s in (slice(0, 17), slice(17, None)))
    with b.precision():
        gap = second.anchor.high - first.anchor.high
        moved = {part.name: part.shift(second.statistics[part.name], gap) for part in panel.statistics}
        both = statistic.combine(States(first.statistics), States(moved))
    close(both, whole.statistics[statistic.name], e.active[-1], 10 * b.tolerance, "combining shards")


def missing_changes_nothing(statistic: type[AnyStatistic], b: Backend) -> None:
    """10: a missing sample does not change a bit of the state."""
    panel, e = probe(statistic, 0.9), example(seed=31, soft=True)
    before = trace(panel, e, b)[0].statistics
    gap = Example(*(np.concatenate([a, a[-1:]]) for a in e))
    gap.x[-1] = np.nan
    after = trace(panel, gap, b)[0].statistics
    for a, c in zip(jax.tree.leaves(before), jax.tree.leaves(after)):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(c), err_msg="a missing sample changed the state")


STATISTIC_LAWS = (updates_equal_batch, combining_shards, missing_changes_nothing)


def check_statistic(statistic: type[AnyStatistic], backends: tuple[str, ...] | None = None) -> None:
    """Check a statistic against all laws on all installed backends; AssertionError names the law that is broken."""
    check_laws(statistic, STATISTIC_LAWS, backends)
