"""The scan as one primitive of JAX: `lax.scan` of a step for one stream, and over many of them at once.

Its meaning is `reference`: `lax.scan` under as many `vmap`s as there are axes of streams. On CPUs it is lowered to one
call of native code (`native.ffi`); where another platform has a rule of its own, to that; elsewhere to the reference.
A `vmap` over it only adds an axis of streams: it says where the axis is in each operand and moves nothing.

    operands: numbers…, carry…, xs…        results: carry…, ys…

A platform's rule is registered as `mlir.register_lowering(scan_p, rule, platform=…)`; its parameters are a `Scan`.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.extend.core import ClosedJaxpr, JaxprEqn, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir
from jax.interpreters import partial_eval as pe
from jax.sharding import NamedSharding, PartitionSpec

from icvi_jax.engine.lowering.graph import Unsupported
from icvi_jax.engine.lowering.unroll import Unrolled, unroll_jaxpr
from icvi_jax.engine.native.cuda import call_cuda
from icvi_jax.engine.native.ffi import Stride, Unavailable, describe, register
from icvi_jax.engine.native.program import Program, compile_unrolled
from icvi_jax.engine.native.transpose import AXES
from icvi_jax.types import State

Array = jax.Array

scan_p = Primitive("icvi_scan")
scan_p.multiple_results = True


class Scan(NamedTuple):
    """The parameters of the primitive."""

    body: ClosedJaxpr  # (numbers…, carry…, x…) → (carry…, y…), traced for one stream
    numbers: int  # so many of the operands are numbers
    carry: int  # and so many the carry
    length: int
    reverse: bool = False
    every: int = 1  # each `every`-th of the ys is kept, from the last of the first group on
    streams: tuple[int, ...] = ()  # sizes of the axes of streams, the outermost first
    # for each operand, where each of these axes is in it, or None: all streams along it share the operand
    axes: tuple[tuple[int | None, ...], ...] = ()
    trailing: int = 0  # so many of the innermost axes are the last ones of the results, the others are their first
    # "native" or "cuda": this one or an error; None: the best of the platform; "portable": the best that is in the
    # lowered program itself, for programs that other processes run
    implementation: str | None = None

    @property
    def rows(self) -> int:
        """How many of the ys are kept."""
        return self.length // self.every

    def result_shape(self, i: int) -> tuple[int, ...]:
        """The shape of a result."""
        one = tuple(self.body.out_avals[i].shape)
        one = one if i < self.carry else (self.rows, *one)
        front = len(self.streams) - self.trailing
        return (*self.streams[:front], *one, *self.streams[front:])

    def result_axes(self, i: int) -> tuple[int, ...]:
        """Where the axes of streams are in a result."""
        front, rank = len(self.streams) - self.trailing, len(self.result_shape(i))
        return (*range(front), *range(rank - self.trailing, rank))

    def unroll(self) -> Unrolled:
        """The body as operations on lanes; numbers that each stream has of its own are the last leaves of the state."""
        return _unrolled(self.body, self.numbers, self.carry, self.by_stream)

    @property
    def by_stream(self) -> tuple[bool, ...]:
        """For each of the numbers, whether streams have their own."""
        return tuple(any(axis is not None for axis in axes) for axes in self.axes[: self.numbers])


@lru_cache(maxsize=256)
def _unrolled(body: ClosedJaxpr, numbers: int, carry: int, by_stream: tuple[bool, ...]) -> Unrolled:
    return unroll_jaxpr(body, numbers, carry, by_stream)


def bind(how: Scan, operands: Sequence[Array]) -> list[Array]:
    """Put the operation into whatever is being traced, or run it."""
    how = how._replace(axes=how.axes or ((None,) * len(how.streams),) * len(operands))
    return list(scan_p.bind(*operands, **how._asdict()))


def lax_scan(
    step: Callable[..., tuple[State, State]],
    carry: State,
    xs: State,
    length: int,
    every: int = 1,
    reverse: bool = False,
) -> tuple[State, State]:
    """XLA's loop: `lax.scan` of (carry, x) → (carry, y), of whose ys each `every`-th is kept."""
    if every == 1:
        known = None if jax.tree.leaves(xs) else length  # of samples it may be a symbol of `jax.export`
        return lax.scan(step, carry, xs, known, reverse)
    rows = length // every

    def group(carry: State, xs: State) -> tuple[State, State]:
        carry, ys = lax.scan(step, carry, xs, every)
        return carry, jax.tree.map(lambda y: y[-1], ys)

    groups = jax.tree.map(lambda x: x[: rows * every].reshape(rows, every, *x.shape[1:]), xs)
    carry, ys = lax.scan(group, carry, groups, rows)
    if rest := length - rows * every:
        carry, _ = lax.scan(step, carry, jax.tree.map(lambda x: x[-rest:], xs), rest)
    return carry, ys


