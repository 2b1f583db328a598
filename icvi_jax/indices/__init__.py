"""Indices: one file each, with the equation in its docstring. A new one is a file here and a line in `listing`."""

from icvi_jax.indices.base import Index as Index
from icvi_jax.indices.catalogue import catalogue as catalogue
from icvi_jax.indices.listing import *  # noqa: F403
from icvi_jax.spec import public_names as _public_names

globals()["__all__"] = _public_names(globals())
