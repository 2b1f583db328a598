"""Every monitor, one line each. Tests, documentation, `icvi_jax` and the command find it here."""

# ruff: noqa: I001
from icvi_jax.monitors.distress import Distress as Distress
from icvi_jax.monitors.change import Change as Change
from icvi_jax.monitors.page_hinkley import PageHinkley as PageHinkley
from icvi_jax.monitors.stuck import Stuck as Stuck
