"""Live validation of stream clustering: incremental cluster validity indices for one stream or a fleet, on JAX."""

from icvi_jax import clusterers as clusterers
from icvi_jax import evaluation as evaluation
from icvi_jax import indices as indices
from icvi_jax import monitors as monitors
from icvi_jax import streams as streams
from icvi_jax.checkpoint import Checkpoint as Checkpoint
from icvi_jax.checkpoint import CheckpointError as CheckpointError
from icvi_jax.checkpoint import load as load
from icvi_jax.checkpoint import load_checkpoint as load_checkpoint
from icvi_jax.checkpoint import save as save
from icvi_jax.clusterers import Clusterer as Clusterer
from icvi_jax.clusterers.listing import *  # noqa: F403  (a new one needs one line there)
from icvi_jax.engine.scan import native_scan as native_scan
from icvi_jax.engine.scan import scan as scan
from icvi_jax.evaluation.calibrate import calibrate as calibrate
from icvi_jax.export import Export as Export
from icvi_jax.export import export as export
from icvi_jax.indices import Index as Index
from icvi_jax.indices.listing import *  # noqa: F403
from icvi_jax.live import Live as Live
from icvi_jax.model_selection import Portfolio as Portfolio
from icvi_jax.monitors import Budget as Budget
from icvi_jax.monitors import Monitor as Monitor
from icvi_jax.monitors.listing import *  # noqa: F403
from icvi_jax.panel import Panel as Panel
from icvi_jax.panel import PanelState as PanelState
from icvi_jax.panel import forgetting_of as forgetting_of
from icvi_jax.panel_ops import combine as combine
from icvi_jax.panel_ops import explain as explain
from icvi_jax.panel_ops import merge as merge
from icvi_jax.panel_ops import read as read
from icvi_jax.panel_ops import remove as remove
from icvi_jax.pipeline import Pipeline as Pipeline
from icvi_jax.pipeline import PipelineState as PipelineState
from icvi_jax.report.alarm_text import story as story
from icvi_jax.run import Run as Run
from icvi_jax.run import run as run
from icvi_jax.run import run_fleet as run_fleet
from icvi_jax.run import use_all_cores as use_all_cores
from icvi_jax.spec import public_names as _public_names
from icvi_jax.standardize import Standardize as Standardize
from icvi_jax.types import Alarm as Alarm
from icvi_jax.types import Event as Event
from icvi_jax.types import Prototypes as Prototypes
from icvi_jax.types import Reading as Reading
from icvi_jax.validation import batch as batch
from icvi_jax.validation import validate as validate
from icvi_jax.what_if import propose as propose

__version__ = "0.3.0"

globals()["__all__"] = _public_names(globals())