def reference(how: Scan, *operands: Array) -> list[Array]:
    """What the operation means: the outermost axis of streams is a `vmap` over the rest."""
    if n := len(how.streams):
        outer = tuple(axes[0] for axes in how.axes)
        inner = [[a if a is None or at is None else a - (a > at) for a in rest] for at, *rest in how.axes]
        one = how._replace(streams=how.streams[1:], axes=tuple(map(tuple, inner)), trailing=min(how.trailing, n - 1))
        last = -n if n <= how.trailing else 0
        made = jax.vmap(partial(reference, one), in_axes=outer, out_axes=last, axis_size=how.streams[0])
        return list(made(*operands))
    step, numbers, rest = jaxpr_as_fun(how.body), operands[: how.numbers], list(operands[how.numbers :])

    def body(carry: list[Array], x: list[Array]) -> tuple[list[Array], list[Array]]:
        out = step(*numbers, *carry, *x)
        return list(out[: how.carry]), list(out[how.carry :])

    carry, ys = lax_scan(body, rest[: how.carry], rest[how.carry :], how.length, how.every, how.reverse)
    return [*carry, *ys]


def _abstract(*operands: State, **params: State) -> list[State]:
    how = Scan(**params)
    # in shard_map results vary as operands do: the type of the one that varies most, in another shape
    most = max((*operands, *how.body.out_avals), key=lambda a: len(varying(a)))
    divided = next((a for a in operands if any(a.sharding.spec)), most)  # on a mesh of explicit axes
    over = _over(how, how.axes, [a.sharding.spec for a in operands])

    def like(i: int, dtype: np.dtype) -> State:
        shape = how.result_shape(i)
        sharding = divided.sharding.update(spec=_spec(len(shape), how.result_axes(i), over))
        return most.update(shape=shape, dtype=dtype, weak_type=False, sharding=sharding)

    return [like(i, a.dtype) for i, a in enumerate(how.body.out_avals)]


def _over(how: Scan, places: Sequence[Sequence[int | None]], specs: Sequence[Sequence[State]]) -> list[State]:
    """For each axis of streams the axes of the mesh that divide it, as one of the arrays has it; each divides one."""
    over: list[State] = [None] * len(how.streams)
    taken: set[str] = set()
    for axes, names in zip(places, specs):
        for level, at in enumerate(axes):
            by = names[at] if at is not None and at < len(names) else None
            mine = {by} if isinstance(by, str) else {*(by or ())}
            if over[level] is None and mine and not mine & taken:
                over[level] = by
                taken |= mine
    return over


def _spec(rank: int, axes: Sequence[int | None], over: Sequence[State]) -> PartitionSpec:
    """How an array with such axes of streams is divided."""
    where = {at: by for at, by in zip(axes, over) if at is not None}
    return PartitionSpec(*(where.get(d) for d in range(rank)))


def varying(aval: State) -> frozenset[str]:
    """Inside `shard_map`: the axes of the mesh along which a value differs."""
    kind = getattr(aval, "mat", None)
    found: frozenset[str] = getattr(aval, "vma", frozenset()) if kind is None else kind.varying
    return found


_jitted = lru_cache(maxsize=256)(lambda how: jax.jit(lambda *operands: bind(how, operands)))


def _eager(*operands: Array, **params: State) -> list[Array]:
    return list(_jitted(Scan(**params))(*operands))


