"""Checkpoints: states in files that are either complete or refused, written by one process or by several."""

from icvi_jax.checkpoint.save_load import (
    Checkpoint,
    CheckpointError,
    DamagedCheckpoint,
    load,
    load_checkpoint,
    numbered,
    save,
)

__all__ = ["Checkpoint", "CheckpointError", "DamagedCheckpoint", "load", "load_checkpoint", "numbered", "save"]
