"""Scans as one operation inside your own JAX code: of a pipeline (`scan`), and of any small step (`native_scan`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from icvi_jax.engine.inputs import FIELDS, own_state, wanted
from icvi_jax.engine.primitive import Array, Scan, bind, reference, varying
from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.spec import whole
from icvi_jax.types import Reading, State


@dataclass(frozen=True)
class PipelineStep:
    """The step of a pipeline, some fields of whose readings are kept; compared by value.

    `relative`: samples are relative to origins that the host keeps, and the state has no anchor.
    """

    keep: tuple[str, ...]
    relative: bool = False

    def __call__(
        self, pipe: Pipeline, state: PipelineState, x: Array, elapsed: Array | None = None
    ) -> tuple[PipelineState, Reading]:
        """Process one sample x (p, *streams)."""
        state, reading = (pipe.advance if self.relative else pipe.step)(state, x, elapsed)
        gone: dict[str, State] = {name: None for name in FIELDS if name not in self.keep}
        return state, reading._replace(**gone)


class _Traced(NamedTuple):
    """A body, the values it took from outside, and the structures of what it returns."""

    body: ClosedJaxpr
    lifted: tuple[State, ...]
    carry: State
    ys: State


def _trace(f: Callable[..., State], trees: Sequence[State], avals: Sequence[Sequence[State]]) -> _Traced:
    """`f` of pytrees with these leaves, as a jaxpr whose first arguments are the arrays of JAX that `f` refers to."""

    def flat(*leaves: Array) -> State:
        ends = np.cumsum([0, *(len(part) for part in avals)])
        return f(*(jax.tree.unflatten(t, leaves[lo:hi]) for t, lo, hi in zip(trees, ends, ends[1:])))

    closed, shapes = jax.make_jaxpr(flat, return_shape=True)(*(a for part in avals for a in part))
    if not isinstance(shapes, tuple) or len(shapes) != 2:
        raise TypeError("scan: the step must return a pair, the carry and what is kept of this step")
    own = [i for i, const in enumerate(closed.consts) if isinstance(const, jax.Array)]
    lifted = tuple(closed.consts[i] for i in own)
    if own:

        def open_(*given: Array) -> State:
            consts = list(closed.consts)
            for i, const in zip(own, given):
                consts[i] = const
            return jaxpr_as_fun(ClosedJaxpr(closed.jaxpr, consts))(*given[len(own) :])

        kinds = [jax.typeof(const) for const in lifted]
        closed = jax.make_jaxpr(open_)(*kinds, *(a for part in avals for a in part))
    return _Traced(closed, lifted, jax.tree.structure(shapes[0]), jax.tree.structure(shapes[1]))


@lru_cache(maxsize=256)
def _trace_once(f: Callable[..., State], trees: tuple[State, ...], avals: tuple[tuple[State, ...], ...]) -> _Traced:
    made = _trace(f, trees, avals)
    if any(isinstance(const, jax.core.Tracer) for const in made.lifted):
        raise _Unhashable  # values that are being traced mean something else next time
    return made


class _Unhashable(TypeError):
    """A step that may not be remembered."""


def _traced(f: Callable[..., State], trees: Sequence[State], avals: Sequence[Sequence[State]]) -> _Traced:
    try:
        return _trace_once(f, tuple(trees), tuple(map(tuple, avals)))
    except TypeError as problem:
        if "unhashable" not in str(problem) and not isinstance(problem, _Unhashable):
            raise
        return _trace(f, trees, avals)


def native_scan(
    f: Callable[[State, State], tuple[State, State]],
    init: State,
    xs: State = None,
    length: int | None = None,
    reverse: bool = False,
    *,
    implementation: str | None = None,
) -> tuple[State, State]:
    """The same as `jax.lax.scan(f, init, xs)`, in native code: for small steps, under `vmap` over many streams.

    On a CPU, a step on small arrays is compiled as a whole, with the time loop inside; each `vmap` around it adds
    streams, which share the lanes of the processor's vectors and its cores. Gradients are those of `lax.scan`. A step
    with an operation that has no native form, or one that is too large, is run by `lax.scan` with a warning that says
    why.

    Parameters
    ----------
    f : (carry, x) → (carry, y), on pytrees of arrays of float32, float64, int32 or bool.
    init, xs, length, reverse : as in `jax.lax.scan`.
    implementation : as for `scan`.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, icvi_jax as icvi
    >>> def ewma(mean, x):
    ...     mean = 0.9 * mean + 0.1 * x
    ...     return mean, mean
    >>> X = jax.random.normal(jax.random.key(0), (1024, 500))
    >>> last, means = jax.jit(jax.vmap(lambda x: icvi.native_scan(ewma, 0.0, x)))(X)
    >>> means.shape
    (1024, 500)
    """
    _check_implementation("native_scan", implementation)
    if implementation == "xla":
        return lax.scan(f, init, xs, length, reverse)
    carry, tree = jax.tree.flatten(init)
    rows, rows_tree = jax.tree.flatten(xs)
    carry, rows = [jnp.asarray(a) for a in carry], [jnp.asarray(a) for a in rows]
    sizes = {a.shape[0] if a.ndim else -1 for a in rows} | ({length} if length is not None else set())
    if len(sizes) != 1 or -1 in sizes or not carry + rows:
        return lax.scan(f, init, xs, length, reverse)  # whose errors say what is wrong
    (steps,) = sizes
    for _ in range(3):
        carry, rows = _alike(carry, rows)
        kinds = [jax.typeof(a) for a in carry], [_part(a, True).update(weak_type=a.weak_type) for a in rows]
        made = _traced(f, (tree, rows_tree), kinds)
        found = made.body.out_avals[: len(carry)]
        if made.carry != tree or [a.shape for a in found] != [a.shape for a in carry]:
            return lax.scan(f, init, xs, length, reverse)
        outside = frozenset().union(*(varying(jax.typeof(a)) for a in made.lifted), *(varying(a) for a in found))
        if [a.dtype for a in found] == [a.dtype for a in carry] and outside <= varying(jax.typeof((carry + rows)[0])):
            break
        # weak types give way to what the step makes of them, as in lax.scan; in shard_map all vary as the results do
        carry = [a.astype(jnp.result_type(a, k.dtype)) if jax.typeof(a).weak_type else a for a, k in zip(carry, found)]
        carry, rows = _alike(carry, rows, outside)
    else:
        return lax.scan(f, init, xs, length, reverse)
    n = len(made.lifted)
    how = Scan(made.body, n, len(carry), steps, reverse, implementation=implementation)
    lifted, _ = _alike(list(made.lifted), [], varying(jax.typeof((carry + rows)[0])))
    out = bind(how, [*lifted, *carry, *rows])
    return jax.tree.unflatten(tree, out[: len(carry)]), jax.tree.unflatten(made.ys, out[len(carry) :])


def _part(a: Array, timed: bool, wide: bool = False) -> State:
    """The type of one step (`timed`) and of one stream, the last axis (`wide`), of `a`."""
    kind = jax.typeof(a)
    shape = kind.shape[timed : a.ndim - wide]
    where = kind.sharding.update(spec=jax.sharding.PartitionSpec(*[None] * len(shape)))
    return kind.update(shape=shape, sharding=where, weak_type=False)


def _alike(a: list[Array], b: list[Array], more: frozenset[str] = frozenset()) -> tuple[list[Array], list[Array]]:
    """Inside `shard_map`: all arrays vary along the axes of the mesh along which any of them does."""
    axes = more.union(*(varying(jax.typeof(x)) for x in (*a, *b)))

    def wide(x: Array) -> Array:
        missing = tuple(sorted(axes - varying(jax.typeof(x))))
        if not missing:
            return x
        cast: State = getattr(lax, "pcast", None)  # jax 0.8 says pvary
        spread: Array = lax.__dict__["pvary"](x, missing) if cast is None else cast(x, missing, to="varying")
        return spread

    return [wide(x) for x in a], [wide(x) for x in b]


def _check_implementation(caller: str, name: str | None) -> None:
    if name not in (None, "native", "cuda", "xla", "portable"):
        raise ValueError(f"{caller}(implementation={name!r}): choose 'native', 'cuda', 'xla', 'portable' or None")


def scan(
    pipe: Pipeline,
    state: PipelineState,
    X: Array,
    elapsed: Array | None = None,
    *,
    keep: str | tuple[str, ...] = FIELDS,
    every: int = 1,
    implementation: str | None = None,
) -> tuple[PipelineState, Reading]:
    """The same as `jax.lax.scan(pipe.step, state, X)`, as one operation: native code on CPUs.

    It goes where JAX goes: `jit`, `vmap` (over samples, states and the numbers of the pipeline; each axis becomes
    streams), `grad`, `jvp`, `jax.checkpoint`, `shard_map`, arrays on several devices, and inside other loops. Gradients
    are those of `lax.scan`. Under `jit`, fields that are not read are not computed.

    Parameters
    ----------
    pipe : the pipeline; its numbers may be traced, too.
    state : such as `pipe.init(features, streams)`.
    X : (T, p, *streams), the samples in the order of time; those that are not finite are missing.
    elapsed : (T,) or (T, *streams), time since the sample before.
    keep : fields of the reading; the others are None.
    every : the readings of each `every`-th sample are kept.
    implementation : "native", "cuda" or "xla": this one or an error; None takes the best of the platform for which the
        program is lowered, and "portable" the best that other processes can run, too (`jax.export`).

    Returns
    -------
    The state, and readings whose arrays have (T,) as the first axis and the streams as the last.

    Examples
    --------
    >>> import jax, icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    >>> X = jax.random.normal(jax.random.key(0), (50, 2, 8))
    >>> final, readings = jax.jit(icvi.scan)(pipe, pipe.init(2, (8,)), X)
    >>> readings.values["xb"].shape
    (50, 8)
    """
    _check_implementation("scan", implementation)
    keep, X = wanted("scan", keep), jnp.asarray(X)
    if X.ndim < 2:
        raise ValueError(f"scan(X=…): expected the axes (T, p, *streams), got shape {X.shape}")
    whole("scan", "every", every)
    own_state("scan", pipe, state, X.shape[1], X.shape[2:])
    X = X.astype(state.anchor.high.dtype)
    if elapsed is not None:
        elapsed = jnp.asarray(elapsed, X.dtype)
        if elapsed.shape not in (X.shape[:1], (X.shape[0], *X.shape[2:])):
            raise ValueError(f"scan(elapsed=…): expected one number a sample, {X.shape[:1]}, got {elapsed.shape}")
    state, readings = scan_step(PipelineStep(keep), pipe, state, X, elapsed, every, implementation)
    return state, readings


@dataclass(frozen=True)
class AsOneOfMany:
    """A step for one stream that is done as that of a fleet of one: its array functions suit lanes better."""

    step: Callable[..., tuple[State, State]]

    def __call__(self, model: State, state: State, *now: Array) -> tuple[State, State]:
        """The step, with an axis of streams behind all arrays but the model's."""
        wide = jax.tree.map(lambda a: jnp.expand_dims(a, -1), (state, now))
        made: tuple[State, State] = jax.tree.map(lambda a: jnp.squeeze(a, -1), self.step(model, wide[0], *wide[1]))
        return made


