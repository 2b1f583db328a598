"""The states of a panel and of a pipeline."""

from __future__ import annotations

from typing import NamedTuple

from icvi_jax.anchor import Anchor
from icvi_jax.types import Array, Prototypes, State


class PanelState(NamedTuple):
    """The state of a panel.

    Attributes
    ----------
    anchor : the first usable sample, subtracted from all coordinates.
    missing : (*streams), samples that were not usable.
    prototypes : centres (relative to the anchor) and active slots after the last sample.
    statistics : states by name of the statistic.

    Examples
    --------
    >>> import numpy as np, icvi_jax as icvi
    >>> state = icvi.Panel(indices=(icvi.XieBeni(),)).init(k=2, features=3, xp=np)
    >>> sorted(state.statistics)
    ['count', 'dispersion', 'separation']
    """

    anchor: Anchor
    missing: Array
    prototypes: Prototypes
    statistics: dict[str, State]


class PipelineState(NamedTuple):
    """The state of a pipeline; its size does not grow with the stream.

    Attributes
    ----------
    anchor : the first usable value of each column, subtracted from all later ones.
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
        """The state of the panel, for `icvi_jax.explain` and the functions of a panel."""
        mine = self.clusterer
        if mine is None:
            raise ValueError("PipelineState.panel: this pipeline has no clusterer and so no panel")
        more = (getattr(mine, field, None) for field in ("names", "mass"))
        prototypes = Prototypes(mine.centers, mine.active, *more)
        return PanelState(self.anchor, self.missing, prototypes, self.statistics)
