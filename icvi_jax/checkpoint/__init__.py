"""Checkpoints: states in files that are either complete or refused, written by one process or by several."""

from icvi_jax.checkpoint.api import (
    Checkpoint,
    CheckpointError,
    DamagedCheckpoint,
    load,
    load_checkpoint,
    numbered,
    save,
)

__all__ = ["Checkpoint", "CheckpointError", "DamagedCheckpoint", "load", "load_checkpoint", "numbered", "save"]
