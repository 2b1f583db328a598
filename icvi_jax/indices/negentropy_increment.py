"""Negentropy increment: are clusters more Gaussian than all samples?      Σ q_i log(√det Σ_i / q_i) − ½ log det Σ"""

from __future__ import annotations

from typing import ClassVar

from icvi_jax.indices.base import Comparison, given
from icvi_jax.spec import spec, static
from icvi_jax.statistics import Count, Covariance, Dispersion, OverallCovariance, Stats
from icvi_jax.types import Array


@spec
class NegentropyIncrement(Comparison):
    r"""How far the clusters are from Gaussian, compared with all samples in one; small is good.

    .. math:: NI = Σ_i q_i \log \frac{\sqrt{\det Σ_i}}{q_i} − ½ \log \det Σ, \quad q_i = M_i / Σ_l M_l

    Covariances are unbiased under faded weights and have a ridge of 10^(−12/p), which matters for samples of tiny
    numbers. An active cluster without members adds nothing. NaN with fewer than two clusters and without any member. It
    does not use centres, so equal ones have no effect.

    References
    ----------
    Lago-Fernández, L. F. and Corbacho, F. (2010). Normality-based validation for crisp clustering.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.NegentropyIncrement(),))
    >>> values = icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0], [0.5], [4.2]], labels=[0, 1, 0, 1, 0, 1])
    >>> print("%.3g" % values["ni"][-1])
    -0.753
    """

    name: str = static("ni")
    goal: ClassVar = "min"
    range: ClassVar = (-float("inf"), float("inf"))
    positive: ClassVar = False
    needs: ClassVar = (Count, Covariance, Dispersion, OverallCovariance)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        xp, mass = stats.xp, stats[Dispersion].mass
        total = xp.sum(mass, axis=0)
        q = mass / xp.where(total > 0, total, xp.ones_like(total))
        some = q > 0
        terms = xp.where(some, q * (stats[Covariance].logdet / 2 - xp.log(xp.where(some, q, xp.ones_like(q)))), 0 * q)
        return given(total > 0, xp.sum(terms, axis=0) - stats[OverallCovariance].logdet[0, ...] / 2)
