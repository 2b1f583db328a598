"""The laws of monitors, each a function of a monitor and a backend that raises AssertionError."""

from __future__ import annotations

import numpy as np

from icvi_jax.monitors import Monitor
from icvi_jax.panel import layout
from icvi_jax.testing.backends import Backend, check_laws, kinds, steps
from icvi_jax.types import State

SPAN = 300


def series(seed: int = 0) -> np.ndarray:
    """A positive index with a short bump and a lasting step: (SPAN,)."""
    rng = np.random.default_rng(seed)
    level = np.zeros(SPAN)
    level[120:135] = 4.0
    level[190:] = 5.0
    return np.exp(level + 0.2 * rng.normal(size=SPAN))


def listen(
    monitor: Monitor, values: np.ndarray, b: Backend, goal: str = "min", positive: bool = True
) -> tuple[State, np.ndarray, np.ndarray, np.ndarray]:
    """The final state, and codes, scores and standing along `values` (T,) or (T, N)."""
    with b.precision():
        xp, dtype, streams = layout(b.xp, b.dtype, values.shape[1:])
        state = monitor.init(streams, xp, dtype)
        seen = np.ones(values.shape, bool)
        state, alarms = steps(monitor, state, (values, seen), b, (goal, positive))
        return state, *alarms[:3]


def carry_is_stable(monitor: Monitor, b: Backend) -> None:
    """2: a step returns a state of the same structure, shapes and types."""
    with b.precision():
        xp, dtype, _ = layout(b.xp, b.dtype, ())
        start, end = monitor.init((), xp, dtype), listen(monitor, series()[:5], b)[0]
        assert kinds(start, b) == kinds(end, b), f"the carry became {kinds(end, b)}"


def fleet_equals_loop(monitor: Monitor, b: Backend) -> None:
    """3: a fleet gives the same as each stream alone."""
    values = np.stack([series(s) for s in range(3)], -1)
    _, codes, scores, standing = listen(monitor, values, b)
    for s in (1, 2):
        _, code, score, stands = listen(monitor, values[:, s], b)
        np.testing.assert_array_equal(codes[:, s], code, err_msg="fleet equals loop: codes")
        np.testing.assert_array_equal(standing[:, s], stands, err_msg="fleet equals loop: standing")
        np.testing.assert_allclose(scores[:, s], score, rtol=b.tolerance, atol=b.tolerance, err_msg="fleet equals loop")


def units_do_not_matter(monitor: Monitor, b: Backend) -> None:
    """6: a positive index in other units raises the same alarms, and so does its inverse if large is good."""
    codes = listen(monitor, series(), b)[1]
    np.testing.assert_array_equal(listen(monitor, series() * 1e6, b)[1], codes, err_msg="scaling the index by 1e6")
    np.testing.assert_array_equal(listen(monitor, 1 / series(), b, goal="max")[1], codes, err_msg="goal='max'")


def codes_are_sound(monitor: Monitor, b: Backend) -> None:
    """8: codes are 0 to 3, distress begins at a 3 and ends at a 2, and a change raises an alarm."""
    _, codes, scores, standing = listen(monitor, series(), b)
    assert set(np.unique(codes)) <= {0, 1, 2, 3} and np.isfinite(scores).all()
    assert codes[120:140].any(), "a bump of four log units raised no alarm"
    for t in range(1, SPAN):
        if standing[t] and not standing[t - 1]:
            assert codes[t] == 3, f"sample {t}: distress began without a 3"
        if standing[t - 1] and not standing[t]:
            assert codes[t] == 2, f"sample {t}: distress ended without a 2"


def bad_values_are_skipped(monitor: Monitor, b: Backend) -> None:
    """10: NaN, infinity, zero and negative values change nothing."""
    values = series()
    spots = np.array([3, 60, 125, 200, 260])
    bad = np.insert(values, spots, [np.nan, np.inf, 0.0, -1.0, -np.inf])
    skipped = spots + np.arange(5)
    _, codes, scores, standing = listen(monitor, bad, b)
    assert not codes[skipped].any(), "a value that is not a number raised an alarm"
    _, clean_codes, _, clean_standing = listen(monitor, values, b)
    np.testing.assert_array_equal(np.delete(codes, skipped), clean_codes, err_msg="bad values changed later codes")
    np.testing.assert_array_equal(np.delete(standing, skipped), clean_standing)
    assert not listen(monitor, np.ones(SPAN), b)[1].any(), "a constant index raised an alarm"


MONITOR_LAWS = (carry_is_stable, fleet_equals_loop, units_do_not_matter, codes_are_sound, bad_values_are_skipped)


def check_monitor(monitor: Monitor, backends: tuple[str, ...] | None = None) -> None:
    """Check a monitor against all laws on all installed backends; AssertionError names the law that is broken."""
    check_laws(monitor, MONITOR_LAWS, backends)
