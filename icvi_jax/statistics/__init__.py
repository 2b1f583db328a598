"""Statistics: everything recursive in a panel, one file each. Indices are computed from them."""

from icvi_jax.spec import public_names as _public_names
from icvi_jax.statistics.base import AnyStatistic as AnyStatistic
from icvi_jax.statistics.base import RecordedClustering as RecordedClustering
from icvi_jax.statistics.base import States as States
from icvi_jax.statistics.base import Statistic as Statistic
from icvi_jax.statistics.base import Step as Step
from icvi_jax.statistics.base import closure as closure
from icvi_jax.statistics.base import pick as pick
from icvi_jax.statistics.connections import Connections as Connections
from icvi_jax.statistics.count import Count as Count
from icvi_jax.statistics.count import Membership as Membership
from icvi_jax.statistics.covariance import Covariance as Covariance
from icvi_jax.statistics.covariance import OverallCovariance as OverallCovariance
from icvi_jax.statistics.dispersion import Dispersion as Dispersion
from icvi_jax.statistics.dispersion import Overall as Overall
from icvi_jax.statistics.health_features import Vitals as Vitals
from icvi_jax.statistics.index_view import Stats as Stats
from icvi_jax.statistics.separation import FadedReach as FadedReach
from icvi_jax.statistics.separation import Separation as Separation
from icvi_jax.statistics.silhouettes import Silhouettes as Silhouettes

Recording = RecordedClustering  # its name before 0.3

globals()["__all__"] = _public_names(globals())
