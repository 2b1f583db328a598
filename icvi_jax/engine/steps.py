"""A compiled scan over the step of any part: panel, clusterer or monitor."""

from __future__ import annotations

from functools import partial

import jax

from icvi_jax.types import State


@partial(jax.jit, static_argnames=("rest",))
def scan_steps(part: State, state: State, inputs: State, rest: tuple[object, ...] = ()) -> tuple[State, State]:
    """Scan `part.step(state, *inputs_t, *rest)` over the first axis of all `inputs`.

    The part is an argument, so that other numbers in it do not recompile; `rest` holds what is static.
    """
    state, made = jax.lax.scan(lambda state, now: part.step(state, *now, *rest), state, inputs)
    return state, made
