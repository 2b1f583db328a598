"""Indices of fuzzy memberships."""

from __future__ import annotations

from typing import ClassVar

from icvi_jax.indices.base import Comparison, given
from icvi_jax.spec import spec, static
from icvi_jax.statistics import Count, Dispersion, Membership, Stats
from icvi_jax.types import Array


@spec
class PartitionCoefficient(Comparison):
    r"""Mean over samples of the sum of squared memberships; large is good.

    .. math:: PC = \frac1n Σ_j λ^{n−j} Σ_i u_{ij}²

    n is ω = Σ λ^(n−j), the faded number of samples. It only uses memberships, as they were when a sample came: crisp
    ones give 1 whatever the data and the centres are; noise counts as 0. NaN with fewer than two clusters.

    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.PartitionCoefficient(),))
    >>> print("%.3g" % icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0]], [0, 1, 0, 1])["pc"][-1])
    1

    References
    ----------
    Bezdek, J. C. (1974). Numerical taxonomy with fuzzy sets.
    """

    name: str = static("pc")
    goal: ClassVar = "max"
    range: ClassVar = (0.0, 1.0)
    scattered: ClassVar = False
    needs: ClassVar = (Count, Membership)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        return given(stats.n > 0, stats[Membership].squares)


@spec
class PartitionEntropy(Comparison):
    r"""Mean over samples of the entropy of their memberships; small is good.

    .. math:: PE = −\frac1n Σ_j λ^{n−j} Σ_i u_{ij} \log u_{ij}

    n is ω = Σ λ^(n−j), the faded number of samples. It only uses memberships, as they were when a sample came: crisp
    ones and noise have no entropy, whatever the data and the centres are. NaN with fewer than two clusters.

    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.PartitionEntropy(),))
    >>> print("%.3g" % icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0]], [0, 1, 0, 1])["pe"][-1])
    0

    References
    ----------
    Bezdek, J. C. (1974). Cluster validity with fuzzy sets.
    """

    name: str = static("pe")
    goal: ClassVar = "min"
    positive: ClassVar = False
    scattered: ClassVar = False
    needs: ClassVar = (Count, Membership)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        return given(stats.n > 0, stats[Membership].entropy)


@spec
class FukuyamaSugeno(Comparison):
    r"""Dispersion within clusters minus that of their centres; small is good.

    .. math:: FS = J − Σ_i M_i ‖v_i − \bar v‖², \quad J = Σ_i C_i

    with v̄ the plain mean of the centres. A sum and not a mean: it grows with the number of samples that are
    remembered. NaN with fewer than two clusters. All centres in one place: J.

    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.FukuyamaSugeno(),))
    >>> print("%.3g" % icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0]], [0, 1, 0, 1])["fs"][-1])
    -15

    References
    ----------
    Fukuyama, Y. and Sugeno, M. (1989). A new method of choosing the number of clusters for the fuzzy c-means method.
    """

    name: str = static("fs")
    goal: ClassVar = "min"
    range: ClassVar = (-float("inf"), float("inf"))
    positive: ClassVar = False
    needs: ClassVar = (Count, Dispersion)
    degree: ClassVar = 2

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        return stats[Dispersion].total - stats.over_slots(stats[Dispersion].mass * stats.from_mean_center)
