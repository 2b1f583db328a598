"""The online silhouette against a replay written from its definition."""

import numpy as np
import pytest
from oracles.silhouettes import online_silhouette

import icvi_jax as icvi
from icvi_jax.numerics import moments
from icvi_jax.testing import example
from icvi_jax.validation import record


def past(e, forgetting, fuzzifier):
    """Scatter and mass of each slot before each sample, from the samples that joined since its last birth."""
    n, k = e.u.shape
    scatter, mass = np.zeros((n, k)), np.zeros((n, k))
    for t in range(1, n):
        off = [max((j for j in range(t) if not e.active[j, i]), default=-1) for i in range(k)]
        w = np.where(np.arange(t)[:, None] > off, np.where(e.active[:t], e.u[:t], 0) ** fuzzifier, 0)
        mass[t], _, scatter[t] = moments.batch(e.x[:t], w, forgetting ** (t - 1.0 - np.arange(t)))
        scatter[t] *= mass[t]
    return scatter, mass


@pytest.mark.parametrize("noise", ["skip", "zero"])
@pytest.mark.parametrize("forgetting", [1.0, 0.9])
@pytest.mark.parametrize("seed", range(4))
def test_equals_the_replay(seed, forgetting, noise):
    e = example(seed=seed, samples=50, soft=seed % 2 == 1, deaths=seed > 1, noise=True)
    panel = icvi.Panel(indices=(icvi.OnlineSilhouette(noise=noise),), forgetting=forgetting)
    got = icvi.validate(panel, e.x, memberships=e.u, centers=e.centers, active=e.active)["osil"]
    u = np.where(e.active, e.u, 0)
    labels = np.where(u.any(1), u.argmax(1), -1)
    before = np.concatenate([np.zeros_like(e.centers[:1]), e.centers[:-1]])
    active = np.concatenate([np.zeros_like(e.active[:1]), e.active[:-1]])
    want = online_silhouette(e.x, labels, before, active, *past(e, forgetting, 2.0), forgetting=forgetting, noise=noise)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert np.isfinite(want[-1]) and np.ptp(want[np.isfinite(want)]) > 0.01
    assert record(panel, e.x, e.u, e.centers, e.active).given.shape == e.u.shape


def test_good_clusters_are_near_one_and_random_labels_are_not():
    rng = np.random.default_rng(0)
    mode = rng.integers(0, 3, 300)
    X = rng.normal(size=(300, 2)) + 30 * np.eye(3)[mode][:, :2]
    panel = icvi.Panel(indices=(icvi.OnlineSilhouette(),), forgetting=0.98)
    good = icvi.validate(panel, X, labels=mode)["osil"][-1]
    bad = icvi.validate(panel, X, labels=rng.permutation(mode))["osil"][-1]
    assert good > 0.9 and bad < 0.3
    with pytest.raises(ValueError, match="noise='maybe'"):
        icvi.OnlineSilhouette(noise="maybe")
