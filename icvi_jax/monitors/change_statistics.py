"""Views: how unusual the last values of a column are, seen as a level, as a slow drift and as a jump.

Every column is modelled as a level m with a memory φ, x_t − m = φ (x_{t−1} − m) + σ e_t; "Column" in
docs/reference/definitions.md has the formulas, with the same letters. It starts from medians and learns late, from the
value `LAG` rows ago, with everything far away clipped: an error code teaches nothing, and a change is not learned
before it could be seen.
"""

from __future__ import annotations

from typing import NamedTuple

from icvi_jax.numerics.arrays import advance, larger, median3, namespace, smaller
from icvi_jax.types import Array, Namespace

LAG, FIRST, SETTLED = 20, 9, 8
"""Rows by which learning is late; values a column starts with; values of a new regime that are learned at once."""

WINDOWS = (2, 3, 4, 6, 8, 11, 15, 20)
VIEWS = ("level", "slow", "jump")

RING = LAG + 3
MEAN, SLOW_MEAN, SPREAD = 0.01, 0.002, 0.001
"""Smallest gains of m, of m₂ and of the spreads."""

FADE = 0.98
CLIP, CAP, BEYOND = 3.0, 4.2, 1.25
MEMORY_LIMIT, LEAST = 0.98, 0.03
"""The largest φ, and the smallest σ² as a share of the column's variance."""

REPEATS, MODE = 0.8, 0.65
"""A column is mute while more than these shares of its values repeat the one before, and are one and the same value."""

STILL, KNOWN = 15, 20
"""A move after so many values without one is an event of its own, once so many values were seen."""


class Views(NamedTuple):
    """What is known of each column; every field is (p, *streams)."""

    ring: Array  # (23, p, *streams), the last values, the oldest first
    seen: Array  # values so far
    begun: Array  # values since the column (re)started, up to 9
    age: Array  # values since this regime began
    constant: Array  # all values since the start were the same
    mean: Array  # m
    slow_mean: Array  # m₂
    weight: Array  # counts what they learned from
    share: Array  # q
    slow_share: Array  # q₂
    square: Array  # variance about m
    product: Array  # covariance with the value before
    noise: Array  # variance of residuals
    learned: Array  # counts what these three learned from
    drift: Array  # F
    fade: Array  # W
    fade2: Array  # Q
    repeats: Array  # share of values that repeat the one before
    mode: Array  # the most frequent value
    votes: Array  # for it
    held: Array  # its share
    still: Array  # values since the last move
    moves: Array  # moves after a long rest


def start(features: int, streams: tuple[int, ...], xp: Namespace, dtype: object) -> Views:
    """The state before any sample."""
    zero = xp.zeros((features, *streams), dtype=dtype)
    none = xp.zeros((features, *streams), dtype=xp.int32)
    ring = xp.zeros((RING, features, *streams), dtype=dtype)
    return Views(ring, none, none, none, none == 0, *(zero,) * 16, none, none)


