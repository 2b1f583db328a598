"""Monitors: one file each, a pure step that turns an index value, or a sample, into an `Alarm`."""

from icvi_jax.monitors.base import Heard, Monitor, SampleMonitor
from icvi_jax.monitors.budget import Budget
from icvi_jax.monitors.change import Change, ChangeState
from icvi_jax.monitors.distress import Distress, DistressState
from icvi_jax.monitors.page_hinkley import PageHinkley, PageHinkleyState

__all__ = [
    "Budget", "Change", "ChangeState", "Distress", "DistressState", "Heard", "Monitor", "PageHinkley",
    "PageHinkleyState", "SampleMonitor",
]  # fmt: skip
