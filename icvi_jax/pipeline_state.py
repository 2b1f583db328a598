"""The state of a pipeline."""

from __future__ import annotations

from typing import NamedTuple

from icvi_jax.anchor import Anchor
from icvi_jax.panel import PanelState
from icvi_jax.types import Array, Prototypes, State


class PipelineState(NamedTuple):
    """All that a pipeline remembers; its size does not grow with the stream.

    Attributes
    ----------
    anchor : the first usable value of each column, subtracted from all that follow.
    missing : (*streams), samples that were not usable.
    scaler : state of `Standardize`, or None.
    clusterer : state of the clusterer, or None.
    statistics : states of the panel's statistics by name.
    monitors : states of the monitors by name.

    Examples
    --------
    >>> import numpy as np, icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    >>> sorted(pipe.init(features=2, xp=np).statistics)
    ['count', 'dispersion', 'separation']
    """

    anchor: Anchor
    missing: Array
    scaler: State | None
    clusterer: State | None
    statistics: dict[str, State]
    monitors: dict[str, State]

    @property
    def panel(self) -> PanelState:
        """The part that `icvi_jax.explain` and the panel's own functions take."""
        mine = self.clusterer
        if mine is None:
            raise ValueError("PipelineState.panel: this pipeline has no clusterer and so no panel")
        more = (getattr(mine, field, None) for field in ("names", "mass"))
        prototypes = Prototypes(mine.centers, mine.active, *more)
        return PanelState(self.anchor, self.missing, prototypes, self.statistics)
