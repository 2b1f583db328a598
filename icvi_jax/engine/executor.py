"""The executor: the states of many streams on the host's side, and the compiled step that advances them.

`run`, `run_fleet` and `Live` stand on it. The step is native code on the cores of this machine, which `validate` runs
too, or what XLA runs on JAX's devices (`icvi_jax.engine.xla`). Where JAX sees a GPU or TPU, a fleet that is large
enough goes there. `ICVI_BACKEND`, for debugging, forces native code or XLA.
"""

from __future__ import annotations

import copy
import os
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import jax
import numpy as np
from jax.sharding import Mesh

from icvi_jax.engine.lowering.graph import Unsupported
from icvi_jax.engine.native.build import LANES
from icvi_jax.engine.native.program import Program, Ticker, compile_step
from icvi_jax.engine.scan import AsOneOfMany, PipelineStep
from icvi_jax.engine.xla import Done, RunInput, Step, XlaScan, map_own, place, precise, run_on_devices
from icvi_jax.origin import Origin, no_anchor
from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.types import Alarm, Reading, State

ENGINES = ("native", "xla")

FEWEST = 1024
"""Fewer streams than this, in the memory of the host, stay there: a GPU takes as long for one as for thousands. The
variable `ICVI_GPU_STREAMS` sets another number."""

PROGRAMS = 256
"""So many programs are remembered; the one that was not used for longest goes first."""

_programs: OrderedDict[tuple[object, ...], Program | None] = OrderedDict()


def forced() -> str | None:
    """The engine that `ICVI_BACKEND` names, or None."""
    name = os.environ.get("ICVI_BACKEND", "")
    if name and name not in ENGINES:
        raise ValueError(f"ICVI_BACKEND={name}: choose one of {', '.join(ENGINES)}, or leave it unset")
    return name or None


def native_code(
    step: Step,
    model: object,
    state: object,
    dtype: np.dtype,
    features: int,
    timed: bool = False,
    alone: bool = False,
    own: tuple[bool, ...] = (),
) -> Program | None:
    """Native code of a step, made once for all models that differ in their numbers only; None: XLA is to run it.

    Of the state, which is that of one stream, shapes and types matter. Samples are `timed` where they come with the
    time since the one before. For one stream, `alone`, there is special code. Leaves of the model are each stream's
    `own`, or none is.
    """
    if (engine := forced()) == "xla":
        return None
    numbers, structure = jax.tree.flatten(model)
    shapes = tuple((np.shape(a), np.asarray(a).dtype.kind) for a in numbers)
    form = tuple((a.shape, a.dtype) for a in jax.tree.leaves(state)), jax.tree.structure(state)
    key = (engine, step, structure, shapes, form, dtype, features, timed, alone, own)
    if key not in _programs:
        made: Program | None = None
        try:
            with precise(dtype):  # as a fleet of one: each pair of clusters once, which is less to do
                lanes, one = 1 if alone else None, AsOneOfMany(step)
                made = compile_step(one, model, state, features, dtype, timed, lanes, own=own)
        except ImportError as missing:
            if engine == "native":
                raise ValueError(f"ICVI_BACKEND=native: {missing.name} is not installed here") from None
        except Unsupported as problem:
            if engine == "native":
                raise ValueError(f"ICVI_BACKEND=native: {problem}") from None
            warnings.warn(f"{problem}; XLA runs this step, which is slower", RuntimeWarning, stacklevel=4)
        _programs[key] = made  # not before: another thread may ask meanwhile
        if len(_programs) > PROGRAMS:
            _programs.popitem(last=False)
    _programs.move_to_end(key)
    return _programs[key]


def devices_for(streams: int) -> Mesh | None:
    """The GPUs or TPUs for so many streams of the host, or None if they are too few."""
    if forced() is not None or jax.devices()[0].platform == "cpu":
        return None
    fewest = os.environ.get("ICVI_GPU_STREAMS", "") or str(FEWEST)
    if not fewest.isdecimal():
        raise ValueError(f"ICVI_GPU_STREAMS={fewest}: how many streams are worth a GPU, such as {FEWEST}; 0 for any")
    return Mesh(np.array(jax.local_devices()), ("streams",)) if streams >= int(fewest) else None


