"""Fukuyama–Sugeno: dispersion within clusters minus that of their centres.      FS = J − Σ_i M_i ‖v_i − v̄‖²"""

from __future__ import annotations

from typing import ClassVar

from icvi_jax.indices.base import Comparison
from icvi_jax.spec import spec, static
from icvi_jax.statistics import Count, Dispersion, Stats
from icvi_jax.types import Array


@spec
class FukuyamaSugeno(Comparison):
    r"""Dispersion within clusters minus that of their centres; small is good.

    .. math:: FS = J − Σ_i M_i ‖v_i − \bar v‖², \quad J = Σ_i C_i

    with v̄ the plain mean of the centres. A sum and not a mean: it grows with the number of samples that are
    remembered. NaN with fewer than two clusters. All centres in one place: J.

    References
    ----------
    Fukuyama, Y. and Sugeno, M. (1989). A new method of choosing the number of clusters for the fuzzy c-means method.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.FukuyamaSugeno(),))
    >>> values = icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0], [0.5], [4.2]], labels=[0, 1, 0, 1, 0, 1])
    >>> print("%.3g" % values["fs"][-1])
    -21.8
    """

    name: str = static("fs")
    goal: ClassVar = "min"
    range: ClassVar = (-float("inf"), float("inf"))
    positive: ClassVar = False
    needs: ClassVar = (Count, Dispersion)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        return stats[Dispersion].total - stats.over_slots(stats[Dispersion].mass * stats.from_hub)

    def scaled(self, value: float, by: float, features: int, k: int) -> float:
        return value * by**2
