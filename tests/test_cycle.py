"""Cycles of recordings: found where they are, at their length, and not found in noise."""

import numpy as np
import pytest

from icvi_jax.tables.season_length import PERIODS, cycle


def wave(rows, period, rng, columns=2, noise=0.5):
    """A cycle that is no sine, on slow moves of its own size."""
    phase = np.arange(rows)[:, None] % period / period
    slow = np.cumsum(rng.normal(size=(rows, columns)), axis=0) / np.sqrt(rows)
    return np.where(phase < 0.3, 2.0, 0.0) + np.sin(4 * np.pi * phase) + slow + noise * rng.normal(size=(rows, columns))


def memory(rho, shape, rng):
    """Noise with memory, of standard deviation 1."""
    e = rng.normal(size=shape)
    for t in range(1, len(e)):
        e[t] = rho * e[t - 1] + np.sqrt(1 - rho**2) * e[t]
    return e


@pytest.mark.parametrize("period", [7, 24, 144])
def test_a_cycle_is_found_at_its_length(period):
    rng = np.random.default_rng(period)
    found = cycle(wave(period * 20, period, rng))
    assert found.rows == period
    assert (found.share > 0.5).all()


def test_a_week_of_equal_days_is_a_day():
    assert cycle(wave(24 * 7 * 12, 24, np.random.default_rng(0))).rows == 24


@pytest.mark.parametrize("kind", ["white", "AR .9", "AR .99", "heavy tails", "trend", "steps"])
def test_noise_has_no_cycle(kind):
    rng, found = np.random.default_rng(5), 0
    for _ in range(20):
        shape = (1500, 2)
        x = {
            "white": lambda: rng.normal(size=shape),
            "AR .9": lambda: memory(0.9, shape, rng),
            "AR .99": lambda: memory(0.99, shape, rng),
            "heavy tails": lambda: rng.standard_t(2, size=shape),
            "trend": lambda: np.cumsum(rng.normal(size=shape), axis=0),
            "steps": lambda: np.repeat(rng.normal(size=(10, 2)), 150, axis=0) + 0.1 * rng.normal(size=shape),
        }[kind]()
        found += cycle(x).rows > 0
    assert found <= 1


def test_holes_offsets_and_units_change_nothing():
    rng = np.random.default_rng(2)
    x = wave(24 * 30, 24, rng)
    holes = x.copy()
    holes[rng.random(x.shape) < 0.2] = np.nan
    holes[100:150] = np.nan
    assert cycle(holes).rows == cycle(1e6 + 1e-3 * x).rows == 24


def test_one_column_is_enough_and_the_others_do_not_blur_it():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(24 * 30, 8))
    x[:, 5] += 2 * wave(len(x), 24, rng, columns=1)[:, 0]
    found = cycle(x)
    assert found.rows == 24 and found.share.argmax() == 5


def test_a_fleet_has_the_cycle_of_most_of_its_nodes():
    rng = np.random.default_rng(6)
    fleet = np.stack([wave(24 * 20, 24, rng) for _ in range(5)] + [rng.normal(size=(24 * 20, 2))])
    assert cycle(fleet).rows == 24
    assert cycle(np.stack([fleet[0], fleet[-1], fleet[-1]])).rows == 0


@pytest.mark.parametrize(
    "x",
    [
        np.zeros((0, 2)),
        np.full((500, 2), np.nan),
        np.ones((500, 2)),
        np.where(np.arange(500)[:, None] < 300, np.nan, 1.0 * np.arange(500)[:, None]),
        np.arange(20.0)[:, None],
    ],
    ids=["empty", "nothing", "constant", "mostly missing", "short"],
)
def test_what_has_none_gives_none_and_no_warning(x):
    found = cycle(x)
    assert found.rows == 0 and found.share.shape == (x.shape[1],) and not found.share.any()


def test_fewer_periods_than_needed_are_no_cycle():
    rows = np.arange(48 * 20)
    x = np.sin(2 * np.pi * rows / 48)[:, None] + 0.1 * np.random.default_rng(7).normal(size=(len(rows), 1))
    assert [cycle(x[: 48 * n]).rows for n in (PERIODS - 2, PERIODS + 2, 20)] == [0, 48, 48]


@pytest.mark.parametrize("late", [0, 1])
def test_a_job_at_the_same_minute_each_day_is_a_cycle(late):
    rng = np.random.default_rng(1)
    x = rng.normal(30, 1, 288 * 14)
    for day in range(14):
        start = 288 * day + 100 + int(rng.integers(0, late + 1))
        x[start : start + 3] += 50
    assert cycle(x[:, None]).rows == 288


def test_columns_that_hardly_ever_move_have_no_say():
    rng = np.random.default_rng(2)
    valve = np.where(np.arange(3000) % 60 < 6, 5.0, 0.0)  # a cycle, but 9 of 10 rows repeat the one before
    assert cycle(np.column_stack([valve, rng.normal(size=3000)])).rows == 0
    assert cycle((valve + 0.1 * rng.normal(size=3000))[:, None]).rows == 60
