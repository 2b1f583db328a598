"""Validation: the indices along somebody else's clustering, sample by sample or from their definitions."""

from icvi_jax.validation.batch import batch
from icvi_jax.validation.validate import validate

__all__ = ["batch", "validate"]
