r"""Vitals: what `Health` must know of the last samples, in faded means without a buffer.

All means forget with ρ = 1 − 1/150, whatever the panel's forgetting, since the question is about the last 300 samples.
Two valleys carry most of it. *Outer*: with s the place of a sample on the segment from its own centre (0) to the
nearest centre of another cluster (1), the share with s > .3 against that with |s| < .2: no valley means that one
cluster was cut. *Inner*: every slot keeps a, the faded mean of sgn(r·a) r for the differences r of its members from
their own faded mean, so that ±a are the middles of its two halves; the share of members between them, |r·a| < .3 ‖a‖²,
against that at ±a: a valley means that two clusters share the slot. `docs/reference/definitions.md` has the whole list.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from icvi_jax.numerics.arrays import cast, larger, namespace, pointed, smaller, smallest, squares
from icvi_jax.numerics.moments import share
from icvi_jax.statistics.base import RecordedClustering, States, Statistic, Step, chosen, pick, placed
from icvi_jax.statistics.groups import homes
from icvi_jax.types import Array, DType, Merge, Namespace, Prototypes

if TYPE_CHECKING:
    from icvi_jax.statistics.index_view import Stats

KEEP = 1 - 1 / 150
"""ρ: what a step leaves of the past."""

LIGHT, HEAVY = 0.01, 0.05
"""Shares of the stream: a lighter slot is nobody's neighbour; only a heavier one can be the worst."""

OF_SAMPLES = ("near", "core", "sil", "mid", "side", "gain")
MEMBER = (
    *OF_SAMPLES,
    "ratio",
    "lone",
    "within",
    "tail",
    "follow",
    "own",
    "turn",
    *(f"{name} by mass" for name in OF_SAMPLES),
)
"""Means over members; those "by mass" count a member by the share of its cluster, since large clusters decide."""

STREAM = ("total", "tail", "jump", "cosine", "noise")


class VitalsState(NamedTuple):
    """Faded means by slot, over the members of clusters, and over all samples.

    Attributes
    ----------
    mass : (k, *streams), the faded number of members.
    spot : (k, p, *streams), the mean of the members, which may be far from a centre that does not follow.
    width : (k, *streams), the mean of ‖r‖², r = x − spot before the sample.
    half : (k, p, *streams), a.
    middle : (k, *streams), the share of members between ±a: |r·a| < .3 ‖a‖².
    edge : (k, *streams), the share of members with s > .3.
    last : (k, *streams), boolean: the slot of the last member.
    mean, before : (p, *streams), the mean of all samples, and the last sample.
    rest : (p, *streams), the difference of the last member from its centre.
    seen, members : (*streams), the faded numbers of samples, and of members of clusters that were there before.
    run : (*streams), members since the cluster last changed, at most 1000.
    of_members : (19, *streams), means over members, in the order of `MEMBER`.
    of_stream : (5, *streams), means over all samples, in the order of `STREAM`.
    """

    mass: Array
    spot: Array
    width: Array
    half: Array
    middle: Array
    edge: Array
    last: Array
    mean: Array
    before: Array
    rest: Array
    seen: Array
    members: Array
    run: Array
    of_members: Array
    of_stream: Array


