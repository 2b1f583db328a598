"""Synthetic streams with known truth: S1, S2 and S3."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from icvi_jax.spec import one_of, whole
from icvi_jax.streams.base import Stream

MOST_SEED = 2**128
# Coefficients of (x_{n-1}, x_{n-2}, y_{n-1}, y_{n-2}) in the two modes.
MODES = np.array([[1.018, 0.0, 1.801, -0.8187], [1.0, 0.5, 1.5, -0.7]])


def s1(
    seed: int = 0, segments: int = 5, lengths: tuple[int, int] = (200, 500), steps: int = 5, hold: int = 10
) -> Stream:
    """Draw S1: y depends on x by one of two second-order recursions, which alternate.

    ::

        x_n ~ N(1, 1)
        mode 0:  y_n = 1.018 x_{n-1}                + 1.801 y_{n-1} − 0.8187 y_{n-2}
        mode 1:  y_n =       x_{n-1} + 0.5 x_{n-2} + 1.5   y_{n-1} − 0.7    y_{n-2}

    Between two segments the coefficients ``a`` move in equal steps, each held for ``hold`` samples, while y runs on:
    ``a = a_from + (j / steps) (a_to − a_from)``, ``j = 1 … steps``; the last step is the target mode already.
    Everything before the first sample is 0. Transition samples have mode −1, and each change is the first of them.
    There is no noise.

    Parameters
    ----------
    seed : of ``numpy.random.default_rng``.
    segments : how many, modes 0, 1, 0, …
    lengths : shortest and longest segment, both possible; each length is uniform between them. Transitions are added.
    steps, hold : steps of a transition, and samples of each. With ``steps=1`` the change is abrupt, its first ``hold``
        samples still have mode −1.

    Examples
    --------
    >>> stream = s1(seed=0)
    >>> stream.features, len(stream.changes), sorted(set(stream.mode.tolist()))
    (('x', 'y'), 4, [-1, 0, 1])
    """
    whole("s1", "seed", seed, 0, MOST_SEED)
    whole("s1", "segments", segments)
    if len(lengths) != 2:
        raise ValueError(f"lengths must be (shortest, longest), got {lengths!r}")
    whole("s1", "lengths[0]", lengths[0])
    whole("s1", "lengths[1]", lengths[1], lengths[0])
    whole("s1", "steps", steps)
    whole("s1", "hold", hold)
    rng = np.random.default_rng(seed)
    sizes = rng.integers(lengths[0], lengths[1], size=segments, endpoint=True)

    coefficients, modes, changes = list[NDArray[np.float64]](), list[NDArray[np.int64]](), list[int]()
    for segment, size in enumerate(sizes.tolist()):
        target = MODES[segment % 2]
        if segment:
            source = MODES[(segment - 1) % 2]
            changes.append(sum(len(part) for part in modes))
            share = np.repeat(np.arange(1, steps + 1) / steps, hold)[:, None]
            coefficients.append((1 - share) * source + share * target)
            modes.append(np.full(steps * hold, -1))
        coefficients.append(np.broadcast_to(target, (size, 4)))
        modes.append(np.full(size, segment % 2))

    mode = np.concatenate(modes)
    x = rng.normal(1.0, 1.0, size=mode.size)
    past, y = [0.0, 0.0, *x.tolist()], [0.0, 0.0]
    for n, (a1, a2, b1, b2) in enumerate(np.concatenate(coefficients).tolist()):
        y.append(a1 * past[n + 1] + a2 * past[n] + b1 * y[n + 1] + b2 * y[n])
    return Stream(np.stack([x, y[2:]], axis=1), mode, np.zeros(mode.size, bool), changes, "s1", ("x", "y"))


STEPS = 10
MEANS = np.array([[95.0, 75.0], [5.0, 5.0]])
COVARIANCES = np.array([[[3.8418, -2.6474], [-2.6474, 4.8478]], [[1.5239, -0.5390], [-0.5390, 1.6467]]])
NOISE = 10.0
LAYOUTS = {"text": 500, "table": 700}  # samples of the first block; 200 in all others


def modes() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean (11, 2) and covariance (11, 2, 2) of each mode of S2.

    ::

        μ_j = μ_0 + (j/10) (μ_10 − μ_0),      Σ_j = Σ_0 + (j/10) (Σ_10 − Σ_0),      j = 0 … 10
    """
    share = np.arange(STEPS + 1) / STEPS
    mean = (1 - share)[:, None] * MEANS[0] + share[:, None] * MEANS[1]
    covariance = (1 - share)[:, None, None] * COVARIANCES[0] + share[:, None, None] * COVARIANCES[1]
    return mean, covariance


