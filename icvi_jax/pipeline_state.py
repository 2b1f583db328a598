"""The states of a panel and of a pipeline."""

from __future__ import annotations

from typing import NamedTuple

from icvi_jax.anchor import Anchor
from icvi_jax.numerics.arrays import advance
from icvi_jax.types import Array, Event, Prototypes, State


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

    def after(self, event: Event) -> PanelState:
        """The state after a sample, but for its statistics."""
        return self._replace(missing=advance(self.missing, ~event.seen), prototypes=event.after)


class Kept(NamedTuple):
    """What a pipeline must remember: its state without the prototypes, which the clusterer's state tells.

    This is what the engine runs on and what a file holds, so that centres are not there twice. The fields are those of
    `PanelState` and `PipelineState`; `Pipeline.restored` is the way back.
    """

    anchor: Anchor
    missing: Array
    scaler: State | None
    clusterer: State | None
    statistics: dict[str, State]
    monitors: dict[str, State]

    def state(self, prototypes: Prototypes) -> PipelineState:
        """The state with these prototypes."""
        panel = PanelState(self.anchor, self.missing, prototypes, self.statistics)
        return PipelineState(panel, self.scaler, self.clusterer, self.monitors)


class PipelineState(NamedTuple):
    """The state of a pipeline; its size does not grow with the stream.

    Attributes
    ----------
    panel : state of the panel, for `icvi_jax.explain` and the functions of a panel. A pipeline without a panel has one
        without statistics; without a clusterer it has no slots. Its prototypes are the clusterer's: a step writes them
        and does not read them.
    scaler : state of `Standardize`, or None.
    clusterer : state of the clusterer, or None.
    monitors : states of the monitors by name.

    Examples
    --------
    >>> import numpy as np, icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    >>> state = pipe.init(features=2, xp=np)
    >>> sorted(state.panel.statistics), state.panel.prototypes.centers.shape
    (['count', 'dispersion', 'separation'], (2, 2))
    """

    panel: PanelState
    scaler: State | None
    clusterer: State | None
    monitors: dict[str, State]

    @property
    def anchor(self) -> Anchor:
        """The panel's: the first usable value of each column, subtracted from all later ones."""
        return self.panel.anchor

    @property
    def missing(self) -> Array:
        """The panel's: (*streams), samples that were not usable."""
        return self.panel.missing

    @property
    def statistics(self) -> dict[str, State]:
        """The panel's: states of the statistics by name."""
        return self.panel.statistics

    @property
    def kept(self) -> Kept:
        """This state without its prototypes."""
        panel = self.panel
        return Kept(panel.anchor, panel.missing, self.scaler, self.clusterer, panel.statistics, self.monitors)
