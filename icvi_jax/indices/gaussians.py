"""Indices that take each cluster as a Gaussian."""

from __future__ import annotations

import math
import operator
from functools import reduce
from typing import ClassVar

from icvi_jax.indices.base import Comparison, given
from icvi_jax.numerics.arrays import larger, smaller
from icvi_jax.spec import spec, static
from icvi_jax.statistics import Count, Covariance, Dispersion, OverallCovariance, Stats
from icvi_jax.types import Array


@spec
class NegentropyIncrement(Comparison):
    r"""How far the clusters are from Gaussian, compared with all samples in one; small is good.

    .. math:: NI = Σ_i q_i \log \frac{\sqrt{\det Σ_i}}{q_i} − ½ \log \det Σ, \quad q_i = M_i / Σ_l M_l

    Covariances are unbiased under faded weights and have a ridge of 10^(−12/p), which matters for samples of tiny
    numbers. An active cluster without members adds nothing. NaN with fewer than two clusters and without any member. It
    does not use centres, so equal ones have no effect.

    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.NegentropyIncrement(),))
    >>> print("%.3g" % icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0]], [0, 1, 0, 1])["ni"][-1])
    -0.521

    References
    ----------
    Lago-Fernández, L. F. and Corbacho, F. (2010). Normality-based validation for crisp clustering.
    """

    name: str = static("ni")
    goal: ClassVar = "min"
    range: ClassVar = (-float("inf"), float("inf"))
    positive: ClassVar = False
    needs: ClassVar = (Count, Covariance, Dispersion, OverallCovariance)
    keeps: ClassVar = ("logdet",)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        xp, mass = stats.xp, stats[Dispersion].mass
        total = xp.sum(mass, axis=0)
        q = mass / xp.where(total > 0, total, 1.0)
        some = q > 0
        terms = xp.where(some, q * (stats[Covariance].logdet / 2 - xp.log(xp.where(some, q, 1.0))), 0 * q)
        return given(total > 0, xp.sum(terms, axis=0) - stats[OverallCovariance].logdet[0, ...] / 2)


class _Overlap(Comparison):
    """An index of how pairs of Gaussians overlap."""

    range: ClassVar = (-float("inf"), float("inf"))
    positive: ClassVar = False
    needs: ClassVar = (Count, Covariance, Dispersion)
    keeps: ClassVar = ("cross_entropies",)


@spec
class RepresentativeCIP(_Overlap):
    r"""Overlap of the clusters, each taken as a Gaussian; small is good.

    .. math:: rCIP = Σ_{i<j} \mathcal N(m_i − m_j; 0, Σ_i + Σ_j)

    with the members' means m_i and covariances Σ_i, unbiased under faded weights and with a ridge of 10^(−12/p), which
    matters for samples of tiny numbers. NaN with fewer than two clusters and with an active cluster that has no
    members, or a pair of clusters with fewer members than features where rounding exceeds the ridge. Coincident means:
    the largest overlap those covariances allow.

    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.RepresentativeCIP(),))
    >>> print("%.3g" % icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0]], [0, 1, 0, 1])["rcip"][-1])
    -8.92

    Parameters
    ----------
    log : its logarithm, by log-sum-exp. False: the plain value, which underflows to 0 for clusters far apart.

    References
    ----------
    Araújo, D., Dória Neto, A. and Martins, A. (2013). Representative cross information potential clustering.
    """

    name: str = static("rcip")
    log: bool = static(True)
    goal: ClassVar = "min"

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        xp, shape = stats.xp, stats[Covariance]
        terms = [xp.where(ok, a, xp.inf) for ok, a in zip(shape.both, shape.cross_entropies)]
        noise = reduce(operator.or_, [xp.any(xp.isnan(a), axis=0) for a in terms])
        terms = [xp.where(xp.isnan(a), 0.0, a) for a in terms]
        least = reduce(smaller, [xp.min(a, axis=0) for a in terms])
        least = xp.where(least < xp.inf, least, 0.0)
        # terms smaller than e^−80 make no difference
        total = sum(xp.sum(xp.exp(larger(least - a, -80.0)), axis=0) for a in terms)
        total = xp.where(total > 0, total, 1.0)
        value = xp.log(total) - least if self.log else total * xp.exp(-least)
        return given((stats[Dispersion].empty == 0) & ~noise, value)

    def scaled(self, value: float, by: float, features: int, k: int) -> float:
        return value - features * math.log(by) if self.log else value / by**features


@spec
class RepresentativeCrossEntropy(_Overlap):
    r"""Cross entropy of the clusters, each taken as a Gaussian, summed over pairs; large is good.

    .. math:: rH = Σ_{i<j} ½ \bigl(d^⊤ Σ_q^{−1} d + \log\det Σ_q + p \log 2π\bigr), \quad
              d = m_i − m_j, \quad Σ_q = Σ_i + Σ_j

    with means, covariances and NaN as in `RepresentativeCIP`. Coincident means: the distance counts as 0, the worst for
    those covariances.

    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.RepresentativeCrossEntropy(),))
    >>> print("%.3g" % icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0]], [0, 1, 0, 1])["rh"][-1])
    8.92

    References
    ----------
    Araújo, D., Dória Neto, A. and Martins, A. (2013). Information-theoretic clustering: a representative and
    evolutionary approach.
    """

    name: str = static("rh")
    goal: ClassVar = "max"

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        xp, shape = stats.xp, stats[Covariance]
        terms = (xp.where(ok, a, 0.0) for ok, a in zip(shape.both, shape.cross_entropies))
        return given(stats[Dispersion].empty == 0, reduce(operator.add, [xp.sum(a, axis=0) for a in terms]))

    def scaled(self, value: float, by: float, features: int, k: int) -> float:
        return value + k * (k - 1) / 2 * features * math.log(by)