def _jvp(primals: Sequence[Array], tangents: Sequence[State], **params: State) -> tuple[list[Array], list[Array]]:
    """Forward mode, and reverse mode by transposing it: of the reference, for the operands that have a slope."""
    how = Scan(**params)
    active = [i for i, t in enumerate(tangents) if type(t) is not ad.Zero]

    def some(*given: Array) -> list[Array]:
        operands = list(primals)
        for i, a in zip(active, given):
            operands[i] = a
        return reference(how, *operands)

    out: tuple[list[Array], list[Array]] = jax.jvp(some, [primals[i] for i in active], [tangents[i] for i in active])
    return out


def _batch(operands: Sequence[Array], dims: Sequence[int | None], **params: State) -> tuple[list[Array], list[int]]:
    """One more axis of streams, where it is."""
    how = Scan(**params)
    size = next(a.shape[d] for a, d in zip(operands, dims) if d is not None)
    axes = tuple((d, *(a if a is None or d is None else a + (a >= d) for a in axes)) for axes, d in zip(how.axes, dims))
    out = bind(how._replace(streams=(size, *how.streams), axes=axes), operands)
    return out, [0] * len(out)


@lru_cache(maxsize=256)
def _without(
    body: ClosedJaxpr, n: int, s: int, used: tuple[bool, ...]
) -> tuple[ClosedJaxpr, tuple[bool, ...], tuple[bool, ...]]:
    """A body without what nobody reads, and what is left of its arguments and results: one body for any length."""
    carried = list(used[:s])
    while True:
        _, needed = pe.dce_jaxpr(body.jaxpr, [*carried, *used[s:]], False)
        more = [a or b for a, b in zip(carried, needed[n : n + s])]
        if more == carried:
            break
        carried = more
    keep = [*needed[:n], *carried, *needed[n + s :]]
    made, _ = pe.dce_jaxpr(body.jaxpr, [*carried, *used[s:]], keep)
    return ClosedJaxpr(made, body.consts), tuple(keep), (*carried, *used[s:])


def _unread(used: Sequence[bool], *rest: State) -> tuple[list[bool], JaxprEqn | None]:
    """Results that nobody reads are not computed: jit asks before it lowers."""
    eqn = rest[-1]  # from jax 0.11 on, another argument comes before it
    if not any(used):
        return [False] * len(eqn.invars), None
    how = Scan(**eqn.params)
    body, keep, made = _without(how.body, how.numbers, how.carry, tuple(used))
    axes = tuple(axes for axes, there in zip(how.axes, keep) if there)
    how = how._replace(body=body, numbers=sum(keep[: how.numbers]), carry=sum(made[: how.carry]), axes=axes)
    outs = [var for var, there in zip(eqn.outvars, made) if there]
    ins = [var for var, there in zip(eqn.invars, keep) if there]
    return list(keep), eqn.replace(invars=ins, outvars=outs, params=how._asdict())


scan_p.def_abstract_eval(_abstract)
scan_p.def_impl(_eager)
pe.dce_rules[scan_p] = _unread
ad.primitive_jvps[scan_p] = _jvp
batching.primitive_batchers[scan_p] = _batch


def _lower(
    name: str,
    call: Callable[[Scan, Sequence[Array]], list[Array]] | None,
    *operands: Array,
    divided: bool = False,
    **params: State,
) -> list[Array]:
    """A platform's own call, or the reference where there can be none, with a warning."""
    how = Scan(**params)
    if how.implementation not in (None, name, "portable"):
        has = f', which has "{name}"' if name else ""
        raise ValueError(f'implementation="{how.implementation}" is not for this platform{has}')
    here = how.implementation == "portable" and name == "native"  # a handler of this process alone
    rows = how.rows or name == "cuda"
    if call is None or here or not how.length * math.prod(how.streams) or not rows:
        return reference(how, *operands)
    try:
        return _divided(how, operands, call) if divided else call(how, operands)
    except (Unsupported, Unavailable, ImportError) as problem:
        if how.implementation == name:
            raise ValueError(f'implementation="{name}": {problem}') from problem
        _warn_once(f"{problem}; XLA runs this scan, more slowly")
        return reference(how, *operands)


_told: set[str] = set()


