"""Change: find changes of a stream and the feature that changed, at a promised rate of false alarms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from icvi_jax.monitors import contrast, jumps, seasons, tail
from icvi_jax.monitors.base import Heard, SampleMonitor
from icvi_jax.monitors.scale import badness
from icvi_jax.numerics.arrays import advance, cast, namespace, position, smaller, smallest
from icvi_jax.spec import is_number, number, spec, static, whole
from icvi_jax.types import Alarm, Array, Namespace

APART = 5
"""Fewest samples between two alarms."""

SEEN = 6
"""Blocks of white noise that count as seen at the start."""


class ChangeState(NamedTuple):
    """O(p) numbers per stream and a ring of `lag` samples; with seasons also a ring of one season.

    Attributes
    ----------
    time : (*streams), rows so far with at least one value.
    since : (*streams), rows since the last firing; means are emptied in the row after one.
    ready : (*streams), boolean: a block was closed since.
    open : (*streams), values in the open block.
    contrast : state of the features.
    tail : how large quiet values get, (p + q, *streams): the features, then the indices.
    armed : (q, *streams), boolean: the index may fire; None without indices.
    season : usual values of the features in each row of a season; None without seasons.
    """

    time: Array
    since: Array
    ready: Array
    open: Array
    contrast: contrast.ContrastState
    tail: tail.Tail
    armed: Array | None
    season: seasons.SeasonState | None = None


@spec
class Change(SampleMonitor):
    r"""Raise an alarm when the recent past falls into two clusters, before and now; names the column that changed.

    Each feature has a channel: :math:`y = CH^{1/4}` of the partition of its recent past into before and now (see
    `icvi_jax.monitors.contrast`). Each channel learns from its own block maxima how large its quiet values get (see
    `icvi_jax.monitors.tail`), so that the threshold is a false-alarm rate whatever the units, the noise and its
    autocorrelation. With P_j of the p channels, the p-value is :math:`\min_j p P_j`, and an alarm is raised where it is
    below `false_alarms` · `block`. After an alarm everything starts again, except what was learned about noise and
    tails.

    Indices may be channels too: y is the logarithm of the index, large is bad. They share half of the false alarms.

    The alarm's `cause` is the feature (−1: quiet, or an index), `p` the p-value (NaN where no channel has a value), and
    the score −log10 p. `standing` is always False: there is no "recovered".

    A missing value only concerns its own column. A row without any value changes nothing.

    Parameters
    ----------
    false_alarms : alarms per sample in a quiet stream. Rates down to 1e-3 are kept on real streams;
        1e-4 may be several times as many (see `icvi_jax.monitors.budget`).
    silent, lag : rows at the start without alarms, and rows by which "before" is late.
    indices : names of indices that are channels too.
    slower : also use slower means of each feature (λ .97 and .997): finds small steps and drifts.
    spread : also use how much each feature scatters: finds changes of variance, and some steps under noise with memory;
        on streams with bursts it gives more false alarms.
    jumps : also use the last four values of each feature: finds steps and variances in signals with memory, where the
        other views count less (see `icvi_jax.monitors.jumps`). Not with a season.
    season : rows in a cycle, such as 144 for a day of ten-minute means; 0: none. The usual value of each feature at
        that row is subtracted first (see `icvi_jax.monitors.seasons`). The first cycle is only learned.
    fast, slow, steady : forgetting of "now", of "before" and of the variance.
    block : values in a block. The start of the features' tails suits 15.
    warm : number of maxima of an index before it may raise an alarm.
    memory : how many maxima a tail remembers.
    floor : least spread of the maxima.
    mute : a feature has no channel while a larger share of its values repeat the one before.

    Examples
    --------
    >>> import numpy as np, icvi_jax as icvi
    >>> x = np.random.default_rng(0).normal(size=(600, 2))
    >>> x[400:, 1] += 3
    >>> pipe = icvi.Pipeline(clusterer=None, panel=None, monitors={"change": icvi.Change()})
    >>> alarm = icvi.run(pipe, x).readings.alarms["change"]
    >>> [(int(t), int(alarm.cause[t])) for t in np.flatnonzero(alarm.code)]
    [(402, 1)]
    """

    false_alarms: float = 1e-3
    silent: int = 200
    lag: int = static(20)
    indices: tuple[str, ...] = static(())
    slower: bool = static(False)
    spread: bool = static(False)
    jumps: bool = static(False)
    season: int = static(0)
    fast: float = 0.9
    slow: float = 0.99
    steady: float = 0.999
    block: int = tail.BLOCK
    warm: int = tail.BLOCKS
    memory: int = tail.MEMORY
    floor: float = 0.1
    mute: float = 0.8
    index: str | None = static(None)
    name: str | None = static(None)

    def __post_init__(self) -> None:
        whole("Change", "lag", self.lag)
        whole("Change", "season", self.season, 0)
        if self.jumps:
            jumps.check(self.lag, self.season)
        if isinstance(self.indices, str) or not all(isinstance(name, str) for name in self.indices):
            raise ValueError(f"Change(indices={self.indices!r}): expected a tuple of names, such as ('xb',)")
        wanted = {
            "fast": (0 < self.fast < 1, "a number in (0, 1)"),
            "slow": (0 < self.slow < 1, "a number in (0, 1)"),
            "steady": (0 < self.steady < 1, "a number in (0, 1)"),
            "block": (self.block >= 1, "a positive number"),
            "false_alarms": (0 < self.false_alarms < 1 / max(self.block, 1), "a number above 0 and below 1 / block"),
            "silent": (self.silent >= 0, "a number of rows"),
            "warm": (self.warm >= 1, "a positive number"),
            "memory": (self.memory > 1, "a number above 1"),
            "floor": (0 < self.floor < math.inf, "a positive number"),
            "mute": (0 < self.mute <= 1, "a number above 0, at most 1"),
        }
        for field, (ok, words) in wanted.items():
            if is_number(getattr(self, field)):
                number("Change", field, getattr(self, field), bool(ok), words)

    @property
    def watched(self) -> tuple[str, ...]:
        return self.indices

    @property
    def needs_company(self) -> bool:
        return True

    def init(self, features: int, streams: tuple[int, ...], xp: Namespace, dtype: object) -> ChangeState:
        none = xp.zeros(streams, dtype=xp.int32)
        tails = tail.start((features, *streams), xp, dtype, SEEN, *contrast.WHITE[self.slower, self.spread, self.jumps])
        if self._q:
            others = tail.start((self._q, *streams), xp, dtype)
            tails = tail.Tail(*(xp.concat(pair, axis=0) for pair in zip(tails, others)))
        return ChangeState(
            time=none,
            since=none + APART,
            ready=none == 0,
            open=none,
            contrast=contrast.start(1 + self.slower + self.spread, self.jumps, self.lag, features, streams, xp, dtype),
            tail=tails,
            armed=xp.ones((self._q, *streams), dtype=xp.bool) if self._q else None,
            season=seasons.start(self.season, features, streams, xp, dtype) if self.season else None,
        )

    def step(self, state: ChangeState, x: Array, there: Array, heard: Mapping[str, Heard]) -> tuple[ChangeState, Alarm]:
        xp, t, old, season = namespace(x), state.time, state.tail, state.season
        if season is not None:
            season, x, there = seasons.take(season, x, there)
        floor, memory, alpha = (cast(value, x) for value in (self.floor, self.memory, self.false_alarms))
        settings = contrast.Settings(*(cast(value, x) for value in (self.fast, self.slow, self.steady, self.mute)))
        none, row = xp.zeros_like(t), xp.any(there, axis=0)
        now, y, known = contrast.take(state.contrast, x, there, t, state.since == 1, settings, self.slower, self.spread)
        p, tested, armed = x.shape[0], known, state.armed
        if self._q:
            more, ok = _read(heard, row, x[0, ...])
            armed = xp.zeros_like(ok) if armed is None else armed
            armed = armed | (ok & (more < old.level[p:, ...]))
            warm = xp.astype(old.learned[p:, ...], x.dtype) >= cast(self.warm, x)
            tested = xp.concat([known, ok & warm & armed], axis=0)
            y, known = xp.concat([y, more], axis=0), xp.concat([known, ok], axis=0)

        # Test: the least likely channel, as a logarithm: small numbers underflow.
        logarithm, chance, culprit = self._test(tail.rarity(old, y, floor), tested, p)
        sure = xp.any(tested, axis=0)
        late = state.since >= APART
        fires = sure & state.ready & late & (chance < alpha * cast(self.block, x))

        # Learn: from the alarm, or from the largest values of a block that is full.
        counted = ~fires & late & xp.any(known, axis=0)
        opened = advance(state.open, counted)
        closes = counted & (xp.astype(opened, x.dtype) >= cast(self.block, x))
        new = tail.learn(tail.heard(old, y, counted & known), fires & culprit, tail.fed(old, y), closes, memory)
        if self._q and armed is not None:
            armed = armed & ~(fires & ok & (more > new.level[p:, ...]))
        said = fires & (xp.astype(t, x.dtype) >= cast(self.silent, x))
        cause = position(culprit[:p, ...])
        state = ChangeState(
            time=advance(t, row),
            since=xp.where(fires, none + 1, advance(state.since, row)),
            ready=(state.ready & ~fires) | closes,
            open=xp.where(fires | closes, none, opened),
            contrast=now,
            tail=tail.opened(new, fires | closes),
            armed=armed,
            season=season,
        )
        return state, Alarm(
            code=xp.astype(said, xp.int32),
            score=xp.where(sure, logarithm * (-1 / math.log(10)), xp.zeros_like(chance)),
            standing=xp.zeros_like(said),
            cause=xp.where(said, cause, none - 1),
            p=xp.where(sure, chance, xp.full_like(chance, xp.nan)),
        )

    def muted(self, state: ChangeState) -> Array:
        """Which features have no channel now, because their values hardly ever change: (p, *streams), boolean."""
        return state.contrast.repeats > cast(self.mute, state.contrast.repeats)

    @property
    def _q(self) -> int:
        return len(self.indices)

    def _test(self, a: Array, tested: Array, features: int) -> tuple[Array, Array, Array]:
        """The p-value's logarithm (0 where nothing is tested), itself, and which channel has it: (p + q, *streams)."""
        xp = namespace(a)
        a = xp.where(tested, a, xp.full_like(a, tail.CERTAIN))
        ways = 2 if self._q else 1
        parts = []
        for group in (slice(0, features), slice(features, None))[:ways]:
            some = a[group, ...]
            least, times = xp.min(some, axis=0), ways * some.shape[0]
            chance = tail.chance(least)
            logarithm = tail.log_chance(least, chance) + math.log(times)
            one = xp.ones_like(chance)
            parts.append((smaller(logarithm, one * 0), smaller(times * chance, one), smallest(some)))
        if not self._q:
            return parts[0]
        (first, p, column), (second, q, index) = parts
        other = second < first
        culprit = xp.concat([column & ~other, index & other], axis=0)
        return smaller(first, second), xp.where(other, q, p), culprit


def _read(heard: Mapping[str, Heard], row: Array, like: Array) -> tuple[Array, Array]:
    """The logarithms of the indices, large is bad, and where they can be used: (q, *streams)."""
    for name, one in heard.items():
        if not one.positive:
            raise ValueError(f"Change(indices=…): {name!r} may be negative: no logarithm; watch it with Distress")
    xp = namespace(like)
    y, ok = zip(*(badness(one.value, one.seen & row, one.goal, True, like) for one in heard.values()))
    return xp.stack(y, axis=0), xp.stack(ok, axis=0)
