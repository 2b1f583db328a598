"""Skeleton of an index: the widest cluster over the smallest distance between two.      max_i L_i / h"""

from __future__ import annotations

from typing import ClassVar

from icvi_jax.indices.base import Comparison, divide
from icvi_jax.spec import spec, static
from icvi_jax.statistics import Count, Dispersion, Separation, Stats
from icvi_jax.types import Array


@spec
class SkeletonIndex(Comparison):
    r"""Largest spread over the smallest distance; small is good.

    .. math:: \max_i L_i / \min_{i≠j} ‖v_i − v_j‖²

    k = 1: NaN. Coincident centres: +inf.

    >>> import numpy as np, icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(SkeletonIndex(),))
    >>> print(np.round(icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0]], labels=[0, 1, 0, 1])["skeleton"], 4))
    [   nan    nan 0.0204 0.0156]

    References
    ----------
    Where the formula comes from.
    """

    name: str = static("skeleton")
    goal: ClassVar = "min"
    needs: ClassVar = (Count, Dispersion, Separation)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        return divide(stats[Dispersion].widest, stats[Separation].smallest, stats.xp.inf)
