"""Every clusterer, one line each. Catalogue, tests, documentation, `icvi_jax` and the command find it here."""

# ruff: noqa: I001
from icvi_jax.clusterers.kmeans import SequentialKMeans as SequentialKMeans
from icvi_jax.clusterers.rebirth import RebirthKMeans as RebirthKMeans
from icvi_jax.clusterers.fuzzy import FuzzyCMeans as FuzzyCMeans
from icvi_jax.clusterers.mergesplit import MergeSplit as MergeSplit
from icvi_jax.clusterers.oec import OnlineEllipsoidal as OnlineEllipsoidal