def take(state: Views, x: Array, there: Array) -> tuple[Views, Array, Array, Array]:
    """Process a row x (p, *streams); `there` is False in holes.

    Returns the state; the views (3, p, *streams), 0 where unknown; where they are known; and, where a column moves that
    hardly ever does, its values per long rest (p, *streams), 0 elsewhere.
    """
    xp = namespace(x)
    zero, one = xp.zeros_like(x), xp.ones_like(x)
    state, moved, rested = _counted(state, x, there)
    restarts = moved & state.constant & (state.begun >= 3)
    constant = xp.where(moved, restarts & state.constant, state.constant)
    begun = xp.where(restarts, xp.zeros_like(state.begun), state.begun)
    starting = there & (begun < FIRST)
    begun = advance(begun, starting)
    starts = starting & (begun == FIRST)
    pushed = xp.concat([state.ring[1:, ...], x[None, ...]], axis=0)
    ring = xp.where(there, pushed, state.ring)
    r = [ring[RING - 1 - i, ...] for i in range(RING)]
    state = _learned(state._replace(ring=ring, constant=constant, begun=begun), r, there & ~starting)

    # The residuals of the newest rows, and what they say.
    a, s2 = state.age, state.square
    alive = there & ~starting & (s2 > 0)
    safe = xp.where(alive, s2, one)
    phi = memory_of(state.product, safe, state.learned)
    inverse = 1 / xp.sqrt(larger(xp.where(alive, state.noise, one), LEAST * safe))
    muted = mute(state)
    d = [(value - state.mean) * inverse for value in r[: LAG + 1]]
    able = alive & ~muted & (a >= SETTLED + 1)
    total, best = zero, zero
    for k in range(1, LAG + 1):
        total = total + _clip(d[k - 1] - phi * d[k], CLIP)
        if k in WINDOWS:
            value = total * total / (k + state.share * (k * k))
            best = larger(best, xp.where(a >= k + SETTLED - 1, value, zero))
    root = xp.sqrt(best)
    level = root * xp.sqrt(root)

    e = d[0] - phi * d[1] + (1 - phi) * (state.mean - state.slow_mean) * inverse
    drift = xp.where(alive, FADE * state.drift + _clip(e, CLIP), state.drift)
    fade = xp.where(alive, FADE * state.fade + 1, state.fade)
    fade2 = xp.where(alive, FADE * FADE * state.fade2 + 1, state.fade2)
    root = xp.abs(drift) / xp.sqrt(larger(fade2 + state.slow_share * fade * fade, LEAST * one))
    slow = root * xp.sqrt(root)

    before, step, after = d[2] - d[3], d[1] - d[2], d[0] - d[1]
    up = step - larger(-after - 1, zero) - larger(-before - 1, zero)
    down = -step - larger(after - 1, zero) - larger(before - 1, zero)
    gap = larger(larger(up, down), zero)
    root = xp.sqrt(smaller(gap, CAP * one))
    jump = root * root * root * xp.sqrt(root) * (1 + BEYOND * xp.log(larger(gap, CAP * one) / CAP))

    lately = able & (a >= SETTLED + 10)
    event = rested & (state.seen > KNOWN) & (starting | (s2 <= 0) | (state.repeats > REPEATS))
    values = xp.astype(state.seen, x.dtype) / xp.astype(larger(state.moves, xp.ones_like(state.moves)), x.dtype)
    state = state._replace(age=advance(a, there & ~starting), drift=drift, fade=fade, fade2=fade2, ring=ring)
    state = _started(state, r, starts)
    y, known = xp.stack([level, slow, jump]), xp.stack([able, lately, able])
    return state, xp.where(known, y, xp.zeros_like(y)), known, xp.where(event, values, zero)


def again(state: Views, where: Array) -> Views:
    """The columns that have started begin a new regime with the next row, where asked for (*streams)."""
    xp = namespace(state.mean)
    last = median3(*(state.ring[RING - i, ...] for i in (1, 2, 3)))
    where = where & (state.begun >= FIRST)
    one, zero = xp.ones_like(state.mean), xp.zeros_like(state.mean)
    new = {"mean": last, "slow_mean": last, "weight": one, "share": one, "slow_share": one}
    new |= {"drift": zero, "fade": zero, "fade2": zero, "learned": smaller(state.learned, 200 * one)}
    new["age"] = xp.zeros_like(state.age)
    return state._replace(**{name: xp.where(where, value, getattr(state, name)) for name, value in new.items()})


def mute(state: Views) -> Array:
    """Which columns are not looked at now: nearly always one value, as rain is."""
    return (state.repeats > REPEATS) & (state.held > MODE)


def memory_of(product: Array, square: Array, learned: Array) -> Array:
    """φ, from a covariance and a variance above 0: drawn to 0 while little is known."""
    xp = namespace(square)
    phi = product / square * (learned / (learned + 10))
    return larger(smaller(phi, xp.full_like(phi, MEMORY_LIMIT)), xp.zeros_like(phi))


def _clip(a: Array, limit: float | Array) -> Array:
    limit = limit + namespace(a).zeros_like(a)
    return larger(smaller(a, limit), -limit)


