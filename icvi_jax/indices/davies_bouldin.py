"""Davies–Bouldin: each cluster compared with its most similar one.      DB = 1/k Σ_i max_j (L_i + L_j) / D_ij"""

from __future__ import annotations

from typing import ClassVar

from icvi_jax.indices.base import Index, divide
from icvi_jax.numerics.arrays import smaller
from icvi_jax.numerics.pairs import Terms
from icvi_jax.spec import spec, static
from icvi_jax.statistics import Count, Dispersion, Separation, Stats
from icvi_jax.types import Array, Namespace


@spec
class DaviesBouldin(Index):
    """Mean over clusters of the worst ratio of spread to distance; small is good.

    .. math:: DB = \\frac1k Σ_i \\max_{j≠i} \\frac{L_i + L_j}{‖v_i − v_j‖²}, \\quad
              L_i = C_i/M_i \\;(λ = 1), \\quad C_i/\\max(1, M_i) \\;(λ < 1)

    This is the squared form of Araki, as in the paper. k = 1: L_1 / h, with h as in `XieBeni`. Equal centres: +inf.

    Parameters
    ----------
    root : Davies and Bouldin's own form with p = q = 2: (√L_i + √L_j) / √D_ij.

    References
    ----------
    Davies, D. L. and Bouldin, D. W. (1979). A cluster separation measure.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.DaviesBouldin(),))
    >>> values = icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0], [0.5], [4.2]], labels=[0, 1, 0, 1, 0, 1])
    >>> print("%.3g" % values["db"][-1])
    0.0232
    """

    name: str = static("db")
    root: bool = static(False)
    goal: ClassVar = "min"
    needs: ClassVar = (Count, Dispersion, Separation)

    def value(self, stats: Stats, forgetting: Array) -> Array:
        xp = stats.xp
        mass, pairs = stats[Dispersion].mass, stats[Separation].pairs
        one = xp.ones_like(mass)
        L = stats[Dispersion].level * xp.where(forgetting < 1, smaller(mass, one), one)
        h = stats[Separation].smallest
        if self.root:
            L, h = _root(xp, L), _root(xp, h)
        alone = divide(stats.over_slots(L), h, xp.inf)
        if pairs.k == 1:
            return alone
        inverse = [1 / xp.where(d > 0, d, xp.ones_like(d)) for d in self._lengths(xp, stats[Separation].distances)]
        spread = pairs.each(lambda a, b: a + b, L)
        worst = pairs.row_most([s * r for s, r in zip(spread, inverse)])
        many = divide(stats.over_slots(worst), xp.where(h > 0, stats.k, xp.zeros_like(h)), xp.inf)
        return xp.where(stats.k > 1, many, alone)

    def _lengths(self, xp: Namespace, distances: Terms) -> Terms:
        return [_root(xp, d) for d in distances] if self.root else distances


def _root(xp: Namespace, a: Array) -> Array:
    """Square root with a finite gradient at 0."""
    return xp.where(a > 0, xp.sqrt(xp.where(a > 0, a, xp.ones_like(a))), xp.zeros_like(a))
