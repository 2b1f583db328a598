"""Streams in which one thing at a time is made hard, with their truth: the situations of `believe.py`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

K = 4


class Situation(NamedTuple):
    """What a stream is like; the defaults are easy.

    Attributes
    ----------
    apart : distance of the two nearest centres, in standard deviations of a cluster.
    imbalance : largest cluster over the smallest.
    noise : share of samples that are uniform over the whole region.
    drift : standard deviations that every centre moves a sample, each in a direction of its own.
    features : p.
    forgetting : of the panel.
    told : what the clusterer is told: "half", "right" or "double" the number of clusters.
    """

    apart: float = 6.0
    imbalance: float = 1.0
    noise: float = 0.0
    drift: float = 0.0
    features: int = 4
    forgetting: float = 0.99
    told: str = "right"


LEVELS = {
    "apart": (8.0, 6.0, 4.0, 3.0, 2.0),
    "imbalance": (1.0, 4.0, 16.0, 50.0),
    "noise": (0.0, 0.02, 0.1, 0.3),
    "drift": (0.0, 0.003, 0.01, 0.03, 0.1),
    "told": ("right", "half", "double"),
    "forgetting": (0.5, 0.9, 0.97, 0.99, 0.999, 1.0),
    "features": (2, 4, 10, 20, 50),
}
WORDS = {
    "apart": "clusters apart (σ)",
    "imbalance": "largest : smallest",
    "noise": "share of noise",
    "drift": "drift (σ a sample)",
    "told": "k told",
    "forgetting": "forgetting λ",
    "features": "features p",
}


def all_situations():
    """Every (factor, level, situation); the easy one comes once in each factor, but is the same situation."""
    return [(factor, level, Situation(**{factor: level})) for factor, levels in LEVELS.items() for level in levels]


def places(features, count, rng):
    """`count` centres whose nearest two are 1 apart and the others not much more: the best of many draws."""
    drawn = rng.normal(size=(300, count, features))
    gaps = np.sqrt(((drawn[:, :, None] - drawn[:, None]) ** 2).sum(-1))[:, *np.triu_indices(count, 1)]
    best = (gaps.min(1) / gaps.mean(1)).argmax()
    return drawn[best] / gaps[best].min()


def shares(imbalance):
    """Shares of the clusters, in equal ratios from the largest to the smallest."""
    share = imbalance ** -np.linspace(0, 1, K)
    return share / share.sum()


def stream(situation, samples, seed, jump=None):
    """Samples (T, p) and labels (T,), −1 for noise; from `jump` on the second cluster is somewhere else."""
    rng, s = np.random.default_rng(seed), situation
    homes = s.apart * places(s.features, K + 1, rng)
    ways = rng.normal(size=(K + 1, s.features))
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    label = rng.choice(K, samples, p=shares(s.imbalance))
    e, loud = rng.normal(size=(samples, s.features)), rng.random(samples) < s.noise
    label[:K], loud[:K] = np.arange(K), False  # one of each: what is asked is the index, not luck at the start
    anywhere = rng.uniform(homes.min(0) - 3, homes.max(0) + 3, (samples, s.features))
    t = np.arange(samples)
    where = label if jump is None else np.where((label == 1) & (t >= jump), K, label)
    X = homes[where] + s.drift * t[:, None] * ways[label] + e
    return np.where(loud[:, None], anywhere, X), np.where(loud, -1, label)


def rivals(X, truth, seed):
    """Partitions a good index should like less: pairs merged, each split in two, a tenth mixed up, and all at random.

    Noise goes to the cluster whose mean is nearest: a rival does not know it.
    """
    rng = np.random.default_rng(seed)
    means = np.array([X[truth == i].mean(0) for i in range(K)])
    near = ((X[:, None] - means) ** 2).sum(-1).argmin(1)
    label = np.where(truth < 0, near, truth)
    gaps = ((means[:, None] - means) ** 2).sum(-1) + np.diag(np.full(K, np.inf))
    a, b = np.unravel_index(gaps.argmin(), gaps.shape)
    rest = [i for i in range(K) if i not in (a, b)]
    half = np.isin(label, rest).astype(int)
    way = rng.normal(size=X.shape[1])
    side = ((X - means[label]) @ way > 0).astype(int)
    mixed = np.where(rng.random(len(X)) < 0.1, rng.integers(0, K, len(X)), label)
    return {"half": half, "double": 2 * label + side, "mixed": mixed, "random": rng.integers(0, K, len(X))}