def scan_step(
    step: Callable[..., tuple[State, State]],
    model: State,
    state: State,
    X: Array,
    elapsed: Array | None = None,
    every: int = 1,
    implementation: str | None = None,
) -> tuple[State, State]:
    """Scan any hashable step (model, state, x, elapsed or None) over X (T, p, *streams); the state is (…, *streams)."""
    streams, N = X.shape[2:], math.prod(X.shape[2:])

    def line(a: Array) -> Array:
        return a.reshape(*a.shape[: a.ndim - len(streams)], N) if streams else a

    traced = any(isinstance(a, jax.core.Tracer) for a in jax.tree.leaves((model, state, X, elapsed)))
    # outside of jit a Python number goes to the device by an explicit transfer: transfer_guard lets it pass
    numbers, model_tree = jax.tree.flatten(jax.tree.map(jnp.asarray if traced else jax.device_put, model))
    carry, state_tree = jax.tree.flatten(jax.tree.map(lambda a: line(jnp.asarray(a)), state))
    given = [line(X)] + ([] if elapsed is None else [elapsed if elapsed.ndim == 1 else line(elapsed)])
    numbers, rest = _alike(numbers, carry + given)
    carry, given = rest[: len(carry)], rest[len(carry) :]
    lanes = [bool(streams)] * (len(carry) + 1) + [elapsed is not None and bool(streams) and elapsed.ndim > 1]

    kinds = (
        [_part(a, False) for a in numbers],
        [_part(a, False, bool(streams)) for a in carry],
        *([_part(a, True, wide)] for a, wide in zip(given, lanes[len(carry) :])),
    )
    one_of_many = AsOneOfMany(step)
    made = _traced(one_of_many, (model_tree, state_tree, *[jax.tree.structure(0)] * len(given)), kinds)
    found = [(a.shape, a.dtype) for a in made.body.out_avals[: len(carry)]]
    if made.carry != state_tree or found != [(a.shape, a.dtype) for a in kinds[1]]:
        raise TypeError("the step returns a state of another structure than it takes")
    how = Scan(made.body, len(made.lifted) + len(numbers), len(carry), X.shape[0], every=every)
    how = how._replace(implementation=implementation)
    operands = [*made.lifted, *numbers, *carry, *given]
    if streams:
        where = [None] * how.numbers + [a.ndim - 1 if wide else None for a, wide in zip(carry + given, lanes)]
        how = how._replace(streams=(N,), axes=tuple((at,) for at in where), trailing=1)
    if implementation == "xla":
        out = reference(how, *operands)
    else:
        out = bind(how, operands)
    out = [a.reshape(*a.shape[:-1], *streams) for a in out] if streams else out
    return jax.tree.unflatten(state_tree, out[: len(carry)]), jax.tree.unflatten(made.ys, out[len(carry) :])
