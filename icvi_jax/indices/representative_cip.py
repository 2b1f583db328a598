"""Representative cross information potential: overlap of Gaussians.      Σ_{i<j} N(m_i − m_j; 0, Σ_i + Σ_j)"""

from __future__ import annotations

import math
from functools import reduce
from typing import ClassVar

from icvi_jax.indices.base import Comparison, given
from icvi_jax.numerics.arrays import larger, smaller
from icvi_jax.spec import spec, static
from icvi_jax.statistics import Count, Covariance, Dispersion, Stats
from icvi_jax.types import Array


@spec
class RepresentativeCIP(Comparison):
    r"""Overlap of the clusters, each taken as a Gaussian; small is good.

    .. math:: rCIP = Σ_{i<j} \mathcal N(m_i − m_j; 0, Σ_i + Σ_j)

    with the members' means m_i and covariances Σ_i, unbiased under faded weights and with a ridge of 10^(−12/p), which
    matters for samples of tiny numbers. NaN with fewer than two clusters and with an active cluster that has no
    members. Coincident means: the largest overlap those covariances allow.

    Parameters
    ----------
    log : its logarithm, by log-sum-exp. False: the plain value, which underflows to 0 for clusters far apart.

    References
    ----------
    Araújo, D., Dória Neto, A. and Martins, A. (2013). Representative cross information potential clustering.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.RepresentativeCIP(),))
    >>> values = icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0], [0.5], [4.2]], labels=[0, 1, 0, 1, 0, 1])
    >>> print("%.3g" % values["rcip"][-1])
    -15
    """

    name: str = static("rcip")
    log: bool = static(True)
    goal: ClassVar = "min"
    range: ClassVar = (-float("inf"), float("inf"))
    positive: ClassVar = False
    needs: ClassVar = (Count, Covariance, Dispersion)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        xp, shape = stats.xp, stats[Covariance]
        terms = [xp.where(ok, a, xp.full_like(a, xp.inf)) for ok, a in zip(shape.both, shape.cross_entropies)]
        least = reduce(smaller, [xp.min(a, axis=0) for a in terms])
        least = xp.where(least < xp.inf, least, xp.zeros_like(least))
        total = sum(
            xp.sum(xp.exp(larger(least - a, -80 + 0 * least)), axis=0) for a in terms
        )  # smaller terms make no difference
        total = xp.where(total > 0, total, xp.ones_like(total))
        value = xp.log(total) - least if self.log else total * xp.exp(-least)
        return given(stats[Dispersion].empty == 0, value)

    def scaled(self, value: float, by: float, features: int, k: int) -> float:
        return value - features * math.log(by) if self.log else value / by**features
