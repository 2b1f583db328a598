"""S1: two autoregressive modes in turn, whose coefficients drift from one to the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from icvi_jax.streams.base import Stream, check_count

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
    Everything before the first sample is 0, so ``y_0 = 0`` and ``y_1 = 1.018 x_0``.

    Parameters
    ----------
    seed
        Of ``numpy.random.default_rng``.
    segments
        How many, modes 0, 1, 0, …
    lengths
        Shortest and longest segment, both possible; each length is uniform between them. Transitions are added.
    steps, hold
        Steps of a transition, and samples of each. With ``steps=1`` the change is abrupt, its first ``hold`` samples
        still have mode −1.

    Returns
    -------
    Stream
        Features x and y; transition samples have mode −1, and each change is the first of them. No noise.

    Examples
    --------
    >>> stream = s1(seed=0)
    >>> stream.features, len(stream.changes), sorted(set(stream.mode.tolist()))
    (('x', 'y'), 4, [-1, 0, 1])
    """
    check_count("seed", seed, least=0)
    check_count("segments", segments)
    if len(lengths) != 2:
        raise ValueError(f"lengths must be (shortest, longest), got {lengths!r}")
    check_count("lengths[0]", lengths[0])
    check_count("lengths[1]", lengths[1], least=lengths[0])
    check_count("steps", steps)
    check_count("hold", hold)
    rng = np.random.default_rng(seed)
    sizes = rng.integers(lengths[0], lengths[1], size=segments, endpoint=True)

    coefficients: list[NDArray[np.float64]] = []
    modes: list[NDArray[np.int64]] = []
    changes: list[int] = []
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
    samples = np.stack([x, _follow(x, np.concatenate(coefficients))], axis=1)
    return Stream(samples, mode, np.zeros(mode.size, bool), changes, "s1", ("x", "y"))


def _follow(x: NDArray[np.float64], coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
    """Run the recursion from a history of zeros."""
    y = [0.0, 0.0]
    padded = [0.0, 0.0, *x.tolist()]
    for n, (a1, a2, b1, b2) in enumerate(coefficients.tolist()):
        y.append(a1 * padded[n + 1] + a2 * padded[n] + b1 * y[n + 1] + b2 * y[n])
    return np.array(y[2:])
