"""Pipeline: a pure step from a sample to a reading."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import jax.numpy as jnp

from icvi_jax.anchor import about, back, no_anchor, set_anchor
from icvi_jax.clusterers import Clusterer
from icvi_jax.gate import layout, punctual
from icvi_jax.indices import Index
from icvi_jax.monitors import Budget, Heard, Monitor, SampleMonitor
from icvi_jax.numerics.arrays import namespace, usable
from icvi_jax.panel import Panel
from icvi_jax.pipeline_state import Kept
from icvi_jax.pipeline_state import PipelineState as PipelineState
from icvi_jax.spec import FrozenDict, changed, settle, spec, whole
from icvi_jax.standardize import Standardize
from icvi_jax.types import Alarm, Array, DType, Event, Namespace, Prototypes, Reading, Shown, State

SURPRISE = "surprise"
"""The name with which monitors watch the squared distance of a sample from the nearest centre."""


@spec
class Pipeline:
    """Clusterer, panel of indices and monitors, one after the other, as one pure step.

    Parameters
    ----------
    clusterer : such as `SequentialKMeans(k=3)` or `OnlineEllipsoidal(capacity=16)`; None for monitors
        of the samples only.
    panel : the indices; None for none.
    monitors : by name of the alarm. A monitor of an index watches the index with that name, unless it has another
        `index`; "surprise", the squared distance from the nearest centre, can be watched like an index.
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

    clusterer: Clusterer | None
    panel: Panel | None
    monitors: Mapping[str, Monitor | SampleMonitor] = FrozenDict({})
    standardize: Standardize | None = None

    def __post_init__(self) -> None:
        if self.panel is not None and self.clusterer is None:
            raise ValueError("Pipeline(clusterer=None): a panel needs a clusterer; give one, or also panel=None")
        if self.panel is not None and self.panel.grouped and self.clusterer is not None and not self.clusterer.grouped:
            asks = [f"the index {index.name!r}" for index in self.indices if index.grouped] or ['Panel(of="clusters")']
            kind, needed = type(self.clusterer).__name__, "a clusterer with several prototypes per cluster"
            raise ValueError(f"Pipeline(clusterer={kind}): {asks[0]} needs {needed}, such as MergeSplit")
        known = [index.name for index in self.indices] + ([] if self.clusterer is None else [SURPRISE])
        if not isinstance(self.monitors, Mapping):
            raise ValueError("Pipeline(monitors=…): expected a dictionary, such as {'xb': Distress()}")
        monitors = FrozenDict({name: _named(monitor, name) for name, monitor in self.monitors.items()})
        if self.clusterer is None and not monitors:
            raise ValueError("Pipeline(clusterer=None): nothing to do; give a clusterer, or monitors of samples")
        for monitor in monitors.values():
            for name in monitor.watched:
                if name not in known:
                    choice = ", ".join(map(repr, known)) or "none"
                    raise ValueError(
                        f"Pipeline(monitors=…): {monitor.name!r} watches the index {name!r}, and there is {choice}"
                    )
        settle(self, monitors=monitors)
        for index in self.indices:
            for message in index.cautions(1.0 if self.panel is None else self.panel.forgetting, self.slots):
                warnings.warn(message, stacklevel=3)

    @property
    def indices(self) -> tuple[Index, ...]:
        """The indices of the panel; none without one."""
        return () if self.panel is None else self.panel.indices

    @property
    def slots(self) -> int:
        """The number of slots of the clusterer; 0 without one."""
        return 0 if self.clusterer is None else self.clusterer.slots

    @property
    def by_column(self) -> bool:
        """Whether rows with missing values count for their other columns, as monitors of samples need.

        This decides which value may be the origin of a column. Without such monitors a row with a missing value changes
        nothing.
        """
        return any(isinstance(monitor, SampleMonitor) for monitor in self.monitors.values())

    def within(self, budget: Budget) -> Pipeline:
        """This pipeline with the budget of false alarms shared among the monitors that take a rate."""
        return changed(self, monitors=budget.over(self.monitors))

    def least(self, features: int) -> int:
        """The fewest samples a stream must have for the clusterer to start."""
        return 1 if self.clusterer is None else self.clusterer.least(features)

    def init(
        self, features: int, streams: tuple[int, ...] = (), xp: Namespace = jnp, dtype: DType | None = None
    ) -> PipelineState:
        """The state before any sample.

        Parameters
        ----------
        features : p, the number of features.
        streams : shape of the fleet, `()` for one stream; these are the last axes of all arrays.
        xp : the array library, such as `jax.numpy` or `numpy`.
        dtype : defaults to the library's default float.
        """
        whole("Pipeline.init", "features", features)
        xp, dtype, streams = layout(xp, dtype, streams)
        start = Kept(
            anchor=no_anchor(features, streams, xp, dtype),
            missing=xp.zeros(streams, dtype=xp.int32),
            scaler=None if self.standardize is None else self.standardize.init(features, streams, xp, dtype),
            clusterer=None if self.clusterer is None else self.clusterer.init(features, streams, xp, dtype),
            statistics={} if self.panel is None else self.panel.start(self.slots, features, streams, xp, dtype),
            monitors={
                name: monitor.init(features, streams, xp, dtype)
                if isinstance(monitor, SampleMonitor)
                else monitor.init(streams, xp, dtype)
                for name, monitor in self.monitors.items()
            },
        )
        return self.restored(start)

    def restored(self, kept: Kept) -> PipelineState:
        """The state of which `kept` is what must be remembered."""
        if self.clusterer is None:
            return kept.state(_nowhere(kept.anchor.high))
        return kept.state(self.clusterer.prototypes(kept.clusterer))

    def step(self, state: PipelineState, x: Array, elapsed: Array | None = None) -> tuple[PipelineState, Reading]:
        """Process one sample `x` (p, *streams).

        If it is not finite, it is missing: nothing changes, except that monitors of samples use the columns with
        values. `elapsed` is the time since the last sample seen; the panel's forgetting is per unit of this time. If it
        is negative or not finite, the sample is missing.
        """
        xp, high = namespace(state.anchor.high), state.anchor.high
        x = xp.asarray(x, dtype=high.dtype)
        if tuple(x.shape) != tuple(high.shape):
            raise ValueError(f"Pipeline.step(x=…): expected shape {tuple(high.shape)}, got {tuple(x.shape)}")
        fit = usable(x)
        anchor = set_anchor(state.anchor, x, fit if self.by_column else fit & xp.all(fit, axis=0))
        state = state._replace(panel=state.panel._replace(anchor=anchor))
        state, reading = self.advance(state, about(anchor, x), elapsed)
        return state, reading._replace(centers=back(anchor, reading.centers))

    def advance(self, state: PipelineState, z: Array, elapsed: Array | None = None) -> tuple[PipelineState, Reading]:
        """`step` for a sample `z` relative to the anchor of the state; centres in the reading are relative to it
        too."""
        xp = namespace(z)
        here = usable(z)
        raw = xp.where(here, z, xp.zeros_like(z))
        seen = xp.all(here, axis=0) & punctual(elapsed, z)
        x = xp.where(seen, raw, xp.zeros_like(z))
        scaler = state.scaler
        if self.standardize is not None and scaler is not None:
            scaler, x = self.standardize.step(scaler, x, seen)
        clusterer, event = state.clusterer, _nothing(x, seen)
        if self.clusterer is not None:
            clusterer, event = self.clusterer.step(state.clusterer, x, seen)
        if self.panel is None or self.clusterer is None:
            panel, values = state.panel.after(event), dict[str, Array]()
        else:
            panel, values = self.panel.observe(state.panel, event, elapsed, self.clusterer.crisp)
        shown, centers = event.shown, event.after.centers
        if shown is None:
            raise TypeError(f"{type(self.clusterer).__name__}.step: the event must have `shown`, which readings show")
        monitors, alarms = self._watch(state.monitors, raw, here, values, shown, seen)
        if self.standardize is not None and scaler is not None:
            centers = self.standardize.restore(scaler, centers)
        centers = xp.where(event.after.active[:, None, ...], centers, xp.full_like(centers, xp.nan))
        return PipelineState(panel, scaler, clusterer, monitors), Reading(
            values,
            shown.label,
            event.u,
            shown.k,
            centers,
            seen,
            shown.outlier,
            shown.overflow,
            alarms,
            shown.cluster,
            shown.surprise,
        )

    def _watch(
        self,
        states: Mapping[str, State],
        raw: Array,
        here: Array,
        values: Mapping[str, Array],
        shown: Shown,
        seen: Array,
    ) -> tuple[dict[str, State], dict[str, Alarm]]:
        """The states and alarms of all monitors after one sample."""
        heard = {index.name: Heard(values[index.name], index.goal, index.positive, seen) for index in self.indices}
        heard[SURPRISE] = Heard(shown.surprise, "min", True, seen)
        new, alarms = dict[str, State](), dict[str, Alarm]()
        for name, monitor in self.monitors.items():
            mine = {index: heard[index] for index in monitor.watched}
            if monitor.needs_company:
                company = seen & (shown.k > 1)
                mine = {n: h if n == SURPRISE else h._replace(seen=company) for n, h in mine.items()}
            if isinstance(monitor, SampleMonitor):
                new[name], alarms[name] = monitor.step(states[name], raw, here, mine)
            else:
                (one,) = mine.values()
                new[name], alarms[name] = monitor.step(states[name], one.value, one.seen, one.goal, one.positive)
        return new, alarms


def _named(monitor: Monitor | SampleMonitor, name: str) -> Monitor | SampleMonitor:
    """The monitor with the name of its alarm; it watches the index with that name, unless it has another."""
    if isinstance(monitor, Monitor):
        return changed(monitor, name=name, index=monitor.index or name)
    return changed(monitor, name=name)


def _nothing(x: Array, seen: Array) -> Event:
    """The event of a sample without a clusterer."""
    xp, u, none = namespace(x), x[:0, ...], _nowhere(x)
    minus, off = xp.full_like(x[0, ...], -1, dtype=xp.int32), xp.zeros_like(seen)
    shown = Shown(minus, xp.zeros_like(minus), off, off, minus, xp.full_like(x[0, ...], xp.nan))
    return Event(x, u, none, none, seen, off, shown)


def _nowhere(x: Array) -> Prototypes:
    """No slots, of the features and streams of `x` (p, *streams)."""
    none = x[:0, ...]
    return Prototypes(none[:, None, ...] + x[None, ...], none > 0)
