"""XB while there is one cluster: the paper's h, an h that forgets, or no value."""

import numpy as np
import pytest

import icvi_jax as icvi

FORGETTING = 0.9


def values(X, lone, elapsed=None):
    """XB along X of one cluster whose centre stays at 0."""
    panel = icvi.Panel(indices=(icvi.XieBeni(lone=lone),), forgetting=FORGETTING)
    return icvi.validate(
        panel, X, memberships=np.ones((len(X), 1)), centers=np.zeros((len(X), 1, X.shape[1])), elapsed=elapsed
    )["xb"]


@pytest.fixture
def X():
    x = np.random.default_rng(0).normal(size=(300, 2))
    x[0] = 0.5
    x[200:] += 6
    return x


@pytest.mark.parametrize("lone, fade", [("paper", 1.0), ("faded", FORGETTING)])
def test_against_a_plain_loop(X, lone, fade):
    J = h = 0.0
    expected = []
    for x in X:
        J = FORGETTING * J + x @ x
        h = max(fade * h, x @ x)
        expected.append((1 - FORGETTING) * J / h)
    np.testing.assert_allclose(values(X, lone), expected, rtol=2e-4)


def test_a_faded_reach_forgets_with_time_that_passes(X):
    elapsed = np.random.default_rng(1).uniform(0, 3, len(X))
    J = h = 0.0
    for x, gap in zip(X, elapsed):
        J, h = FORGETTING**gap * J + x @ x, max(FORGETTING**gap * h, x @ x)
    assert float(values(X, "faded", elapsed)[-1]) == pytest.approx((1 - FORGETTING) * J / h, rel=2e-4)


def test_an_outlier_spoils_the_papers_reach_for_good_and_the_faded_one_for_a_while(X):
    X[100] = 500.0
    clean = np.delete(X, 100, axis=0)
    after, before = (np.asarray(values(x, "faded"))[[-1]] for x in (X, clean))
    np.testing.assert_allclose(after, before, rtol=1e-3)
    assert float(values(X, "paper")[-1]) < 1e-3 * float(values(clean, "paper")[-1])


def test_no_value_alone_and_the_usual_one_in_company(X):
    assert np.isnan(values(X, "nan")).all()
    labels = (X[:, 0] > 3).astype(int)
    kinds = {lone: icvi.Panel(indices=(icvi.XieBeni(lone=lone),), forgetting=0.9) for lone in ("paper", "faded", "nan")}
    got = {lone: np.asarray(icvi.validate(panel, X, labels=labels)["xb"]) for lone, panel in kinds.items()}
    assert np.isnan(got["nan"][:200]).all() and np.isfinite(got["nan"][201:]).all()
    np.testing.assert_array_equal(got["nan"][201:], got["paper"][201:])
    np.testing.assert_array_equal(got["faded"][201:], got["paper"][201:])


def test_a_word_that_is_no_choice():
    with pytest.raises(ValueError, match=r"XieBeni\(lone='none'\): choose one of 'paper', 'faded', 'nan'"):
        icvi.XieBeni(lone="none")
