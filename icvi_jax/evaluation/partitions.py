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


def prequential(truth: ArrayLike, labels: ArrayLike, forgetting: float = 1.0) -> dict[str, np.ndarray]:
    r"""External indices at every sample, for streams whose truth is known, with or without forgetting.

    With weights :math:`w_j = λ^{n−j}`, the faded table :math:`N_{ab} = Σ w_j [c_j = a][l_j = b]` of classes and
    clusters, its sums :math:`N_{a·}, N_{·b}, n` and :math:`Q = Σ w_j²`, a pair of samples has the weight
    :math:`w_i w_j`:

    - ``ari``: the adjusted Rand index on weighted pairs, :math:`P = ½(Σ N_{ab}² − Q)`; A, B, T likewise from sums;
    - ``nmi``: mutual information over the geometric mean of both entropies; ``v``: over the arithmetic mean;
    - ``purity``: the weight of samples in the majority class of their cluster, among those with a cluster;
    - ``cmm``: one minus the weight of faults: samples of another class than their cluster's majority, samples of a
      class that have no cluster, and noise inside a cluster. It is the cluster mapping measure with all connectivities
      1, since there are no distances here.

    Both partitions with one group only: 1. No sample with a cluster: `purity` is NaN.

    Parameters
    ----------
    truth, labels : (T,) or (N, T), integers. −1 is noise: in `truth` a class of its own, which no cluster is mapped to;
        in `labels` no cluster, which counts as a group of its own for pairs and entropies.
    forgetting : λ in (0, 1]; 1 never forgets.

    Returns
    -------
    By name, arrays with the shape of `truth`: the value after each sample.

    Examples
    --------
    >>> {name: round(float(v[-1]), 3) for name, v in prequential([0, 0, 1, 1], [5, 5, 7, 5]).items()}
    {'ari': 0.0, 'nmi': 0.346, 'v': 0.344, 'purity': 0.75, 'cmm': 0.75}
    """
    classes, clusters = np.asarray(truth), np.asarray(labels)
    if classes.shape != clusters.shape or classes.ndim not in (1, 2):
        raise ValueError(
            f"prequential: expected truth and labels (T,) or (N, T), got {classes.shape}, {clusters.shape}"
        )
    for field, array in (("truth", classes), ("labels", clusters)):
        if array.dtype.kind not in "iub":
            raise ValueError(f"prequential({field}=…): expected integers, got {array.dtype}; −1 is noise")
    if not 0 < forgetting <= 1:
        raise ValueError(f"prequential(forgetting={forgetting!r}): expected 0 < forgetting <= 1")
    streams = [_prequential(c, k, float(forgetting)) for c, k in zip(np.atleast_2d(classes), np.atleast_2d(clusters))]
    stacked = {name: np.stack([stream[name] for stream in streams]) for name in streams[0]}
    return {name: v.reshape(classes.shape) for name, v in stacked.items()}


def _prequential(classes: np.ndarray, clusters: np.ndarray, forgetting: float) -> dict[str, np.ndarray]:
    """The values of one stream, in pieces short enough that λ to the power of their length is no rounding error."""
    (named, a), (called, b) = (np.unique(array, return_inverse=True) for array in (classes, clusters))
    shape = (len(named), len(called))
    piece = max(1, min(2_000_000 // max(1, shape[0] * shape[1]), 4096))
    if forgetting < 1:
        piece = max(1, min(piece, int(np.log(1e4) / -np.log(forgetting))))
    table, Q = np.zeros(shape), 0.0
    parts = []
    for start in range(0, len(a), piece):
        i, j = a[start : start + piece], b[start : start + piece]
        steps = np.arange(1, len(i) + 1)
        fade = forgetting**steps
        hits = np.zeros((len(i), *shape))
        hits[steps - 1, i, j] = 1 / fade
        tables = fade[:, None, None] * (table + np.cumsum(hits, axis=0))
        squared = fade**2 * (Q + np.cumsum(1 / fade**2))
        parts.append(_external(tables, squared, named == -1, called == -1))
        table, Q = tables[-1], float(squared[-1])
    return {name: np.concatenate([part[name] for part in parts]) if parts else np.zeros(0) for name in _EXTERNAL}


_EXTERNAL = ("ari", "nmi", "v", "purity", "cmm")


def _external(N: np.ndarray, Q: np.ndarray, noise: np.ndarray, unassigned: np.ndarray) -> dict[str, np.ndarray]:
    """External indices of tables (t, classes, clusters) with squared weights `Q` (t,)."""
    rows, columns = N.sum(2), N.sum(1)
    n = rows.sum(1)
    P, A, B, T = ((np.square(part.reshape(len(n), -1)).sum(1) - Q) / 2 for part in (N, rows, columns, n))
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = A * B / T
        same = (T <= 1e-12 * n * n) | (np.abs((A + B) / 2 - expected) <= 1e-12 * T)
        ari = np.where(same, 1.0, (P - expected) / np.where(same, 1.0, (A + B) / 2 - expected))
        H_rows, H_columns, H_both = (_entropy(part.reshape(len(n), -1), n) for part in (rows, columns, N))
        mutual = np.maximum(H_rows + H_columns - H_both, 0)
        single = (H_rows <= 1e-12) & (H_columns <= 1e-12)
        nmi = np.where(single, 1.0, np.nan_to_num(mutual / np.sqrt(H_rows * H_columns)))
        v = np.where(single, 1.0, np.nan_to_num(2 * mutual / (H_rows + H_columns)))
        inside = N[:, :, ~unassigned]
        assigned = inside.sum((1, 2))
        purity = np.where(assigned > 0, inside.max(1, initial=0).sum(1) / assigned, np.nan)
        right = inside[:, ~noise].max(1, initial=0).sum(1) + N[:, noise][:, :, unassigned].sum((1, 2))
        cmm = right / n
    return dict(zip(_EXTERNAL, (ari, nmi, v, purity, cmm)))


def _entropy(weights: np.ndarray, total: np.ndarray) -> np.ndarray:
    share = weights / total[:, None]
    found: np.ndarray = -(share * np.log(np.where(share > 0, share, 1))).sum(1)
    return found
