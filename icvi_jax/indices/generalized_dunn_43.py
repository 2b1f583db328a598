"""Generalized Dunn 43: the closest pair of centres over the widest cluster.      min √D_ij / (2 max C_i/M_i)"""

from __future__ import annotations

from typing import ClassVar

from icvi_jax.indices.base import Comparison, divide, root
from icvi_jax.spec import spec, static
from icvi_jax.statistics import Count, Dispersion, Separation, Stats
from icvi_jax.types import Array


@spec
class GeneralizedDunn43(Comparison):
    r"""Smallest distance between centres over twice the largest spread; large is good.

    .. math:: GD_{43} = \frac{\min_{i≠j} ‖v_i − v_j‖}{2 \max_i C_i / M_i}

    This is the form of other packages, a distance over a squared distance: it changes with the unit of the samples. NaN
    with fewer than two clusters and where no cluster has any spread. Coincident centres: 0, the worst value.

    Parameters
    ----------
    root : divide by √(C_i / M_i) instead, which makes the value free of units.

    References
    ----------
    Bezdek, J. C. and Pal, N. R. (1998). Some new indexes of cluster validity.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.GeneralizedDunn43(),))
    >>> values = icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0], [0.5], [4.2]], labels=[0, 1, 0, 1, 0, 1])
    >>> print("%.3g" % values["gd43"][-1])
    10.4
    """

    name: str = static("gd43")
    root: bool = static(False)
    goal: ClassVar = "max"
    needs: ClassVar = (Count, Dispersion, Separation)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        widest = stats[Dispersion].widest
        return divide(root(stats[Separation].smallest), 2 * (root(widest) if self.root else widest), stats.xp.nan)

    def scaled(self, value: float, by: float, features: int, k: int) -> float:
        return value if self.root else value / by
