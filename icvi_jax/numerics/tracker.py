r"""The tracker of ellipsoidal clustering: where the stream is now, and whether that is a new cluster.

It has the mean t and covariance T of all samples with forgetting, outliers too: `(p, *streams)`, and columns `(1, p −
j, *streams)` as in `icvi_jax.numerics.ellipsoid`.
"""

from __future__ import annotations

from collections.abc import Sequence

from icvi_jax.array_api import Array
from icvi_jax.numerics import eigen, ellipsoid
from icvi_jax.numerics.arrays import COUNT_LIMIT, advance, far, namespace, squares


def follow(
    mean: Array, cov: Sequence[Array], x: Array, samples: Array, lam: Array, seen: Array
) -> tuple[Array, tuple[Array, ...]]:
    r"""Move the tracker; of the first p + 1 samples it is the plain mean and covariance (ddof = 1).

    .. math:: T ← λ \frac{n−1}{n} T + \frac{λ²}{n} d dᵀ, \quad t ← t + (1 − λ) d, \quad d = x − t,
              \quad n = \min(\mathrm{samples}, 3/(1 − λ))

    Parameters
    ----------
    samples : (*streams), integer: samples before this one.
    """
    xp, p = namespace(x), x.shape[0]
    n = xp.astype(samples, x.dtype)
    first, one, zero = samples <= p, xp.ones_like(n), xp.zeros_like(n)
    size = xp.minimum(xp.maximum(n, one), 3 / (1 - lam))
    keep = xp.where(seen, xp.where(first, one, lam * (size - 1) / size), one)
    gain = xp.where(seen, xp.where(first, n / ((n + 1) * p), lam * lam / size), zero)
    rate = xp.where(seen, xp.where(first, 1 / (n + 1), 1 - lam), zero)
    d = x - mean
    return mean + rate * d, tuple(keep * c + gain * dd for c, dd in zip(cov, ellipsoid.squared(d[None, ...])))


def remember(ages: Array, anomaly: Array, young: Array, seen: Array) -> Array:
    """The ages of the last anomalies after one more sample, the latest first; forgotten while a cluster is young.

    Ages are enough to count: of the last n samples p + 1 were anomalies if the oldest of p + 1 ages is below n.
    """
    xp = namespace(ages)
    ages = advance(ages, seen)
    ages = xp.where(anomaly, xp.concat([xp.zeros_like(ages[:1, ...]), ages[:-1, ...]], axis=0), ages)
    return xp.where(young, xp.full_like(ages, COUNT_LIMIT), ages)


def apart(
    mean: Array,
    cov: Sequence[Array],
    centers: Array,
    factors: Sequence[Array],
    exists: Array,
    c: float | Array,
    asked: Array,
) -> Array:
    r"""Whether the tracker is apart from every cluster; False where not `asked`.

    .. math:: ‖t − v_i‖² ≥ c² p \max(λ_{max}(S_i), λ_{max}(T))
    """
    xp, p = namespace(mean), mean.shape[0]
    reach = squares(mean - centers, 1) / (c * c * p)
    clear = ~exists | eigen.at_most(ellipsoid.compose(factors), reach)
    nearest = xp.min(xp.where(exists, reach, xp.full_like(reach, far(reach.dtype, xp))), axis=0)
    wide = eigen.at_most(cov, nearest[None, ...])
    # The smallest of numbers instead of `all` of booleans: XLA has a fast loop only for the former.
    return xp.min(xp.astype(clear & wide & asked, mean.dtype), axis=0) > 0
