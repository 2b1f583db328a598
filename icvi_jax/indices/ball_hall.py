"""Ball–Hall: the mean spread of the clusters.      BH = 1/k Σ_i C_i / M_i"""

from __future__ import annotations

from typing import ClassVar

from icvi_jax.indices.base import Comparison, divide, given
from icvi_jax.spec import spec, static
from icvi_jax.statistics import Count, Dispersion, Stats
from icvi_jax.types import Array


@spec
class BallHall(Comparison):
    r"""Mean over clusters of the mean squared distance from the centre; small is good.

    .. math:: BH = \frac1k Σ_i C_i / M_i

    It does not measure separation, so equal centres have no effect. An active cluster without members counts as 0. NaN
    with fewer than two clusters, and where all samples and centres are in one place, so that constant data do not get
    the best value.

    References
    ----------
    Ball, G. H. and Hall, D. J. (1965). ISODATA: a novel method of data analysis and pattern classification.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.BallHall(),))
    >>> values = icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0], [0.5], [4.2]], labels=[0, 1, 0, 1, 0, 1])
    >>> print("%.3g" % values["bh"][-1])
    0.177
    """

    name: str = static("bh")
    goal: ClassVar = "min"
    needs: ClassVar = (Count, Dispersion)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        return given(~stats.constant, divide(stats.over_slots(stats[Dispersion].level), stats.k, stats.xp.nan))

    def scaled(self, value: float, by: float, features: int, k: int) -> float:
        return value * by**2
