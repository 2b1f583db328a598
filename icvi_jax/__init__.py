"""Live validation of stream clustering: incremental cluster validity indices for one stream or a fleet, on JAX."""

from icvi_jax import clusterers, evaluation, indices, streams
from icvi_jax.checkpoint import Checkpoint, CheckpointError, load, load_checkpoint, save
from icvi_jax.clusterers import FuzzyCMeans, MergeSplit, OnlineEllipsoidal, RebirthKMeans, SequentialKMeans
from icvi_jax.drive.devices import use_all_cores
from icvi_jax.drive.fleet import run_fleet
from icvi_jax.drive.live import Live
from icvi_jax.drive.run import Run, run
from icvi_jax.drive.scan import scan
from icvi_jax.explain import explain
from icvi_jax.export import Export, export
from icvi_jax.indices import (
    CONN,
    PBM,
    RMSSTD,
    WB,
    BallHall,
    CalinskiHarabasz,
    CentroidSilhouette,
    DaviesBouldin,
    FukuyamaSugeno,
    GeneralizedDunn43,
    GeneralizedDunn53,
    Hartigan,
    Index,
    Kwon,
    NegentropyIncrement,
    OnlineSilhouette,
    PartitionCoefficient,
    PartitionEntropy,
    PartitionSeparation,
    RepresentativeCIP,
    RepresentativeCrossEntropy,
    RSquared,
    XieBeni,
    Xu,
)
from icvi_jax.monitors import Budget, Change, Distress, Monitor, PageHinkley
from icvi_jax.monitors.story import story
from icvi_jax.panel import Panel, PanelState, forgetting_of
from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.propose import propose
from icvi_jax.standardize import Standardize
from icvi_jax.surgery import combine, merge, read, remove
from icvi_jax.types import Alarm, Event, Prototypes, Reading
from icvi_jax.validation import batch, validate

__version__ = "0.2.0"