def _counted(state: Views, x: Array, there: Array) -> tuple[Views, Array, Array]:
    """Count repeats, mode and rests; also where the column moved, and where it did after a long rest."""
    xp = namespace(x)
    old = state.seen >= 1
    same, one = x == state.ring[RING - 1, ...], xp.ones_like(x)
    gain = larger(1 / xp.astype(larger(state.seen, xp.ones_like(state.seen)), x.dtype), xp.full_like(x, 0.002))
    turn, empty = there & old, state.votes <= 0
    mode = xp.where(there & empty, x, state.mode)
    equal = x == mode
    votes = xp.where(empty, one, xp.where(equal, smaller(state.votes + 1, 500 * one), state.votes - 1))
    moved = turn & ~same
    rested = moved & (state.still >= STILL)
    return (
        state._replace(
            seen=advance(state.seen, there),
            repeats=xp.where(turn, state.repeats + gain * (xp.astype(same, x.dtype) - state.repeats), state.repeats),
            mode=mode,
            votes=xp.where(there, votes, state.votes),
            held=xp.where(turn, state.held + gain * (xp.astype(equal, x.dtype) - state.held), state.held),
            still=xp.where(moved, xp.zeros_like(state.still), advance(state.still, turn)),
            moves=advance(state.moves, rested),
        ),
        moved,
        rested,
    )


def _learned(state: Views, r: list[Array], where: Array) -> Views:
    """The state after learning from the value next to the newest in a young regime, later from that `LAG` rows ago."""
    xp, a, m = namespace(state.mean), state.age, state.mean
    young = (a >= 1) & (a < SETTLED)
    where = where & (young | (a >= LAG + SETTLED))
    z, after, before, far = (xp.where(young, r[1 + i], r[LAG + i]) for i in (0, -1, 1, 2))
    s, noise = xp.sqrt(state.square), xp.sqrt(state.noise)
    value = xp.where(xp.abs(z - m) > 6 * s, median3(before, z, after), z)
    early = xp.where(xp.abs(before - m) > 6 * s, median3(far, before, z), before)
    e, e_before = value - m, early - m
    s, noise = (xp.where(w > 0, w, xp.full_like(w, xp.inf)) for w in (s, noise))  # nothing to clip a flat column by
    weight = state.weight + 1
    g = larger(1 / weight, xp.full_like(m, MEAN))
    g2 = larger(1 / weight, xp.full_like(m, SLOW_MEAN))
    learned = state.learned + 1
    h = larger(1 / (learned + 1), xp.full_like(m, SPREAD))
    clipped, clipped_before = _clip(e, 4 * s), _clip(e_before, 4 * s)
    square = state.square + h * (clipped * clipped - state.square)
    product = state.product + h * (clipped * clipped_before - state.product)
    phi = memory_of(product, xp.where(square > 0, square, xp.ones_like(square)), learned)
    left = _clip(e - phi * e_before, 4 * noise)
    new = {
        "mean": m + g * _clip(e, 3 * s),
        "slow_mean": state.slow_mean + g2 * _clip(value - state.slow_mean, 3 * s),
        "share": (1 - g) ** 2 * state.share + g * g,
        "slow_share": (1 - g2) ** 2 * state.slow_share + g2 * g2,
        "weight": weight,
    }
    spread = {
        "square": square,
        "product": product,
        "noise": state.noise + h * (left * left - state.noise),
        "learned": learned,
    }
    kept = {name: xp.where(where, value, getattr(state, name)) for name, value in new.items()}
    kept |= {name: xp.where(where & (a >= 2), value, getattr(state, name)) for name, value in spread.items()}
    return state._replace(**kept)


def _started(state: Views, r: list[Array], where: Array) -> Views:
    """The columns that have nine values now start, from medians of three medians of three."""
    xp, v = namespace(state.mean), r[FIRST - 1 :: -1]
    m = median3(*(median3(*v[i : i + 3]) for i in (0, 3, 6)))
    moves = [xp.abs(b - a) for a, b in zip(v, v[1:])]
    d = median3(median3(*moves[:3]), median3(*moves[3:6]), (moves[6] + moves[7]) / 2)
    away = [xp.abs(a - m) for a in v]
    w = median3(*(median3(*away[i : i + 3]) for i in (0, 3, 6)))
    d, w = d / 0.954, w / 0.6745
    square = larger(d * d, w * w)
    zero, one = xp.zeros_like(m), xp.ones_like(m)
    new = {
        "mean": m, "slow_mean": m, "square": square, "noise": larger(d * d, LEAST * square), "product": zero,
        "weight": 5 * one, "learned": 5 * one, "share": 0.2 * one, "slow_share": 0.2 * one,
        "drift": zero, "fade": zero, "fade2": zero, "age": xp.full_like(state.age, FIRST),
    }  # fmt: skip
    return state._replace(**{name: xp.where(where, value, getattr(state, name)) for name, value in new.items()})
