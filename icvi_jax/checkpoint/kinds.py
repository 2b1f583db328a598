"""The content of a checkpoint, and the errors."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from icvi_jax.array_api import Stored
from icvi_jax.pipeline import PipelineState


class CheckpointError(ValueError):
    """A checkpoint that cannot be used: missing, damaged, from a newer version, or of another configuration.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    >>> try:
    ...     icvi.load("nowhere.icvi", pipe)
    ... except icvi.CheckpointError as error:
    ...     print(error)
    nowhere.icvi: No such file or directory
    """


class DamagedCheckpoint(CheckpointError):
    """A checkpoint whose content is not what was written; in a folder the previous one is used."""


class Checkpoint(NamedTuple):
    """The content of a checkpoint.

    Attributes
    ----------
    state : the state.
    position : how many samples the streams have had: an integer or (N,), or None.
    names : names of the streams, or None.
    extra : as given to `save`, or None.
    room : slots of the live fleet that wrote it, or None.
    path : the file it came from.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    >>> run = icvi.run(pipe, icvi.streams.s1(seed=0).x)
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = icvi.save(folder + "/one.icvi", pipe, run.state, position=len(run.readings.k))
    ...     icvi.load_checkpoint(file, pipe).position == len(run.readings.k)
    True
    """

    state: PipelineState
    position: int | np.ndarray | None
    names: tuple[str, ...] | None
    extra: dict[str, Stored] | None
    room: int | None
    path: Path
