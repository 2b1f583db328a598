"""Conformance tests: check your own index, clusterer or monitor against the laws that all built-in ones obey.

>>> import icvi_jax as icvi
>>> from icvi_jax.testing import check_index
>>> check_index(icvi.XieBeni(), backends=("numpy",))
"""

from icvi_jax.testing.backends import BACKENDS, Backend, Example, backend, example
from icvi_jax.testing.clusterers import CLUSTERER_LAWS, check_clusterer
from icvi_jax.testing.indices import INDEX_LAWS, STATISTIC_LAWS, check_index, check_statistic
from icvi_jax.testing.monitors import MONITOR_LAWS, check_monitor
from icvi_jax.testing.sample_monitors import SAMPLE_MONITOR_LAWS, check_sample_monitor

__all__ = [
    "BACKENDS",
    "Backend",
    "CLUSTERER_LAWS",
    "Example",
    "INDEX_LAWS",
    "MONITOR_LAWS",
    "SAMPLE_MONITOR_LAWS",
    "STATISTIC_LAWS",
    "backend",
    "check_clusterer",
    "check_index",
    "check_monitor",
    "check_sample_monitor",
    "check_statistic",
    "example",
]
