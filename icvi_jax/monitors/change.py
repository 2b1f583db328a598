"""Change: find changes of a stream and the column that changed, at a promised rate of false alarms."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from icvi_jax.monitors import change_statistics as views
from icvi_jax.monitors import change_v1 as change_first
from icvi_jax.monitors import seasons
from icvi_jax.monitors.base import IndexValue, SampleMonitor
from icvi_jax.monitors.change_v1 import FirstState
from icvi_jax.monitors.log_scale import read_indices
from icvi_jax.numerics.arrays import advance, cast, count, larger, namespace, position, smaller, smallest
from icvi_jax.spec import LARGEST_SIZE, is_number, number, settle, spec, static, whole
from icvi_jax.types import Alarm, Array, Namespace, State

AUTO = "auto"
"""The season that is looked for while rows come."""

BLOCK, APART = 15, 5
"""Values in a block; fewest rows between two alarms."""

WHITE = (3.37, 1.14), (1.31, 0.93), (3.7, 5.0)
"""Where the tails of level, slow and jump begin: mean and spread of block maxima; those of jumps are set wide, since
jumps have the heaviest tails of the three."""

HANDICAP = 0.0, math.log(2), -math.log(2)
"""Weights 1, ½ and 2 of the views, as logarithms."""

SEEN, MAXIMA, FEED, FLOOR = 6.0, 80, 4.0, 0.2
"""Blocks a tail starts with; maxima it remembers; spreads a maximum counts as at most; least spread of maxima."""

EXCEEDED, QUIET = 0.1, 4
"""Share of blocks above the stream's threshold u; blocks before it is learned."""

CAREFUL, EARLY, EARLIER = 10, 6.0, 6
"""Blocks after which suspicious ones are not learned; the early surcharge, and the blocks that halve it."""

BACK, MOST, LEAST = 0.6, 3.0, -1.5
"""What an alarm adds to the reserve κ, and its limits."""


class Tails(NamedTuple):
    """How large quiet values get: mean and squared spread of block maxima, each (c, p, *streams), c views.

    `learned` counts maxima, (c, p, *streams); `peak` is the largest value of the open block, −inf where it has none.
    """

    learned: Array
    level: Array
    square: Array
    peak: Array


class ChangeState(NamedTuple):
    """About 60 numbers per column, 23 of them its last values, and a dozen per stream (*streams)."""

    time: Array  # rows so far with at least one value
    since: Array  # rows since the last firing
    ready: Array  # whether a block was closed since
    open: Array  # rows in the open block
    peak: Array  # the largest L in it
    blocks: Array  # blocks so far
    exceeded: Array  # those above the threshold
    threshold: Array  # u; with b and κ, the tail of the whole stream
    excess: Array  # b
    reserve: Array  # κ
    views: views.Views  # of the columns
    tails: Tails  # of the columns
    index_tails: Tails | None = None  # (1, q, *streams), of the indices
    armed: Array | None = None  # (q, *streams), boolean: the index may fire
    season: seasons.SeasonState | seasons.AutoState | None = None


