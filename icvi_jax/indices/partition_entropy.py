"""Partition entropy: how undecided memberships are.      PE = −1/n Σ_j λ^(n−j) Σ_i u_ij log u_ij"""

from __future__ import annotations

from typing import ClassVar

from icvi_jax.indices.base import Comparison, given
from icvi_jax.spec import spec, static
from icvi_jax.statistics import Count, Membership, Stats
from icvi_jax.types import Array


@spec
class PartitionEntropy(Comparison):
    r"""Mean over samples of the entropy of their memberships; small is good.

    .. math:: PE = −\frac1n Σ_j λ^{n−j} Σ_i u_{ij} \log u_{ij}

    n is ω = Σ λ^(n−j), the faded number of samples. It only uses memberships, as they were when a sample came: crisp
    ones and noise have no entropy, whatever the data and the centres are. NaN with fewer than two clusters.

    References
    ----------
    Bezdek, J. C. (1974). Cluster validity with fuzzy sets.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.PartitionEntropy(),))
    >>> values = icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0], [0.5], [4.2]], labels=[0, 1, 0, 1, 0, 1])
    >>> print("%.3g" % values["pe"][-1])
    0
    """

    name: str = static("pe")
    goal: ClassVar = "min"
    positive: ClassVar = False
    scattered: ClassVar = False
    needs: ClassVar = (Count, Membership)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        return given(stats.n > 0, stats[Membership].entropy)
