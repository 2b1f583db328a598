"""Partition separation: large and isolated clusters.      PS = Σ_i [ M_i / max M − exp(−min_j D_ij / β) ]"""

from __future__ import annotations

from typing import ClassVar

from icvi_jax.indices.base import Comparison, divide, given
from icvi_jax.spec import spec, static
from icvi_jax.statistics import Count, Dispersion, Separation, Stats
from icvi_jax.types import Array


@spec
class PartitionSeparation(Comparison):
    r"""Relative mass of each cluster minus its closeness to the next, summed; large is good.

    .. math:: PS = Σ_i \Bigl[ \frac{M_i}{\max_l M_l} − \exp\Bigl(−\min_{j≠i} \frac{‖v_i − v_j‖²}{β}\Bigr) \Bigr],
              \quad β = \frac1k Σ_i ‖v_i − \bar v‖²

    with v̄ the plain mean of the centres. It does not use dispersion, so clusters of one sample each have a value. NaN
    with fewer than two clusters, with all centres in one place (β = 0) and without any member.

    References
    ----------
    Yang, M.-S. and Wu, K.-L. (2001). A new validity index for fuzzy clustering.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.PartitionSeparation(),))
    >>> values = icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0], [0.5], [4.2]], labels=[0, 1, 0, 1, 0, 1])
    >>> print("%.3g" % values["ps"][-1])
    1.96
    """

    name: str = static("ps")
    goal: ClassVar = "max"
    range: ClassVar = (-float("inf"), float("inf"))
    positive: ClassVar = False
    scattered: ClassVar = False
    needs: ClassVar = (Count, Dispersion, Separation)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        xp = stats.xp
        beta = divide(stats.over_slots(stats.from_hub), stats.k, xp.nan)
        nearest = stats[Separation].pairs.row_least(stats[Separation].distances)
        nearest = xp.where(stats.active, nearest, xp.zeros_like(nearest))  # the value of an unused slot would overflow
        mass = stats[Dispersion].mass
        fullest = xp.max(mass, axis=0)
        ok = (beta > 0) & (fullest > 0)
        one = xp.ones_like(beta)
        terms = mass / xp.where(ok, fullest, one) - xp.exp(-nearest / xp.where(ok, beta, one))
        return given(ok, stats.over_slots(terms))
