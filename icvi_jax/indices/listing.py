"""Every index, one line each. Catalogue, tests, documentation, `icvi_jax` and the command find it here."""

# ruff: noqa: I001
from icvi_jax.indices.separation import XieBeni as XieBeni
from icvi_jax.indices.separation import DaviesBouldin as DaviesBouldin
from icvi_jax.indices.sums_of_squares import CalinskiHarabasz as CalinskiHarabasz
from icvi_jax.indices.sums_of_squares import WB as WB
from icvi_jax.indices.separation import PBM as PBM
from icvi_jax.indices.silhouettes import CentroidSilhouette as CentroidSilhouette
from icvi_jax.indices.separation import GeneralizedDunn43 as GeneralizedDunn43
from icvi_jax.indices.separation import GeneralizedDunn53 as GeneralizedDunn53
from icvi_jax.indices.separation import PartitionSeparation as PartitionSeparation
from icvi_jax.indices.gaussians import NegentropyIncrement as NegentropyIncrement
from icvi_jax.indices.gaussians import RepresentativeCIP as RepresentativeCIP
from icvi_jax.indices.gaussians import RepresentativeCrossEntropy as RepresentativeCrossEntropy
from icvi_jax.indices.sums_of_squares import BallHall as BallHall
from icvi_jax.indices.sums_of_squares import Hartigan as Hartigan
from icvi_jax.indices.sums_of_squares import Xu as Xu
from icvi_jax.indices.sums_of_squares import RSquared as RSquared
from icvi_jax.indices.sums_of_squares import RMSSTD as RMSSTD
from icvi_jax.indices.memberships import PartitionCoefficient as PartitionCoefficient
from icvi_jax.indices.memberships import PartitionEntropy as PartitionEntropy
from icvi_jax.indices.memberships import FukuyamaSugeno as FukuyamaSugeno
from icvi_jax.indices.separation import Kwon as Kwon
from icvi_jax.indices.conn import CONN as CONN
from icvi_jax.indices.silhouettes import OnlineSilhouette as OnlineSilhouette
from icvi_jax.indices.health import Health as Health
