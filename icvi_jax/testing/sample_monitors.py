"""The laws of monitors of samples, each a function of a monitor and a backend that raises AssertionError."""

from __future__ import annotations

import numpy as np

from icvi_jax.clusterers import SequentialKMeans
from icvi_jax.indices import catalogue
from icvi_jax.monitors import SampleMonitor
from icvi_jax.panel import Panel
from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.testing.backends import Backend, check_laws, kinds, steps
from icvi_jax.types import Alarm, Array

SPAN, STEP, COLUMN = 265, 240, 1


def samples(seed: int = 0) -> np.ndarray:
    """Three noisy features, one of which rises by eight spreads: (SPAN, 3), exact in float32 far from zero."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(SPAN, 3))
    x[STEP:, COLUMN] += 8.0
    return np.round(x * 2**8) / 2**8


def pipeline(monitor: SampleMonitor) -> Pipeline:
    """A pipeline of the monitor, with the indices it watches, if any."""
    if not monitor.watched:
        return Pipeline(clusterer=None, panel=None, monitors={"watch": monitor})
    known = {entry.name: entry.index for entry in catalogue()}
    panel = Panel(indices=tuple(known[name]() for name in monitor.watched), forgetting=0.9)
    return Pipeline(clusterer=SequentialKMeans(k=3), panel=panel, monitors={"watch": monitor})


def listen(
    monitor: SampleMonitor, x: np.ndarray, b: Backend, state: PipelineState | None = None
) -> tuple[PipelineState, Alarm]:
    """The final state of the pipeline and the alarm along `x` (T, p) or (T, p, N)."""
    pipe = pipeline(monitor)
    with b.precision():
        state = pipe.init(x.shape[1], x.shape[2:], b.xp, b.dtype) if state is None else state
        state, readings = steps(pipe, state, (np.asarray(x),), b)
        return state, readings.alarms["watch"]


def carry_is_stable(monitor: SampleMonitor, b: Backend) -> None:
    """2: a step returns a state of the same structure, shapes and types."""
    with b.precision():
        start, end = pipeline(monitor).init(3, (), b.xp, b.dtype), listen(monitor, samples()[:5], b)[0]
        assert kinds(start, b) == kinds(end, b), f"the carry became {kinds(end, b)}"


def fleet_equals_loop(monitor: SampleMonitor, b: Backend) -> None:
    """3: a fleet gives the same as each stream alone."""
    x = np.stack([samples(s) for s in range(3)], -1)
    fleet, alone = listen(monitor, x, b)[1], listen(monitor, x[..., 1], b)[1]
    np.testing.assert_array_equal(fleet.code[:, 1], alone.code, err_msg="fleet equals loop: codes")
    np.testing.assert_array_equal(fleet.cause[:, 1], alone.cause, err_msg="fleet equals loop: causes")
    np.testing.assert_allclose(
        fleet.score[:, 1], alone.score, rtol=b.tolerance, atol=b.tolerance, err_msg="fleet equals loop: scores"
    )


def units_do_not_matter(monitor: SampleMonitor, b: Backend) -> None:
    """6: other units, another origin and another order of the columns raise the same alarms."""
    x = samples()
    units = np.full(3, 2.0**20) if monitor.watched else np.array([2.0**20, 2.0**-10, 4.0])  # a clusterer mixes columns
    alarm = listen(monitor, np.stack([x, x * units, x + 2.0**14, x[:, ::-1]], -1), b)[1]
    for stream, what in ((1, "other units"), (2, "another origin"), (3, "another order of the columns")):
        np.testing.assert_array_equal(alarm.code[:, stream], alarm.code[:, 0], err_msg=f"{what} changed the codes")
    np.testing.assert_array_equal(alarm.cause[:, 1:3], alarm.cause[:, [0, 0]], err_msg="units changed the causes")
    turned = np.where(alarm.cause[:, 0] >= 0, 2 - alarm.cause[:, 0], -1)
    np.testing.assert_array_equal(alarm.cause[:, 3], turned, err_msg="the cause did not follow its column")


def codes_are_sound(monitor: SampleMonitor, b: Backend) -> None:
    """8: a large step is found, the column is named, p is a probability, and constants raise no alarm."""
    alarm = listen(monitor, np.stack([samples(), np.ones((SPAN, 3))], -1), b)[1]
    assert not alarm.code[:, 1].any(), "constants raised an alarm"
    _names_the_step(monitor, alarm.code[:, 0], alarm.cause[:, 0])
    assert ((alarm.cause == -1) | (alarm.code > 0)).all(), "a quiet sample has a cause"
    known = alarm.p[~np.isnan(alarm.p)]
    assert len(known) and (known >= 0).all() and (known <= 1).all() and np.isfinite(alarm.score).all()


def holes_are_skipped(monitor: SampleMonitor, b: Backend) -> None:
    """10: rows without a value change nothing, and a missing value only concerns its own column."""
    clean, holed, spots = samples(), samples(), np.array([3, 60, 150, STEP - 2])
    empty = [[np.nan] * 3, [np.inf] * 3, [np.nan] * 3, [-np.inf] * 3]
    holed[100:130, 0] = np.nan
    holed[STEP - 5 :, 2] = np.nan
    later = np.concatenate([clean, clean[-4:]])  # the same length as the others
    rows = [later, np.insert(clean, spots, empty, axis=0), np.concatenate([holed, holed[-4:]])]
    alarm, skipped = listen(monitor, np.stack(rows, -1), b)[1], spots + np.arange(4)
    assert not alarm.code[skipped, 1].any(), "a row without any value raised an alarm"
    for part, what in ((alarm.code, "codes"), (alarm.cause, "causes")):
        left = np.delete(part[:, 1], skipped)
        np.testing.assert_array_equal(left, part[:-4, 0], err_msg=f"empty rows changed {what}")
    _names_the_step(monitor, alarm.code[:, 2], alarm.cause[:, 2], " where other columns have missing values")


def restarts_bit_for_bit(monitor: SampleMonitor, b: Backend) -> None:
    """8: stopping and continuing changes nothing, bit for bit."""
    x = samples()
    alarm, stop = listen(monitor, x, b)[1], STEP + 2
    half, first = listen(monitor, x[:stop], b)
    second = listen(monitor, x[stop:], b, half)[1]
    for name, whole, *parts in zip(alarm._fields, alarm, first, second):
        np.testing.assert_array_equal(whole, np.concatenate(parts), err_msg=f"stopped at {stop}: {name}")


def _names_the_step(monitor: SampleMonitor, code: Array, cause: Array, where: str = "") -> None:
    if monitor.finds != "steps":
        return
    found = STEP + np.flatnonzero(code[STEP : STEP + 20])
    assert len(found), f"a step of eight spreads raised no alarm{where}"
    blamed = cause[found[0]]
    assert blamed == COLUMN or (monitor.watched and blamed == -1), (
        f"column {COLUMN} changed, but {blamed} was named{where}"
    )


SAMPLE_MONITOR_LAWS = (
    carry_is_stable,
    fleet_equals_loop,
    units_do_not_matter,
    codes_are_sound,
    holes_are_skipped,
    restarts_bit_for_bit,
)


def check_sample_monitor(monitor: SampleMonitor, backends: tuple[str, ...] | None = None) -> None:
    """Check a monitor of samples against all laws on all installed backends; AssertionError names what is broken."""
    check_laws(monitor, SAMPLE_MONITOR_LAWS, backends)
