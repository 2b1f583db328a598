"""Indices: one file each, the equation in its docstring. Adding one is a file here and a line below."""

from icvi_jax.indices.ball_hall import BallHall
from icvi_jax.indices.base import Index
from icvi_jax.indices.calinski_harabasz import CalinskiHarabasz
from icvi_jax.indices.centroid_silhouette import CentroidSilhouette
from icvi_jax.indices.conn import CONN
from icvi_jax.indices.davies_bouldin import DaviesBouldin
from icvi_jax.indices.fukuyama_sugeno import FukuyamaSugeno
from icvi_jax.indices.generalized_dunn_43 import GeneralizedDunn43
from icvi_jax.indices.generalized_dunn_53 import GeneralizedDunn53
from icvi_jax.indices.hartigan import Hartigan
from icvi_jax.indices.kwon import Kwon
from icvi_jax.indices.negentropy_increment import NegentropyIncrement
from icvi_jax.indices.online_silhouette import OnlineSilhouette
from icvi_jax.indices.partition_coefficient import PartitionCoefficient
from icvi_jax.indices.partition_entropy import PartitionEntropy
from icvi_jax.indices.partition_separation import PartitionSeparation
from icvi_jax.indices.pbm import PBM
from icvi_jax.indices.r_squared import RSquared
from icvi_jax.indices.representative_cip import RepresentativeCIP
from icvi_jax.indices.representative_cross_entropy import RepresentativeCrossEntropy
from icvi_jax.indices.rmsstd import RMSSTD
from icvi_jax.indices.wb import WB
from icvi_jax.indices.xie_beni import XieBeni
from icvi_jax.indices.xu import Xu

__all__ = [
    "Index",
    "XieBeni",
    "DaviesBouldin",
    "CalinskiHarabasz",
    "WB",
    "PBM",
    "CentroidSilhouette",
    "GeneralizedDunn43",
    "GeneralizedDunn53",
    "PartitionSeparation",
    "NegentropyIncrement",
    "RepresentativeCIP",
    "RepresentativeCrossEntropy",
    "BallHall",
    "Hartigan",
    "Xu",
    "RSquared",
    "RMSSTD",
    "PartitionCoefficient",
    "PartitionEntropy",
    "FukuyamaSugeno",
    "Kwon",
    "CONN",
    "OnlineSilhouette",
    "catalogue",
]

from icvi_jax.indices.catalogue import catalogue  # noqa: E402  (it reads the list above)
