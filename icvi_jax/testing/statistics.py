"""The laws of statistics, each a function of a statistic and a backend that raises AssertionError."""

from __future__ import annotations

from typing import ClassVar

import jax
import numpy as np

from icvi_jax.indices.base import Index
from icvi_jax.panel import Panel
from icvi_jax.spec import spec, static
from icvi_jax.statistics import AnyStatistic, States, Stats
from icvi_jax.testing.backends import Backend, available, backend
from icvi_jax.testing.indices import MEMORIES, trace
from icvi_jax.testing.recordings import Example, example
from icvi_jax.types import Array, State
from icvi_jax.validation.batch import record


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
    for name in available() if backends is None else backends:
        for law in STATISTIC_LAWS:
            law(statistic, backend(name))
