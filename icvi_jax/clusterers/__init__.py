"""Clusterers: one file each, a pure step that turns a sample into an `Event`."""

from icvi_jax.clusterers.base import Clusterer
from icvi_jax.clusterers.catalogue import catalogue
from icvi_jax.clusterers.fuzzy import FuzzyCMeans
from icvi_jax.clusterers.kmeans import SequentialKMeans
from icvi_jax.clusterers.mergesplit import MergeSplit
from icvi_jax.clusterers.oec import OnlineEllipsoidal
from icvi_jax.clusterers.rebirth import RebirthKMeans

__all__ = [
    "Clusterer", "FuzzyCMeans", "MergeSplit", "OnlineEllipsoidal", "RebirthKMeans", "SequentialKMeans", "catalogue",
]  # fmt: skip
