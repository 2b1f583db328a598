r"""Vitals: what `Health` must know of the last samples: faded means, and 24 of the last 288 members as they were.

All means forget with ρ = 1 − 1/150, whatever the panel's forgetting, since the question is about the last 300 samples.
*Outer valley*: with s the place of a sample on the segment from its own centre (0) to the nearest centre of another
cluster (1), the share with s > .3 against that with |s| < .2: no valley means that one cluster was cut. *Inner valley*:
every slot keeps a, the faded mean of sgn(r·a) r for the differences r of its members from their own faded mean, so that
±a are the middles of its two halves; the share between them, |r·a| < .3 ‖a‖², against that at ±a: a valley means that
two clusters share the slot. *Neighbours*: the nearest kept member of the same cluster, beside the mean one (clumps:
several clusters share the slot) and the nearest of another cluster (beside: a cluster was cut). Some of
these are also *lately*: means that forget with 1 − 1/25, since the kept members are the memory of 288 samples already.
`docs/reference/definitions.md` has the whole list.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from icvi_jax.numerics.arrays import (
    cast,
    extreme,
    larger,
    namespace,
    pointed,
    position,
    slots,
    smaller,
    smallest,
    squares,
)
from icvi_jax.numerics.moments import share
from icvi_jax.statistics.base import RecordedClustering, States, Statistic, Step, chosen, pick, placed
from icvi_jax.statistics.groups import homes
from icvi_jax.types import Array, DType, Merge, Namespace, Prototypes

if TYPE_CHECKING:
    from icvi_jax.statistics.index_view import Stats

KEEP = 1 - 1 / 150
"""ρ: what a step leaves of the past."""

LATE = 1 - 1 / 25
"""What a step leaves of the means that are of the last samples only."""

KEPT, EVERY = 16, 18
"""Members that are remembered as they were, and how many members pass from one of them to the next."""

LIGHT, HEAVY = 0.01, 0.05
"""Shares of the stream: a lighter slot is nobody's neighbour; only a heavier one can be the worst."""

MEMBER = (
    "near",
    "core",
    "near by mass",
    "core by mass",
    "sil",
    "mid",
    "side",
    "gain",
    "ratio",
    "lone",
    "within",
    "inside",
    "follow",
    "own",
    "turn",
    "leap",
    "stay",
    "skip",
    "met",
    "clump",
    "spread",
    "beside",
    "alike",
)
"""Means over members; those "by mass" count a member by the share of its cluster, since large clusters decide."""

LATELY = ("met", "clump", "spread")
"""Of these there are also means of the last members only."""

STREAM = ("total", "jump", "cosine")


class VitalsState(NamedTuple):
    """Faded means by slot, over the members of clusters, and over all samples; and some members.

    Attributes
    ----------
    mass : (k, *streams), the faded number of members.
    spot : (k, p, *streams), the mean of the members, which may be far from a centre that does not follow.
    width : (k, *streams), the mean of ‖r‖², r = x − spot before the sample.
    half : (k, p, *streams), a.
    edge : (k, *streams), the share of members with s > .3.
    last : (k, *streams), boolean: the slot of the last member.
    mean, before : (p, *streams), the mean of all samples, and the last sample.
    rest : (p, *streams), the difference of the last member from its centre.
    seen, members : (*streams), the faded numbers of samples, and of members of clusters that were there before.
    lately : (*streams), the number of those members faded with `LATE`.
    of_members : (23, *streams), means over members, in the order of `MEMBER`.
    of_late : (3, *streams), means over the last members, in the order of `LATELY`.
    of_stream : (3, *streams), means over all samples, in the order of `STREAM`.
    past : (KEPT, p, *streams), members as they were.
    whose : (KEPT, *streams), integer: their clusters, −1 where there is none yet.
    phase : (*streams), integer: members since the first of `past` was last replaced.
    """

    mass: Array
    spot: Array
    width: Array
    half: Array
    edge: Array
    last: Array
    mean: Array
    before: Array
    rest: Array
    seen: Array
    members: Array
    lately: Array
    of_members: Array
    of_late: Array
    of_stream: Array
    past: Array
    whose: Array
    phase: Array


class _Slots(NamedTuple):
    """The fields of a state that depend on slots, but for the last one."""

    mass: Array
    spot: Array
    width: Array
    half: Array
    edge: Array