PIECE = 2**21
"""Stream-samples between two calls of `progress`."""


def run_natively(
    code: Program, words: np.ndarray, numbers: np.ndarray, feed: RunInput, done: Done | None = None
) -> State:
    """The outputs (N, rows, …) for samples; the words are changed where they are."""
    (N, T, _), X, elapsed = feed.X.shape, feed.X, feed.elapsed
    if X.dtype == np.float32 and (feed.origin.astype(np.float32) != feed.origin).any():
        X = X.astype(np.float64)  # the origin has more digits than these samples
    elapsed = None if elapsed is None else np.ascontiguousarray(elapsed, code.layout.dtype)
    out, origin, every = code.outputs(N, feed.rows), feed.origin, feed.every
    feed = feed._replace(X=X, elapsed=elapsed)
    for piece, rows in feed.pieces(T if done is None else max(1, PIECE // N)):
        part = out if piece is feed else [a[:, rows] for a in out]
        X, gaps, phase = piece.X, piece.elapsed, piece.phase
        code.run(words, numbers, X, origin=origin, elapsed=gaps, every=every, phase=phase, out=part)
        if done is not None:
            done(N * X.shape[1])
    return code.tree(out)


SETS = 2 if sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)() else 0
"""Sets of arrays that are handed out: one is being read while the next is written. Without exact counts, none."""


class _Set(NamedTuple):
    """The arrays of a reading, and how they are filled."""

    arrays: list[np.ndarray]
    free: list[int]  # the references to each when nobody else has any
    fill: Callable[[], None]
    ticker: Ticker  # holds the memory that addresses point to; the sample goes to its `x`


class Ticks:
    """Readings of one tick after the other; the words are changed where they are.

    The origin (N, p), float64, does not change any more. Samples of the type `taken` are handed to the code as `dtype`.
    """

    def __init__(
        self,
        code: Program,
        numbers: np.ndarray,
        words: np.ndarray,
        origin: np.ndarray,
        taken: np.dtype,
        dtype: np.dtype,
    ) -> None:
        form = code.tree(range(len(code.layout.outputs)))
        shown = np.dtype(np.float64) if taken == np.float64 else code.layout.dtype
        self._assemble = _assembler(form)
        self._sets: list[_Set] = []
        self._spare: _Set | None = None

        def new() -> _Set:
            arrays = [a[:, 0] for a in code.outputs(len(origin), 1)]
            for i in code.layout.still:
                arrays[i].flags.writeable = False  # no code would write it again, should a reader have changed it
            ticker = code.ticker(words, numbers, len(origin), dtype, origin, [a[:, None] for a in arrays])
            if (i := form.centers) is None:
                return _Set(arrays, list(map(sys.getrefcount, arrays)), ticker.tick, ticker)
            # the origin is written out for every slot: a sum of long rows is quicker than many short ones
            about, back = arrays[i], np.repeat(origin[:, None, :], arrays[i].shape[1], axis=1)
            arrays[i] = centers = np.zeros(about.shape, shown)

            def fill() -> None:
                ticker.tick()
                np.add(about, back, out=centers, casting="same_kind")

            return _Set(arrays, list(map(sys.getrefcount, arrays)), fill, ticker)

        self._new = new

    def __call__(self, x: np.ndarray) -> Reading:
        """The reading of x (N, p), in arrays of its own that lead with (N,)."""
        for arrays, free, fill, ticker in self._sets:
            if list(map(sys.getrefcount, arrays)) == free:
                ticker.x[...] = x
                fill()
                return self._assemble(arrays)
        if len(self._sets) < SETS:
            self._sets.append(self._new())
            return self(x)
        self._spare = self._spare or self._new()
        self._spare.ticker.x[...] = x
        self._spare.fill()
        return self._assemble([a.copy() for a in self._spare.arrays])


def _assembler(form: Reading) -> Callable[[list[np.ndarray]], Reading]:
    """A function from a list of arrays to the reading: its text says which goes where, so that nothing is looked up."""

    def text(part: object) -> str:
        if isinstance(part, (Reading, Alarm)):
            return f"{type(part).__name__}({', '.join(text(item) for item in part)})"
        if isinstance(part, dict):
            return "{" + ", ".join(f"{name!r}: {text(item)}" for name, item in part.items()) + "}"
        return "None" if part is None else f"a[{part}]"

    made: Callable[[list[np.ndarray]], Reading] = eval(f"lambda a: {text(form)}", {"Reading": Reading, "Alarm": Alarm})
    return made


class Engine:
    """The states of many streams.

    The program works on coordinates relative to the origin of each stream; origins are kept in double precision. The
    state (…, N), of NumPy arrays, is not consumed. Without a mesh, whose axis is "streams", a fleet that is large
    enough goes to the GPUs or TPUs of JAX, any other to the cores of this machine. `quick` has functions that process
    one sample of every stream, by its type; it is empty until `tick` has seen every column.
    """

    def __init__(
        self, pipe: Pipeline, state: PipelineState, keep: tuple[str, ...], room: int = 0, mesh: Mesh | None = None
    ) -> None:
        engine = forced()
        if engine == "native" and mesh is not None:
            raise ValueError("ICVI_BACKEND=native: it runs on this machine's cores, not on JAX's devices of a mesh")
        # decided once: streams that join later do not move the others to another device, where last bits differ
        mesh = devices_for(max(room, state.anchor.high.shape[-1])) if mesh is None else mesh
        known = mesh is not None and engine is None and mesh.devices.flat[0].platform in ("cpu", "gpu", "cuda")
        self._pipe, self._step = pipe, PipelineStep(keep, relative=True)
        self._how = XlaScan(self._step, mesh, implementation=None if known else "xla")
        self._phase, self._timed = 0, False
        self.place(state, room)

    def place(self, state: PipelineState, room: int = 0) -> None:
        """Set the streams, with room for `room` of them."""
        self.features, self.streams = state.anchor.high.shape
        self._origin, self._room = Origin(state.anchor, self._pipe.by_column), max(room, self.streams)
        none: State = None  # the host keeps the origins, in double precision: `Pipeline.advance` does not read them
        rest, pipe, dtype, alone = state._replace(anchor=none), self._pipe, self._origin.dtype, self._room == 1
        one = jax.tree.map(lambda a: np.empty(a.shape[:-1], a.dtype), rest)
        own = numbers_each("Live", pipe, self.streams)
        model = map_own(lambda a: np.asarray(a)[0], own, pipe) if own else pipe
        self.quick: dict[np.dtype, Ticks] = {}
        self.code: Program | None = None
        if self._how.mesh is None:
            self.code = native_code(self._step, model, one, dtype, self.features, self._timed, alone, own)
        if self.code is None:
            self._how = self._how._replace(own=own)
            self._words: State = place(rest, self._room, self._how.mesh, dtype)
        else:
            leaves = zip(jax.tree.leaves(pipe), own) if own else ()
            self._own, self._words = own, self.code.words(rest, [np.asarray(a) for a, mine in leaves if mine])

    def again(self, streams: int) -> Engine:
        """The same for so many streams, all of them as the first of these, which must be new; of native code only."""
        assert self.code is not None
        new = copy.copy(self)
        new._origin = Origin(no_anchor(self.features, (streams,), np, self._origin.dtype), self._pipe.by_column)
        new.streams = new._room = streams
        new._words, new.quick = self.code.repeated(self._words, streams), {}
        return new

    def end(self) -> PipelineState:
        """The states of all streams, which may be views: for an engine that is not used any more."""
        if self.code is not None:
            rest = self.code.state(self._words, self.streams)
        else:
            rest = jax.tree.map(lambda a: np.array(a)[..., : self.streams], self._words)
        found: PipelineState = rest._replace(anchor=self._origin.anchor)
        return found

    def tick(self, x: np.ndarray) -> Reading:
        """Process one sample x (N, p) of every stream; the first axis of the reading is (N,)."""
        self._origin.meet(x[:, None])
        if self._timed or not self._origin.settled or self.code is None:
            first: Reading = jax.tree.map(lambda a: a[:, 0], self.advance(x[:, None]))
            return first
        dtype = x.dtype if self._origin.fits(x.dtype) else np.dtype(np.float64)
        numbers = shared_numbers(self.code, self._pipe, self._own)
        self.quick[x.dtype] = Ticks(self.code, numbers, self._words, self._origin.value, x.dtype, dtype)
        return self.quick[x.dtype](x)

    def advance(
        self, X: np.ndarray, elapsed: np.ndarray | None = None, every: int = 1, done: Done | None = None
    ) -> Reading:
        """Take in X (N, t, p), with elapsed (t,) or (N, t); the readings (N, rows, …) of each `every`-th sample."""
        if self._timed != (elapsed is not None):
            self._timed = not self._timed
            self.place(self.end(), self._room)
        self._origin.meet(X)
        reading: Reading
        feed = RunInput(X, self._origin.value, elapsed, every, self._phase)
        if self.code is None:
            dtype = self._origin.dtype
            self._words, reading = run_on_devices(self._how, self._pipe, self._words, feed, dtype, done)
        else:
            numbers = shared_numbers(self.code, self._pipe, self._own)
            reading = run_natively(self.code, self._words, numbers, feed, done)
        self._phase = (self._phase + X.shape[1]) % every
        if reading.centers is None:
            return reading
        return reading._replace(centers=self._origin.back(np.asarray(reading.centers), X.dtype))


def numbers_each(caller: str, pipe: Pipeline, streams: int) -> tuple[bool, ...]:
    """Which leaves of the pipeline are numbers for each stream, (N,); empty where none is."""
    shapes = [np.shape(a) for a in jax.tree.leaves(pipe)]
    for shape in shapes:
        if len(shape) == 1 and shape != (streams,):
            raise ValueError(f"{caller}(pipe=…): a number for each stream has the shape ({streams},), got {shape}")
    each = tuple(len(shape) == 1 for shape in shapes)
    return each if any(each) else ()


def fixed(leaves: Sequence[object]) -> bool:
    """Whether these are Python's numbers: arrays may be changed where they are."""
    return all(isinstance(leaf, (bool, int, float)) for leaf in leaves)


_numbers: WeakKeyDictionary[Program, tuple[Pipeline, np.ndarray]] = WeakKeyDictionary()


def shared_numbers(code: Program, pipe: Pipeline, own: tuple[bool, ...]) -> np.ndarray:
    """The numbers that all streams share; remembered for the pipeline that was run last."""
    if (known := _numbers.get(code)) is not None and known[0] is pipe:
        return known[1]
    leaves = jax.tree.leaves(pipe)
    made = code.numbers([a for a, mine in zip(leaves, own) if not mine] if own else leaves)
    if fixed(leaves):
        _numbers[code] = pipe, made
    return made


BEGUN = 16
"""So many engines of new streams are remembered: of the same pipeline the next takes no time to make."""

_begun: OrderedDict[tuple[object, ...], tuple[Pipeline, Engine]] = OrderedDict()


def begin(
    pipe: Pipeline, features: int, streams: int, dtype: np.dtype, keep: tuple[str, ...], mesh: Mesh | None
) -> Engine:
    """An engine of new streams."""
    key = id(pipe), features, streams == 1, dtype, keep, forced(), os.environ.get(LANES)
    where = devices_for(streams) if mesh is None else mesh
    if where is None and (known := _begun.get(key)) is not None:
        return known[1].again(streams)
    engine = Engine(pipe, fresh(pipe, features, streams, dtype), keep, mesh=mesh)
    if where is None and engine.code is not None and fixed(jax.tree.leaves(pipe)):
        _begun[key] = pipe, engine.again(1)  # the pipeline is kept, so that no other gets its id
        if len(_begun) > BEGUN:
            _begun.popitem(last=False)
    return engine


def fresh(pipe: Pipeline, features: int, streams: int, dtype: np.dtype) -> PipelineState:
    """States of new streams, (…, N), in NumPy: N times the same, stored once."""
    one = pipe.init(features, (1,), xp=np, dtype=dtype)
    all_: PipelineState = jax.tree.map(lambda a: np.broadcast_to(a, (*a.shape[:-1], streams)), one)
    return all_
