"""Monitors: one file each, a pure step that turns an index value, or a sample, into an `Alarm`."""

from icvi_jax.monitors.base import Heard as Heard
from icvi_jax.monitors.base import Listener as Listener
from icvi_jax.monitors.base import Monitor as Monitor
from icvi_jax.monitors.base import SampleMonitor as SampleMonitor
from icvi_jax.monitors.budget import Budget as Budget
from icvi_jax.monitors.catalogue import catalogue as catalogue
from icvi_jax.monitors.change import ChangeState as ChangeState
from icvi_jax.monitors.distress import DistressState as DistressState
from icvi_jax.monitors.listing import *  # noqa: F403
from icvi_jax.monitors.page_hinkley import PageHinkleyState as PageHinkleyState
from icvi_jax.spec import public_names as _public_names

globals()["__all__"] = _public_names(globals())
