"""Portfolio: several clusterers on one stream, each judged by an index of its own; the best one is shown."""

from __future__ import annotations

from functools import reduce
from itertools import groupby
from typing import ClassVar, NamedTuple

from icvi_jax.clusterers import Clusterer, SequentialKMeans
from icvi_jax.clusterers.base import prototypes_of
from icvi_jax.indices import Index
from icvi_jax.indices.health import Health
from icvi_jax.numerics.arrays import advance, cast, count, far, larger, namespace, pointed, slots, smallest, squares
from icvi_jax.panel import Panel
from icvi_jax.spec import above, number, required, spec
from icvi_jax.statistics.groups import homes
from icvi_jax.types import Array, Diagnostics, DType, Event, Merge, Namespace, Prototypes, State

SPAN = 6
"""k-means with k = 1 … 6 are computed together, and so are 7 … 12, and so on: half the compiling of eleven candidates
on their own, and as fast. All of 2 … 12 together compile in a third of the time, and then take half as long again."""


class PortfolioState(NamedTuple):
    """The state of all candidates.

    Attributes
    ----------
    states : of the groups of candidates: those of a group are streams of it, in an axis before the others.
    statistics : of the judge's panel for each group.
    scores : (c, *streams), each candidate's recent value of the judge; lower where it is unknown.
    judged : (*streams), integer: samples for which there were values.
    since : (*streams), integer: samples since another candidate was chosen.
    best : (*streams), integer: the candidate that is shown.
    names : (k, *streams), integer: the persistent names of the shown clusters, −1 in slots not in use.
    fresh : (*streams), integer: the next new name.
    """

    states: tuple[State, ...]
    statistics: tuple[dict[str, State], ...]
    scores: Array
    judged: Array
    since: Array
    best: Array
    names: Array
    fresh: Array

    @property
    def centers(self) -> Array:
        """The centres of the candidate that is shown."""
        return self.shown([state.centers for state in self.states])

    @property
    def active(self) -> Array:
        """Its slots in use."""
        return self.shown([state.active for state in self.states])

    @property
    def prototypes(self) -> Prototypes:
        """The prototypes of the last event; with names if a candidate has several slots for a cluster."""
        grouped = any(prototypes_of(state).names is not None for state in self.states)
        return Prototypes(self.centers, self.active, self.names if grouped else None)

    def shown(self, parts: list[Array]) -> Array:
        """The part (k, …, *streams) of the shown candidate, with as many slots as the largest has."""
        return chosen_of(parts, self.best, max(state.centers.shape[0] for state in self.states))


