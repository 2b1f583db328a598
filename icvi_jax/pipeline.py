"""Pipeline: a sample goes in at one end, a reading comes out at the other."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from typing import NamedTuple

import jax.numpy as jnp

from icvi_jax.clusterers import Clusterer
from icvi_jax.kernels.arrays import advance, namespace, usable
from icvi_jax.monitors import Monitor
from icvi_jax.panel import Panel, PanelState, layout
from icvi_jax.spec import settle, spec, whole
from icvi_jax.standardize import Standardize
from icvi_jax.types import Array, Namespace, Prototypes, Reading


class PipelineState(NamedTuple):
    """All that a pipeline remembers; its size does not grow with the stream.

    Attributes
    ----------
    anchor : (p, *streams), the first usable sample, subtracted from all that follow.
    missing : (*streams), samples that were not usable.
    scaler : state of `Standardize`, or None.
    clusterer : state of the clusterer.
    statistics : states of the panel's statistics by name.
    monitors : states of the monitors by name.
    """

    anchor: Array
    missing: Array
    scaler: NamedTuple | None
    clusterer: NamedTuple
    statistics: dict[str, NamedTuple]
    monitors: dict[str, NamedTuple]

    @property
    def panel(self) -> PanelState:
        """The part that `icvi_jax.explain` and the panel's own functions take."""
        prototypes = Prototypes(self.clusterer.centers, self.clusterer.active)
        return PanelState(self.anchor, self.missing, prototypes, self.statistics)


@spec
class Pipeline:
    """Clusterer, panel of indices and monitors in a row, as one pure step.

    Parameters
    ----------
    clusterer : such as `SequentialKMeans(k=3)` or `OnlineEllipsoidal(capacity=16)`.
    panel : the indices.
    monitors : by name of the alarm; a monitor watches the index of that name unless it says another.
    standardize : an optional first station.

    Examples
    --------
    >>> import jax, icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    >>> X = icvi.streams.s2(seed=0).x
    >>> final, readings = jax.lax.scan(pipe.step, pipe.init(2), X)
    >>> readings.values["xb"].shape
    (2500,)
    """

    clusterer: Clusterer
    panel: Panel
    monitors: tuple[Monitor, ...] = ()
    standardize: Standardize | None = None

    def __post_init__(self):
        known = {index.name: index for index in self.panel.indices}
        monitors = self.monitors
        if isinstance(monitors, Mapping):  # a tuple of monitors that know their names: hashable
            monitors = tuple(
                dataclasses.replace(monitor, name=name, index=monitor.index or name)
                for name, monitor in monitors.items()
            )
        for monitor in monitors:
            if monitor.index not in known:
                raise ValueError(
                    f"Pipeline(monitors=…): {monitor.name!r} watches the index {monitor.index!r}, and the panel has "
                    f"{', '.join(map(repr, known))}"
                )
        settle(self, monitors=tuple(monitors))
        for index in self.panel.indices:
            for message in index.cautions(self.panel.forgetting, self.clusterer.slots):
                warnings.warn(message, stacklevel=3)

    def init(self, features: int, streams: tuple[int, ...] = (), xp: Namespace = jnp, dtype=None) -> PipelineState:
        """The state before any sample.

        Parameters
        ----------
        features : p, the number of features.
        streams : shape of the fleet, `()` for one stream; these axes trail everywhere.
        xp : the array library, such as `jax.numpy` or `numpy`.
        dtype : defaults to the library's default float.
        """
        whole("Pipeline.init", "features", features)
        xp, dtype, streams = layout(xp, dtype, streams)
        return PipelineState(
            anchor=xp.zeros((features, *streams), dtype=dtype),
            missing=xp.zeros(streams, dtype=xp.int32),
            scaler=None if self.standardize is None else self.standardize.init(features, streams, xp, dtype),
            clusterer=self.clusterer.init(features, streams, xp, dtype),
            statistics=self.panel.start(self.clusterer.slots, features, streams, xp, dtype),
            monitors={monitor.name: monitor.init(streams, xp, dtype) for monitor in self.monitors},
        )

    def step(self, state: PipelineState, x: Array, elapsed: Array | None = None) -> tuple[PipelineState, Reading]:
        """Take in one sample `x` (p, *streams); where it is not finite it is missing and nothing changes.

        `elapsed` is the time since the last sample seen, in units of which one fades by the panel's forgetting.
        """
        xp = namespace(state.anchor)
        x = xp.asarray(x, dtype=state.anchor.dtype)
        if tuple(x.shape) != tuple(state.anchor.shape):
            raise ValueError(f"Pipeline.step(x=…): the state wants {tuple(state.anchor.shape)}, got {tuple(x.shape)}")
        seen = usable(x)
        fresh = state.statistics["count"].samples == 0
        anchor = xp.where(fresh & seen, x, state.anchor)
        x = xp.where(seen, x - anchor, xp.zeros_like(x))
        scaler = state.scaler
        if self.standardize is not None:
            scaler, x = self.standardize.step(scaler, x, seen)
        clusterer, event = self.clusterer.step(state.clusterer, x, seen)
        statistics = self.panel.update(state.statistics, event, elapsed, self.clusterer.crisp)
        values = self.panel.values(statistics, event.after, event.ready)
        monitors, alarms = self._watch(state.monitors, values, seen)
        centers = event.after.centers
        if self.standardize is not None:
            centers = self.standardize.restore(scaler, centers)
        new = PipelineState(anchor, advance(state.missing, ~seen), scaler, clusterer, statistics, monitors)
        shown = xp.where(event.after.active[:, None, ...], centers + anchor, xp.full_like(centers, xp.nan))
        return new, Reading(
            values, event.label, event.u, event.k, shown, seen, event.outlier, event.overflow, alarms
        )

    def _watch(self, states, values, seen):
        traits = {index.name: (index.goal, index.positive) for index in self.panel.indices}
        pairs = {
            m.name: m.step(states[m.name], values[m.index], seen, *traits[m.index]) for m in self.monitors
        }
        return {name: pair[0] for name, pair in pairs.items()}, {name: pair[1] for name, pair in pairs.items()}
