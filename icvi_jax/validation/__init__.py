"""Validation: the indices of any recorded clustering, sample by sample or from their definitions."""

from icvi_jax.validation.batch import batch
from icvi_jax.validation.validate import validate

__all__ = ["batch", "validate"]
