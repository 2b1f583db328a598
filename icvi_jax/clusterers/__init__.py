"""Clusterers: one file each, a pure step that turns a sample into an `Event`."""

from icvi_jax.clusterers.base import Clusterer
from icvi_jax.clusterers.kmeans import SequentialKMeans

__all__ = ["Clusterer", "SequentialKMeans"]
