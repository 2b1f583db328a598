r"""Online silhouette: the faded mean of (b − a)/max(a, b), each sample against the clusters as they were before it."""

from __future__ import annotations

from typing import ClassVar

from icvi_jax.indices.base import Index, given
from icvi_jax.spec import one_of, spec, static
from icvi_jax.statistics import Silhouettes, Stats
from icvi_jax.types import Array


@spec
class OnlineSilhouette(Index):
    r"""Mean over samples of how much nearer they were to their own centre than to the next; large is good.

    .. math:: \frac{b − a}{\max(a, b)}, \quad a = ‖x − v_{own}‖, \quad b = \min_{i ≠ own} \sqrt{‖x − v_i‖² + S_i/M_i}

    with centres and spreads *before* the sample, which are what the clusterer knew when it decided. Samples that start
    a cluster, and samples while there is no other cluster, are left out. NaN until a sample counts.

    Parameters
    ----------
    noise : samples of no cluster: "skip" leaves them out, "zero" counts them with 0.

    References
    ----------
    Rousseeuw, P. J. (1987). Silhouettes: a graphical aid to the interpretation and validation of cluster analysis. The
    form for streams is our own.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.OnlineSilhouette(),))
    >>> values = icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0], [0.5], [4.2]], labels=[0, 1, 0, 1, 0, 1])
    >>> print("%.3g" % values["osil"][-1])
    0.841
    """

    name: str = static("osil")
    noise: str = static("skip")
    goal: ClassVar = "max"
    needs: ClassVar = (Silhouettes,)
    range: ClassVar = (-1.0, 1.0)
    positive: ClassVar = False
    scattered: ClassVar = False

    def __post_init__(self) -> None:
        one_of("OnlineSilhouette", "noise", self.noise, ("skip", "zero"))

    def value(self, stats: Stats, forgetting: Array) -> Array:
        state = stats[Silhouettes]
        skip = self.noise == "skip"
        mean, weight = (state.mean, state.weight) if skip else (state.noisy_mean, state.noisy_weight)
        return given(weight > 0, mean)
