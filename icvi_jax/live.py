"""Live: a fleet of streams, tick by tick, in one process; streams may be added and removed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh
from numpy import ndarray

from icvi_jax import checkpoint
from icvi_jax.engine import inputs
from icvi_jax.engine.executor import Engine, fresh
from icvi_jax.monitors import Budget
from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.run import share_budget
from icvi_jax.spec import whole
from icvi_jax.types import Array, Reading


class Live:
    """A fleet of live streams: one call per tick, one compiled program.

    Rows of samples and of readings are in the order of `names`. Samples may always be float64: the first value of each
    column is subtracted before they are rounded to the type of the state. The bits of a stream do not depend on
    restarts, on `tick` or `tick_many`, or on the other streams.

    Parameters
    ----------
    pipe : the pipeline.
    features : p, the number of features.
    streams : how many streams (their names are "0", "1", …), or their names; a string is one name.
    dtype : floating type of state and readings; by default float32, or float64 with `jax_enable_x64`.
    keep : fields of the reading to return; the others are None and cost nothing.
    capacity : room for at least this many streams: until there are more, an engine that compiles for a number of
        streams (XLA) does so once.
    devices : where to run; by default the cores of this machine.
    false_alarms, interval : as for `run_fleet`, over the present streams, or over `capacity` if given; further streams
        add their own, and `budget` says what to expect. `load` takes `live.pipe`: `Pipeline.within` makes it.

    Attributes
    ----------
    names : tuple of the streams' names, in the order of rows.
    capacity : room for so many streams, a power of two.
    features : p.
    positions : (N,) integers: how many samples each stream had, with missing ones, or the last offset given.
    extra : as given to `save`, if this fleet was loaded, or None.

    Examples
    --------
    >>> import numpy as np, icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    >>> live = icvi.Live(pipe, features=1, streams=["roof", "cellar"])
    >>> for roof, cellar in [(0.0, 1.0), (4.0, np.nan), (1.0, 2.0)]:
    ...     reading = live.tick([[roof], [cellar]])
    >>> reading.label.tolist(), reading.seen.tolist(), live.positions.tolist()
    ([0, 1], [True, True], [3, 3])
    """

    def __init__(
        self,
        pipe: Pipeline,
        features: int,
        streams: int | str | Sequence[str],
        dtype: type | str | np.dtype | None = None,
        keep: tuple[str, ...] = inputs.FIELDS,
        capacity: int | None = None,
        devices: Sequence[jax.Device] | None = None,
        false_alarms: str | Budget | None = None,
        interval: float | None = None,
    ) -> None:
        whole("Live", "features", features)
        if isinstance(streams, (int, float, np.number)):
            whole("Live", "streams", streams, 0)
            streams = [str(i) for i in range(streams)]
        self.features = features
        dtype = np.dtype(dtype or (np.float64 if jax.config.read("jax_enable_x64") else np.float32))
        if dtype not in (np.float32, np.float64):
            raise ValueError(f"Live(dtype={dtype}): expected a type of floats, float32 or float64")
        self._dtype = dtype
        self.names = all_names((), [streams] if isinstance(streams, str) else streams)
        self.extra: Mapping[str, object] | None = None
        pipe, self._budget = share_budget(pipe, false_alarms, max(len(self.names), capacity or 0), interval)
        self.pipe = pipe
        self._shape = len(self.names), features
        self._positions, self._since = np.zeros(len(self.names), np.int64), 0  # and ticks of all streams since then
        mesh = None if devices is None else Mesh(np.array(devices), ("streams",))
        self._writer = ThreadPoolExecutor(1, "icvi checkpoint")
        self._saving: Future[Path] | None = None
        self.capacity = room_for(max(len(self.names), capacity or 0))
        start = fresh(pipe, features, len(self.names), self._dtype)
        self._engine = Engine(pipe, start, inputs.wanted("Live", keep), self.capacity, mesh)

    @property
    def positions(self) -> np.ndarray:
        """The position of each stream: number of samples, or the last offset given."""
        if self._since:
            self._positions, self._since = self._positions + self._since, 0
        return self._positions.copy()

    @property
    def budget(self) -> Budget | None:
        """What to expect of the present streams; None without `false_alarms`."""
        return None if self._budget is None else self._budget.among(len(self.names))

    @property
    def state(self) -> PipelineState:
        """The state of all streams as NumPy arrays (…, N), for `explain` or `run_fleet`; a copy."""
        new: PipelineState = jax.tree.map(np.array, self._engine.end())
        return new

    @state.setter
    def state(self, state: PipelineState) -> None:
        """Go on from this state of the same streams, which is not consumed."""
        found: PipelineState = inputs.on_host(state)
        inputs.own_state("Live", self.pipe, found, self.features, (len(self.names),))
        self._engine.place(found, self.capacity)

    def tick(self, x: Array, offsets: Array | None = None) -> Reading:
        """The reading of one sample of every stream, in NumPy arrays whose first axis is (N,).

        Parameters
        ----------
        x : (N, p). A row that is not finite is absent: its stream does not change.
        offsets : (N,) integers, the new `positions`, such as offsets in a log. None: one more.
        """
        if offsets is None and type(x) is ndarray and x.shape == self._shape:
            quick = self._engine.quick.get(x.dtype)
            if quick is not None:  # nothing to check
                reading = quick(x)
                self._since += 1
                return reading
        rows = self._samples("tick", x)
        if rows.shape != self._shape:
            raise ValueError(f"Live.tick: needs a sample of every stream, {self._shape}, got shape {rows.shape}")
        after = self._after(1, offsets)
        reading, self._positions = self._engine.tick(rows), after
        return reading

    def tick_many(self, X: Array, offsets: Array | None = None) -> Reading:
        """The readings of samples (N, t, p), with the numbers of single ticks and fewer calls; first axes (N, t)."""
        given = self._samples("tick_many", X)
        if given.ndim != 3 or given.shape[::2] != self._shape or given.shape[1] == 0:
            wanted = f"(N, t, p) = ({len(self.names)}, t, {self.features}) with one tick at least"
            raise ValueError(f"Live.tick_many: needs the axes {wanted}, got {given.shape}")
        after = self._after(given.shape[1], offsets)
        readings, self._positions = self._engine.advance(given), after
        return readings

    def add(self, names: str | Iterable[str]) -> None:
        """Add one stream or several after the others, with a new state and position 0."""
        new = all_names(self.names, [names] if isinstance(names, str) else names)  # all or none
        old = len(self.names)
        self._arrange([*range(old), *[-1] * (len(new) - old)], new)

    def retire(self, names: str | Iterable[str]) -> None:
        """Remove one stream or several and their states; the others keep their order."""
        gone = {names} if isinstance(names, str) else set(names)
        for name in sorted(gone.difference(self.names))[:1]:
            raise ValueError(f"Live.retire({name!r}): there is no such stream")
        rows = [row for row, name in enumerate(self.names) if name not in gone]
        self._arrange(rows, tuple(self.names[row] for row in rows))

    def save(self, path: str | os.PathLike[str], extra: Mapping[str, object] | None = None, keep: int = 3) -> Path:
        """Write a checkpoint of all streams with their names and positions; see `icvi_jax.save`."""
        return checkpoint.save(path, self.pipe, self.state, self.positions, self.names, extra, keep, self.capacity)

    def save_beside(
        self, path: str | os.PathLike[str], extra: Mapping[str, object] | None = None, keep: int = 3
    ) -> Future[Path]:
        """Save the present state in the background: this only waits for a copy of the state.

        An earlier save is finished first, and its error is raised here. `result()` of the future waits for this one.
        """
        if self._saving is not None:
            self._saving.result()
        now = self.pipe, self.state, self.positions, self.names, extra, keep, self.capacity
        self._saving = self._writer.submit(checkpoint.save, path, *now)
        return self._saving

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        pipe: Pipeline,
        keep: tuple[str, ...] = inputs.FIELDS,
        devices: Sequence[jax.Device] | None = None,
    ) -> Live:
        """The saved fleet: names, positions, state and capacity, so that it continues bit for bit."""
        found = checkpoint.load_checkpoint(path, pipe, xp=np)
        state = found.state
        if state.anchor.high.ndim != 2:
            raise checkpoint.CheckpointError(f"{found.path}: holds streams {state.anchor.high.shape[1:]}, not a fleet")
        p, n = state.anchor.high.shape
        names = n if found.names is None else found.names
        live = cls(pipe.continuing(state), p, names, state.anchor.high.dtype, keep, found.room, devices)
        live.extra = found.extra
        if found.position is not None:
            live._positions = np.broadcast_to(np.asarray(found.position, np.int64), (n,)).copy()
        live.state = state
        return live

    def _after(self, ticks: int, offsets: Array | None) -> np.ndarray:
        """The positions after so many ticks, or the offsets (N,); no stream may go back."""
        now = self.positions
        if offsets is None:
            return now + ticks
        new = np.asarray(offsets)
        if new.shape != now.shape or new.dtype.kind not in "iu":
            raise ValueError(f"Live(offsets=…): expected one integer per stream, ({len(self.names)},)")
        for row in np.flatnonzero(new < now)[:1]:
            name, here, there = self.names[row], now[row], new[row]
            raise ValueError(f"Live(offsets=…): stream {name!r} is at {here} already and cannot go back to {there}")
        return new.astype(np.int64)

    def _samples(self, caller: str, x: Array) -> np.ndarray:
        if type(x) is ndarray and x.dtype in (np.float32, np.float64):
            return x
        return np.asarray(inputs.given(f"Live.{caller}", x, "numpy").x)

    def _arrange(self, order: Sequence[int], names: tuple[str, ...]) -> None:
        """Make row i of the fleet the old row `order[i]`, or a new stream where that is −1."""
        rows = np.asarray(order, int)
        old, new = np.flatnonzero(rows >= 0), fresh(self.pipe, self.features, len(rows), self._dtype)

        def moved(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            b = np.array(b)
            b[..., old] = a[..., rows[old]]
            return b

        self.capacity = max(self.capacity, room_for(len(names)))
        self._engine.place(jax.tree.map(moved, self.state, new), self.capacity)
        self._positions = np.where(rows < 0, 0, np.append(self.positions, 0)[rows])
        self.names, self._shape = names, (len(names), self.features)


def room_for(streams: int) -> int:
    """The capacity for so many streams: a power of two."""
    return 1 << max(streams - 1, 0).bit_length()


def all_names(old: tuple[str, ...], new: Iterable[str]) -> tuple[str, ...]:
    """The names of a fleet and the new ones; all must be different."""
    names = (*old, *new)
    seen = set(old)
    for name in names[len(old) :]:
        if not isinstance(name, str):
            raise ValueError(f"Live(streams=…): expected strings as names, got {name!r}")
        if name in seen:
            raise ValueError(f"Live(streams=…): two streams have the name {name!r}")
        seen.add(name)
    return names
