"""Gradient descent on a loss of a few numbers, compiled once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import jax

from icvi_jax.types import Array


def descend(loss: Callable, start: dict[str, Array], data: object, optimizer, steps: int) -> Iterator[tuple]:
    """Yield (parameters, extra) before each step and after the last.

    Parameters
    ----------
    loss : a function of (parameters, data) to a scalar and something extra.
    start : the parameters to start from, by name.
    data : whatever the loss needs; an argument, so that it is not baked into the program.
    optimizer : an optax gradient transformation.
    steps : how many.
    """
    gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))

    def move(parameters, grads, memory):
        updates, memory = optimizer.update(grads, memory, parameters)
        return jax.tree.map(lambda a, b: a + b, parameters, updates), memory

    parameters, memory = start, optimizer.init(start)
    for _ in range(steps):
        (_, extra), grads = gradient(parameters, data)
        yield parameters, extra
        parameters, memory = move(parameters, grads, memory)
    yield parameters, gradient(parameters, data)[0][1]
