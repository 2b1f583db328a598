"""Partition coefficient: how crisp memberships are.      PC = 1/n Σ_j λ^(n−j) Σ_i u_ij²"""

from __future__ import annotations

from typing import ClassVar

from icvi_jax.indices.base import Comparison, given
from icvi_jax.spec import spec, static
from icvi_jax.statistics import Count, Membership, Stats
from icvi_jax.types import Array


@spec
class PartitionCoefficient(Comparison):
    r"""Mean over samples of the sum of squared memberships; large is good.

    .. math:: PC = \frac1n Σ_j λ^{n−j} Σ_i u_{ij}²

    n is ω = Σ λ^(n−j), the faded number of samples. It only uses memberships, as they were when a sample came: crisp
    ones give 1 whatever the data and the centres are; noise counts as 0. NaN with fewer than two clusters.

    References
    ----------
    Bezdek, J. C. (1974). Numerical taxonomy with fuzzy sets.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.PartitionCoefficient(),))
    >>> values = icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0], [0.5], [4.2]], labels=[0, 1, 0, 1, 0, 1])
    >>> print("%.3g" % values["pc"][-1])
    1
    """

    name: str = static("pc")
    goal: ClassVar = "max"
    range: ClassVar = (0.0, 1.0)
    scattered: ClassVar = False
    needs: ClassVar = (Count, Membership)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        return given(stats.n > 0, stats[Membership].squares)
