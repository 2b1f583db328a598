"""Temporal Silhouette: how well a labelling explains a stream, with neighbours taken in time (Iglesias, Zseby 2023)."""

from __future__ import annotations

import numpy as np

BLOCK = 1 << 22
"""Size of the largest array of distances, in numbers: a few tens of megabytes."""


def temporal_silhouette(
    t: np.ndarray,
    X: np.ndarray,
    labels: np.ndarray,
    window: int = 200,
    neighbours: int = 200,
    c: float = 1.0,
    noise: bool = False,
) -> float:
    r"""Temporal Silhouette of a labelled recording; between −1 and 1, large is good.

    For member j of a cluster, :math:`a_j` is its distance from the moving average of `window` members around it, and
    :math:`b_j` the smallest mean distance from one other cluster, among the `neighbours` samples of other clusters that
    are nearest in time. Clusters that arrive in bursts, and whose average jumps, score lower:

    .. math:: TS_k = (1 + \overline{s})\, \frac{1}{1 + c\, out_{gaps} / n_k} (1 - out_{steps}/n_k) - 1, \qquad
              s_j = \frac{b_j - a_j}{\max(a_j, b_j)}

    where *out* counts values further than three scaled MADs from the median. The score is the root of the signed mean
    of squares, each cluster weighted by its size. It takes O(n (window + neighbours)) time.

    Parameters
    ----------
    t : (n,), times; rows are taken in their order.
    X : (n, p), samples.
    labels : (n,), integers; −1 is noise.
    window : members in the moving average.
    neighbours : samples of other clusters to compare with.
    c : how much bursts count, 0 to 1.
    noise : whether noise is a cluster like any other; by default it is left out.

    Examples
    --------
    >>> import numpy as np, icvi_jax as icvi
    >>> t, labels = np.arange(400), np.arange(400) % 2
    >>> X = np.random.default_rng(0).normal(size=(400, 2)) + 20 * labels[:, None]
    >>> round(icvi.evaluation.temporal_silhouette(t, X, labels), 2)
    0.89
    """
    t, X, labels = _checked(t, X, labels, window, neighbours, c)
    if not noise:
        kept = labels != -1
        t, X, labels = t[kept], X[kept], labels[kept]
    if not len(X):
        raise ValueError("temporal_silhouette: every sample is noise (label −1)")
    order = np.argsort(t, kind="stable")
    t, X = t[order], X[order] - X[order].mean(0)  # centred, so that sums over a window lose no digits
    known, slots = np.unique(labels[order], return_inverse=True)
    total = 0.0
    for k in range(len(known)):
        rows = np.flatnonzero(slots == k)
        average = _moving_average(X[rows], window)
        s = _silhouettes(X, slots, rows, average, neighbours, len(known))
        bursts = _outliers(np.diff(t[rows]), least=1.0) / len(rows)
        jumps = _outliers(np.sqrt((np.diff(average, axis=0) ** 2).sum(1))) / len(rows)
        score = (1 + s.mean()) / (1 + c * bursts) * (1 - jumps) - 1
        total += len(rows) / len(X) * np.sign(score) * score**2
    return float(np.sign(total) * np.sqrt(abs(total)))


def _checked(
    t: np.ndarray, X: np.ndarray, labels: np.ndarray, window: int, neighbours: int, c: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The arguments as arrays of matching shapes, or an error."""
    me = "temporal_silhouette"
    t, X, labels = np.asarray(t, float), np.asarray(X, float), np.asarray(labels)
    if X.ndim != 2 or not X.size:
        raise ValueError(f"{me}: expected X with the axes (n, p) and at least one sample, got shape {X.shape}")
    for name, a in (("t", t), ("labels", labels)):
        if a.shape != (len(X),):
            raise ValueError(f"{me}({name}=…): expected one per sample, ({len(X)},), got shape {a.shape}")
    if not (np.isfinite(X).all() and np.isfinite(t).all()):
        raise ValueError(f"{me}: some samples or times are not finite; leave those rows out")
    if labels.dtype.kind not in "iub" and not (labels == np.round(labels)).all():
        raise ValueError(f"{me}(labels=…): expected integers, −1 for noise; got {labels.dtype}")
    for name, value in (("window", window), ("neighbours", neighbours)):
        if value != int(value) or value < 1:
            raise ValueError(f"{me}({name}={value!r}): expected an integer of at least 1")
    if not 0 <= c <= 1:
        raise ValueError(f"{me}(c={c!r}): expected a number from 0 to 1")
    return t, X, labels


def _moving_average(X: np.ndarray, window: int) -> np.ndarray:
    """Centred mean over `window` rows, over fewer at the ends."""
    n, j = len(X), np.arange(len(X))
    first, last = np.maximum(j - window // 2, 0), np.minimum(j + (window + 1) // 2, n)
    sums = np.concatenate([np.zeros((1, X.shape[1])), np.cumsum(X, axis=0)])
    average: np.ndarray = (sums[last] - sums[first]) / (last - first)[:, None]
    return average


def _silhouettes(
    X: np.ndarray, slots: np.ndarray, rows: np.ndarray, average: np.ndarray, neighbours: int, k: int
) -> np.ndarray:
    """s_j of the members in `rows`; 0 for the last one, and where there is no other cluster."""
    s = np.zeros(len(rows))
    others = np.flatnonzero(slots != slots[rows[0]])
    if not len(others) or len(rows) == 1:
        return s
    n = min(neighbours, len(others))
    # The n rows nearest to row r are neighbours in `others`: from the first w with others[w] + others[w + n] >= 2 r.
    ends = others[: len(others) - n] + others[n:]
    starts = np.searchsorted(ends, 2 * rows)
    size = max(1, BLOCK // (n * X.shape[1]))
    for lo in range(0, len(rows) - 1, size):
        part = slice(lo, min(lo + size, len(rows) - 1))
        near = others[starts[part, None] + np.arange(n)]
        d = np.sqrt(((X[near] - X[rows[part], None]) ** 2).sum(2))
        cell = (np.arange(len(near))[:, None] * k + slots[near]).ravel()
        counts = np.bincount(cell, minlength=len(near) * k).reshape(-1, k)
        sums = np.bincount(cell, d.ravel(), minlength=len(near) * k).reshape(-1, k)
        b = np.where(counts > 0, sums / np.maximum(counts, 1), np.inf).min(1)
        a = np.sqrt(((X[rows[part]] - average[part]) ** 2).sum(1))
        worse = np.maximum(a, b)
        s[part] = np.where(worse > 0, (b - a) / np.where(worse > 0, worse, 1), 0)
    return s


def _outliers(z: np.ndarray, least: float | None = None) -> int:
    """How many of `z` are further than three scaled MADs from the median; the scale is at least `least`."""
    if not len(z):
        return 0
    away = np.abs(z - np.median(z))
    scale = 1.4826 * float(np.median(away))
    scale = max(scale, least) if least is not None else scale or 1.0
    return int((away > 3 * scale).sum())
