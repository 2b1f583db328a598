"""S2: a Gaussian that moves and changes its shape in ten equal steps."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from icvi_jax.streams.base import Stream, check_choice, check_count

STEPS = 10
MEANS = np.array([[95.0, 75.0], [5.0, 5.0]])
COVARIANCES = np.array([[[3.8418, -2.6474], [-2.6474, 4.8478]], [[1.5239, -0.5390], [-0.5390, 1.6467]]])
NOISE = 10.0
LAYOUTS = {"text": 500, "table": 700}  # samples of the first block; 200 in all others


def modes() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean (11, 2) and covariance (11, 2, 2) of each mode of S2.

    ::

        μ_j = μ_0 + (j/10) (μ_10 − μ_0),      Σ_j = Σ_0 + (j/10) (Σ_10 − Σ_0),      j = 0 … 10

    Examples
    --------
    >>> mean, covariance = modes()
    >>> mean[[0, 5, 10]].tolist()
    [[95.0, 75.0], [50.0, 40.0], [5.0, 5.0]]
    """
    share = np.arange(STEPS + 1) / STEPS
    mean = (1 - share)[:, None] * MEANS[0] + share[:, None] * MEANS[1]
    covariance = (1 - share)[:, None, None] * COVARIANCES[0] + share[:, None, None] * COVARIANCES[1]
    return mean, covariance


def s2(seed: int = 0, layout: Literal["text", "table"] = "text") -> Stream:
    """Draw S2: eleven Gaussians on a line from (95, 75) to (5, 5), one block each, 1 % of it noisy.

    Noise is a draw of the block's own Gaussian plus a uniform one from [−10, 10]².

    Parameters
    ----------
    seed
        Of ``numpy.random.default_rng``.
    layout
        The paper describes two streams with this name. ``"text"``: 500 samples of the first mode and 200 of each
        other, 1 % of each block perturbed at random places, n = 2500. ``"table"``: 700 and 200, and 1 % noisy samples
        appended to each block, n = 2727.

    Returns
    -------
    Stream
        Modes 0 … 10; a noise sample has the mode of its block.

    Examples
    --------
    >>> s2(seed=0).x.shape, s2(seed=0, layout="table").x.shape
    ((2500, 2), (2727, 2))
    >>> s2(seed=0, layout="table").changes[:3]
    [707, 909, 1111]
    """
    check_count("seed", seed, least=0)
    check_choice("layout", layout, tuple(LAYOUTS))
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
        mask = np.zeros(size, bool)
        mask[place] = True
        blocks.append(block)
        masks.append(mask)
    sizes = [len(block) for block in blocks]
    changes = np.cumsum(sizes)[:-1].tolist()
    mode = np.repeat(np.arange(STEPS + 1), sizes)
    return Stream(np.concatenate(blocks), mode, np.concatenate(masks), changes, "s2", ("x", "y"))