def _warn_once(message: str) -> None:
    if message not in _told:
        _told.add(message)
        warnings.warn(message, RuntimeWarning, stacklevel=2)


@lru_cache(maxsize=256)
def program(body: ClosedJaxpr, numbers: int, carry: int, by_stream: tuple[bool, ...], alone: bool) -> Program:
    """Native code of a body; see `Scan.unroll`. `alone`: for one stream."""
    return compile_unrolled(_unrolled(body, numbers, carry, by_stream), lanes=1 if alone else None)


def call_native(how: Scan, operands: Sequence[Array]) -> list[Array]:
    """The call of native code: what must be moved before is moved, everything else is read and written where it is."""
    if len(how.streams) > AXES:
        fewer, operands = _few_axes(how, list(operands))
        return [a.reshape(how.result_shape(i)) for i, a in enumerate(call_native(fewer, operands))]
    N = math.prod(how.streams)
    made = program(how.body, how.numbers, how.carry, how.by_stream, N == 1)
    layout, name = made.layout, register(*made.handler, made)
    n, s = how.numbers, how.carry
    own = how.by_stream
    state = [*range(n, n + s), *(i for i in range(n) if own[i])]
    outer, middle, inner = [1] * (AXES - len(how.streams)) + list(how.streams)
    arrays, strides = list(operands), {}
    for i in (*state, *range(n + s, len(operands))):
        arrays[i], strides[i] = _strides(arrays[i], how.axes[i], i >= n + s)
    shapes = [jax.ShapeDtypeStruct(how.result_shape(i), a.dtype) for i, a in enumerate(how.body.out_avals)]
    results = [_placed(a.shape, a.dtype, how.result_axes(i), i >= s) for i, a in enumerate(shapes)]
    timed, rows = [strides[i] for i in range(n + s, len(operands))], results[s:]
    if how.reverse:
        last = how.length - 1
        timed, rows = (
            [a._replace(start=a.start + last * a.step, step=-a.step) for a in part] for part in (timed, rows)
        )
    job = describe(
        layout, (outer, middle, inner), how.length, how.every, timed, rows, [strides[i] for i in state], results[:s]
    )
    given = [*(arrays[i] for i in range(n) if not own[i]), *(arrays[i] for i in state), *arrays[n + s :]]
    moving = [i for i in range(len(layout.outputs)) if i not in layout.still]
    first = 1 + n - sum(own)
    aliases = {
        first + i: i for i in range(s) if arrays[n + i].shape == shapes[i].shape and strides[n + i] == results[i]
    }
    wanted = [*shapes[:s], *(shapes[s + i] for i in moving)]
    out = jax.ffi.ffi_call(name, wanted, input_output_aliases=aliases)(job, *given)
    found = dict(zip(moving, out[s:]))
    for i, value in layout.still.items():
        spread = np.expand_dims(value[None], how.result_axes(s + i))  # the same at every step, in every stream
        found[i] = jnp.broadcast_to(spread, shapes[s + i].shape)
    return [*out[:s], *(found[i] for i in range(len(layout.outputs)))]


