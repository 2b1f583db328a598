"""The plain loop: one call of the step per sample, for arrays of other libraries."""

from __future__ import annotations

import warnings

import jax

from icvi_jax.engine.xla import Step
from icvi_jax.numerics.arrays import namespace
from icvi_jax.types import Alarm, Array, Namespace, Reading, State


def loop(
    step: Step, pipe: State, state: State, X: Array, elapsed: Array | None, every: int = 1, phase: int = 0
) -> tuple[State, State]:
    """Step through X (T, p, *streams), on any array library; stacked outputs of each `every`-th sample."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.asarray: unspecified requires_grad")  # gradients are meant to flow
        return _loop(step, pipe, state, X, elapsed, every, phase)


def _loop(
    step: Step, pipe: State, state: State, X: Array, elapsed: Array | None, every: int, phase: int
) -> tuple[State, State]:
    made, spare = [], int((phase + 1) % every != 0)  # the first one, spare, says what a stack of none looks like
    for t in range(X.shape[0]):
        state, one = step(pipe, state, X[t, ...], None if elapsed is None else elapsed[t, ...])
        if t == 0 or (phase + t + 1) % every == 0:
            made.append(one)
    return state, jax.tree.map(lambda a: a[spare:, ...], _stack(made, namespace(X)))


def _stack(items: list[State], xp: Namespace) -> State:
    """Stack equal trees of arrays along a new first axis."""
    first = items[0]
    if first is None:
        return None
    if isinstance(first, dict):
        return {name: _stack([item[name] for item in items], xp) for name in first}
    if isinstance(first, (Alarm, Reading)):
        return type(first)(*(_stack([item[i] for item in items], xp) for i in range(len(first))))
    return xp.stack([xp.asarray(item) for item in items])
