"""Compare partitions with the truth."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def adjusted_rand_index(a: ArrayLike, b: ArrayLike) -> float:
    """Compare two partitions of the same samples, corrected for chance: 1 is the same, about 0 is unrelated.

    With ``n_ij`` samples in group i of a and j of b, ``P = Σ_ij C(n_ij, 2)``, ``A = Σ_i C(n_i·, 2)``,
    ``B = Σ_j C(n_·j, 2)`` and ``E = A B / C(n, 2)``::

        ARI = (P − E) / ((A + B)/2 − E)

    Two partitions that put all samples in one group, or each in its own, are the same: 1. Label names do not matter,
    and −1 is a label like any other: leave noise out beforehand if it should not count.

    Examples
    --------
    >>> adjusted_rand_index([0, 0, 1, 1], ["b", "b", "a", "a"])
    1.0
    >>> adjusted_rand_index([0, 0, 1, 1], [0, 1, 0, 1])
    -0.5
    """
    first, second = np.asarray(a), np.asarray(b)
    if first.ndim != 1 or first.shape != second.shape or not first.size:
        raise ValueError(f"a and b must be labels of the same samples, got shapes {first.shape} and {second.shape}")
    i = np.unique(first, return_inverse=True)[1]
    j = np.unique(second, return_inverse=True)[1]
    both = np.unique(np.stack([i, j]), axis=1, return_counts=True)[1]
    # Python integers: the products of pair counts exceed 2⁶³ at about 80,000 samples.
    P, A, B, n = (
        sum(c * (c - 1) // 2 for c in counts.tolist())
        for counts in (both, np.bincount(i), np.bincount(j), np.array([first.size]))
    )
    if P == A == B:
        return 1.0
    return float(2 * (n * P - A * B) / (n * (A + B) - 2 * A * B))
