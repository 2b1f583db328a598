"""S3: ten Gaussians on a circle, one after the other, and noise from the middle."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from icvi_jax.streams.base import Stream, check_choice, check_count

BLOCKS = 10
RADIUS = 10.0
MOST_NOISE = 20
JITTER = (120, 280)


def centers() -> NDArray[np.float64]:
    """The ten means of S3, (10, 2): ``10 (cos 2πi/10, sin 2πi/10)``.

    Examples
    --------
    >>> centers().shape, centers()[0].tolist()
    ((10, 2), [10.0, 0.0])
    """
    angle = 2 * np.pi * np.arange(BLOCKS) / BLOCKS
    return RADIUS * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def s3(
    seed: int = 0,
    place: Literal["random", "end", "start"] = "random",
    lengths: int | Literal["jittered"] = 200,
) -> Stream:
    """Draw S3: blocks from ``N(c_i, I)``, ``c_i`` around a circle of radius 10; noise from ``N(0, I)``.

    In each block 1 … 20 samples (a uniform random number) come from the Gaussian at the centre of the circle instead.

    Parameters
    ----------
    seed
        Of ``numpy.random.default_rng``.
    place
        Where in its block the noise is: at random places, all at the end, or all at the start.
    lengths
        Samples of each block, more than 20; or ``"jittered"``: each block's length is uniform on 120 … 280, so that a
        detector cannot score by counting to 200.

    Returns
    -------
    Stream
        Modes 0 … 9; a noise sample has the mode of its block. With ``place="start"`` a change begins with noise.

    Examples
    --------
    >>> stream = s3(seed=0, place="end")
    >>> stream.x.shape, stream.changes[:3], bool(stream.noise[199])
    ((2000, 2), [200, 400, 600], True)
    """
    check_count("seed", seed, least=0)
    check_choice("place", place, ("random", "end", "start"))
    rng = np.random.default_rng(seed)
    if isinstance(lengths, str):
        check_choice("lengths", lengths, ("jittered",))
        sizes = rng.integers(*JITTER, size=BLOCKS, endpoint=True).tolist()
    else:
        check_count("lengths", lengths, least=MOST_NOISE + 1)
        sizes = [int(lengths)] * BLOCKS

    blocks, masks = [], []
    for size, center in zip(sizes, centers()):
        noisy = int(rng.integers(1, MOST_NOISE, endpoint=True))
        mask = np.zeros(size, bool)
        if place == "random":
            mask[rng.choice(size, size=noisy, replace=False)] = True
        elif place == "end":
            mask[-noisy:] = True
        else:
            mask[:noisy] = True
        blocks.append(np.where(mask[:, None], 0.0, center) + rng.normal(size=(size, 2)))
        masks.append(mask)
    changes = np.cumsum(sizes)[:-1].tolist()
    mode = np.repeat(np.arange(BLOCKS), sizes)
    return Stream(np.concatenate(blocks), mode, np.concatenate(masks), changes, "s3", ("x", "y"))
