"""Gradient descent on a loss of a few numbers, compiled once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias, TypeVar

import jax

from icvi_jax.types import Array, State

D = TypeVar("D")


Parameters: TypeAlias = dict[str, Array]
"""Numbers by name."""


class Optimizer(Protocol):
    """An optax gradient transformation."""

    @property
    def init(self) -> Callable[..., State]: ...
    @property
    def update(self) -> Callable[..., State]: ...


def descend(
    loss: Callable[[Parameters, D], tuple[Array, Array]], start: Parameters, data: D, optimizer: Optimizer, steps: int
) -> Iterator[tuple[Parameters, Array]]:
    """Yield (parameters, extra) before each step and after the last.

    Parameters
    ----------
    loss : a function of (parameters, data) to a scalar and something extra.
    start : the parameters to start from, by name.
    data : what the loss needs; an argument, so that it is not a constant of the compiled program.
    optimizer : an optax gradient transformation.
    steps : how many.
    """
    gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))

    def move(parameters: Parameters, grads: Parameters, memory: State) -> tuple[Parameters, State]:
        updates, memory = optimizer.update(grads, memory, parameters)
        return jax.tree.map(lambda a, b: a + b, parameters, updates), memory

    parameters, memory = start, optimizer.init(start)
    for _ in range(steps):
        (_, extra), grads = gradient(parameters, data)
        yield parameters, extra
        parameters, memory = move(parameters, grads, memory)
    yield parameters, gradient(parameters, data)[0][1]
