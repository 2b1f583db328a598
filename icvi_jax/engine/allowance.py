"""False alarms for a fleet, turned into the rate of the monitors of each stream."""

from __future__ import annotations

from icvi_jax.monitors import Budget
from icvi_jax.pipeline import Pipeline


def allowed(
    pipe: Pipeline, false_alarms: str | Budget | None, streams: int, interval: float | None
) -> tuple[Pipeline, Budget | None]:
    """The pipeline whose monitors share the budget, and that budget; unchanged if none is given."""
    if false_alarms is None:
        return pipe, None
    if not isinstance(false_alarms, Budget):
        false_alarms = Budget.parse(false_alarms, max(streams, 1), interval)
    return pipe.within(false_alarms), false_alarms
