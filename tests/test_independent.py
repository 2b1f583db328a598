"""Alarms and health, through the public functions, are what oracles written from the definitions alone say."""

import jax
import numpy as np
import pytest
from oracles.budget import budget, incidents
from oracles.change2 import change
from oracles.distress import distress
from oracles.gate import gate
from oracles.health import REASONS, Vitals
from oracles.stuck import stuck

import icvi_jax as icvi

SAMPLES = 600
RUNS = {"jax": lambda pipe, X: run_compiled(pipe, X), "numpy": lambda pipe, X: run_plain(pipe, X[:2])}


def run_compiled(pipe, X):
    """Readings (N, T) of a fleet, in double precision."""
    with jax.enable_x64(True):
        return jax.tree.map(
            np.asarray, icvi.run_fleet(pipe, X, keep=("values", "k", "seen", "alarms", "surprise")).readings
        )


def run_plain(pipe, X):
    runs = [icvi.run(pipe, x, backend="numpy").readings for x in X]
    return jax.tree.map(lambda *parts: np.stack(parts), *runs)


def stream(seed, p, clusters=0):
    """Steps, memory, heavy tails, whole numbers, dead columns, counters, offsets, error codes, holes and empty rows."""
    rng = np.random.default_rng(seed)
    x = rng.standard_t(2.5, size=(SAMPLES, p)) if seed % 3 == 0 else rng.normal(size=(SAMPLES, p))
    if seed % 4 == 1:
        for t in range(1, SAMPLES):
            x[t] += 0.8 * x[t - 1]
    if clusters:
        x += 8 * rng.normal(size=(clusters, p))[rng.integers(clusters, size=SAMPLES)]
    if seed % 5 == 2:
        x = np.round(x)
    for _ in range(4):
        x[rng.integers(20, SAMPLES) :, rng.integers(p)] += rng.normal(0, 5)
    if seed % 6 == 1:
        x[: rng.integers(5, 300), 0] = 7.0
    if seed % 6 == 2 and not clusters:
        x[:, -1] = np.floor(np.cumsum(rng.random(SAMPLES) < 0.05))
    x = x * 10.0 ** rng.integers(-1, 4) + rng.choice([0, 0, 1e3])
    for _ in range(rng.integers(6)):
        at = rng.integers(12) if rng.random() < 0.4 else rng.integers(SAMPLES)
        x[at : at + rng.integers(1, 8), rng.integers(p)] = rng.choice([-9999, 65535, 1e6])
    x[rng.random((SAMPLES, p)) < rng.choice([0, 0, 0.02, 0.2])] = np.nan
    x[rng.random(SAMPLES) < 0.02] = rng.choice([np.nan, np.inf, 1e16])
    return x


def fleet(p, streams, clusters=0):
    return np.stack([stream(seed + 100 * p, p, clusters) for seed in range(streams)])


def assert_same(alarm, n, want):
    """The alarm of stream n equals what the oracle says at every sample."""
    for part, expected in want.items():
        got = getattr(alarm, part)[n]
        if got.dtype.kind == "f":
            close = {"rtol": 1e-7, "atol": 0} if part == "p" else {"rtol": 1e-9, "atol": 1e-9}
            np.testing.assert_allclose(got, expected, **close, err_msg=f"{part} of stream {n}")
        else:
            np.testing.assert_array_equal(got, expected, err_msg=f"{part} of stream {n}")


