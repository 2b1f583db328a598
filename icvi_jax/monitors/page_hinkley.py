"""Page–Hinkley: the classic test for a rising mean, on the logarithm of an index."""

from __future__ import annotations

from typing import NamedTuple

from icvi_jax.monitors.base import Monitor, alarm
from icvi_jax.monitors.log_scale import badness
from icvi_jax.numerics.arrays import advance, cast, namespace
from icvi_jax.spec import is_number, number, spec, static
from icvi_jax.types import Alarm, Array, DType, Namespace


class PageHinkleyState(NamedTuple):
    """Values since the last alarm, their mean, the accumulated excess and the last score, each (*streams)."""

    learned: Array
    mean: Array
    excess: Array
    score: Array


@spec
class PageHinkley(Monitor):
    r"""Raise a spike when the index has been above its mean by enough for long enough.

    With :math:`y = \log` index (:math:`−\log` where large is good; a signed index as it is) and the mean
    :math:`\bar y` of the values since the last alarm:

    .. math:: g ← \max(0, g + y − \bar y − δ), \qquad \text{spike (1) where } g > h.

    After an alarm everything starts again. There is no "recovered" and no distress: `standing` is always False. The
    score is g/h. Samples that are missing and values that are NaN, infinite or, for a positive index, not positive
    change nothing.

    Parameters
    ----------
    threshold : h, the excess that raises an alarm, in log units times samples.
    delta : δ, by how much on the log scale a value may exceed the mean without effect.
    warm : number of values after the start or the last alarm without an alarm.
    index : name of the index to watch; the monitor's own name by default.

    References
    ----------
    Page, E. S. (1954). Continuous inspection schemes.
    Hinkley, D. V. (1971). Inference about the change-point from cumulative sum tests.

    Examples
    --------
    >>> import numpy as np, icvi_jax as icvi
    >>> monitor = icvi.PageHinkley(warm=3, threshold=2.0)
    >>> state, codes = monitor.init((), np, np.float64), []
    >>> for value in (1.0, 1.1, 0.9, 1.0, 50.0, 40.0, 1.2):
    ...     state, alarm = monitor.step(state, np.asarray(value), np.asarray(True), "min", True)
    ...     codes.append(int(alarm.code))
    >>> codes
    [0, 0, 0, 0, 1, 0, 0]
    """

    threshold: float = 4.0
    delta: float = 0.5
    warm: int = 30
    index: str | None = static(None)
    name: str | None = static(None)

    def __post_init__(self) -> None:
        for field, least in (("threshold", "positive"), ("delta", "non-negative"), ("warm", "positive")):
            value = getattr(self, field)
            if is_number(value):
                ok = 0 < value < float("inf") or (value == 0 and least == "non-negative")
                number("PageHinkley", field, value, ok, f"a {least} number")

    def init(self, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> PageHinkleyState:
        zero = xp.zeros(streams, dtype=dtype)
        return PageHinkleyState(xp.zeros(streams, dtype=xp.int32), zero, zero, zero)

    def step(
        self, state: PageHinkleyState, value: Array, seen: Array, goal: str, positive: bool
    ) -> tuple[PageHinkleyState, Alarm]:
        xp = namespace(state.mean)
        y, ok = badness(value, seen, goal, positive, state.mean)
        threshold, delta, warm = (cast(v, y) for v in (self.threshold, self.delta, self.warm))
        zero = xp.zeros_like(state.mean)
        heard = xp.astype(state.learned, y.dtype)
        gap = y - xp.where(state.learned == 0, y, state.mean)
        g = xp.where(heard >= warm, xp.maximum(state.excess + gap - delta, zero), zero)
        spike = ok & (g > threshold)
        score = xp.where(ok, g / threshold, state.score)
        new = PageHinkleyState(
            learned=xp.where(spike, xp.zeros_like(state.learned), advance(state.learned, ok)),
            mean=xp.where(spike, zero, xp.where(ok, y - gap + gap / (heard + 1), state.mean)),
            excess=xp.where(spike, zero, xp.where(ok, g, state.excess)),
            score=score,
        )
        return new, alarm(xp.astype(spike, xp.int32), score, xp.zeros_like(spike))
