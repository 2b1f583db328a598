"""Indices: one file each, with the equation in its docstring. A new one is a file here and a line in `listing`."""

from icvi_jax.exports import offered as _offered
from icvi_jax.indices.base import Index as Index
from icvi_jax.indices.catalogue import catalogue as catalogue
from icvi_jax.indices.listing import *  # noqa: F403

globals()["__all__"] = _offered(globals())