@pytest.mark.parametrize("backend", RUNS)
@pytest.mark.parametrize(("p", "season"), [(1, 0), (2, 24), (5, 0)])
def test_change(backend, p, season):
    monitor = icvi.Change(false_alarms=5e-3, season=season or None)
    pipe = icvi.Pipeline(clusterer=None, panel=None, monitors={"change": monitor})
    X = fleet(p, 12 // p + 3)
    alarm = RUNS[backend](pipe, X).alarms["change"]
    for n in range(len(alarm.code)):
        assert_same(alarm, n, change(X[n], 5e-3, season=season))
    assert alarm.code.sum() > len(alarm.code)


def heard(readings, n, index, counts, alone):
    """Values of an index, NaN where the sample is missing or, unless `alone` will do, there is one cluster."""
    values = readings.surprise[n] if index == "surprise" else readings.values[index][n]
    return np.where(counts & (alone | (readings.k[n] > 1)), values, np.nan)


@pytest.mark.parametrize("backend", RUNS)
def test_change_with_indices(backend):
    names = ("xb", "ch", "surprise")
    pipe = icvi.Pipeline(
        clusterer=icvi.MergeSplit(slots=6),
        panel=icvi.Panel(indices=(icvi.XieBeni(), icvi.CalinskiHarabasz()), forgetting=0.95),
        monitors={"change": icvi.Change(false_alarms=0.01, indices=names, season=12)},
        gate=True,
    )
    X, lone = fleet(2, 8, clusters=3), 0
    readings = RUNS[backend](pipe, X)
    for n in range(len(readings.seen)):
        counts = gate(X[n])[0]
        y = np.stack([heard(readings, n, name, counts, name == "surprise") for name in names], 1)
        y = np.log(np.where(y > 0, y, np.nan)) * [1, -1, 1]
        want = change(X[n], 0.01, np.where(np.isfinite(y), y, np.nan), season=12)
        assert_same(readings.alarms["change"], n, want)
        lone += (want["code"] & (want["cause"] < 0)).sum()
    assert backend == "numpy" or lone > 0, "no index gave an alarm"


@pytest.mark.parametrize("backend", RUNS)
@pytest.mark.parametrize(
    "clusterer", [icvi.SequentialKMeans(k=3, memory=30), icvi.MergeSplit(slots=5)], ids=["k-means", "merge and split"]
)
def test_distress(backend, clusterer):
    indices = (icvi.XieBeni(), icvi.CalinskiHarabasz(), icvi.CentroidSilhouette(), icvi.Hartigan())
    known = {one.name: (one.goal, not one.positive) for one in indices} | {"surprise": ("min", False)}
    settings = (
        {"factor": 2.0, "patience": 20, "memory": 30, "warm": 15, "back": 0.3},
        {"factor": 1.5, "width": 1.0, "patience": 40, "warm": 20},
        {"false_alarms": 0.01, "warm": 15, "patience": 30},
        {"false_alarms": 1e-3},
    )
    monitors = {f"{name} {i}": icvi.Distress(index=name, **one) for name in known for i, one in enumerate(settings)}
    pipe = icvi.Pipeline(clusterer=clusterer, panel=icvi.Panel(indices=indices, forgetting=0.9), monitors=monitors)
    X, met = fleet(3, 10, clusters=4), {name: set() for name in known}
    readings = RUNS[backend](pipe, X)
    for n in range(len(readings.seen)):
        counts, anew, ninth = gate(X[n])
        for name, (goal, signed) in known.items():
            for i, one in enumerate(settings):
                values = heard(readings, n, name, counts, name == "surprise" or "false_alarms" not in one)
                parts = (values[:ninth], values[ninth:]) if anew else (values,)
                wants = [distress(part, goal, signed=signed, **one) for part in parts]
                want = {key: np.concatenate([w[key] for w in wants]) for key in wants[0]}
                assert_same(readings.alarms[f"{name} {i}"], n, want)
                met[name] |= set(want["code"].tolist())
    assert backend == "numpy" or all(codes == {0, 1, 2, 3} for codes in met.values()), met


@pytest.mark.parametrize("backend", RUNS)
@pytest.mark.parametrize("p", [1, 3])
def test_gate(backend, p):
    """What counts is seen, and the rest of the pipeline goes on as if nothing else had been there."""
    clusterer, panel = icvi.SequentialKMeans(k=3), icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()))
    gated, open_ = (icvi.Pipeline(clusterer=clusterer, panel=panel, gate=one) for one in (True, False))
    X = fleet(p, 40, clusters=3)
    for n, x in enumerate(X):  # near the limit
        low, high = (f(x[:30][gate(x[:30])[0], 0]) for f in (np.min, np.max))
        x[30, 0] = (low, high)[n % 2] + (n % 2 * 2 - 1) * (high - low) * (49.7, 50.3)[n // 2 % 2]
    readings, held = RUNS[backend](gated, X), 0
    for n, x in enumerate(X[: len(readings.seen)]):
        counts, anew, ninth = gate(x)
        np.testing.assert_array_equal(readings.seen[n], counts, err_msg=f"stream {n}")
        start = ninth if anew else 0
        clean = np.where(counts[:, None], x, np.nan)[start:]
        held += (~counts & np.isfinite(x).all(1)).sum()
        if n < 12:
            want = icvi.run(open_, clean, backend="numpy").readings
            for name, values in readings.values.items():
                np.testing.assert_allclose(values[n, start:], want.values[name], rtol=1e-9, err_msg=f"stream {n}")
    assert held > 10


@pytest.mark.parametrize("backend", RUNS)
@pytest.mark.parametrize("p", [1, 4])
def test_stuck(backend, p):
    settings = {"false_alarms": 1e-4, "least": 6, "warm": 40}
    pipe = icvi.Pipeline(clusterer=None, panel=None, monitors={"stuck": icvi.Stuck(**settings)})
    rng, X = np.random.default_rng(p), np.round(fleet(p, 10))
    for x in X:
        for _ in range(6):
            at, column = rng.integers(30, SAMPLES), rng.integers(p)
            x[at : at + rng.integers(5, 60), column] = x[at, column]
    alarm = RUNS[backend](pipe, X).alarms["stuck"]
    for n in range(len(alarm.code)):
        assert_same(alarm, n, stuck(X[n], **settings))
    assert alarm.code.sum() >= 2


@pytest.mark.parametrize("time", ["hour", "day", "week", "month", "10000"])
def test_budget(time):
    met = set()
    for number in (0.01, 0.5, 1, 20, 700, 3000):
        for streams in (1, 3, 50, 340, 10_000):
            for interval in (1, 600.0, 7200.0):
                want = budget(number, time, streams, interval)
                if want is None:
                    with pytest.raises(ValueError):
                        icvi.Budget.parse(f"{number}/{time}", streams, interval)
                else:
                    got = icvi.Budget.parse(f"{number}/{time}", streams, interval)
                    assert (got.rate, got.agree, got.expected, got.rows) == pytest.approx(want, rel=1e-12)
                met.add(want and min(want[1], 2))
    assert met == {None, 1, 2}


@pytest.mark.parametrize(
    ("text", "streams"), [("1/week", 50), ("28/day", 2_000), ("1/day", 2_000), ("1/month", 20_000)]
)
def test_incidents(text, streams):
    rng, usual = np.random.default_rng(streams), 5e-4 * streams
    plan = icvi.Budget.parse(text, streams, interval=600)
    counts = rng.poisson(usual * np.where(np.arange(600) // 60 % 2, rng.choice([1.5, 3, 20], 600), 0.3))
    counts[300] = streams
    want, one_by_one = incidents(counts, plan.rows, streams), plan.agreement
    one_by_one.add(0, 0)  # else it begins with the first alarm
    assert plan.incidents(np.arange(streams)[:, None] < counts).tolist() == want
    assert [any([one_by_one.add(t) for _ in range(alarms)]) for t, alarms in enumerate(counts)] == want
    assert 5 < sum(want) < 400


def follow(clusterer, x, norm=None):
    """Health and what explains it after each sample, as the oracle says, from the events of a clusterer."""
    state = clusterer.init(x.shape[1], (), np, np.float64)
    vitals, said = Vitals(clusterer.slots, x.shape[1]), [(np.nan, None, None, -1)]
    turn = np.eye(x.shape[1]) if norm is None else np.linalg.cholesky(norm)
    for row in x:
        if not np.all(abs(row) <= 1e15):
            said.append(said[-1])
            continue
        state, event = clusterer.step(state, row, np.array(True))
        after, merge = event.after, None
        if event.merge is not None and event.merge.gone.any():
            merge = int(np.argmax(event.merge.gone)), int(np.argmax(event.merge.into))
        born = () if event.born is None else np.flatnonzero(event.born)
        vitals.step(row @ turn, event.u, after.centers @ turn, after.active, after.names, born, merge)
        said.append(vitals.read() if event.ready else said[0])
    return said[1:]


CLUSTERERS = {
    "k-means": (3, icvi.SequentialKMeans(k=4, memory=50)),
    "one cluster": (2, icvi.SequentialKMeans(k=1)),
    "rebirth": (1, icvi.RebirthKMeans(k=4, mass_memory=60)),
    "fuzzy": (2, icvi.FuzzyCMeans(k=3)),
    "ellipsoids": (3, icvi.OnlineEllipsoidal(capacity=5)),
    "merge and split": (2, icvi.MergeSplit(slots=6)),
    "many slots": (1, icvi.MergeSplit(slots=12, mass_memory=80)),
}


def blobs(seed, p):
    """Clusters that appear one after the other and move, with holes, error codes and an offset."""
    rng = np.random.default_rng(seed)
    centers = 6 * rng.normal(size=(5, p))
    which = np.minimum(rng.integers(5, size=SAMPLES), np.arange(SAMPLES) // 60)
    x = centers[which] + rng.normal(size=(SAMPLES, p)) + np.linspace(0, 3, SAMPLES)[:, None] * rng.normal(size=p)
    x[rng.random(SAMPLES) < 0.02] = np.nan
    x[rng.integers(SAMPLES, size=2)] = 500.0
    return x + rng.choice([0, 100])


@pytest.mark.parametrize("name", CLUSTERERS)
def test_health(name):
    p, clusterer = CLUSTERERS[name]
    x = blobs(p, p)
    norm = np.diag(np.arange(1.0, p + 1)) + 0.5 if name == "k-means" else None
    panel = icvi.Panel(indices=(icvi.Health(),), norm=norm, forgetting=0.9)
    pipe, state, want, got = icvi.Pipeline(clusterer=clusterer, panel=panel), None, follow(clusterer, x, norm), []
    for end in range(100, SAMPLES + 1, 100):
        run = icvi.run(pipe, x[end - 100 : end], state, backend="numpy")
        state, got = run.state, [*got, *run.readings.values["health"]]
        why, (_, chances, reason, cluster) = icvi.explain(panel, state.panel).health, want[end - 1]
        np.testing.assert_allclose(why.reasons, list(chances.values()), rtol=1e-9, atol=1e-12)
        assert (REASONS[int(why.reason)], int(why.cluster)) == (reason, cluster)
    np.testing.assert_allclose(got, [one[0] for one in want], rtol=1e-9, atol=1e-9)
    assert np.isfinite(got).sum() > 500 and np.nanmax(got) - np.nanmin(got) > 0.02


def test_health_of_merged_clusters_and_of_two_shards():
    rng, panel, k, p = np.random.default_rng(0), icvi.Panel(indices=(icvi.Health(),)), 4, 2
    shards, places = [], 8 * rng.normal(size=(k, p))
    for _ in range(2):
        state, oracle = panel.init(k, p, xp=np, dtype=np.float64), Vitals(k, p)
        for t in range(300):
            if t % 25 == 20:  # one slot joins another, and is used again five samples later
                into, gone = rng.permutation(k)[:2].tolist()
                state = icvi.merge(panel, state, into, gone, places[into])
                oracle.merge(gone, into)
                oracle.centres[into], oracle.used[gone] = places[into], False
            used = np.ones(k, bool)
            used[[gone] if t % 25 >= 20 else []] = False
            label = rng.choice(np.flatnonzero(used)) if rng.random() < 0.8 else -1
            x, u = places[label] + rng.normal(size=p), np.eye(k)[label] * (label >= 0)
            state, values = panel.step(state, x, u, places, used)
            oracle.step(x, u, places, used)
            np.testing.assert_allclose(values["health"], oracle.read()[0], rtol=1e-9, err_msg=f"sample {t}")
        shards.append((state, oracle))
    (first, oracle), (second, later) = shards
    oracle.combine(later)
    both = icvi.explain(panel, icvi.combine(panel, first, second)).health
    health, chances, *_ = oracle.read()
    np.testing.assert_allclose([both.value, *both.reasons], [health, *chances.values()], rtol=1e-9)


def test_health_of_a_fleet():
    pipe = icvi.Pipeline(clusterer=icvi.MergeSplit(slots=6), panel=icvi.Panel(indices=(icvi.Health(),)))
    X = np.stack([blobs(seed, 2) for seed in range(4)])
    values = run_compiled(pipe, X).values["health"]
    for n, x in enumerate(X):
        want = [one[0] for one in follow(pipe.clusterer, x)]
        np.testing.assert_allclose(values[n], want, rtol=1e-9, atol=1e-9, err_msg=f"stream {n}")