def _divided(how: Scan, operands: Sequence[Array], call: Callable[[Scan, Sequence[Array]], list[Array]]) -> list[Array]:
    """The call on arrays that are divided over devices: each runs its own streams, and nothing is gathered."""
    jax.eval_shape(lambda *operands: call(how, operands), *operands)  # what has no native form says so now
    whole = custom_partitioning(lambda *operands: tuple(bind(how, operands)))
    places = [*how.axes, *(how.result_axes(i) for i in range(len(how.body.out_avals)))]

    def partition(mesh: State, given: Sequence[State], made: Sequence[State]) -> State:
        over = _over(how, places, [a.sharding.spec for a in (*given, *made)])
        specs = [NamedSharding(mesh, _spec(len(a.shape), axes, over)) for a, axes in zip((*given, *made), places)]
        parts = [mesh.shape[n] if isinstance(n, str) else math.prod(mesh.shape[m] for m in n or ()) for n in over]
        local = how._replace(streams=tuple(size // part for size, part in zip(how.streams, parts)))
        n = len(given)
        return mesh, lambda *operands: tuple(call(local, operands)), tuple(specs[n:]), tuple(specs[:n])

    def factors(number: int, rank: int, axes: Sequence[int | None]) -> str:
        return " ".join(f"s{axes.index(d)}" if d in axes else f"a{number}x{d}" for d in range(rank)) or ""

    shapes = [*(a.shape for a in operands), *(how.result_shape(i) for i in range(len(how.body.out_avals)))]
    texts = [factors(i, len(shape), axes) for i, (shape, axes) in enumerate(zip(shapes, places))]
    n = len(operands)
    whole.def_partition(partition, sharding_rule=f"{', '.join(texts[:n])} -> {', '.join(texts[n:])}")
    return list(whole(*operands))


def _few_axes(how: Scan, operands: list[Array]) -> tuple[Scan, list[Array]]:
    """The same with no more axes of streams than native code counts: the outermost become one."""
    while len(how.streams) > AXES:
        a, b = how.streams[:2]
        axes: list[tuple[int | None, ...]] = []
        for i, (x, (outer, inner, *others)) in enumerate(zip(operands, how.axes)):
            lead = [at for at in (outer, inner) if at is not None]
            rest = [d for d in range(x.ndim) if d not in lead]
            if lead:
                x = jnp.permute_dims(x, (*lead, *rest))
                x = x[None] if outer is None else x if inner is not None else x[:, None]
                operands[i] = jnp.broadcast_to(x, (a, b, *x.shape[2:])).reshape(a * b, *x.shape[2:])
            axes.append((0 if lead else None, *(at if at is None else rest.index(at) + bool(lead) for at in others)))
        how = how._replace(streams=(a * b, *how.streams[2:]), axes=tuple(axes))
    return how, operands


def _strides(a: Array, axes: tuple[int | None, ...], timed: bool) -> tuple[Array, Stride]:
    """An array and how it lies; axes of streams between its elements are moved to the front: these must be evenly
    spaced."""
    own = [d for d in range(a.ndim) if d not in axes][timed:]
    between = {*range(own[0], own[-1])} - {*own} if own else ()
    if any(a.shape[d] > 1 for d in between):
        there = [at for at in axes if at is not None]
        a = jnp.moveaxis(a, there, range(len(there)))
        count = iter(range(len(there)))
        axes = tuple(None if at is None else next(count) for at in axes)
    return a, _placed(a.shape, a.dtype, axes, timed)


def _placed(shape: tuple[int, ...], dtype: np.dtype, axes: tuple[int | None, ...], timed: bool) -> Stride:
    """How an array with such axes of streams lies in memory, row after row."""
    item = np.dtype(dtype).itemsize
    strides = [item * math.prod(shape[d + 1 :]) for d in range(len(shape))]
    own = [d for d in range(len(shape)) if d not in axes]
    outer, middle, inner = [0] * (AXES - len(axes)) + [0 if at is None else strides[at] for at in axes]
    elements = own[timed:]
    return Stride(
        0, strides[own[0]] if timed else 0, strides[elements[-1]] if elements else item, (outer, middle, inner)
    )


def _lowering(call: Callable[..., list[Array]]) -> Callable[..., State]:
    """The rule as JAX calls it: on several devices that XLA divides arrays over, the call says how: by streams."""

    def lowered(context: State, *operands: State, **params: State) -> State:
        devices = getattr(context.module_context.axis_context, "device_assignment", None)  # none inside shard_map
        divided = devices is not None and len(devices) > 1 and bool(params["streams"])
        return mlir.lower_fun(partial(call, divided=divided), multiple_results=True)(context, *operands, **params)

    return lowered


RULES = {"cpu": partial(_lower, "native", call_native), "cuda": partial(_lower, "cuda", call_cuda)}
"""Lowerings by platform; on all others the operation is its reference."""

with contextlib.suppress(ImportError, AttributeError):  # so that a rule is told of devices, as for custom_partitioning
    importlib.import_module("jax._src.dispatch").prim_requires_devices_during_lowering.add(scan_p)

mlir.register_lowering(scan_p, _lowering(partial(_lower, "", None)))
for _platform, _rule in RULES.items():
    mlir.register_lowering(scan_p, _lowering(_rule), platform=_platform)
