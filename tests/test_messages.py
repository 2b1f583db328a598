"""Wrong calls get a message that names the field and what to do."""

import numpy as np
import polars
import pytest

import icvi_jax as icvi

X = np.random.default_rng(0).normal(size=(20, 2))
PANEL = icvi.Panel(indices=(icvi.XieBeni(),))
KMEANS = icvi.SequentialKMeans(k=3)
PIPE = icvi.Pipeline(clusterer=KMEANS, panel=PANEL)
OTHER = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=4), panel=PANEL)
MORE = icvi.Pipeline(clusterer=KMEANS, panel=PANEL, monitors={"xb": icvi.Distress()})
SIGNED, WATCH_SIGNED = icvi.Panel(indices=(icvi.CentroidSilhouette(),)), {"change": icvi.Change(indices=("csil",))}
U = np.eye(2)[np.arange(20) % 2]


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: icvi.SequentialKMeans(k=0), ["k=0", "at least 1"]),
        (lambda: icvi.SequentialKMeans(k=2.0), ["k=2.0", "integer"]),
        (lambda: icvi.Change(silent=2**31), ["silent=2147483648", "at most 2147483647"]),
        (lambda: icvi.run(PIPE, X, every=2**63), ["every=", "at most 2147483647"]),
        (lambda: icvi.scan(PIPE, PIPE.init(2), X, every=2**63), ["every=", "at most 2147483647"]),
        (lambda: icvi.run(PIPE, X.astype("m8[s]")), ["numbers, got times", "timedelta64"]),
        (lambda: icvi.validate(PANEL, X.astype("M8[s]"), labels=np.zeros(20, int)), ["numbers, got times"]),
        (lambda: icvi.batch(PANEL, X.astype("M8[s]"), memberships=U, centers=X[:2]), ["numbers, got times"]),
        (lambda: icvi.Pipeline(clusterer=KMEANS, panel=SIGNED, monitors=WATCH_SIGNED), ["'csil' may be negative"]),
        (lambda: icvi.SequentialKMeans(k=2, seeding="random"), ["seeding='random'", "'distinct'"]),
        (lambda: icvi.SequentialKMeans(k=2, warmup="none"), ["warmup='none'", "'paper'"]),
        (lambda: icvi.Panel(indices=(icvi.XieBeni(),), forgetting=0.0), ["forgetting=0.0", "(0, 1]"]),
        (lambda: icvi.Panel(indices=(icvi.XieBeni(),), forgetting=1.1), ["forgetting=1.1", "(0, 1]"]),
        (lambda: icvi.Panel(indices=(icvi.XieBeni(),), forgetting=float("nan")), ["forgetting=nan"]),
        (lambda: icvi.Panel(indices=(icvi.XieBeni(),), forgetting=1 - 1e-7), ["float32"]),
        (lambda: icvi.Panel(indices=(icvi.XieBeni(),), fuzzifier=0.5), ["fuzzifier=0.5", "at least 1"]),
        (lambda: icvi.Panel(indices=()), ["at least one index"]),
        (lambda: icvi.Panel(indices=(icvi.XieBeni(), icvi.XieBeni())), ["'xb'", "name="]),
        (lambda: icvi.Panel(indices=(icvi.XieBeni(),), norm=-np.eye(2)), ["norm", "positive definite"]),
        (lambda: icvi.Panel(indices=(icvi.XieBeni(),), norm=np.ones(3)), ["norm", "(3,)"]),
        (lambda: icvi.XieBeni(normalizer="none"), ["normalizer='none'", "'exact'"]),
        (lambda: icvi.Standardize(forgetting=2), ["forgetting=2"]),
        (lambda: icvi.Pipeline(clusterer=KMEANS, panel=PANEL, monitors={"db": icvi.Distress()}), ["'db'", "'xb'"]),
        (lambda: icvi.forgetting_of(half_life=0), ["half_life=0"]),
        (lambda: icvi.run(PIPE, X[:0]), ["empty"]),
        (lambda: icvi.run(PIPE, X[:, :0]), ["empty"]),
        (lambda: icvi.run(PIPE, X[0]), ["(T, p)", "(2,)"]),
        (lambda: icvi.run(PIPE, X[:2]), ["3 samples", "has 2", "state="]),
        (lambda: icvi.run(PIPE, X + 1j), ["complex"]),
        (lambda: icvi.run(PIPE, polars.DataFrame({"a": ["x"] * 5, "b": [1.0] * 5})), ["'a'", "numbers"]),
        (lambda: icvi.run(PIPE, X, state=icvi.run(PIPE, X)), ["state", "Run"]),
        (lambda: icvi.run(PIPE, X, state=PIPE.init(2, (7,))), ["for 7 streams", "of one"]),
        (lambda: icvi.run_fleet(PIPE, X[None], state=PIPE.init(2)), ["for one stream", "of 1"]),
        (
            lambda: icvi.run(PIPE, X, state=OTHER.init(2)),
            ["not a state of this pipe", ".clusterer.centers", "(3, 2)"],
        ),
        (lambda: icvi.run(PIPE, X, state=MORE.init(2)), ["not a state of this pipeline", "no .monitors"]),
        (lambda: icvi.run_fleet(PIPE, X[None][:0]), ["fleet is empty"]),
        (lambda: icvi.run_fleet(PIPE, [X[None], X[None]]), ["iterator", "(1, 20, 2)"]),
        (lambda: icvi.run_fleet(PIPE, []), ["expected streams"]),
        (lambda: icvi.Panel(indices=icvi.XieBeni()), ["(XieBeni(),)"]),
        (lambda: PANEL.init(0, 2), ["k=0"]),
        (lambda: PIPE.init(2, dtype=np.int32), ["int32", "float"]),
        (lambda: icvi.combine(PANEL, PANEL.init(3, 2), PANEL.init(4, 2)), ["(3, 2) and (4, 2)"]),
        (lambda: icvi.validate(PANEL, X, memberships=-U, centers=np.eye(2)), ["memberships", "-1"]),
        (lambda: icvi.Live(PIPE, 2, 1).tick_many(X[None][:, :0]), ["one tick at least"]),
        (lambda: icvi.run(PIPE, X, backend="cupy"), ["'cupy'", "'numpy'"]),
        (lambda: icvi.run(PIPE, X, keep=("value",)), ["'value'", "values"]),
        (lambda: icvi.run(PIPE, X, state=PIPE.init(3)), ["3 features", "have 2"]),
        (lambda: icvi.run(PIPE, X, elapsed=np.ones(3)), ["elapsed", "(20,)"]),
        (lambda: icvi.run_fleet(PIPE, X), ["(N, T, p)"]),
        (lambda: icvi.run_fleet(PIPE, X[None, :2]), ["3 samples", "has 2"]),
        (lambda: PIPE.init(0), ["features=0"]),
        (lambda: PIPE.step(PIPE.init(2), np.ones(3)), ["(2,)", "(3,)"]),
        (lambda: icvi.validate(PANEL, X, labels=np.zeros(19, int)), ["labels", "(20,)", "(19,)"]),
        (lambda: icvi.validate(PANEL, X, labels=np.full(20, 0.5)), ["integers"]),
        (lambda: icvi.validate(PANEL, X, labels=np.full(20, np.nan)), ["integers"]),
        (lambda: icvi.validate(PANEL, X), ["labels=", "memberships="]),
        (lambda: icvi.validate(PANEL, X[:0], labels=[]), ["at least one sample"]),
        (lambda: icvi.validate(PANEL, X, labels=np.zeros(20, int), centers=X[:1]), ["centers=", "labels="]),
        (lambda: icvi.validate(PANEL, X, labels=np.zeros(20, int), active=np.ones(1)), ["active=", "labels="]),
        (lambda: icvi.validate(PANEL, X, labels=np.ma.masked_equal(np.arange(20), 3)), ["masked", "−1"]),
        (lambda: icvi.run(PIPE, X, elapsed=np.ones(20, "m8[ns]")), ["elapsed", "timedelta64[ns]"]),
        (lambda: icvi.run(PIPE, {"a": [1.0]}), ["array, a list or a table", "dict"]),
        (lambda: icvi.validate(PANEL, None, labels=[1]), ["validate(X", "NoneType"]),
        (lambda: icvi.explain(PIPE, PIPE.init(2)), ["explain(panel=", "icvi.Panel"]),
        (lambda: icvi.explain(PANEL, PIPE.init(2)), ["state of a panel", "PipelineState"]),
        (lambda: icvi.Live(PIPE, 2, 2.5), ["streams=2.5", "integer"]),
        (lambda: icvi.combine(PANEL, PIPE.init(2), PIPE.init(2)), ["combine", "PipelineState"]),
        (lambda: icvi.validate(PANEL, X, memberships=U), ["centers"]),
        (lambda: icvi.validate(PANEL, X, memberships=U[:5], centers=X[:2]), ["memberships", "(20, k)"]),
        (lambda: icvi.validate(PANEL, X, memberships=U, centers=X[:3]), ["centers", "(2, 2)", "(3, 2)"]),
        (lambda: icvi.validate(PANEL, X, memberships=U, centers=X[:2], active=np.ones(3)), ["active", "(3,)"]),
        (lambda: icvi.batch(PANEL, X * np.nan, U, X[:2]), ["every sample is missing"]),
        (lambda: PANEL.step(PANEL.init(2, 2), X[0], np.ones(3), X[:2]), ["u", "(2,)", "(3,)"]),
    ],
)
def test_the_message_names_what_is_wrong(call, words):
    with pytest.raises(ValueError) as error:
        call()
    for word in words:
        assert word in str(error.value), str(error.value)
