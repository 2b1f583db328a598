"""Representative cross entropy: how different clusters are.      −Σ_{i<j} log N(m_i − m_j; 0, Σ_i + Σ_j)"""

from __future__ import annotations

import math
import operator
from functools import reduce
from typing import ClassVar

from icvi_jax.indices.base import Comparison, given
from icvi_jax.spec import spec, static
from icvi_jax.statistics import Count, Covariance, Dispersion, Stats
from icvi_jax.types import Array


@spec
class RepresentativeCrossEntropy(Comparison):
    r"""Cross entropy of the clusters, each taken as a Gaussian, summed over pairs; large is good.

    .. math:: rH = Σ_{i<j} ½ \bigl(d^⊤ Σ_q^{−1} d + \log\det Σ_q + p \log 2π\bigr), \quad
              d = m_i − m_j, \quad Σ_q = Σ_i + Σ_j

    with the members' means m_i and covariances Σ_i, unbiased under faded weights and with a ridge of 10^(−12/p), which
    matters for samples of tiny numbers. NaN with fewer than two clusters and with an active cluster that has no
    members. Coincident means: the distance counts as 0, the worst for those covariances.

    References
    ----------
    Araújo, D., Dória Neto, A. and Martins, A. (2013). Information-theoretic clustering: a representative and
    evolutionary approach.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.RepresentativeCrossEntropy(),))
    >>> values = icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0], [0.5], [4.2]], labels=[0, 1, 0, 1, 0, 1])
    >>> print("%.3g" % values["rh"][-1])
    15
    """

    name: str = static("rh")
    goal: ClassVar = "max"
    range: ClassVar = (-float("inf"), float("inf"))
    positive: ClassVar = False
    needs: ClassVar = (Count, Covariance, Dispersion)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        xp, shape = stats.xp, stats[Covariance]
        terms = (xp.where(ok, a, xp.zeros_like(a)) for ok, a in zip(shape.both, shape.cross_entropies))
        return given(stats[Dispersion].empty == 0, reduce(operator.add, [xp.sum(a, axis=0) for a in terms]))

    def scaled(self, value: float, by: float, features: int, k: int) -> float:
        return value + k * (k - 1) / 2 * features * math.log(by)