class _Slots(NamedTuple):
    """The fields of a state that depend on slots, but for the last one."""

    mass: Array
    spot: Array
    width: Array
    half: Array
    middle: Array
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
            middle=flat,
            edge=flat,
            last=xp.zeros((k, *streams), dtype=xp.bool),
            mean=row,
            before=row,
            rest=row,
            seen=one,
            members=one,
            run=one,
            of_members=xp.zeros((len(MEMBER), *streams), dtype=dtype),
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
        return state._replace(spot=state.spot + by, mean=state.mean + by, before=state.before + by)

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

    within = state.of_members[MEMBER.index("within"), ...]
    scale = 1 / xp.where(within > 0, within, xp.where(d0 > 0, d0, one))
    near, aside = spread & (s > 0.3), xp.abs(z)
    turn = member & ~xp.any(state.last & same, axis=0) & xp.any(state.last, axis=0)
    flags = {
        "near": near,
        "core": spread & (xp.abs(s) < 0.2),
        "lone": ~paired,
        "mid": aside < 0.3,
        "side": (aside > 0.7) & (aside < 1.3),
        "turn": turn,
    }
    values = {name: xp.astype(flag, x.dtype) for name, flag in flags.items()}
    values |= {
        "sil": xp.where(paired & (worse > 0), (dj - d0) / xp.where(worse > 0, worse, one), zero),
        "ratio": xp.where(spread, smaller(d0 / gap, 4 * one), zero),
        "gain": xp.where(width > 0, smaller(size / xp.where(width > 0, width, one), one), zero),
        "within": d0,
        "tail": smaller(d0 * scale, 20 * one) ** 2,
        "follow": smaller(larger(xp.sum(r * state.rest, axis=0) * scale, -20 * one), 20 * one),
        "own": xp.sum(xp.where(same, state.mass, 0 * state.mass), axis=0) / larger(state.seen, one),
    }
    values |= {f"{name} by mass": values[name] * values["own"] for name in OF_SAMPLES}
    members = keep * state.members + 1
    means = state.of_members + (1 / members) * (xp.stack([values[name] for name in MEMBER]) - state.of_members)

    seen = keep * state.seen + 1
    once = 1 / seen
    mean = xp.where(state.seen > 0, state.mean + once * (x - state.mean), x)
    y, back = x - mean, state.before - mean
    total, other_total = squares(y), squares(back)
    usual = state.of_stream[0, ...]
    both = total * other_total
    along = xp.sum(y * back, axis=0)
    turned = (total > 0) & (other_total > 0)
    cosine = along / xp.where(turned, total, one) * (along / xp.where(turned, other_total, one))
    row = (
        total,
        smaller(total / xp.where(usual > 0, usual, xp.where(total > 0, total, one)), 20 * one) ** 2,
        xp.where(state.seen > 0, squares(x - state.before), zero),
        xp.where(turned & (both > 0), cosine, zero),
        xp.astype(~xp.any(u > 0, axis=0), x.dtype),
    )
    of_stream = state.of_stream + once * (xp.stack(row) - state.of_stream)

    tiny = xp.asarray(float(xp.finfo(x.dtype).smallest_normal), dtype=x.dtype)
    mass = larger(keep * state.mass, smaller(state.mass, tiny)) + xp.astype(joined, x.dtype)
    # the first sample of a slot has r = 0 and a mass of 1: it overwrites what the slot was before
    share_of = xp.astype(joined, x.dtype) / larger(pointed(mass, joined), one)
    wide = share_of[:, None, ...]
    toward = xp.where(t >= 0, one, -one) * inside
    return VitalsState(
        mass=mass,
        spot=xp.where(wide == 1, x, state.spot + wide * (x - state.spot)),
        width=state.width + share_of * (squares(inside) - state.width),
        half=state.half + wide * (toward - state.half),
        middle=state.middle + share_of * (values["mid"] - state.middle),
        edge=state.edge + share_of * (values["near"] - state.edge),
        last=xp.where(xp.any(joined, axis=0), joined, state.last),
        mean=mean,
        before=x,
        rest=xp.where(member, r, state.rest),
        seen=seen,
        members=xp.where(member, members, state.members),
        run=xp.where(member, xp.where(turn, zero, smaller(state.run + 1, 1000 * one)), state.run),
        of_members=xp.where(member, means, state.of_members),
        of_stream=of_stream,
    )


SIGNS = (
    "outer valley",
    "outer valley by mass",
    "inner valley",
    "inner valley by mass",
    "silhouette",
    "silhouette by mass",
    "gain of a split",
    "gain of a split by mass",
    "distance over gap",
    "within over total",
    "tail within",
    "tail of all",
    "smoothness",
    "dimension",
    "residuals follow",
    "concentration",
    "clusters",
    "stickiness",
    "noise",
    "run",
    "outside the largest",
    "worst gain",
    "emptiest middle",
    "worst edge",
    "alone",
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
        total, tail, jump, cosine, noise = (state.of_stream[i, ...] for i in range(len(STREAM)))
        one = xp.ones_like(total)
        total = xp.where(total > 0, total, one)
        own = larger(m["own"], 1e-3 * one)
        largest = xp.max(state.mass, axis=0) / larger(state.seen, one)
        middle = xp.min(xp.where(self.heavy, state.middle, xp.ones_like(state.middle)), axis=0)

        def log(a: Array, least: float) -> Array:
            return xp.log(larger(a, 0 * a) + least)

        def over(a: Array, b: Array, least: float | Array) -> Array:
            return xp.log((larger(a, 0 * a) + least) / (larger(b, 0 * b) + least))

        return [
            over(m["near"], m["core"], 0.01),
            over(m["near by mass"], m["core by mass"], 0.01 * own),
            over(m["mid"], m["side"], 0.01),
            over(m["mid by mass"], m["side by mass"], 0.01 * own),
            m["sil"],
            m["sil by mass"] / own,
            m["gain"],
            m["gain by mass"] / own,
            log(m["ratio"], 1e-3),
            log(smaller(m["within"] / total, one), 1e-4),  # more than 1 where centres stay behind: seldom, and no news
            log(m["tail"], 0.1),
            log(tail, 0.1),
            log(jump / total, 1e-3),
            log(cosine, 1e-3),
            m["follow"],
            log(m["own"], 0.01),
            log(self.clusters, 0.5),
            over(m["turn"], 1 - m["own"], 0.005),
            noise,
            log(state.run, 1.0),
            log(1 - largest, 0.003),
            self.most(self.gains),
            middle,
            self.most(state.edge),
            m["lone"],
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
    return _Slots(state.mass, state.spot, state.width, state.half, state.middle, state.edge)


def _combined(a: _Slots, b: _Slots) -> _Slots:
    """Means of two sets of members taken together; the halves of the second point the way of the first."""
    xp = namespace(a.mass)
    mass, part = share(a.mass, 1, b.mass)
    along = xp.sum(a.half * b.half, axis=1) >= 0
    turned = xp.where(along[:, None, ...], b.half, -b.half)
    mixed = [one + part * (two - one) for one, two in zip((a.width, a.middle, a.edge), (b.width, b.middle, b.edge))]
    wide = part[:, None, ...]
    return _Slots(mass, a.spot + wide * (b.spot - a.spot), mixed[0], a.half + wide * (turned - a.half), *mixed[1:])
