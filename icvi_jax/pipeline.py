"""Pipeline: a pure step from a sample to a reading."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from icvi_jax import error_code_filter as gate
from icvi_jax.clusterers import Clusterer
from icvi_jax.clusterers.base import prototypes_of
from icvi_jax.indices import Index
from icvi_jax.monitors import Budget, IndexValue, Monitor, SampleMonitor
from icvi_jax.monitors.base import Listener
from icvi_jax.monitors.budget import rate_of
from icvi_jax.monitors.change_v1 import FirstState
from icvi_jax.numerics.arrays import advance, namespace, usable
from icvi_jax.origin import Anchor, about, back, no_anchor, set_anchor
from icvi_jax.panel import Panel, PanelState, layout, own_arrays, punctual
from icvi_jax.spec import FrozenDict, changed, made, settle, spec, static, whole
from icvi_jax.standardize import Standardize
from icvi_jax.statistics.index_view import Memo, empty_memo
from icvi_jax.types import Alarm, Array, Diagnostics, DType, Event, Namespace, Prototypes, Reading, State

SURPRISE = "surprise"
"""The name with which monitors watch the squared distance of a sample from the nearest centre."""


class PipelineState(NamedTuple):
    """The state of a pipeline: all that the next step reads, and nothing twice. Its size does not grow with the stream.

    Attributes
    ----------
    anchor : the first usable value of each column, subtracted from all coordinates.
    missing : (*streams), samples that were not usable.
    scaler : state of `Standardize`, or None.
    clusterer : state of the clusterer, or None. The centres are here only: `panel` asks it for them.
    statistics : states by name of the statistic.
    monitors : states of the monitors by name.
    kept : what indices computed for pairs of slots, by name: of a clusterer that is `local`, most of it holds at the
        next step too. It follows from the rest; see `Pipeline.recalled`.
    gate : what was seen, to tell error codes by; None without a gate.

    Examples
    --------
    >>> import numpy as np, icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    >>> state = pipe.init(features=2, xp=np)
    >>> sorted(state.panel.statistics), state.panel.prototypes.centers.shape
    (['count', 'dispersion', 'separation'], (2, 2))
    """

    anchor: Anchor
    missing: Array
    scaler: State | None
    clusterer: State | None
    statistics: dict[str, State]
    monitors: dict[str, State]
    kept: dict[str, Array]
    gate: gate.GateState | None = None

    @property
    def panel(self) -> PanelState:
        """State of the panel, for `icvi_jax.explain` and the functions of a panel.

        A pipeline without a panel has one without statistics; without a clusterer it has no slots.
        """
        there = _nowhere(self.anchor.high) if self.clusterer is None else prototypes_of(self.clusterer)
        return PanelState(self.anchor, self.missing, there, self.statistics)


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
    gate : whether rows with an error code (`error_code_filter.py`) are missing for all but monitors of samples. None:
        where a monitor promises a rate of false alarms of an index.

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
    gate: bool | None = static(None)

    def __post_init__(self) -> None:
        for field, kind, example in (
            ("clusterer", Clusterer, "icvi.SequentialKMeans(k=3)"),
            ("panel", Panel, "icvi.Panel(indices=(icvi.XieBeni(),))"),
            ("standardize", Standardize, "icvi.Standardize(), or None"),
        ):
            if (part := getattr(self, field)) is not None:
                made("Pipeline", field, part, kind, example)
        if self.panel is not None and self.clusterer is None:
            raise ValueError("Pipeline(clusterer=None): a panel needs a clusterer; give one, or also panel=None")
        if self.panel is not None and self.panel.grouped and self.clusterer is not None and not self.clusterer.grouped:
            asks = [f"the index {index.name!r}" for index in self.indices if index.grouped] or ['Panel(of="clusters")']
            needed = "a clusterer with several prototypes per cluster, such as MergeSplit"
            raise ValueError(f"Pipeline(clusterer={type(self.clusterer).__name__}): {asks[0]} needs {needed}")
        if getattr(type(self.clusterer), "prototypes", None) is not None:  # a method, as it was before 0.3
            name, wanted = type(self.clusterer).__name__, "make `prototypes` a property of its state, not a method here"
            raise ValueError(f"Pipeline(clusterer={name}): {wanted}")
        known = [index.name for index in self.indices] + ([] if self.clusterer is None else [SURPRISE])
        if not isinstance(self.monitors, Mapping):
            raise ValueError("Pipeline(monitors=…): expected a dictionary, such as {'xb': Distress()}")
        for name, monitor in self.monitors.items():
            made("Pipeline", f"monitors={{{name!r}: …}}", monitor, Listener, "icvi.Change() or icvi.Distress()")
        monitors = FrozenDict({name: _named(monitor, name) for name, monitor in self.monitors.items()})
        if self.clusterer is None and not monitors:
            raise ValueError("Pipeline(clusterer=None): nothing to do; give a clusterer, or monitors of samples")
        for monitor in monitors.values():
            for name in monitor.watched:
                if name not in known:
                    why = f"watches the index {name!r}, and there is {', '.join(map(repr, known)) or 'none'}"
                    raise ValueError(f"Pipeline(monitors=…): {monitor.name!r} {why}")
            signed = [one.name for one in self.indices if one.name in monitor.watched and not one.positive]
            if signed and monitor.by_logarithm:
                why = f"{signed[0]!r} may be negative: no logarithm; watch it with Distress"
                raise ValueError(f"Pipeline(monitors=…): {type(monitor).__name__}(indices=…): {why}")
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

    @property
    def gated(self) -> bool:
        """Whether rows with an error code are held back.

        A learned threshold is blind for thousands of rows after one. Surprise is for lone values far from all others.
        """
        if self.gate is not None:
            return self.gate
        learned = [one for one in self.monitors.values() if isinstance(one, Monitor) and rate_of(one) is not None]
        return any(one.index != SURPRISE for one in learned)

    def within(self, budget: Budget) -> Pipeline:
        """This pipeline with the budget of false alarms shared among the monitors that take a rate."""
        return changed(self, monitors=budget.over(self.monitors))

    def continuing(self, state: PipelineState) -> Pipeline:
        """This pipeline as a state goes on with it: a `Change` that was begun by version 1 stays version 1."""
        first = {name for name, one in state.monitors.items() if isinstance(one, FirstState)}
        monitors = {n: changed(m, version=1) if n in first else m for n, m in self.monitors.items()}
        return changed(self, monitors=monitors) if first else self

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
        start = PipelineState(
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
            kept=empty_memo(self._kept(features), self.slots, streams, xp, dtype),
            gate=gate.start(features, streams, xp, dtype) if self.gated else None,
        )
        return own_arrays(start, xp)

    def _kept(self, features: int) -> tuple[str, ...]:
        """Names of the values that are cached from step to step."""
        local = self.panel is not None and self.clusterer is not None and self.clusterer.local
        return self.panel.kept(self.slots, features) if local and self.panel is not None else ()

    def recalled(self, state: PipelineState) -> PipelineState:
        """`state` with its cache computed anew from centres and statistics."""
        found = Memo(self._kept(state.anchor.high.shape[0]))
        if self.panel is not None and state.clusterer is not None:
            there = state.panel.prototypes
            self.panel.values(state.statistics, there, namespace(there.active).any(there.active, axis=0), found)
        return state._replace(kept=dict(sorted(found.new.items())))

    @property
    def step(self) -> BoundStep:
        """Process one sample: a pure function (state, x (p, *streams), elapsed=None) → (state, reading).

        It equals that of another pipeline with the same structure and numbers, so that JAX does not trace and compile a
        second `jax.lax.scan(pipe.step, …)` again.

        If a sample is not finite, it is missing: nothing changes, except that monitors of samples use the columns with
        values. `elapsed` is the time since the last sample seen; the panel's forgetting is per unit of this time. If it
        is negative or not finite, the sample is missing.
        """
        step = BoundStep(self)
        return step if any(isinstance(a, jax.core.Tracer) for a in jax.tree.leaves(self)) else _known(step)

    def _step(self, state: PipelineState, x: Array, elapsed: Array | None = None) -> tuple[PipelineState, Reading]:
        xp, high = namespace(state.anchor.high), state.anchor.high
        x = xp.asarray(x, dtype=high.dtype)
        if tuple(x.shape) != tuple(high.shape):
            raise ValueError(f"Pipeline.step(x=…): expected shape {tuple(high.shape)}, got {tuple(x.shape)}")
        anchor = set_anchor(state.anchor, x, by_column=self.by_column)
        try:
            after, reading = self.advance(state._replace(anchor=anchor), about(anchor, x), elapsed)
        except (TypeError, ValueError, KeyError, AttributeError) as problem:
            if wrong := self.misfit(state):
                raise ValueError(f"Pipeline.step(state=…): {wrong}") from problem
            raise
        return after, reading._replace(centers=back(anchor, reading.centers))

    def misfit(self, state: PipelineState) -> str:
        """Why a state is not one of this pipeline; empty if it is."""
        features, *streams = state.anchor.high.shape
        fresh = self.continuing(state).init(features, streams=(0,), xp=np, dtype=np.float32)
        named = jax.tree_util.tree_flatten_with_path
        found = {jax.tree_util.keystr(path): tuple(a.shape) for path, a in named(state)[0]}
        for path, a in named(fresh)[0]:
            name, shape = jax.tree_util.keystr(path), (*a.shape[:-1], *streams)
            if found.pop(name, None) != shape:
                return f"not a state of this pipeline, whose {name} has the shape {shape}"
        return f"not a state of this pipeline, which has no {next(iter(found))}" if found else ""

    def advance(self, state: PipelineState, z: Array, elapsed: Array | None = None) -> tuple[PipelineState, Reading]:
        """`step` for a sample `z` relative to the anchor of the state; centres in the reading are relative to it
        too."""
        xp = namespace(z)
        here = usable(z)
        raw = xp.where(here, z, xp.zeros_like(z))
        seen = xp.all(here, axis=0) & punctual(elapsed, z)
        if state.gate is not None:
            held, seen, anew = gate.step(state.gate, raw, seen)
            state = self._begun(state._replace(gate=held), anew)
        x = xp.where(seen, raw, xp.zeros_like(z))
        scaler = state.scaler
        if self.standardize is not None and scaler is not None:
            scaler, x = self.standardize.step(scaler, x, seen)
        clusterer, event, kept = state.clusterer, _nothing(x, seen), state.kept
        if self.clusterer is not None:
            clusterer, event = self.clusterer.step(state.clusterer, x, seen)
        if self.panel is None or self.clusterer is None:
            missing, statistics, values = advance(state.missing, ~seen), state.statistics, dict[str, Array]()
        else:
            if state.kept and event.moved is None:
                raise TypeError(f"{type(self.clusterer).__name__}.step: it is local, so the event must have `moved`")
            found = Memo(tuple(state.kept), state.kept, event.moved or ())
            panel, values = self.panel.observe(state.panel, event, elapsed, self.clusterer.crisp, found)
            missing, statistics, kept = panel.missing, panel.statistics, dict(sorted(found.new.items()))
        shown, centers = event.shown, event.after.centers
        if shown is None:
            raise TypeError(f"{type(self.clusterer).__name__}.step: the event must have `shown`, which readings show")
        monitors, alarms = self._watch(self._again(state.monitors, event), raw, here, values, shown, seen)
        if self.standardize is not None and scaler is not None:
            centers = self.standardize.restore(scaler, centers)
        centers = xp.where(event.after.active[:, None, ...], centers, xp.full_like(centers, xp.nan))
        new = PipelineState(state.anchor, missing, scaler, clusterer, statistics, monitors, kept, state.gate)
        told = shown._asdict()
        return new, Reading(values=values, u=event.u, centers=centers, seen=seen, alarms=alarms, **told)

    def _begun(self, state: PipelineState, anew: Array) -> PipelineState:
        """The state with all that index values come from as it is before any sample, where that is asked for."""
        like = state.missing if state.gate is None else state.gate.low
        fresh = self.init(like.shape[0], tuple(like.shape[1:]), namespace(like), like.dtype)
        own = {name for name, monitor in self.monitors.items() if isinstance(monitor, SampleMonitor)}
        fresh = fresh._replace(
            anchor=state.anchor,
            missing=state.missing,
            monitors={name: state.monitors[name] if name in own else one for name, one in fresh.monitors.items()},
            gate=state.gate,
        )
        begun: PipelineState = jax.tree.map(
            lambda old, new: old if new is old else namespace(old).where(anew, new, old), state, fresh
        )
        return begun

    def _again(self, states: Mapping[str, State], event: Event) -> Mapping[str, State]:
        """The states of monitors, which hear that an index begins again where all its clusters are replaced."""
        if event.born is None:
            return states
        xp, active = namespace(event.x), event.after.active
        replaced = xp.any(active, axis=0) & xp.all(event.born | ~active, axis=0)
        return {
            name: monitor.again(states[name], replaced) if isinstance(monitor, Monitor) else states[name]
            for name, monitor in self.monitors.items()
        }

    def _watch(
        self,
        states: Mapping[str, State],
        raw: Array,
        here: Array,
        values: Mapping[str, Array],
        shown: Diagnostics,
        seen: Array,
    ) -> tuple[dict[str, State], dict[str, Alarm]]:
        """The states and alarms of all monitors after one sample."""
        heard = {index.name: IndexValue(values[index.name], index.goal, index.positive, seen) for index in self.indices}
        heard[SURPRISE] = IndexValue(shown.surprise, "min", True, seen)
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


class BoundStep:
    """The step of a pipeline, a function that is compared by the structure and the numbers of the pipeline."""

    def __init__(self, pipe: Pipeline) -> None:
        leaves, structure = jax.tree.flatten(pipe)
        # Arrays, which may be on a device or traced, are told apart by what they are, not by their values.
        self._key = structure, *((type(a), a if isinstance(a, (int, float)) else id(a)) for a in leaves)
        self._pipe = pipe

    def __call__(self, state: PipelineState, x: Array, elapsed: Array | None = None) -> tuple[PipelineState, Reading]:
        """The state and the reading after one sample `x` (p, *streams)."""
        return self._pipe._step(state, x, elapsed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoundStep) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@lru_cache(maxsize=64)
def _known(step: BoundStep) -> BoundStep:
    """The same object for equal steps: JAX holds what it compiled for a function only as long as that lives."""
    return step


def _named(monitor: Monitor | SampleMonitor, name: str) -> Monitor | SampleMonitor:
    """The monitor with the name of its alarm; it watches the index with that name, unless it has another."""
    if isinstance(monitor, Monitor):
        return changed(monitor, name=name, index=monitor.index or name)
    return changed(monitor, name=name)


def _nothing(x: Array, seen: Array) -> Event:
    """The event of a sample without a clusterer."""
    xp, u, none = namespace(x), x[:0, ...], _nowhere(x)
    minus, off = xp.full_like(x[0, ...], -1, dtype=xp.int32), xp.zeros_like(seen)
    shown = Diagnostics(minus, xp.zeros_like(minus), off, off, minus, xp.full_like(x[0, ...], xp.nan))
    return Event(x, u, none, none, seen, off, shown)


def _nowhere(x: Array) -> Prototypes:
    """No slots, of the features and streams of `x` (p, *streams)."""
    none = x[:0, ...]
    return Prototypes(none[:, None, ...] + x[None, ...], none > 0)
