"""Monitors: one file each, a pure step that turns an index value into an `Alarm`."""

from icvi_jax.monitors.base import Monitor

__all__ = ["Monitor"]
