"""Stuck: a column that gives one value again and again, longer than it ever did."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from icvi_jax.monitors.base import IndexValue, SampleMonitor
from icvi_jax.numerics.arrays import advance, cast, namespace, position, smaller, smallest
from icvi_jax.spec import is_number, number, spec, static
from icvi_jax.types import Alarm, Array, DType, Namespace


class StuckState(NamedTuple):
    """O(p) numbers per stream, each (p, *streams)."""

    last: Array  # the last value
    any: Array  # whether there was one
    run: Array  # repeats in the present run
    longest: Array  # repeats in the longest run before
    values: Array  # values before the present run
    repeats: Array  # how many of them are repeats
    said: Array  # whether the present run has raised an alarm


@spec
class Stuck(SampleMonitor):
    r"""Raise an alarm when a column repeats one value longer than it ever did: a sensor that is stuck.

    A *repeat* is a value equal to the one before it in its column; r is the number of repeats in the present run. From
    the n values before the run, R of them repeats, the chance of a repeat is :math:`q = (R + 1)/(n + 2)`, and that of r
    in a row in one of p columns :math:`P = \min(1, p\, q^r)`. The longest run before is L. An alarm is raised, once for
    a run, where

    .. math:: P < α, \qquad r ≥ 2 L + \text{least}, \qquad n ≥ \text{warm}.

    A column that never moved is constant, not stuck. α holds for independent repeats; for others, such as a light
    sensor at night, the condition on L does: the first night may raise an alarm, later ones do not.

    The alarm's `cause` is the column, `p` is P (at every sample), and the score −log10 p where an alarm is raised.
    `standing` is always False.

    Parameters
    ----------
    false_alarms : alarms per sample where repeats are independent.
    least : repeats needed at least, besides twice the longest run before.
    warm : values before a run that are needed to judge it.

    Examples
    --------
    >>> import numpy as np, icvi_jax as icvi
    >>> x = np.random.default_rng(0).normal(size=(400, 2)).round(2)
    >>> x[300:, 1] = x[299, 1]
    >>> pipe = icvi.Pipeline(clusterer=None, panel=None, monitors={"stuck": icvi.Stuck()})
    >>> alarm = icvi.run(pipe, x).readings.alarms["stuck"]
    >>> [(int(t), int(alarm.cause[t])) for t in np.flatnonzero(alarm.code)]
    [(311, 1)]
    """

    finds: ClassVar[str] = "repeats"

    false_alarms: float = 1e-6
    least: int = 10
    warm: int = 100
    index: str | None = static(None)
    name: str | None = static(None)

    def __post_init__(self) -> None:
        if is_number(self.false_alarms):
            number("Stuck", "false_alarms", self.false_alarms, 0 < self.false_alarms < 1, "a number in (0, 1)")
        for field, rows in (("least", self.least), ("warm", self.warm)):
            if is_number(rows):
                number("Stuck", field, rows, rows >= 1, "a positive number of rows")

    @property
    def watched(self) -> tuple[str, ...]:
        return ()

    def init(self, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> StuckState:
        zero = xp.zeros((features, *streams), dtype=dtype)
        none = xp.zeros((features, *streams), dtype=xp.int32)
        return StuckState(zero, none > 0, none, none, none, none, none > 0)

    def step(
        self, state: StuckState, x: Array, there: Array, heard: Mapping[str, IndexValue]
    ) -> tuple[StuckState, Alarm]:
        xp = namespace(x)
        same = there & state.any & (x == state.last)
        moves = there & ~same
        none = xp.zeros_like(state.run)
        # What was before the present run: it grows where a value differs from the one before.
        values = xp.where(moves, state.values + state.run + 1, state.values)
        repeats = xp.where(moves, state.repeats + state.run, state.repeats)
        longest = xp.where(moves & (state.run > state.longest), state.run, state.longest)
        run = xp.where(moves, none, advance(state.run, same))
        said = state.said & ~moves

        p = x.shape[0]
        q = (xp.astype(repeats, x.dtype) + 1) / (xp.astype(values, x.dtype) + 2)
        logarithm = xp.astype(run, x.dtype) * xp.log(q) + math.log(p)
        long = xp.astype(run - 2 * longest, x.dtype) >= cast(self.least, x)
        known = xp.astype(values, x.dtype) >= cast(self.warm, x)
        rare = logarithm < xp.log(cast(self.false_alarms, x) * xp.ones_like(x))
        fires = same & ~said & long & known & rare
        raised = xp.any(fires, axis=0)
        shown = xp.where(fires, logarithm, xp.zeros_like(logarithm))
        present = smaller(xp.where(there, logarithm, xp.zeros_like(logarithm)), xp.zeros_like(logarithm))
        least = xp.where(raised, xp.min(shown, axis=0), xp.min(present, axis=0))
        code = xp.astype(raised, xp.int32)
        last = xp.where(there, x, state.last)
        state = StuckState(last, state.any | there, run, longest, values, repeats, said | fires)
        score = xp.where(raised, least * (-1 / math.log(10)), xp.zeros_like(least))
        cause = xp.where(raised, position(smallest(shown)), xp.full_like(code, -1))
        return state, Alarm(code, score, xp.zeros_like(raised), cause, xp.exp(least))