class Vitals(Statistic[VitalsState, "VitalsView"]):
    """Faded means from which `Health` is read; they depend on the path of the centres.

    Two combined shards do not have the samples between them, and a sample that is removed stays.
    """

    name: ClassVar = "vitals"
    gathers: ClassVar = False
    shards: ClassVar = False

    @staticmethod
    def init(k: int, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> VitalsState:
        flat, row, one = (xp.zeros((*lead, *streams), dtype=dtype) for lead in ((k,), (features,), ()))
        return VitalsState(
            mass=flat,
            spot=xp.zeros((k, features, *streams), dtype=dtype),
            width=flat,
            half=xp.zeros((k, features, *streams), dtype=dtype),
            edge=flat,
            last=xp.zeros((k, *streams), dtype=xp.bool),
            mean=row,
            before=row,
            rest=row,
            seen=one,
            members=one,
            lately=one,
            of_late=xp.zeros((len(LATELY), *streams), dtype=dtype),
            of_members=xp.zeros((len(MEMBER), *streams), dtype=dtype),
            past=xp.zeros((KEPT, features, *streams), dtype=dtype),
            whose=xp.full((KEPT, *streams), -1, dtype=xp.int32),
            phase=xp.zeros(streams, dtype=xp.int32),
            of_stream=xp.zeros((len(STREAM), *streams), dtype=dtype),
        )

    @staticmethod
    def update(old: States, step: Step) -> VitalsState:
        known = step.before.active if step.born is None else step.before.active & ~step.born
        new = advance(old[Vitals], step.x, step.u, step.before, known)
        xp, active = namespace(step.x), step.after.active
        state = pick(step.seen, new, old[Vitals])
        return state._replace(mass=xp.where(active, state.mass, 0 * state.mass), last=state.last & active)

    @staticmethod
    def batch(recording: RecordedClustering) -> VitalsState:
        xp, (n, p) = namespace(recording.x), recording.x.shape
        k = recording.active.shape[1]
        state = Vitals.init(k, p, (), xp, recording.x.dtype)
        off, away = xp.zeros_like(recording.active[0, :]), 0 * recording.centers[0, ...]
        for t in range(n):
            names = None if recording.names is None else recording.names[max(t - 1, 0), :]
            there = Prototypes(recording.centers[t - 1, ...], recording.active[t - 1, :], names)
            there = there if t else Prototypes(away, off, names)
            state = advance(state, recording.x[t, :], recording.u[t, :], there, there.active)
            active = recording.active[t, :]
            state = state._replace(mass=xp.where(active, state.mass, 0 * state.mass), last=state.last & active)
        return state

    @staticmethod
    def shift(state: VitalsState, by: Array) -> VitalsState:
        return state._replace(
            spot=state.spot + by, mean=state.mean + by, before=state.before + by, past=state.past + by
        )

    @staticmethod
    def fade(state: VitalsState, by: Array, alive: Array) -> VitalsState:
        return state._replace(mass=namespace(by).where(alive, state.mass, 0 * state.mass), last=state.last & alive)

    @staticmethod
    def combine(a: States, b: States) -> VitalsState:
        xp, one, two = namespace(a[Vitals].mass), a[Vitals], b[Vitals]
        slots = _combined(_slots(one), _slots(two))
        fields = dict(zip(_Slots._fields, slots))
        seen, part = share(one.seen, 1, two.seen)
        members, inner = share(one.members, 1, two.members)
        fields |= {
            "mean": one.mean + part * (two.mean - one.mean),
            "of_stream": one.of_stream + part * (two.of_stream - one.of_stream),
            "of_members": one.of_members + inner * (two.of_members - one.of_members),
            "seen": seen,
            "members": members,
        }
        later = pick(xp.astype(two.seen > 0, xp.bool), two, one)
        return later._replace(**fields)

    @staticmethod
    def remove(old: States, step: Step) -> VitalsState:
        return old[Vitals]  # where the centres were is not known any more

    @staticmethod
    def merge(old: States, merge: Merge) -> VitalsState:
        state = old[Vitals]
        slots = _slots(state)
        new = placed(slots, _combined(chosen(slots, merge.into), chosen(slots, merge.gone)), merge)
        moved = namespace(state.mass).any(state.last & merge.gone, axis=0)
        last = (state.last & ~merge.gone) | (merge.into & moved)
        return state._replace(**dict(zip(_Slots._fields, new)), last=last)

    @staticmethod
    def forget(state: VitalsState, born: Array) -> VitalsState:
        return state._replace(mass=namespace(born).where(born, 0 * state.mass, state.mass), last=state.last & ~born)

    @staticmethod
    def view(stats: Stats, state: VitalsState) -> VitalsView:
        return VitalsView(stats, state)


def advance(state: VitalsState, x: Array, u: Array, there: Prototypes, known: Array) -> VitalsState:
    """The state after the sample `x` with memberships `u`; `there` and `known` are the prototypes before it."""
    xp = namespace(x)
    zero, one, keep = xp.zeros_like(state.seen), xp.ones_like(state.seen), cast(KEEP, x)
    tiny = cast(float(xp.finfo(x.dtype).smallest_normal), x)
    joined = (u > 0) & smallest(-u)
    own = joined & known
    member = xp.any(own, axis=0)
    e = x - there.centers
    d = squares(e, 1)
    same = own if there.names is None else known & (there.names == pointed(there.names, own)) & member
    other = known & ~same & (state.mass >= LIGHT * state.seen)
    far = xp.where(other, d, xp.full_like(d, xp.inf))
    nearest = smallest(far)
    paired = member & xp.any(other, axis=0)
    r, across = pointed(e, own), pointed(e, nearest)
    d0, dj = squares(r), xp.where(paired, xp.min(far, axis=0), one)
    gap = squares(r - across)
    spread = paired & (gap > 0)
    gap = xp.where(spread, gap, one)
    s = (d0 + gap - dj) / (2 * gap)
    worse = larger(d0, dj)

    a = pointed(state.half, own)
    begun = member & (pointed(state.mass, own) > 0)  # a slot in use may have no members yet
    size = xp.where(begun, squares(a), zero)
    inside = xp.where(begun, x - pointed(state.spot, own), xp.zeros_like(x))
    t = xp.sum(inside * a, axis=0)
    z = xp.where(size > 0, t / xp.where(size > 0, size, one), one)
    width = pointed(state.width, own)

    label = position(own) if there.names is None else pointed(there.names, own)
    kin = member & (state.whose == label)
    kind = member & (state.whose >= 0) & ~kin
    gaps = squares(x - state.past, 1)
    kin_count, kind_count = (xp.sum(xp.astype(some, x.dtype), axis=0) for some in (kin, kind))
    several, both_sides = kin_count > 1, (kin_count > 0) & (kind_count > 0)
    closest, foreign = (extreme(smaller, xp.where(some, gaps, xp.full_like(gaps, xp.inf))) for some in (kin, kind))
    closest, foreign = xp.where(kin_count > 0, closest, zero), xp.where(kind_count > 0, foreign, one)
    number, mine = larger(kin_count, one), xp.where(kin, gaps, 0 * gaps)
    usual = xp.sum(mine, axis=0) / number
    part = 1 / xp.where(usual > 0, usual, one)

    within = state.of_members[MEMBER.index("within"), ...]
    scale = 1 / xp.where(within > 0, within, xp.where(d0 > 0, d0, one))
    near, aside = spread & (s > 0.3), xp.abs(z)
    turn = member & ~xp.any(state.last & same, axis=0) & xp.any(state.last, axis=0)
    jump = xp.where(state.seen > 0, squares(x - state.before), zero)
    stay = xp.where(turn, zero, jump)
    flags = {
        "near": near,
        "core": spread & (xp.abs(s) < 0.2),
        "lone": ~paired,
        "mid": aside < 0.3,
        "side": (aside > 0.7) & (aside < 1.3),
        "turn": turn,
        "met": several,
    }
    values = {name: xp.astype(flag, x.dtype) for name, flag in flags.items()}
    values |= {
        "sil": xp.where(paired & (worse > 0), (dj - d0) / xp.where(worse > 0, worse, one), zero),
        "ratio": xp.where(spread, smaller(d0 / gap, 4 * one), zero),
        "gain": xp.where(width > 0, smaller(size / xp.where(width > 0, width, one), one), zero),
        "within": d0,
        "inside": squares(inside),
        "follow": smaller(larger(xp.sum(r * state.rest, axis=0) * scale, -20 * one), 20 * one),
        "own": xp.sum(xp.where(same, state.mass, 0 * state.mass), axis=0) / larger(state.seen, one),
        "leap": jump - stay,
        "stay": stay,
        "skip": smaller(stay * scale, 20 * one) ** 2,
        "clump": xp.where(several, closest * part, zero),
        "spread": xp.where(several, squares(mine * part) / number, zero),
        "beside": xp.where(both_sides, closest / larger(closest + foreign, tiny), zero),
        "alike": kin_count / larger(kin_count + kind_count, one),
    }
    values |= {f"{name} by mass": values[name] * values["own"] for name in ("near", "core")}
    members = keep * state.members + 1
    means = state.of_members + (1 / members) * (xp.stack([values[name] for name in MEMBER]) - state.of_members)
    lately = cast(LATE, x) * state.lately + 1
    late = state.of_late + (1 / lately) * (xp.stack([values[name] for name in LATELY]) - state.of_late)

    seen = keep * state.seen + 1
    once = 1 / seen
    mean = xp.where(state.seen > 0, state.mean + once * (x - state.mean), x)
    y, back = x - mean, state.before - mean
    total, other_total = squares(y), squares(back)
    along, both = xp.sum(y * back, axis=0), total * other_total
    turned = (total > 0) & (other_total > 0)
    cosine = along / xp.where(turned, total, one) * (along / xp.where(turned, other_total, one))
    row = (total, jump, xp.where(turned & (both > 0), cosine, zero))
    of_stream = state.of_stream + once * (xp.stack(row) - state.of_stream)

    mass = larger(keep * state.mass, smaller(state.mass, tiny)) + xp.astype(joined, x.dtype)
    # the first sample of a slot has r = 0 and a mass of 1: it overwrites what the slot was before
    share_of = xp.astype(joined, x.dtype) / larger(pointed(mass, joined), one)
    wide = share_of[:, None, ...]
    toward = xp.where(t >= 0, one, -one) * inside
    taken = member & (slots(kin, KEPT) * EVERY == state.phase)
    later = xp.where(state.phase < KEPT * EVERY - 1, state.phase + 1, xp.zeros_like(state.phase))
    return VitalsState(
        mass=mass,
        spot=xp.where(wide == 1, x, state.spot + wide * (x - state.spot)),
        width=state.width + share_of * (values["inside"] - state.width),
        half=state.half + wide * (toward - state.half),
        edge=state.edge + share_of * (values["near"] - state.edge),
        last=xp.where(xp.any(joined, axis=0), joined, state.last),
        mean=mean,
        before=x,
        rest=xp.where(member, r, state.rest),
        seen=seen,
        members=xp.where(member, members, state.members),
        lately=xp.where(member, lately, state.lately),
        of_members=xp.where(member, means, state.of_members),
        of_late=xp.where(member, late, state.of_late),
        of_stream=of_stream,
        past=xp.where(taken[:, None, ...], x, state.past),
        whose=xp.where(taken, label, state.whose),
        phase=xp.where(member, later, state.phase),
    )


SIGNS = (
    "outer valley",
    "outer valley by mass",
    "inner valley",
    "silhouette",
    "gain of a split",
    "distance over gap",
    "within over total",
    "off the centres",
    "smoothness",
    "dimension",
    "residuals follow",
    "concentration",
    "clusters",
    "stickiness",
    "leaps",
    "skips",
    "outside the largest",
    "worst edge",
    "widest",
    "alone",
    "clumps",
    "spread",
    "beside",
    "alike",
    "clumps lately",
    "spread lately",
)
"""The scale-free numbers that `Health` is computed from, in order."""


class VitalsView:
    """What indices get.

    Attributes
    ----------
    ready : (*streams), whether the means are of enough samples.
    signs : the numbers of `SIGNS`, each (*streams).
    """

    def __init__(self, stats: Stats, state: VitalsState) -> None:
        self._active, self._slots, self.state = stats.slots.active, stats.slots, state
        self.ready = (state.seen >= 50) & (state.members > 0)

    @cached_property
    def heavy(self) -> Array:
        """(k, *streams): slots with enough of the recent samples to be the worst."""
        return self._active & (self.state.mass >= HEAVY * self.state.seen)

    @cached_property
    def gains(self) -> Array:
        """(k, *streams): the share of a slot's squared distances that its two halves would take away."""
        state, xp = self.state, namespace(self.state.mass)
        some = state.width > 0
        got = squares(state.half, 1) / xp.where(some, state.width, xp.ones_like(state.width))
        return xp.where(some, got, 0 * got)

    def most(self, a: Array) -> Array:
        """The largest of `a` (k, *streams) over heavy slots; 0 if there is none."""
        xp = namespace(a)
        return xp.max(xp.where(self.heavy, a, 0 * a), axis=0)

    @cached_property
    def signs(self) -> list[Array]:
        state, xp = self.state, namespace(self.state.mass)
        m = {name: state.of_members[i, ...] for i, name in enumerate(MEMBER)}
        total, jump, cosine = (state.of_stream[i, ...] for i in range(len(STREAM)))
        one = xp.ones_like(total)
        total = xp.where(total > 0, total, one)
        own, met, seen = larger(m["own"], 1e-3 * one), larger(m["met"], 1e-3 * one), larger(state.seen, one)
        lately, clump, spread = (state.of_late[i, ...] for i in range(len(LATELY)))
        lately = larger(lately, 1e-3 * one)
        largest = xp.max(state.mass, axis=0) / seen
        scatter = xp.sum(state.width * state.mass, axis=0) / seen

        def log(a: Array, least: float) -> Array:
            return xp.log(larger(a, 0 * a) + least)

        def over(a: Array, b: Array, least: float | Array) -> Array:
            return xp.log((larger(a, 0 * a) + least) / (larger(b, 0 * b) + least))

        return [
            over(m["near"], m["core"], 0.01),
            over(m["near by mass"], m["core by mass"], 0.01 * own),
            over(m["mid"], m["side"], 0.01),
            m["sil"],
            m["gain"],
            log(m["ratio"], 1e-3),
            log(smaller(m["within"] / total, one), 1e-4),  # more than 1 where centres stay behind: seldom, and no news
            over(m["inside"], m["within"], 1e-3 * total),
            log(jump / total, 1e-3),
            log(cosine, 1e-3),
            m["follow"],
            log(m["own"], 0.01),
            log(self.clusters, 0.5),
            over(m["turn"], 1 - m["own"], 0.005),
            over(m["leap"], m["stay"], 1e-3 * total),
            log(m["skip"], 0.01),
            log(1 - largest, 0.003),
            self.most(state.edge),
            over(self.most(state.width), scatter, 1e-3 * total),
            m["lone"],
            log(m["clump"] / met, 0.01),
            log(m["spread"] / met, 0.1),
            m["beside"],
            log(m["alike"], 0.01),
            log(clump / lately, 0.01),
            log(spread / lately, 0.1),
        ]

    @cached_property
    def clusters(self) -> Array:
        """How many clusters have at least 1 % of the recent samples."""
        xp, mass, slots = namespace(self.state.mass), self.state.mass, self._slots
        here = self._active
        if slots.names is not None:
            home = homes(slots)
            rows = [xp.sum(xp.where(here & (home == g), mass, 0 * mass), axis=0) for g in range(mass.shape[0])]
            mass = xp.stack(rows)
        return xp.sum(xp.astype(here & (mass >= LIGHT * self.state.seen) & (mass > 0), mass.dtype), axis=0)


def _slots(state: VitalsState) -> _Slots:
    return _Slots(state.mass, state.spot, state.width, state.half, state.edge)


def _combined(a: _Slots, b: _Slots) -> _Slots:
    """Means of two sets of members taken together; the halves of the second point the way of the first."""
    xp = namespace(a.mass)
    mass, part = share(a.mass, 1, b.mass)
    along = xp.sum(a.half * b.half, axis=1) >= 0
    turned = xp.where(along[:, None, ...], b.half, -b.half)
    mixed = [one + part * (two - one) for one, two in zip((a.width, a.edge), (b.width, b.edge))]
    wide = part[:, None, ...]
    return _Slots(mass, a.spot + wide * (b.spot - a.spot), mixed[0], a.half + wide * (turned - a.half), *mixed[1:])
