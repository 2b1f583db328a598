"""RMSSTD: the pooled standard deviation within clusters.      RMSSTD = √(W / (p (n − k)))"""

from __future__ import annotations

from typing import ClassVar

from icvi_jax.indices.base import Comparison, divide, given, root
from icvi_jax.indices.freedom import caution, freedom
from icvi_jax.spec import one_of, spec, static
from icvi_jax.statistics import Count, Dispersion, Stats
from icvi_jax.types import Array


@spec
class RMSSTD(Comparison):
    r"""Root mean square standard deviation of the features within clusters; small is good.

    .. math:: RMSSTD = \sqrt{W / (p (n − k))}, \quad W = Σ_i C_i

    n is ω = Σ λ^(n−j), the faded number of samples. It does not measure separation, so equal centres have no effect.
    NaN with fewer than two clusters, where n ≤ k (with forgetting ω stays below 1/(1 − λ), so that must exceed k), and
    where all samples and centres are in one place, so that constant data do not get the best value.

    Parameters
    ----------
    dof : "faded" divides W by n − k, "none" by n.

    References
    ----------
    Sharma, S. (1996). Applied multivariate techniques.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.RMSSTD(),))
    >>> values = icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0], [0.5], [4.2]], labels=[0, 1, 0, 1, 0, 1])
    >>> print("%.3g" % values["rmsstd"][-1])
    0.515
    """

    name: str = static("rmsstd")
    dof: str = static("faded")
    goal: ClassVar = "min"
    needs: ClassVar = (Count, Dispersion)

    def __post_init__(self) -> None:
        one_of("RMSSTD", "dof", self.dof, ("faded", "none"))

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        n = freedom(stats, self.dof)
        mean = divide(stats[Dispersion].total, stats.centers.shape[1] * n, 0.0)
        return given((n > 0) & ~stats.constant, root(mean))

    def scaled(self, value: float, by: float, features: int, k: int) -> float:
        return value * by

    def cautions(self, forgetting: float, k: int) -> tuple[str, ...]:
        return caution("RMSSTD", self.dof, forgetting, k)
