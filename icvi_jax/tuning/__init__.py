"""Tuning: fit a memory and a monitor to streams whose changes are known. Needs optax (the extra `tuning`)."""

from icvi_jax.tuning.soft import SoftDistress, soft_f1
from icvi_jax.tuning.tune import Quality, Tuned, judge, quality, tune

__all__ = ["Quality", "SoftDistress", "Tuned", "judge", "quality", "soft_f1", "tune"]
