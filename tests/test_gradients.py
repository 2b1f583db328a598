"""Slopes of the indices in samples, memberships and forgetting: right where they exist, finite everywhere."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from installed import quick_jit

import icvi_jax as icvi
from icvi_jax.numerics import moments
from icvi_jax.testing import example

BOTH = (icvi.XieBeni(), icvi.DaviesBouldin())


@pytest.mark.parametrize("lam, normalizer", [(0.9, "paper"), (0.9, "exact"), (1.0, "exact")])
def test_soft_xie_beni_agrees_with_finite_differences(lam, normalizer):
    with jax.enable_x64(True):
        e = example(15, samples=25, soft=True)
        index = icvi.XieBeni(normalizer=normalizer)

        def value(x, lam):
            panel = icvi.Panel(indices=(index,), forgetting=lam)
            return icvi.validate(panel, x, memberships=e.u, centers=e.centers, active=e.active)["xb"][-1]

        x = jnp.asarray(e.x)
        lam = jnp.asarray(lam)
        gx, gl = quick_jit(jax.grad(value, argnums=(0, 1)))(x, lam)
        value, step = quick_jit(value), 1e-6  # traced: a number so near 1 would be refused
        for spot in ((0, 0), (12, 1), (24, 0)):
            up, down = (value(x.at[spot].add(s), lam) for s in (step, -step))
            np.testing.assert_allclose(gx[spot], (up - down) / (2 * step), rtol=1e-5, atol=1e-9)
        if lam < 1:
            slope = (value(x, lam + step) - value(x, lam - step)) / (2 * step)
        else:  # one-sided: λ > 1 has no meaning
            slope = (3 * value(x, lam) - 4 * value(x, lam - step) + value(x, lam - 2 * step)) / (2 * step)
        np.testing.assert_allclose(gl, slope, rtol=1e-4)


def test_a_missing_sample_and_an_empty_slot_leave_gradients_finite():
    e = example(16, samples=25, soft=True, noise=True, missing=True)

    def value(x, u):
        panel = icvi.Panel(indices=BOTH, forgetting=0.9)
        values = icvi.validate(panel, x, memberships=u, centers=e.centers, active=e.active)
        return values["xb"][-1] + values["db"][-1]

    for g in quick_jit(jax.grad(value, argnums=(0, 1)))(jnp.asarray(e.x), jnp.asarray(e.u)):
        assert np.isfinite(g).all()


@pytest.mark.parametrize("mass", [1.0, 1e-10, 1e-18, 1e-20, 1e-30])
@pytest.mark.parametrize("weight", [0.0, 1.0, 1e-25])
def test_a_mass_that_has_faded_away_has_the_slope_it_should(mass, weight):
    def part(mass, weight):
        return moments.share(mass, 0.9, weight)[1]

    found = jax.grad(part, argnums=(0, 1))(jnp.float32(mass), jnp.float32(weight))
    total = 0.9 * mass + weight  # Python's numbers have room to spare
    right = (-0.9 * weight / total / total, (1 - weight / total) / total)
    for a, b in zip(found, right):
        np.testing.assert_allclose(a, b, rtol=0.05, atol=1e-6)


@pytest.mark.parametrize("p", [1, 2])
def test_slopes_of_every_index_in_single_precision_are_finite(p):
    """From the first sample on, when clusters have one member each and covariances are no more than their ridge."""
    rng = np.random.default_rng(p)
    x = jnp.asarray((np.arange(24) % 2)[:, None] * 4.0 + rng.normal(size=(24, p)), jnp.float32)
    indices = tuple(entry.index() for entry in icvi.indices.catalogue() if not entry.grouped)

    def last(x, lam):
        pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=icvi.Panel(indices=indices, forgetting=lam))
        return {name: a[-1] for name, a in icvi.run(pipe, x).readings.values.items()}

    for name, slopes in quick_jit(jax.jacrev(last, argnums=(0, 1)))(x, jnp.float32(0.9)).items():
        assert all(np.isfinite(slope).all() for slope in slopes), name
