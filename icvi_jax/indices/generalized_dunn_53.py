"""Generalized Dunn 53: the tightest pair of clusters over the widest.      min (C_i+C_j)/(M_i+M_j) / (2 max C_i/M_i)"""

from __future__ import annotations

from typing import ClassVar

from icvi_jax.indices.base import Comparison, divide, given
from icvi_jax.numerics.arrays import far, larger
from icvi_jax.spec import spec, static
from icvi_jax.statistics import Count, Dispersion, Separation, Stats
from icvi_jax.types import Array


@spec
class GeneralizedDunn53(Comparison):
    r"""Smallest joint spread of two clusters over twice the largest spread of one; large is good.

    .. math:: GD_{53} = \frac{\min_{i≠j} (C_i + C_j) / (M_i + M_j)}{2 \max_i C_i / M_i}

    It does not see how far apart the centres are. NaN with fewer than two clusters, where no cluster has any spread,
    and with two active clusters that have no members.

    References
    ----------
    Bezdek, J. C. and Pal, N. R. (1998). Some new indexes of cluster validity.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.GeneralizedDunn53(),))
    >>> values = icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0], [0.5], [4.2]], labels=[0, 1, 0, 1, 0, 1])
    >>> print("%.3g" % values["gd53"][-1])
    0.473
    """

    name: str = static("gd53")
    goal: ClassVar = "max"
    range: ClassVar = (0.0, 0.5)
    needs: ClassVar = (Count, Dispersion, Separation)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        xp, pairs = stats.xp, stats[Separation].pairs
        C, M = stats[Dispersion].each, stats[Dispersion].mass
        M = larger(M, xp.full_like(M, float(xp.finfo(M.dtype).smallest_normal)))  # no pair has none
        joint = pairs.each(lambda ci, mi, cj, mj: (ci + cj) / (mi + mj), C, M)
        least = pairs.least(pairs.keep(joint, far(C.dtype, xp)))
        return given(stats[Dispersion].empty < 2, divide(least, 2 * stats[Dispersion].widest, xp.nan))
