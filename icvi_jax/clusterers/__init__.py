"""Clusterers: one file each, a pure step that turns a sample into an `Event`. Adding one is a line in `listing`."""

from icvi_jax.clusterers.base import Clusterer as Clusterer
from icvi_jax.clusterers.catalogue import catalogue as catalogue
from icvi_jax.clusterers.listing import *  # noqa: F403
from icvi_jax.spec import public_names as _public_names

globals()["__all__"] = _public_names(globals())
