"""Every index, one line each. Catalogue, tests, documentation, `icvi_jax` and the command find it here."""

# ruff: noqa: I001
from icvi_jax.indices.xie_beni import XieBeni as XieBeni
from icvi_jax.indices.davies_bouldin import DaviesBouldin as DaviesBouldin
from icvi_jax.indices.calinski_harabasz import CalinskiHarabasz as CalinskiHarabasz
from icvi_jax.indices.wb import WB as WB
from icvi_jax.indices.pbm import PBM as PBM
from icvi_jax.indices.centroid_silhouette import CentroidSilhouette as CentroidSilhouette
from icvi_jax.indices.generalized_dunn_43 import GeneralizedDunn43 as GeneralizedDunn43
from icvi_jax.indices.generalized_dunn_53 import GeneralizedDunn53 as GeneralizedDunn53
from icvi_jax.indices.partition_separation import PartitionSeparation as PartitionSeparation
from icvi_jax.indices.negentropy_increment import NegentropyIncrement as NegentropyIncrement
from icvi_jax.indices.representative_cip import RepresentativeCIP as RepresentativeCIP
from icvi_jax.indices.representative_cross_entropy import RepresentativeCrossEntropy as RepresentativeCrossEntropy
from icvi_jax.indices.ball_hall import BallHall as BallHall
from icvi_jax.indices.hartigan import Hartigan as Hartigan
from icvi_jax.indices.xu import Xu as Xu
from icvi_jax.indices.r_squared import RSquared as RSquared
from icvi_jax.indices.rmsstd import RMSSTD as RMSSTD
from icvi_jax.indices.partition_coefficient import PartitionCoefficient as PartitionCoefficient
from icvi_jax.indices.partition_entropy import PartitionEntropy as PartitionEntropy
from icvi_jax.indices.fukuyama_sugeno import FukuyamaSugeno as FukuyamaSugeno
from icvi_jax.indices.kwon import Kwon as Kwon
from icvi_jax.indices.conn import CONN as CONN
from icvi_jax.indices.online_silhouette import OnlineSilhouette as OnlineSilhouette
from icvi_jax.indices.health import Health as Health
