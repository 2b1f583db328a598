"""Statistics: everything recursive in a panel, one file each. Indices are computed from them."""

from icvi_jax.statistics.base import AnyStatistic, Recording, States, Statistic, Step, closure, pick
from icvi_jax.statistics.connections import Connections
from icvi_jax.statistics.count import Count
from icvi_jax.statistics.covariance import Covariance, OverallCovariance
from icvi_jax.statistics.dispersion import Dispersion
from icvi_jax.statistics.membership import Membership
from icvi_jax.statistics.overall import Overall
from icvi_jax.statistics.reach import FadedReach
from icvi_jax.statistics.separation import Separation
from icvi_jax.statistics.silhouettes import Silhouettes
from icvi_jax.statistics.stats import Stats
from icvi_jax.statistics.vitals import Vitals

__all__ = [
    "AnyStatistic",
    "Connections",
    "Count",
    "Covariance",
    "Dispersion",
    "FadedReach",
    "Membership",
    "Overall",
    "OverallCovariance",
    "Recording",
    "Separation",
    "Silhouettes",
    "States",
    "Statistic",
    "Stats",
    "Step",
    "Vitals",
    "closure",
    "pick",
]
