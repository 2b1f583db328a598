"""The metric of river and the estimator of scikit-learn, by those libraries' own checks."""

import pickle

import numpy as np
import pytest

import icvi_jax as icvi
from icvi_jax.adapters import River, follow

X = icvi.streams.s2(seed=0).x[300:420]


def test_the_estimator_passes_the_checks_of_scikit_learn():
    checks = pytest.importorskip("sklearn.utils.estimator_checks", reason="needs scikit-learn")
    from icvi_jax.adapters import StreamValidity

    found = checks.check_estimator(StreamValidity(), on_skip=None, on_fail=None)
    wrong = [(one["check_name"], str(one["exception"])[:200]) for one in found if one["status"] == "failed"]
    assert not wrong and len(found) > 30


def test_partial_fit_goes_on_and_transform_asks_what_the_next_row_would_do():
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    from icvi_jax.adapters import StreamValidity

    whole, parts = (StreamValidity(n_clusters=3, forgetting=0.95) for _ in range(2))
    whole.fit(X)
    parts.partial_fit(X[:50]).partial_fit(X[50:])
    np.testing.assert_array_equal(parts.values_, whole.values_[50:])
    np.testing.assert_array_equal(parts.cluster_centers_, whole.cluster_centers_)
    panel = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.95)
    run = icvi.run(icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=3), panel=panel), X)
    np.testing.assert_allclose(whole.values_[:, 0], run.readings.values["xb"], rtol=1e-3)
    before = StreamValidity(n_clusters=3, forgetting=0.95).fit(X[:80])
    np.testing.assert_array_equal(before.transform(X[80:81])[0], whole.values_[80])
    np.testing.assert_array_equal(before.transform(X[80:90])[3], before.transform(X[83:84])[0])


def test_the_metric_passes_the_checks_of_river_and_equals_following():
    checks = pytest.importorskip("river.checks.common", reason="needs river")
    from river import cluster, metrics

    from icvi_jax.adapters import ValidityMetric

    def model():
        return cluster.KMeans(n_clusters=4, halflife=0.05, sigma=20, mu=70, seed=0)

    metric, one = ValidityMetric("db", forgetting=0.95, identity="key", capacity=4), model()
    general = (  # of `river.checks.yield_checks`: those without data, for a metric has no `learn_one`
        "repr str tags clone_same_class clone_is_idempotent init_has_default_params_for_tests "
        "init_default_params_are_not_mutable doc clone_changes_memory_addresses mutate_can_be_idempotent "
        "pickling_supports_roundtrip repr_roundtrips_clone clone_with_new_params_applies get_params_matches_signature"
    )
    passed = []
    for check in (getattr(checks, f"check_{name}", None) for name in general.split()):  # older ones have fewer
        try:
            check(metrics.Silhouette())
        except (AttributeError, TypeError):  # for estimators only: river's own metric does not pass it either
            continue
        check(metric)
        passed.append(check)
    assert len(passed) >= 8
    assert metric.works_with(one) and not metric.bigger_is_better and not metric.works_with_weights
    got = []
    for x in X:
        sample = dict(enumerate(map(float, x)))
        one.learn_one(sample)
        metric.update(sample, one.predict_one(sample), one.centers)
        got.append(metric.get())
    panel = icvi.Panel(indices=(icvi.DaviesBouldin(),), forgetting=0.95)
    want = follow(River(model()), X, 4, "key").values(panel, X)["db"]
    np.testing.assert_allclose(got, want, rtol=2e-3)
    assert np.isfinite(got[-1]) and pickle.loads(pickle.dumps(metric)).get() == got[-1]
    with pytest.raises(ValueError, match="window=.*forgetting"):
        metric.revert(sample, 0, one.centers)
    with pytest.raises(ValueError, match="expected one of xb, db"):
        ValidityMetric("nothing")


def test_a_rolling_metric_of_river_is_that_of_the_window():
    utils = pytest.importorskip("river.utils", reason="needs river")
    import datetime

    from river import cluster

    from icvi_jax.adapters import ValidityMetric

    model, options = cluster.KMeans(n_clusters=3, halflife=0.1, sigma=20, mu=70, seed=0), {"index": "db", "capacity": 4}
    rolling = utils.Rolling(ValidityMetric, window_size=20, window=20, **options)
    timed = utils.TimeRolling(ValidityMetric, period=datetime.timedelta(seconds=20), window=50, **options)
    seen = []
    for t, x in enumerate(X[:80]):
        sample = dict(enumerate(map(float, x)))
        model.learn_one(sample)
        seen.append((sample, model.predict_one(sample), {key: dict(center) for key, center in model.centers.items()}))
        rolling.update(sample, seen[-1][1], model.centers)
        timed.update(*seen[-1], t=datetime.datetime(2026, 1, 1) + datetime.timedelta(seconds=t))
        if t % 7 == 0:
            fresh = ValidityMetric(**options)
            for one in seen[-20:]:
                fresh.update(*one)
            np.testing.assert_array_equal([rolling.get(), timed.get()], fresh.get())
    with pytest.raises(ValueError, match="window=-1"):
        ValidityMetric(window=-1)
