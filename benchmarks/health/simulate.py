"""Labelled streams of many kinds from a seed: what `train.py` learns from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

SHAPES = ("gauss", "elong", "ring", "box", "mixed", "heavy", "skew")
ORDERS = ("shuffled", "sequential", "sticky", "births", "drift", "memory", "cycle", "late", "stale", "recurring", "deaths")
LEFT_OUT = {"heavy", "skew", "recurring", "deaths"}
"""Families that training never sees."""
LENGTH = 2100


class Stream(NamedTuple):
    """Samples (T, p), classes (T,) with −1 for noise, and the family."""

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    shape: str
    order: str
    k: int


def make(seed: int, dimension: int, held_out: bool = False, length: int = LENGTH, only: str = "") -> Stream:
    """One stream with `dimension` columns at most, of the families of training or of those left out.

    Or of the order `only`: "late", or "stale", which comes in no other way: tight classes, one after the other.
    """
    rng = np.random.default_rng((seed, dimension, held_out))
    while True:
        shape, order = SHAPES[rng.integers(len(SHAPES))], ORDERS[rng.integers(len(ORDERS))]
        if bool({shape, order} & LEFT_OUT) == held_out and order == (only or order.replace("stale", "")):
            break
    stale = order == "stale"
    p = int(rng.integers(dimension // 2 + 1, dimension + 1))
    k = int(
        rng.choice(
            [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20],
            p=[0.1, 0.12, 0.14, 0.13, 0.11, 0.1, 0.08, 0.07, 0.06, 0.04, 0.03, 0.02],
        )
    )
    k = int(rng.integers(2, 17)) if stale else k
    centers = _row(rng, k, p) if stale and rng.random() < 0.5 else _centers(rng, k, p, stale)
    mass = np.exp(rng.normal(size=k) * rng.choice([0, 0, 0.3, 0.8, 1.4]))
    mass = np.maximum(mass / mass.sum(), 0.02)
    y = _order(rng, order, k, mass / mass.sum(), length)
    size = np.exp(rng.normal(size=k) * rng.choice([0, 0, 0.3, 0.7]))
    nested = k > 1 and p > 1 and rng.random() < (0 if stale else 0.08)  # one class in the middle of another
    if nested:
        centers[1] = centers[0]
    x = np.empty((length, p))
    for c in range(k):
        rows = np.flatnonzero(y == c)
        kind = SHAPES[rng.integers(4)] if shape == "mixed" else shape
        x[rows] = size[c] * _cloud(rng, kind, len(rows), p)
        if nested and c == 1:
            way = rng.normal(size=(len(rows), p))
            x[rows] = 0.5 * x[rows] + rng.uniform(4, 9) * np.sqrt(p) * way / np.linalg.norm(way, axis=1, keepdims=True)
    if order == "memory" or rng.random() < (0.05 if stale else 0.2):
        a = rng.uniform(0.4, 0.97)
        x = lfilter([np.sqrt(1 - a * a)], [1, -a], x, axis=0)
    x += centers[y]
    x += _movement(rng, order, k, p, y, centers, length)
    if rng.random() < 0.3:
        noise = rng.random(length) < rng.uniform(0.002, 0.12)
        x[noise] = rng.uniform(x.min(0), x.max(0), size=(int(noise.sum()), p))
        y = np.where(noise, -1, y)
    if rng.random() < 0.15:  # glitches: a clusterer may give one of its centres to them
        glitch = rng.random(length) < 0.004
        x[glitch] *= rng.uniform(4, 40)
    if rng.random() < 0.25:
        idle = rng.normal(size=(length, int(rng.integers(1, max(2, p // 2))))) * x.std() * rng.uniform(0.2, 1)
        x = np.c_[x, idle][:, :dimension]
    if rng.random() < 0.6:
        spread = x[:300].std(0)
        x = (x - x[:300].mean(0)) / np.where(spread > 1e-9, spread, 1)
    elif rng.random() < 0.5:
        x = x * np.exp(rng.normal(size=x.shape[1]) * 0.7)
    x = np.c_[x, np.zeros((length, dimension - x.shape[1]))]  # columns of zeros change nothing that Health uses
    return Stream((x * np.exp(rng.uniform(-4, 4))).astype(np.float32), y, shape, order, k)


def _row(rng: np.random.Generator, k: int, p: int) -> NDArray[np.float64]:
    """Centres (k, p) each of which is a step away from the one before, more or less the same way; some are the same."""
    way, steps = rng.normal(size=p), rng.normal(size=(k, p))
    bend = rng.choice([0, 0.1, 0.5, 2])
    steps = way / np.linalg.norm(way) + bend * steps / np.linalg.norm(steps, axis=1, keepdims=True)
    steps /= np.linalg.norm(steps, axis=1, keepdims=True) + 1e-9
    uneven = np.exp(rng.normal(size=(k, 1)) * rng.choice([0, 0, 0.5]))
    return np.cumsum(steps * uneven, axis=0) * np.exp(rng.uniform(np.log(2.5), np.log(60)))


def _centers(rng: np.random.Generator, k: int, p: int, far: bool = False) -> NDArray[np.float64]:
    """Centres (k, p) whose nearest distances are a multiple of a cluster's radius, from touching to far apart."""
    rank = p if rng.random() < 0.6 else int(rng.integers(1, min(p, 4) + 1))
    c = rng.normal(size=(k, rank)) if rng.random() < 0.6 else rng.uniform(-1.6, 1.6, size=(k, rank))
    c = c @ np.linalg.qr(rng.normal(size=(p, p)))[0][:rank]
    if k == 1:
        return c
    push = rng.uniform(0, 0.2)
    for _ in range(40):
        d = np.sqrt(((c[:, None] - c) ** 2).sum(-1)) + np.eye(k) * 1e9
        i, j = np.unravel_index(d.argmin(), d.shape)
        way = (c[i] - c[j]) / max(d[i, j], 1e-9)
        c[i] += push * way
        c[j] -= push * way
    d = np.sqrt(((c[:, None] - c) ** 2).sum(-1)) + np.eye(k) * 1e9
    # along the line between two centres a cluster's spread is 1, however many columns there are
    # mostly classes that can be seen: where two are one cloud, nobody could know that the partition is wrong
    gap = np.exp(rng.uniform(np.log(2.5 if far else 1.2 if rng.random() < 0.45 else 2.2), np.log(60 if far else 30)))
    if p > 2 and rng.random() < 0.5:
        gap *= np.sqrt(p / 2)
    c = c * gap / np.median(d.min(1))
    if k > 3 and rng.random() < 0.3:  # clumps: few large groups, each of several clusters
        groups = int(rng.integers(2, max(3, k // 2) + 1))
        c = c + rng.normal(size=(groups, p))[rng.integers(groups, size=k)] * gap * rng.uniform(2, 8) / np.sqrt(p)
    return c


def _cloud(rng: np.random.Generator, kind: str, n: int, p: int) -> NDArray[np.float64]:
    """n samples of one cluster, with a spread of about 1 in each column."""
    if kind == "heavy":
        return rng.standard_t(3, size=(n, p)) / 1.7
    if kind == "skew":
        return (rng.gamma(1.5, size=(n, p)) - 1.5) / 1.22
    if kind == "box":
        return rng.uniform(-1.73, 1.73, size=(n, p))
    z = rng.normal(size=(n, p))
    if kind == "elong":
        scales = np.ones(p)
        scales[: max(1, p // 3)] = rng.uniform(2, 7)
        z *= scales / np.sqrt((scales**2).mean())
        return z @ np.linalg.qr(rng.normal(size=(p, p)))[0]
    if kind == "ring" and p > 1:
        angle = rng.uniform(0, rng.uniform(1.5, 2 * np.pi), n)
        z *= rng.uniform(0.05, 0.25)
        radius = 1.4 * rng.choice([1, 1, 2])
        z[:, 0] += radius * np.cos(angle)
        z[:, 1] += radius * np.sin(angle)
        return z @ np.linalg.qr(rng.normal(size=(p, p)))[0]
    return z


def _order(rng: np.random.Generator, order: str, k: int, mass: NDArray[np.float64], n: int) -> NDArray[np.int64]:
    """The class of each sample."""
    t = np.arange(n)
    if order in ("shuffled", "drift", "cycle") and (order != "cycle" or rng.random() < 0.5):
        return rng.choice(k, n, p=mass)
    if order == "cycle":  # the share of each class goes up and down with the time of day
        period, phase = rng.uniform(50, 800), rng.uniform(0, 2 * np.pi, k)
        level = rng.uniform(1, 5) * np.cos(2 * np.pi * t[:, None] / period + phase) + np.log(mass)
        return (level + rng.gumbel(size=(n, k))).argmax(1)
    if order == "sequential":
        parts = max(k, 2)
        even = np.linspace(0, n, parts + 1)[1:-1].astype(int)
        cuts = even if rng.random() < 0.5 else np.sort(rng.integers(60, n, parts - 1))
        return np.resize(rng.permutation(k), parts)[np.searchsorted(cuts, t, side="right")]
    if order == "stale":  # each class alone for a while, as in S2; then, or now and then, one that was there before
        stay = np.exp(rng.uniform(np.log(100), np.log(1000)))
        uneven = rng.choice([0, 0, 0.2, 0.6])
        parts = np.maximum(stay * np.exp(rng.normal(size=40) * uneven), 60)
        parts[0] *= rng.choice([1, 1, 1.5, 2.5])
        again = rng.choice([0, 0, 0.2])
        found = [0]
        for i in range(1, 40):
            new = i < k and rng.random() >= again
            found.append(i % k if new or k == 1 else int((found[-1] + rng.integers(1, k)) % k))
        return np.array(found)[np.searchsorted(np.cumsum(parts), t, side="right")]
    if order == "recurring":
        stay = int(np.exp(rng.uniform(np.log(30), np.log(500))))
        blocks = [
            rng.choice(rng.choice(k, size=min(k, int(rng.integers(1, 4))), replace=False), stay)
            for _ in range(n // stay + 1)
        ]
        return np.concatenate(blocks)[:n]
    if order in ("sticky", "memory"):
        stay = np.exp(rng.uniform(np.log(2), np.log(120)))
        fresh = rng.random(n) < 1 / stay
        fresh[0] = True
        return rng.choice(k, n, p=mass)[np.maximum.accumulate(np.where(fresh, t, 0))]
    born, dead = np.zeros(k), np.full(k, n + 1.0)
    if order == "late":  # one class alone, then others one after the other, with or without those before
        born[1:] = np.sort(rng.uniform(rng.uniform(0.05, 0.4) * n, 0.95 * n, k - 1))
        if k > 1 and rng.random() < 0.5:
            born[1:] = np.linspace(born[1], 0.95 * n, k - 1)
        if rng.random() < 0.6:
            dead[:-1] = born[1:]
    elif order == "births":
        born[1:] = np.sort(rng.uniform(0, 0.9 * n, k - 1))
        if rng.random() < 0.5:
            dead[:-1] = np.maximum(born[:-1] + 300, rng.uniform(0, 1.6 * n, k - 1))
    else:
        dead[1:] = np.sort(rng.uniform(0.1 * n, n, k - 1))[::-1]
    level = np.where((t[:, None] >= born) & (t[:, None] < dead), np.log(mass), -1e9) + rng.gumbel(size=(n, k))
    return level.argmax(1)


def _movement(rng, order, k, p, y, centers, n) -> NDArray[np.float64]:
    """How far each sample's class has moved by its time."""
    t = np.arange(n)[:, None] / n
    moved = np.zeros((n, p))
    spread = np.sqrt(((centers - centers.mean(0)) ** 2).sum(1).mean()) + 1
    if order == "drift" or rng.random() < 0.1:
        way = rng.normal(size=p)
        moved += rng.uniform(0, 6) * spread * t * way / np.linalg.norm(way)
        if rng.random() < 0.5:
            phase = rng.uniform(0, 2 * np.pi, k)[y]
            radius, turns = rng.uniform(0, 0.4) * spread, rng.uniform(0.5, 3)
            moved[:, 0] += radius * np.cos(2 * np.pi * turns * t[:, 0] + phase)
            moved[:, -1] += radius * np.sin(2 * np.pi * turns * t[:, 0] + phase)
    if order == "cycle":
        swing = rng.normal(size=p)
        swing *= rng.uniform(0, 1.2) * spread / np.linalg.norm(swing)
        moved += np.sin(2 * np.pi * n * t / rng.uniform(60, 800)) * swing
    return moved
