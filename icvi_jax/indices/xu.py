"""Xu: logarithm of the spread within clusters, with a penalty for k.      Xu = p log √(W / (p n²)) + log k"""

from __future__ import annotations

import math
from typing import ClassVar

from icvi_jax.indices.base import Comparison, divide, log
from icvi_jax.spec import spec, static
from icvi_jax.statistics import Count, Dispersion, Stats
from icvi_jax.types import Array


@spec
class Xu(Comparison):
    r"""Logarithm of the spread within clusters plus that of their number; small is good.

    .. math:: Xu = p \log \sqrt{W / (p n²)} + \log k, \quad W = Σ_i C_i

    n is ω = Σ λ^(n−j), the faded number of samples. NaN with fewer than two clusters and where W = 0, whose logarithm
    would be the best value of all. It does not measure separation, so equal centres have no effect.

    References
    ----------
    Xu, L. (1997). Bayesian Ying-Yang machine, clustering and number of clusters.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.Xu(),))
    >>> values = icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0], [0.5], [4.2]], labels=[0, 1, 0, 1, 0, 1])
    >>> print("%.3g" % values["xu"][-1])
    -1.07
    """

    name: str = static("xu")
    goal: ClassVar = "min"
    range: ClassVar = (-float("inf"), float("inf"))
    positive: ClassVar = False
    needs: ClassVar = (Count, Dispersion)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        p = stats.centers.shape[1]
        return p / 2 * log(divide(stats[Dispersion].total, p * stats.n * stats.n, 0.0)) + log(stats.k)

    def scaled(self, value: float, by: float, features: int, k: int) -> float:
        return value + features * math.log(by)
