"""Stuck against its definition, and what people expect of it."""

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import icvi_jax as icvi
from icvi_jax.cli import main


def stuck(x, **options):
    pipe = icvi.Pipeline(clusterer=None, panel=None, monitors={"stuck": icvi.Stuck(**options)})
    alarm = icvi.run(pipe, x).readings.alarms["stuck"]
    return [(int(t), int(alarm.cause[t])) for t in np.flatnonzero(alarm.code)], alarm


def by_definition(x, alpha, least, warm):
    """Every sample from scratch: the runs of each column up to it."""
    found = []
    for t in range(len(x)):
        chances = {}
        for j in range(x.shape[1]):
            seen = [v for v in x[: t + 1, j] if np.isfinite(v)]
            if not np.isfinite(x[t, j]):
                continue
            repeats = [a == b for a, b in zip(seen, seen[1:])]
            r = len(repeats) - (max((i for i, one in enumerate(repeats) if not one), default=-1) + 1)
            before = seen[: len(seen) - r]
            past = repeats[: len(before) - 1]
            runs = [len(run) for run in "".join("x" if one else "." for one in past).split(".")] or [0]
            q = (sum(past) + 1) / (len(before) - 1 + 1 + 2)
            if r >= 1 and len(before) >= warm and r >= 2 * max(runs) + least and x.shape[1] * q**r < alpha:
                earlier = r - 1  # one repeat fewer did not reach all three conditions
                if not (earlier >= 1 and earlier >= 2 * max(runs) + least and x.shape[1] * q**earlier < alpha):
                    chances[j] = q**r
        if chances:
            found.append((t, min(chances, key=chances.get)))
    return found


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.2, 0.95))
def test_the_recursion_is_the_definition(seed, share):
    rng = np.random.default_rng(seed)
    x = np.zeros((60, 2))
    for t in range(1, 60):
        x[t] = np.where(rng.random(2) < share, x[t - 1], rng.integers(0, 4, 2))
    x[rng.random(x.shape) < 0.05] = np.nan
    x[0] = 0.0
    assert stuck(x, false_alarms=1e-2, least=3, warm=5)[0] == by_definition(x, 1e-2, 3, 5)


def test_a_constant_column_is_not_stuck_and_a_second_equal_run_raises_nothing():
    x = np.random.default_rng(0).normal(size=(2000, 3)).round(1)
    x[:, 0] = 4.0
    x[500:560, 1], x[900:960, 1] = 7.0, 7.0
    found, alarm = stuck(x)
    assert [j for _, j in found] == [1] and 509 <= found[0][0] <= 515
    at = found[0][0]
    assert 0 < alarm.p[at] < 1e-6 and np.isclose(-np.log10(alarm.p[at]), alarm.score[at], rtol=1e-4)


def test_quiet_noise_raises_nothing_however_coarse():
    x = np.random.default_rng(1).normal(size=(50_000, 2))
    assert not stuck(np.column_stack([x[:, 0].round(0), x[:, 1].round(1)]))[0]


def test_the_command_says_it(tmp_path, capsys):
    x = np.random.default_rng(0).normal(20, 0.5, 900).round(2)
    x[600:] = x[599]
    path = tmp_path / "in.csv"
    path.write_text("temp\n" + "\n".join(map(str, x)))
    assert main(["run", str(path), "-k", "3", "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "stuck columns: 1" in said and f"temp is stuck at {x[599]:.6g}: the same value in 1" in said
    assert "stuck_alarm" in (tmp_path / "out" / "readings.csv").read_text().splitlines()[0]


def test_live_too():
    from icvi_jax.watch.shard import Shard

    x = np.random.default_rng(0).normal(20, 0.5, 900).round(2)
    x[600:] = x[599]
    pipe = icvi.Pipeline(clusterer=None, panel=None, monitors={"stuck": icvi.Stuck()})
    (alarm,) = Shard(pipe, ["temp"]).take([("a", t, (v,)) for t, v in enumerate(x)])
    assert alarm["alarm"] == "stuck" and alarm["cause"] == "temp" and "stuck at" in json.dumps(alarm["text"])
