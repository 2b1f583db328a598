"""Distress: from one index, find a spike, that it was learned, or that the clusterer does not learn it."""

from __future__ import annotations

from typing import NamedTuple

from icvi_jax.monitors.base import Monitor, alarm
from icvi_jax.monitors.log_scale import badness
from icvi_jax.monitors.threshold import LIMIT, Threshold, read, start, update
from icvi_jax.numerics.arrays import advance, cast, namespace
from icvi_jax.spec import is_number, number, spec, static
from icvi_jax.types import Alarm, Array, DType, Namespace

SETTLED = 10
"""Number of values after which a level is good enough for clipping; a level that is learned again starts with it."""

MOVED = 0.2
"""During distress, already such a small rise on the log scale (22 %) is a spike."""

SOON = 35
"""A spike that is back before so many samples was a lone sample, and is learned as a quiet one."""

FINEST = 1e-5
"""A spread up to this, on the log scale or relative to a signed level, is rounding error of a constant index."""


class DistressState(NamedTuple):
    """A dozen numbers per stream, each (*streams); y below is the index on a log scale, large is bad."""

    learned: Array  # values the level was learned from
    level: Array  # m of y while it is quiet; frozen during an episode, as is the spread
    spread: Array  # s
    watching: Array  # a spike came and is not over
    peak: Array  # the largest y since
    age: Array  # samples since
    standing: Array  # whether there is distress
    home: Array  # the level before it
    top: Array  # y when patience ended
    lowest: Array  # lowest level since warm-up or the last distress
    troubled: Array  # samples since the spike or distress began
    score: Array  # the last score, for samples that cannot be used
    threshold: Threshold | None = None  # where it is learned


