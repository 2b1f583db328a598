"""Kwon: Xie–Beni without the mean, with a penalty for many clusters.      K = (J + 1/k Σ_i ‖v_i − v̄‖²) / h"""

from __future__ import annotations

from typing import ClassVar

from icvi_jax.indices.base import Comparison, divide
from icvi_jax.spec import spec, static
from icvi_jax.statistics import Count, Dispersion, Separation, Stats
from icvi_jax.types import Array


@spec
class Kwon(Comparison):
    r"""Dispersion plus the spread of the centres, over the smallest separation; small is good.

    .. math:: K = \frac{J + \frac1k Σ_i ‖v_i − \bar v‖²}{h}, \quad J = Σ_i C_i, \quad h = \min_{i≠j} ‖v_i − v_j‖²

    with v̄ the plain mean of the centres. A sum and not a mean: it grows with the number of samples that are remembered.
    NaN with fewer than two clusters. Coincident centres, h = 0: +inf.

    References
    ----------
    Kwon, S. H. (1998). Cluster validity index for fuzzy clustering.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.Kwon(),))
    >>> values = icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0], [0.5], [4.2]], labels=[0, 1, 0, 1, 0, 1])
    >>> print("%.3g" % values["kwon"][-1])
    0.32
    """

    name: str = static("kwon")
    goal: ClassVar = "min"
    needs: ClassVar = (Count, Dispersion, Separation)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        spread = divide(stats.over_slots(stats.from_hub), stats.k, stats.xp.nan)
        return divide(stats[Dispersion].total + spread, stats[Separation].smallest, stats.xp.inf)