@spec
class Portfolio(Clusterer):
    r"""Runs several clusterers on the same stream and shows the one that its judge trusts most: k chosen live.

    Every candidate has its own panel with the judge. Values are smoothed over `memory` samples; another candidate is
    shown when it is better by `margin`, and not within `patience` samples of the last change. Clusters of the new one
    get the names of those of the old one where both are each other's nearest; the others get new names. At a change all
    slots of the pipeline's own panel begin again.

    Parameters
    ----------
    candidates : the clusterers, such as k-means with k = 2 … 12.
    judge : the index; `Health` by default.
    margin : by how much another candidate must be better, in units of the judge.
    memory : samples over which its values are smoothed.
    patience : samples between two changes, at least.
    forgetting : λ of the panels; `Health` has its own memory.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> auto = icvi.Portfolio(candidates=tuple(icvi.SequentialKMeans(k=k, memory=50) for k in (2, 4, 6)))
    >>> pipe = icvi.Pipeline(clusterer=auto, panel=icvi.Panel(indices=(icvi.Health(),)))
    >>> icvi.run(pipe, icvi.streams.s2(seed=0).x).readings.k.shape
    (2500,)
    """

    candidates: tuple[Clusterer, ...] = required()
    judge: Index = Health()
    margin: float = 0.1
    memory: float = 100.0
    patience: float = 150.0
    forgetting: float = 0.99
    name: ClassVar = "portfolio"
    finds_k: ClassVar = True
    size: ClassVar = "candidates"
    cost: ClassVar = "the sum of its candidates' and of their panels"
    forgets: ClassVar = "as its candidates do."
    avoid: ClassVar = "Where k is known, and where an index should jump at a change: it changes its k instead."

    def __post_init__(self) -> None:
        if not isinstance(self.candidates, tuple) or not self.candidates:
            raise ValueError(f"Portfolio(candidates={self.candidates!r}): expected a tuple of clusterers")
        for part in self.candidates:
            if not isinstance(part, Clusterer) or isinstance(part, Portfolio):
                raise ValueError(f"Portfolio(candidates=…): {part!r} is no clusterer that can be a candidate")
        if not isinstance(self.judge, Index):
            raise ValueError(f"Portfolio(judge={self.judge!r}): expected an index, such as icvi.Health()")
        if self.judge.grouped:
            raise ValueError(f"Portfolio(judge={self.judge.name}): it is only for several prototypes per cluster")
        number("Portfolio", "margin", self.margin, 0 <= self.margin < float("inf"), "a number of at least 0")
        above("Portfolio", "memory", self.memory, 1)
        above("Portfolio", "patience", self.patience, 0)

    @property
    def crisp(self) -> bool:  # type: ignore[override]  # of the class elsewhere; here it is that of the candidates
        """Whether all candidates are."""
        return all(part.crisp for part in self.candidates)

    @property
    def grouped(self) -> bool:  # type: ignore[override]
        """Whether a candidate may have several slots for a cluster."""
        return any(part.grouped for part in self.candidates)

    @property
    def slots(self) -> int:
        return max(part.slots for part in self.candidates)

    @property
    def groups(self) -> list[tuple[Clusterer, ...]]:
        """The candidates in order, those of one structure together: they are computed as streams of one clusterer.

        That is k-means with other k and memories: less to compile, and some slots that a smaller k leaves empty.
        """

        def structure(item: tuple[int, Clusterer]) -> object:
            place, part = item
            return (part.seeding, part.warmup, (part.k - 1) // SPAN) if type(part) is SequentialKMeans else place

        return [tuple(part for _, part in some) for _, some in groupby(enumerate(self.candidates), structure)]

    @property
    def panel(self) -> Panel:
        """The panel of each candidate."""
        return Panel(indices=(self.judge,), forgetting=self.forgetting)

    def least(self, features: int) -> int:
        return self.candidates[self._first].least(features)

    @property
    def _first(self) -> int:
        """The candidate that is shown until they can be judged."""
        return min(1, len(self.candidates) - 1)

    def init(self, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> PortfolioState:
        none = xp.zeros(streams, dtype=xp.int32)
        lanes = [(max(parts, key=lambda part: part.slots), (len(parts), *streams)) for parts in self.groups]
        return PortfolioState(
            states=tuple(part.init(features, each, xp, dtype) for part, each in lanes),
            statistics=tuple(self.panel.start(part.slots, features, each, xp, dtype) for part, each in lanes),
            scores=xp.zeros((len(self.candidates), *streams), dtype=dtype),
            judged=none,
            since=none,
            best=none + self._first,
            names=xp.full((self.slots, *streams), -1, dtype=xp.int32),
            fresh=none,
        )

    def step(self, state: PortfolioState, x: Array, seen: Array) -> tuple[PortfolioState, Event]:
        xp, K, panel = namespace(x), self.slots, self.panel
        states, statistics, events, values = [], [], [], []
        for parts, old, kept in zip(self.groups, state.states, state.statistics):
            lanes = xp.zeros((len(parts),) + (1,) * seen.ndim, dtype=x.dtype)
            new, event = _advanced(parts, old, x[:, None, ...] + lanes, seen & (lanes == 0))
            kept = panel.update(kept, event, None, parts[0].crisp)
            states.append(new)
            statistics.append(kept)
            events.append(event)
            values.append(panel.values(kept, event.after, event.ready)[self.judge.name])
        scores, judged = self._scored(state, xp.concat(values), seen)
        best, turned = self._choice(state, scores, judged, seen)
        since = xp.where(turned, xp.zeros_like(state.since), advance(state.since, seen))

        def shown(parts: list[Array]) -> Array:
            return chosen_of(parts, best, K)

        def one(parts: list[Array]) -> Array:
            return chosen_of([part[None, ...] for part in parts], best, 1)[0, ...]

        before = state.prototypes
        after = Prototypes(shown([e.after.centers for e in events]), shown([e.after.active for e in events]))
        # names a candidate gives its slots before and after the sample; a slot that starts again has another one
        earlier, later = (shown(list(a)) for a in zip(*(_local(e) for e in events)))
        names, fresh = _followed(before.active, state.names, earlier, after.active, later, state.fresh)
        matched = _matched(before, state.names, after, later)
        other, more = _filled(matched, after.active, later, state.fresh)
        names, fresh = xp.where(turned, other, names), xp.where(turned, more, fresh)
        names, fresh = xp.where(seen, names, state.names), xp.where(seen, fresh, state.fresh)

        told = [_shown(event) for event in events]
        label = one([s.label for s in told])
        hit = slots(names, K) == label
        own = one([s.cluster for s in told])
        cluster = xp.where((label >= 0) & (own >= 0), pointed(names, hit), xp.full_like(label, -1))
        off = xp.zeros_like(after.active)
        born = shown([_or_off(e.born, e.after.active) for e in events])
        merge = None
        if any(e.merge is not None for e in events):
            into, gone = (
                shown([_or_off(None if e.merge is None else e.merge[i], e.after.active) for e in events])
                for i in range(2)
            )
            merge = Merge(xp.where(turned, off, into), xp.where(turned, off, gone))
        made = PortfolioState(tuple(states), tuple(statistics), scores, judged, since, best, names, fresh)
        event = Event(
            x=x,
            u=shown([e.u for e in events]),
            before=before,
            after=after._replace(names=names if self.grouped else None),
            seen=seen,
            ready=one([e.ready for e in events]),
            shown=Diagnostics(
                label,
                one([s.k for s in told]),
                one([s.outlier for s in told]),
                one([s.overflow for s in told]),
                cluster,
                one([s.surprise for s in told]),
            ),
            born=xp.where(turned, after.active, born),
            merge=merge,
        )
        return made, event

    def _scored(self, state: PortfolioState, values: Array, seen: Array) -> tuple[Array, Array]:
        """The smoothed values of the judge, and for how many samples there were some."""
        xp = namespace(values)
        values = values if self.judge.goal == "max" else -values
        known = (values > -xp.inf) & (values < xp.inf)
        some = seen & xp.any(known, axis=0)
        judged = advance(state.judged, some)
        rate = larger(1 / xp.astype(larger(judged, xp.ones_like(judged)), values.dtype), 1 / cast(self.memory, values))
        values = xp.where(known, values, state.scores)
        return xp.where(some, state.scores + rate * (values - state.scores), state.scores), judged

    def _choice(self, state: PortfolioState, scores: Array, judged: Array, seen: Array) -> tuple[Array, Array]:
        """The candidate to show, and whether it is another one than before."""
        xp, patience = namespace(scores), cast(self.patience, scores)
        top = smallest(-scores)
        index = slots(scores, scores.shape[0])
        mine = pointed(scores, index == state.best)
        place = xp.sum(xp.where(top, index, xp.zeros_like(index)), axis=0, dtype=xp.int32)
        waited = (xp.astype(state.since, scores.dtype) >= patience) & (judged > 1)
        better = xp.max(scores, axis=0) > mine + cast(self.margin, scores)
        first = judged == 20  # the first choice, without a margin
        turned = seen & (place != state.best) & ((waited & better) | (first & (state.judged < judged)))
        return xp.where(turned, place, state.best), turned


def _advanced(parts: tuple[Clusterer, ...], state: State, x: Array, seen: Array) -> tuple[State, Event]:
    """A step of candidates of one structure, each with its own stream (c, *streams)."""
    largest = max(parts, key=lambda part: part.slots)
    same = [part for part in parts if isinstance(part, SequentialKMeans)]
    if len(same) < 2 or not isinstance(largest, SequentialKMeans):
        return largest.step(state, x, seen)
    xp, lead = namespace(x), (len(same),) + (1,) * (seen.ndim - 1)
    sizes = xp.reshape(xp.asarray([part.k for part in same], dtype=xp.int32), lead)
    memory = xp.reshape(xp.stack([cast(part.memory, x) for part in same]), lead)
    return largest.advance(state, x, seen, sizes, memory)


def chosen_of(parts: list[Array], best: Array, k: int) -> Array:
    """Of groups of candidates (kᵢ, …, c, *streams), the one at `best` (*streams), with zeros up to k slots."""
    xp, wide = namespace(parts[0]), []
    for part in parts:
        axis, spare = part.ndim - 1 - best.ndim, k - part.shape[0]
        part = xp.concat([part] + [xp.zeros_like(part[:1, ...])] * spare) if spare else part
        wide += [part[(slice(None),) * axis + (i, ...)] for i in range(part.shape[axis])]
    return reduce(lambda a, item: xp.where(best == item[0], item[1], a), enumerate(wide[1:], 1), wide[0])


def _shown(event: Event) -> Diagnostics:
    if event.shown is None:
        raise TypeError("a candidate of a Portfolio must give `shown` in its events")
    return event.shown


def _or_off(mask: Array | None, like: Array) -> Array:
    return namespace(like).zeros_like(like) if mask is None else mask


def _local(event: Event) -> tuple[Array, Array]:
    """A candidate's own names of its slots before and after a sample (k, *streams)."""
    xp = namespace(event.u)
    if event.before.names is not None and event.after.names is not None:
        return event.before.names, event.after.names
    k = event.u.shape[0]
    own = slots(event.after.active, k) + xp.zeros_like(xp.astype(event.after.active, xp.int32))
    again = ~event.before.active | _or_off(event.born, event.after.active)
    return own, xp.where(again, own + k, own)


def _followed(
    was: Array, names: Array, earlier: Array, active: Array, later: Array, fresh: Array
) -> tuple[Array, Array]:
    """The names after a sample of the same candidate: a cluster keeps its name, a new one gets a new one."""
    xp = namespace(names)
    found = xp.full_like(names, -1)
    for j in range(names.shape[0]):
        found = xp.where((later == earlier[j, ...]) & was[j, ...], names[j, ...], found)
    return _filled(xp.where(active, found, xp.full_like(found, -1)), active, later, fresh)


def _filled(found: Array, active: Array, local: Array, fresh: Array) -> tuple[Array, Array]:
    """New names for the clusters without one (−1): one for each, in the order of their first slots."""
    xp = namespace(found)
    rows: list[Array] = []
    for i in range(found.shape[0]):
        name = found[i, ...]
        for j in range(i):  # a slot of a cluster that was named a moment ago
            same = active[j, ...] & (local[j, ...] == local[i, ...])
            name = xp.where(active[i, ...] & same, rows[j], name)
        new = active[i, ...] & (name < 0)
        rows.append(xp.where(new, fresh, name))
        fresh = advance(fresh, new)
    return xp.stack(rows), fresh


def _matched(old: Prototypes, names: Array, new: Prototypes, local: Array) -> Array:
    """The names (k, *streams) of the old clusters that are the nearest of a new one, and it of them; −1 elsewhere.

    A cluster of several slots is where its first slot is.
    """
    xp = namespace(names)
    lead = slots(names, names.shape[0])
    begin = old.active & (homes(old._replace(names=names)) == lead)
    end = new.active & (homes(new._replace(names=local)) == lead)
    big = far(old.centers.dtype, xp)
    rows = []
    for i in range(names.shape[0]):
        d = squares(new.centers[i, ...] - old.centers, 1)
        rows.append(xp.where(begin & end[i, ...], d, xp.full_like(d, big)))
    nearest = xp.stack([xp.min(row, axis=0) for row in rows])  # of the old ones, for each new one
    back = reduce(lambda a, b: xp.where(a < b, a, b), rows)  # of the new ones, for each old one
    out = []
    for i, row in enumerate(rows):
        pair = (row < big) & (row == nearest[i, ...]) & (row == back)
        one = pair & smallest(xp.where(pair, slots(row, row.shape[0]), xp.full_like(names, names.shape[0])))
        out.append(xp.where(count(one) > 0, pointed(names, one), xp.full_like(names[0, ...], -1)))
    return xp.stack(out)
