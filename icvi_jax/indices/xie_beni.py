"""Xie–Beni: mean dispersion over the smallest squared distance between centres.      XB = J / (N h)"""

from __future__ import annotations

from typing import ClassVar

from icvi_jax.indices.base import Index, divide, given
from icvi_jax.spec import one_of, spec, static
from icvi_jax.statistics import AnyStatistic, Count, Dispersion, FadedReach, Separation, Stats
from icvi_jax.types import Array


@spec
class XieBeni(Index):
    """Compactness over separation; small is good.

    .. math:: XB = J / (N h), \\quad XB_λ = (1 − λ) J / h, \\quad J = Σ_i C_i, \\quad h = \\min_{i≠j} ‖v_i − v_j‖²

    k = 1: h is the largest squared distance from the single centre to a sample so far, unless `lone` is different.
    Equal centres, h = 0: +inf.

    Parameters
    ----------
    normalizer : "paper" multiplies J by 1 − λ if λ < 1, which does not tend to XB as λ → 1. "exact" divides by
        ω = Σ λ^(n−j), which does: use it for gradients in λ, and with long memories.
    lone : h while there is one cluster. "paper": the largest distance ever, so that the index *improves* when a stream
        breaks, since h then stays large. "faded": distances fade with λ like everything else. "nan": no value.

    References
    ----------
    Xie, X. L. and Beni, G. (1991). A validity measure for fuzzy clustering.
    Moshtaghi, M., Bezdek, J. C., Erfani, S. M., Leckie, C. and Bailey, J. Online cluster validity indices for
    streaming data.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.XieBeni(),))
    >>> values = icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0], [0.5], [4.2]], labels=[0, 1, 0, 1, 0, 1])
    >>> print("%.3g" % values["xb"][-1])
    0.0116
    """

    name: str = static("xb")
    normalizer: str = static("paper")
    lone: str = static("paper")
    goal: ClassVar = "min"
    needs: ClassVar = (Count, Dispersion, Separation)

    def __post_init__(self) -> None:
        one_of("XieBeni", "normalizer", self.normalizer, ("paper", "exact"))
        one_of("XieBeni", "lone", self.lone, ("paper", "faded", "nan"))

    def statistics(self) -> tuple[type[AnyStatistic], ...]:
        return (*self.needs, FadedReach) if self.lone == "faded" else self.needs

    def value(self, stats: Stats, forgetting: Array) -> Array:
        xp = stats.xp
        J, h = stats[Dispersion].total, stats[Separation].smallest
        n = stats.n
        if self.normalizer == "paper":
            fades = forgetting < 1
            n = xp.where(fades, 1 / xp.where(fades, 1 - forgetting, xp.ones_like(forgetting)), stats.samples)
        if self.lone == "faded":
            h = xp.where(stats.k > 1, h, stats[FadedReach].reach)
        value = divide(J, n * h, xp.inf)
        return given(stats.k > 1, value) if self.lone == "nan" else value