@spec
class Distress(Monitor):
    r"""Raise a spike when the index jumps, then say whether the clusterer learns what is new, or not: distress.

    With :math:`y = \log` index (:math:`−\log` where large is good), level m, spread s and :math:`f = \log` `factor`:

    - **spike** (1): :math:`y − m > θ = \max(f, \text{width}\, s)`. From here m and s are frozen.
    - **recovered** (2): y is back, :math:`y − m ≤ \text{back} · \min(\text{peak} − m, θ)`.
    - **distress** (3): not back after `patience` samples; or, without any jump, the level crept 2f above its lowest.
      The level is learned again from the present y, and :math:`θ = \max(0.2, \text{width}\, s)` during distress.
    - distress ends with the next **recovered** (2): y came back to within `back` of the way up from the level before.

    While quiet, with gain :math:`g = \max(1/(n+1), 1/\text{memory})` after n values, and the gap :math:`e = y − m`:

    .. math:: m ← m + g\, \mathrm{clip}(e, ±3s), \quad s ← s + g\,(1.2533 \min(|e|, 3s) − s),

    without the clip for the first ten. A constant index has no spread: the first value that differs, unless it is a
    spike, starts the level again with n = 0. A signed index has no logarithm and no factor: y is the index itself,
    f = `factor` · s, and 0.2 becomes 0. Samples that are missing and values that are NaN, infinite or, for a positive
    index, not positive change nothing.

    The **score** is 0 without a spike or distress. Otherwise it says how many thresholds f the index is above its last
    good level :math:`m_0`, and grows with time; a sample that cannot be used repeats it. A fleet can be ranked by it:

    .. math:: \max(0, (y − m_0)/f) \; (1 + \text{samples}/\text{patience}).

    With `false_alarms` the threshold θ of a spike is learned: from the largest y − m of each quiet block of 15 values,
    so that a quiet stream raises about so many spikes a sample (`monitors/gumbel_tail.py`). The score counts that θ,
    the alarm has a `p`, another spike needs a quiet block after the last one, and values are ignored while there is one
    cluster. `factor` and `width` then set θ only where they ask for less than was learned, down to a half of that. Two
    values must agree, or one be 1.5 times the learned θ; where all clusters are replaced, the level is learned again.

    Parameters
    ----------
    factor : how many times worse the index must get for a spike.
    width : … and by how many of its usual spreads.
    patience : how many samples learning may take.
    memory : how many samples the usual level is learned from.
    warm : number of values at the start without an alarm; an index changes by orders of magnitude at first.
    back : share of the rise that may be left when it counts as recovered.
    false_alarms : spikes per sample in a quiet stream; the threshold is learned. None: `factor` and `width` set it.
    index : name of the index to watch; the monitor's own name by default.

    Examples
    --------
    >>> import numpy as np, icvi_jax as icvi
    >>> monitor = icvi.Distress(warm=3)
    >>> state, codes = monitor.init((), np, np.float64), []
    >>> for value in (1.0, 1.1, 0.9, 1.0, 50.0, 40.0, 1.2):
    ...     state, alarm = monitor.step(state, np.asarray(value), np.asarray(True), "min", True)
    ...     codes.append(int(alarm.code))
    >>> codes
    [0, 0, 0, 0, 1, 0, 2]
    """

    factor: float = 6.0
    width: float = 2.5
    patience: int = 100
    memory: int = 100
    warm: int = 50
    back: float = 0.5
    false_alarms: float | None = None
    index: str | None = static(None)
    name: str | None = static(None)

    def __post_init__(self) -> None:
        wanted = {
            "factor": (1, "a number above 1"),
            "width": (0, "a positive number"),
            "back": (0, "a number in (0, 1)"),
            "patience": (0, "a positive number"),
            "memory": (1, "a number above 1"),
            "warm": (0, "a positive number"),
        }
        for field, (least, words) in wanted.items():
            value = getattr(self, field)
            if is_number(value):
                most = 1 if field == "back" else float("inf")
                number("Distress", field, value, least < value < most, words)
        rate = self.false_alarms
        if rate is not None and is_number(rate):
            ok = 0 < rate < LIMIT
            number("Distress", "false_alarms", rate, ok, f"a number above 0 and below {LIMIT:.3g}")

    @property
    def needs_company(self) -> bool:
        return self.false_alarms is not None

    def init(self, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> DistressState:
        zero, none, off = (xp.zeros(streams, dtype=d) for d in (dtype, xp.int32, xp.bool))
        low, high = (xp.full(streams, limit, dtype=dtype) for limit in (-xp.inf, xp.inf))
        learns = None if self.false_alarms is None else start(streams, xp, dtype)
        return DistressState(none, zero, zero, off, low, none, off, zero, low, high, none, zero, learns)

    def again(self, state: DistressState, where: Array) -> DistressState:
        if self.false_alarms is None:
            return state
        xp, n, lowest = namespace(state.level), state.learned, state.lowest
        high = xp.full_like(lowest, xp.inf)
        return state._replace(learned=xp.where(where, xp.zeros_like(n), n), lowest=xp.where(where, high, lowest))

    def step(
        self, state: DistressState, value: Array, seen: Array, goal: str, positive: bool
    ) -> tuple[DistressState, Alarm]:
        xp = namespace(state.level)
        y, ok = badness(value, seen, goal, positive, state.level)
        width, back, memory, patience = (cast(v, y) for v in (self.width, self.back, self.memory, self.patience))
        n, m, s, was = state.learned, state.level, state.spread, state.standing
        none, zero = xp.zeros_like(n), xp.zeros_like(s)
        watched, quiet = ok & state.watching, ok & ~state.watching
        finest = zero + FINEST if positive else FINEST * xp.maximum(xp.abs(m), xp.abs(y))
        c, blank = xp.maximum(s, finest), s <= finest
        f = zero + xp.log(cast(self.factor, y)) if positive else cast(self.factor, y) * c
        theta = xp.maximum(xp.where(was, zero + (MOVED if positive else 0.0), f), width * c)
        theta = theta if positive else xp.where(blank, zero + xp.inf, theta)  # no spread yet to measure a jump by
        unit, p, able = f, xp.full_like(y, xp.nan), ok
        if state.threshold is not None and self.false_alarms is not None:
            rate = cast(self.false_alarms, y)
            theta, p, able = read(state.threshold, y, m, theta, rate, None if positive else finest, was)
            unit, p = theta, xp.where(ok, p, xp.full_like(p, xp.nan))

        # An episode goes on: it ends by coming back, or with patience.
        age = advance(state.age, watched)
        peak = xp.where(watched, xp.maximum(state.peak, y), state.peak)
        came_back = watched & (y - m <= back * xp.minimum(peak - m, theta))
        gave_up = watched & ~came_back & (xp.astype(age, y.dtype) >= patience)

        # Quiet: a jump, or one more value to learn from.
        heard = quiet & self._warm(n, y)
        spike = heard & able & (y - m > theta)
        learn = quiet & ~spike
        passed = came_back & (age < SOON)
        threshold = None
        if state.threshold is not None and self.false_alarms is not None:
            rate = cast(self.false_alarms, y)
            threshold = update(state.threshold, y, m, ok, heard, spike, passed, peak - m, rate, was)
        n = xp.where(learn & blank & (n >= SETTLED) & (xp.abs(y - m) > 3 * finest), none, n)
        m0 = xp.where(n == 0, y, m)  # the first value is the level, so that the spread starts at zero
        e = y - m0
        clip = xp.where(n < SETTLED, xp.abs(e), 3 * c)
        g = xp.maximum(1 / (xp.astype(n, y.dtype) + 1), 1 / memory)
        level = xp.where(learn, m0 + g * xp.minimum(xp.maximum(e, -clip), clip), m)
        s = xp.where(learn, s + g * (1.2533 * xp.minimum(xp.abs(e), clip) - s), s)
        n = advance(n, learn)

        # A level that creeps up without any jump (not in warm-up, where it swings), and the end of distress.
        settled = learn & ~was & self._warm(n, y)
        lowest = xp.where(settled, xp.minimum(state.lowest, level), state.lowest)
        crept = settled & (level - lowest >= 2 * f) & (level > lowest)
        over = learn & was & (y - state.home <= back * (state.top - state.home))

        raised = gave_up | crept
        standing = (was | raised) & ~over
        watching = (state.watching | spike) & ~came_back & ~gave_up
        home = xp.where(crept, lowest, xp.where(gave_up & ~was, m, state.home))
        old = state.watching | was
        troubled = xp.where((watching | standing) & old, advance(state.troubled, ok & old), none)
        rise = xp.where(standing, y - home, xp.where(watching, y - m, zero))
        score = xp.maximum(rise, zero) / xp.where(unit > 0, unit, zero + 1)
        score = xp.where(ok, score * (1 + xp.astype(troubled, y.dtype) / patience), state.score)
        code = xp.where(raised, none + 3, xp.where(over | (came_back & ~was), none + 2, xp.astype(spike, n.dtype)))
        new = DistressState(
            learned=xp.where(gave_up, none + SETTLED, n),  # the spread is kept
            level=xp.where(gave_up, y, level),
            spread=s,
            watching=watching,
            peak=xp.where(spike, y, peak),
            age=xp.where(spike, none, age),
            standing=standing,
            home=home,
            top=xp.where(over, zero - xp.inf, xp.where(raised, xp.maximum(state.top, y), state.top)),
            lowest=xp.where(over, zero + xp.inf, lowest),
            troubled=troubled,
            score=score,
            threshold=threshold,
        )
        return new, alarm(code, score, standing)._replace(p=p)

    def _warm(self, n: Array, y: Array) -> Array:
        """Whether there were enough values."""
        return namespace(y).astype(n, y.dtype) >= cast(self.warm, y)
