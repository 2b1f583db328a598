"""Statistics: everything recursive in a panel, one file each. Indices are computed from them."""

from icvi_jax.statistics.base import AnyStatistic, RecordedClustering, States, Statistic, Step, closure, pick
from icvi_jax.statistics.connections import Connections
from icvi_jax.statistics.count import Count, Membership
from icvi_jax.statistics.covariance import Covariance, OverallCovariance
from icvi_jax.statistics.dispersion import Dispersion, Overall
from icvi_jax.statistics.index_view import Stats
from icvi_jax.statistics.separation import FadedReach, Separation
from icvi_jax.statistics.silhouettes import Silhouettes
from icvi_jax.statistics.vitals import Vitals

Recording = RecordedClustering  # its name before 0.3

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
    "RecordedClustering",
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
