"""Small recorded clusterings for tests, with births, deaths, noise and missing samples if wanted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Example(NamedTuple):
    """A recorded clustering: samples (T, p), memberships (T, k), centres (T, k, p) and active slots (T, k)."""

    x: np.ndarray
    u: np.ndarray
    centers: np.ndarray
    active: np.ndarray

    def permuted(self, order: np.ndarray) -> Example:
        """The same example with slots in another order."""
        return Example(self.x, self.u[:, order], self.centers[:, order], self.active[:, order])

    def moved(self, by: np.ndarray | float = 0.0, scale: float = 1.0) -> Example:
        """The same example with all coordinates multiplied and shifted."""
        return Example(self.x * scale + by, self.u, self.centers * scale + by, self.active)

    def widened(self, spare: int) -> Example:
        """The same example with `spare` more slots, never used."""
        T, k, p = self.centers.shape
        return Example(
            self.x,
            np.concatenate([self.u, np.zeros((T, spare))], 1),
            np.concatenate([self.centers, np.zeros((T, spare, p))], 1),
            np.concatenate([self.active, np.zeros((T, spare), bool)], 1),
        )


def example(
    seed: int = 0,
    samples: int = 40,
    k: int = 4,
    features: int = 2,
    soft: bool = False,
    births: bool = True,
    deaths: bool = False,
    noise: bool = False,
    missing: bool = False,
) -> Example:
    """A random recorded clustering whose centres move and are not means.

    Parameters
    ----------
    seed : of the random generator.
    samples, k, features : sizes.
    soft : memberships that sum to 1 instead of one-hot.
    births : slots 2, 3, … become active later.
    deaths : slot 1 is inactive for a while in the second half.
    noise : some samples belong to no cluster.
    missing : some samples have a NaN or an infinity.
    """
    rng = np.random.default_rng(seed)
    homes = rng.normal(size=(k, features)) * 5
    active = np.ones((samples, k), bool)
    if births:
        starts = np.concatenate([[0, 0], np.sort(rng.integers(1, max(2, samples // 2), max(0, k - 2)))])[:k]
        active = np.arange(samples)[:, None] >= starts
    if deaths and k > 2:
        active[samples // 2 : samples // 2 + 5, 1] = False
    drift = np.cumsum(rng.normal(size=(samples, k, features)) * 0.1, axis=0)
    centers = np.where(active[:, :, None], homes + drift, 0.0)
    raw = np.where(active, rng.random((samples, k)) + 0.01, 0.0)
    u = raw / raw.sum(1, keepdims=True) if soft else (raw == raw.max(1, keepdims=True)).astype(float)
    x = homes[raw.argmax(1)] + rng.normal(size=(samples, features))
    if noise:
        u[rng.choice(samples, samples // 8, replace=False)] = 0.0
    if missing:
        spots = rng.choice(samples, samples // 8, replace=False)
        x[spots, rng.integers(0, features, len(spots))] = rng.choice([np.nan, np.inf, -np.inf], len(spots))
    return Example(x, u, centers, active)
