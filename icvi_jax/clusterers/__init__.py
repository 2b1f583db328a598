"""Clusterers: one file each, a pure step that turns a sample into an `Event`."""

from icvi_jax.clusterers.base import Clusterer
from icvi_jax.clusterers.kmeans import SequentialKMeans
from icvi_jax.clusterers.oec import OnlineEllipsoidal

__all__ = ["Clusterer", "OnlineEllipsoidal", "SequentialKMeans"]