def s2(seed: int = 0, layout: Literal["text", "table"] = "text") -> Stream:
    """Draw S2: eleven Gaussians on a line from (95, 75) to (5, 5), one block each, 1 % of it noisy.

    Noise is a draw of the block's own Gaussian plus a uniform one from [−10, 10]², and has the mode of its block.

    Parameters
    ----------
    seed : of ``numpy.random.default_rng``.
    layout : the paper describes two streams with this name. ``"text"``: 500 samples of the first mode and 200 of each
        other, 1 % of each block perturbed at random places, n = 2500. ``"table"``: 700 and 200, and 1 % noisy samples
        appended to each block, n = 2727.

    Examples
    --------
    >>> s2(seed=0).x.shape, s2(seed=0, layout="table").x.shape
    ((2500, 2), (2727, 2))
    >>> s2(seed=0, layout="table").changes[:3]
    [707, 909, 1111]
    """
    whole("s2", "seed", seed, 0, MOST_SEED)
    one_of("s2", "layout", layout, tuple(LAYOUTS))
    rng = np.random.default_rng(seed)
    blocks, masks = [], []
    for j, (mean, covariance) in enumerate(zip(*modes())):
        size = 200 if j else LAYOUTS[layout]
        noisy = size // 100
        if layout == "table":
            place = np.arange(size, size + noisy)
            size += noisy
        else:
            place = rng.choice(size, size=noisy, replace=False)
        block = rng.multivariate_normal(mean, covariance, size=size, method="cholesky")
        block[place] += rng.uniform(-NOISE, NOISE, size=(noisy, 2))
        blocks.append(block)
        masks.append(np.isin(np.arange(size), place))
    return _of_blocks("s2", blocks, masks)


def _of_blocks(name: str, blocks: list[NDArray[np.float64]], noise: list[NDArray[np.bool_]]) -> Stream:
    """The stream of blocks, each a mode."""
    sizes = [len(block) for block in blocks]
    changes = np.cumsum(sizes)[:-1].tolist()
    mode = np.repeat(np.arange(len(sizes)), sizes)
    return Stream(np.concatenate(blocks), mode, np.concatenate(noise), changes, name, ("x", "y"))


BLOCKS = 10
RADIUS = 10.0
MOST_NOISE = 20
JITTER = (120, 280)


def centers() -> NDArray[np.float64]:
    """The ten means of S3, (10, 2): ``10 (cos 2πi/10, sin 2πi/10)``."""
    angle = 2 * np.pi * np.arange(BLOCKS) / BLOCKS
    return RADIUS * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def s3(
    seed: int = 0, place: Literal["random", "end", "start"] = "random", lengths: int | Literal["jittered"] = 200
) -> Stream:
    """Draw S3: blocks from ``N(c_i, I)``, ``c_i`` around a circle of radius 10; noise from ``N(0, I)``.

    In each block 1 … 20 samples (a uniform random number) come from the Gaussian at the centre of the circle instead;
    they have the mode of their block. With ``place="start"`` a change begins with noise.

    Parameters
    ----------
    seed : of ``numpy.random.default_rng``.
    place : where in its block the noise is: at random places, all at the end, or all at the start.
    lengths : samples of each block, more than 20; or ``"jittered"``: each block's length is uniform on 120 … 280, so
        that a detector cannot score by counting to 200.

    Examples
    --------
    >>> stream = s3(seed=0, place="end")
    >>> stream.x.shape, stream.changes[:3], bool(stream.noise[199])
    ((2000, 2), [200, 400, 600], True)
    """
    whole("s3", "seed", seed, 0, MOST_SEED)
    one_of("s3", "place", place, ("random", "end", "start"))
    rng = np.random.default_rng(seed)
    if isinstance(lengths, str):
        one_of("s3", "lengths", lengths, ("jittered",))
        sizes = rng.integers(*JITTER, size=BLOCKS, endpoint=True).tolist()
    else:
        whole("s3", "lengths", lengths, MOST_NOISE + 1)
        sizes = [int(lengths)] * BLOCKS

    blocks, masks = [], []
    for size, center in zip(sizes, centers()):
        noisy = int(rng.integers(1, MOST_NOISE, endpoint=True))
        rows = np.arange(size)
        if place == "random":
            mask = np.isin(rows, rng.choice(size, size=noisy, replace=False))
        else:
            mask = rows < noisy if place == "start" else rows >= size - noisy
        blocks.append(np.where(mask[:, None], 0.0, center) + rng.normal(size=(size, 2)))
        masks.append(mask)
    return _of_blocks("s3", blocks, masks)