@spec
class Change(SampleMonitor):
    r"""Raise an alarm when a column leaves its level, drifts or jumps; names the column. Needs no options.

    Each column is modelled with its own level, spread and memory, which neither error codes nor changes teach anything.
    Three views of it, level, drift and jump, learn from their block maxima how large quiet values get: with mean μ,
    spread s and number n of the maxima a value y is :math:`u = (y − μ)/σ + .5772` scales up its Gumbel tail,
    :math:`σ = .7797 \max(s, .2)(1 + 2/n)`. The largest, less the logarithm of how many there are, is L. An alarm is
    raised where the tail of L, learned for the stream as a whole, and a reserve that rises with every alarm leave a
    chance below `false_alarms` · 15. docs/reference/definitions.md has it in full.

    The alarm's `cause` is the column (−1: quiet, or an index), `p` the chance that a quiet block gets as high (NaN
    where nothing has a value), and the score −log10 p. `standing` is always False: there is no "recovered". A missing
    value only concerns its own column; a row without any value changes nothing.

    Parameters
    ----------
    false_alarms : alarms per sample in a quiet stream. Rates down to 1e-3 are kept on real streams;
        1e-4 may be several times as many (see `icvi_jax.monitors.budget`).
    silent : rows at the start without alarms.
    indices : names of indices that are channels too, by their logarithm; they share half of the false alarms.
    season : rows in a cycle, such as 144 for a day of ten-minute means. The usual value of each column at that row is
        subtracted first (see `icvi_jax.monitors.seasons`), and the first cycle is only learned. "auto" finds it while
        rows come, among usual lengths up to 336 rows, and then begins anew. None: no cycle.
    version : 2; 1 is the definition of 0.2, for one more version. A state saved by 0.2 goes on with version 1.
    slower, spread, jumps : deprecated options of version 1, which giving one means; version 2 sees what they were for.

    Examples
    --------
    >>> import numpy as np, icvi_jax as icvi
    >>> x = np.random.default_rng(0).normal(size=(600, 2))
    >>> x[400:, 1] += 3
    >>> pipe = icvi.Pipeline(clusterer=None, panel=None, monitors={"change": icvi.Change()})
    >>> alarm = icvi.run(pipe, x).readings.alarms["change"]
    >>> [(int(t), int(alarm.cause[t])) for t in np.flatnonzero(alarm.code)]
    [(401, 1)]
    """

    by_logarithm: ClassVar = True

    false_alarms: float = 1e-3
    silent: int = 60
    indices: tuple[str, ...] = static(())
    season: int | str | None = static(None)
    version: int = static(2)
    slower: bool = static(False)
    spread: bool = static(False)
    jumps: bool = static(False)
    index: str | None = static(None)
    name: str | None = static(None)

    def __post_init__(self) -> None:
        old = [name for name in ("slower", "spread", "jumps") if getattr(self, name)]
        if old and self.version != 1:
            warnings.warn(
                f"Change({old[0]}=True): an option of version 1, which is used now; Change() of version 2 sees what "
                f"it was for. Leave it out, or say version=1 until 0.4, when both go",
                DeprecationWarning,
                stacklevel=3,
            )
            settle(self, version=1)
        if self.version not in (1, 2):
            raise ValueError(f"Change(version={self.version!r}): expected 2, or 1 for the definition of 0.2")
        if self.version == 1 and is_number(self.silent) and self.silent == Change.silent:
            settle(self, silent=change_first.SILENT)
        if self.season == 0:
            settle(self, season=None)
        if isinstance(self.season, str) and (self.season != AUTO or self.version == 1):
            raise ValueError(f"Change(season={self.season!r}): expected the rows of a cycle, such as 144, or 'auto'")
        elif self.season is not None and not isinstance(self.season, str):
            whole("Change", "season", self.season)
        if self.season and self.jumps:
            raise ValueError(
                f"Change(season={self.season}, jumps=True): together they raise more false alarms than promised; "
                f"leave jumps out"
            )
        if isinstance(self.indices, str) or not all(isinstance(name, str) for name in self.indices):
            raise ValueError(f"Change(indices={self.indices!r}): expected a tuple of names, such as ('xb',)")
        wanted = {
            "false_alarms": (0 < self.false_alarms < 1 / BLOCK, f"a number above 0 and below 1 / {BLOCK}"),
            "silent": (0 <= self.silent <= LARGEST_SIZE, f"a number of rows, at most {LARGEST_SIZE}"),
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

    def init(self, features: int, streams: tuple[int, ...], xp: Namespace, dtype: object) -> ChangeState | FirstState:
        if self.version == 1:
            return change_first.start(self._options, features, streams, xp, dtype)
        new = self._blank(features, streams, xp, dtype)
        if self.season is None:
            return new
        if self.season == AUTO:
            return new._replace(season=seasons.seek(features, streams, xp, dtype))
        return new._replace(season=seasons.start(self._rows, features, streams, xp, dtype))

    def _blank(self, features: int, streams: tuple[int, ...], xp: Namespace, dtype: object) -> ChangeState:
        """The state before any sample, without a season."""
        none, zero = xp.zeros(streams, dtype=xp.int32), xp.zeros(streams, dtype=dtype)
        columns, q = xp.zeros((features, *streams), dtype=dtype), len(self.indices)
        level, square = (xp.stack([columns + one for one in many]) for many in _prior())
        others = xp.zeros((1, q, *streams), dtype=dtype)
        return ChangeState(
            time=none,
            since=none + APART,
            ready=none == 0,
            open=none,
            peak=zero - xp.inf,
            blocks=zero,
            exceeded=zero,
            threshold=zero + 1.5,
            excess=zero + 1,
            reserve=zero,
            views=views.start(features, streams, xp, dtype),
            tails=Tails(xp.zeros_like(level) + SEEN, level, square, xp.zeros_like(level) - xp.inf),
            index_tails=Tails(others, others, others, others - xp.inf) if q else None,
            armed=xp.ones((q, *streams), dtype=xp.bool) if q else None,
        )

    def step(
        self, state: ChangeState | FirstState, x: Array, there: Array, heard: Mapping[str, IndexValue]
    ) -> tuple[ChangeState | FirstState, Alarm]:
        if isinstance(state, FirstState):  # made by version 1, or by 0.2
            silent = self.silent if self.version == 1 else change_first.SILENT
            return change_first.step(self._options, self.false_alarms, silent, state, x, there, heard)
        xp, season = namespace(x), state.season
        begins = None
        if isinstance(season, seasons.AutoState):
            season, x, there, begins = seasons.follow(season, x, there, state.views.square, views.mute(state.views))
        elif season is not None:
            season, x, there = seasons.take(season, x, there)
        alpha = cast(self.false_alarms, x)
        row = xp.any(there, axis=0)
        columns, y, known, rest = views.take(state.views, x, there)

        # L: the largest over columns and views, with as many columns as have a value.
        some = xp.any(known[0, ...] | (rest > 0), axis=0)
        p = xp.astype(count(known[0, ...] | (rest > 0)), x.dtype)
        handicap = xp.stack([xp.full_like(x, one) for one in HANDICAP])
        height = xp.where(known, _height(state.tails, y) - handicap, xp.full_like(y, -xp.inf))
        best = xp.max(height, axis=0)
        divided = xp.log(larger(p, xp.ones_like(p)))
        longest = xp.max(rest, axis=0)
        move = xp.log(larger(longest, xp.ones_like(p)) / BLOCK)
        highest = xp.max(best, axis=0) - math.log(3.5)
        by_rest = (longest > 0) & (move > highest)
        L = xp.where(by_rest, move, highest) - divided
        culprit = xp.where(by_rest, smallest(-rest), smallest(-best))
        armed, index_tails, of_index, loud, by_index, voiced = state.armed, state.index_tails, None, None, None, None
        if index_tails is not None and armed is not None:
            of_index, voiced = read_indices(heard, row, x[0, ...])
            armed = armed | (voiced & (of_index < index_tails.level[0, ...]))
            warm = index_tails.learned[0, ...] >= SEEN
            raised = _height(index_tails, of_index[None, ...])[0, ...]
            raised = xp.where(voiced & warm & armed, raised, xp.full_like(raised, -xp.inf))
            loud = smallest(-raised)
            high = xp.max(raised, axis=0) - math.log(len(self.indices))
            by_index = high > L
            some, L = some | xp.any(voiced & warm & armed, axis=0), xp.where(by_index, high, L) - math.log(2)
            culprit = culprit & ~by_index

        # The tail of the stream: the chance that a quiet block gets as high.
        b = larger(smaller(state.excess, xp.full_like(p, 2.5)), xp.full_like(p, 0.15))
        extra = state.reserve + EARLY / (1 + state.blocks / EARLIER)
        log_p = math.log(EXCEEDED) - (xp.where(some, L, xp.zeros_like(L)) - extra - state.threshold) / b
        log_p = smaller(log_p, xp.zeros_like(log_p))
        late = state.since >= APART
        limit = xp.log(alpha * BLOCK)
        beyond = some & (log_p < limit)
        fires = beyond & late & state.ready

        # Learn from the alarm, or from a block that is full; a block that would have fired is dropped.
        counted = some & late & ~fires
        opened = advance(state.open, counted)
        peak = xp.where(counted, larger(state.peak, L), state.peak)
        full = counted & (opened >= BLOCK)
        height_limit = state.threshold + extra + b * (math.log(EXCEEDED) - limit)
        dropped = full & ~state.ready & (state.blocks > CAREFUL) & (peak > height_limit)
        closes = full & ~dropped
        learns = closes | fires
        blocks = xp.where(learns, state.blocks + 1, state.blocks)
        top = xp.where(fires, L, peak)
        over = learns & (fires | (blocks > QUIET)) & (fires | (top > state.threshold))
        moves = fires | (closes & (blocks > QUIET))
        g = b * larger(2 / (blocks + 10), xp.full_like(p, 0.01))
        ratio = xp.where(over, xp.full_like(p, (1 - EXCEEDED) / EXCEEDED), xp.full_like(p, -1.0))
        exceeded = xp.where(over, state.exceeded + 1, state.exceeded)
        h = larger(1.5 / (exceeded + 6), xp.full_like(p, 1 / 60))
        by = smaller(xp.where(over, top - state.threshold, xp.zeros_like(p)), 3 * b)
        down = state.reserve - BACK * BLOCK * alpha
        reserve = xp.where(fires, smaller(state.reserve + BACK, xp.full_like(p, MOST)), state.reserve)
        reserve = xp.where(closes, larger(down, xp.full_like(p, LEAST)), reserve)

        restarts = fires | full
        views_of = xp.where(known, (height == best[None, ...]) & (fires & ~by_rest), known) & culprit[None, ...]
        tails = _learn(state.tails, y, known, counted, views_of & fires, closes, restarts)
        if index_tails is not None and of_index is not None and loud is not None and voiced is not None:
            fired = (loud & by_index & fires)[None, ...]
            index_tails = _learn(index_tails, of_index[None, ...], voiced[None, ...], counted, fired, closes, restarts)
            armed = None if armed is None else armed & ~(fires & voiced & (of_index > index_tails.level[0, ...]))
        none = xp.zeros_like(state.time)
        said = fires & (xp.astype(state.time, x.dtype) >= cast(self.silent, x))
        new = ChangeState(
            time=advance(state.time, row),
            since=xp.where(fires, none + 1, advance(state.since, row)),
            ready=(state.ready & ~fires) | full,
            open=xp.where(restarts, none, opened),
            peak=xp.where(restarts, xp.full_like(peak, -xp.inf), peak),
            blocks=blocks,
            exceeded=exceeded,
            threshold=xp.where(moves, state.threshold + g * ratio, state.threshold),
            excess=xp.where(over, state.excess + h * (by - state.excess), state.excess),
            reserve=reserve,
            views=views.again(columns, fires),
            tails=tails,
            index_tails=index_tails,
            armed=armed,
            season=season,
        )
        if begins is not None:  # all begins anew without the season
            blank = self._blank(x.shape[0], tuple(begins.shape), xp, x.dtype)._replace(season=season)
            new = _where(begins, blank, new)
        return new, Alarm(
            code=xp.astype(said, xp.int32),
            score=xp.where(some, log_p * (-1 / math.log(10)), xp.zeros_like(log_p)),
            standing=xp.zeros_like(said),
            cause=xp.where(said, position(culprit), none - 1),
            p=xp.where(some, xp.exp(log_p), xp.full_like(log_p, xp.nan)),
        )

    def muted(self, state: ChangeState | FirstState) -> Array:
        """Which columns are not looked at now, because they nearly always have one value: (p, *streams), boolean."""
        if isinstance(state, FirstState):
            return state.contrast.repeats > cast(change_first.MUTE, state.contrast.repeats)
        return views.mute(state.views)

    @property
    def _rows(self) -> int:
        return 0 if self.season is None or isinstance(self.season, str) else self.season

    @property
    def _options(self) -> change_first.Options:
        return change_first.Options(self.slower, self.spread, self.jumps, self._rows, len(self.indices))


def _prior() -> tuple[list[float], list[float]]:
    """Means and squared spreads of the tails at the start."""
    return [mean for mean, _ in WHITE], [spread * spread for _, spread in WHITE]


def _height(tails: Tails, y: Array) -> Array:
    """How far up its Gumbel tail y is."""
    xp = namespace(y)
    n = larger(tails.learned, xp.ones_like(y))
    scale = 0.7797 * larger(xp.sqrt(tails.square), xp.full_like(y, FLOOR)) * (n + 2)
    return (y - tails.level) * n / scale + 0.5772


def _learn(tails: Tails, y: Array, known: Array, counted: Array, fired: Array, closes: Array, restarts: Array) -> Tails:
    """The tails after a row: `fired` ones learn from y, those that `closes` from the largest value of the block."""
    xp = namespace(y)
    peak = xp.where(known & counted, larger(tails.peak, y), tails.peak)
    closes = closes & (peak > -xp.inf)
    learns = fired | closes
    gap = xp.where(learns, xp.where(fired, y, peak), tails.level) - tails.level
    reach = FEED * xp.sqrt(tails.square)
    first = tails.learned < SEEN  # of an index: what it is like is not known yet
    e = xp.where(first, gap, larger(smaller(gap, reach), -reach))
    n = tails.learned + 1
    g = larger(2 / (n + 1), xp.full_like(y, 1 / MAXIMA))
    return Tails(
        learned=xp.where(learns, smaller(n, xp.full_like(n, 1000.0)), tails.learned),
        level=xp.where(learns, tails.level + g * e, tails.level),
        square=xp.where(learns, (1 - g) * (tails.square + g * e * e), tails.square),
        peak=xp.where(restarts, xp.full_like(peak, -xp.inf), peak),
    )


def _where(begins: Array, blank: State, new: State) -> State:
    """`blank` where all begins anew, else `new`; what is the same in both stays."""
    if blank is new:
        return new
    if isinstance(blank, tuple):
        return type(blank)(*(_where(begins, a, b) for a, b in zip(blank, new)))
    return namespace(blank).where(begins, blank, new)
