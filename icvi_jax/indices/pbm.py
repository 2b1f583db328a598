"""PBM: the gain of clustering, times the largest separation.      PBM = ((S0 / W) · max D_ij / k)²"""

from __future__ import annotations

from typing import ClassVar

from icvi_jax.indices.base import Comparison, divide, given
from icvi_jax.spec import spec, static
from icvi_jax.statistics import Count, Dispersion, Overall, Separation, Stats
from icvi_jax.types import Array


@spec
class PBM(Comparison):
    r"""Scatter of all samples over scatter within clusters, times the largest separation over k; large is good.

    .. math:: PBM = \Bigl(\frac{S_0}{W} \frac{\max_{ij} ‖v_i − v_j‖²}{k}\Bigr)²

    with S0 the faded scatter of all samples about their mean. All distances are squared, unlike in clusterCrit's PBM.
    NaN with fewer than two clusters and where W = 0. All centres in one place: 0, the worst value.

    References
    ----------
    Pakhira, M. K., Bandyopadhyay, S. and Maulik, U. (2004). Validity index for crisp and fuzzy clusters.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.PBM(),))
    >>> values = icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0], [0.5], [4.2]], labels=[0, 1, 0, 1, 0, 1])
    >>> print("%.3g" % values["pbm"][-1])
    2.93e+04
    """

    name: str = static("pbm")
    goal: ClassVar = "max"
    needs: ClassVar = (Count, Dispersion, Overall, Separation)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        W = stats[Dispersion].total
        a = divide(stats[Overall].scatter, W, 0.0) * divide(stats[Separation].largest, stats.k, 0.0)
        return given(W > 0, a * a)

    def scaled(self, value: float, by: float, features: int, k: int) -> float:
        return value * by**4
