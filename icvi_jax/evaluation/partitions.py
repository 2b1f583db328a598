"""How good partitions are: against the truth, or by the temporal silhouette without it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from array_api_compat import is_jax_array
from jax.core import Tracer
from numpy.typing import ArrayLike, NDArray

from icvi_jax.array_api import AnyArray, Namespace
from icvi_jax.spec import whole


def adjusted_rand_index(a: ArrayLike, b: ArrayLike) -> float:
    """Compare two partitions of the same samples, corrected for chance: 1 is the same, about 0 is unrelated.

    With ``n_ij`` samples in group i of a and j of b, ``P = Σ_ij C(n_ij, 2)``, ``A = Σ_i C(n_i·, 2)``,
    ``B = Σ_j C(n_·j, 2)`` and ``E = A B / C(n, 2)``::

        ARI = (P − E) / ((A + B)/2 − E)

    Two partitions that put all samples in one group, or each in its own, are the same: 1. −1 is a label like any other:
    leave noise out beforehand if it should not count.

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
    i, j = (np.unique(labels, return_inverse=True)[1] for labels in (first, second))
    both = np.unique(np.stack([i, j]), axis=1, return_counts=True)[1]
    # Python integers: the products of pair counts exceed 2⁶³ at about 80,000 samples.
    P, A, B, n = (
        sum(c * (c - 1) // 2 for c in counts.tolist())
        for counts in (both, np.bincount(i), np.bincount(j), np.array([first.size]))
    )
    if P == A == B:
        return 1.0
    return float(2 * (n * P - A * B) / (n * (A + B) - 2 * A * B))


def prequential(
    truth: ArrayLike,
    labels: ArrayLike,
    forgetting: float = 1.0,
    *,
    classes: int | None = None,
    clusters: int | None = None,
) -> dict[str, AnyArray]:
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

    Both partitions with one group only: 1. No sample with a cluster: `purity` is NaN. A sample takes O(classes ×
    clusters) time, and all streams of (N, T) take their steps together.

    Parameters
    ----------
    truth, labels : (T,) or (N, T), integers. −1 is noise: in `truth` a class of its own, which no cluster is mapped to;
        in `labels` no cluster, which counts as a group of its own for pairs and entropies.
    forgetting : λ in (0, 1]; 1 never forgets.
    classes, clusters : how many there are, for labels from −1 to one less; then JAX arrays are computed by JAX, also
        inside `jax.jit` and `jax.vmap`, in its default precision.

    Returns
    -------
    By name, arrays with the shape of `truth`: the value after each sample.

    Examples
    --------
    >>> {name: round(float(v[-1]), 3) for name, v in prequential([0, 0, 1, 1], [5, 5, 7, 5]).items()}
    {'ari': 0.0, 'nmi': 0.346, 'v': 0.344, 'purity': 0.75, 'cmm': 0.75}
    """
    sized = classes is not None and clusters is not None
    traced = is_jax_array(truth) or is_jax_array(labels)
    if traced and not sized and any(isinstance(one, Tracer) for one in (truth, labels)):
        raise ValueError("prequential: inside jax.jit or jax.vmap it needs classes= and clusters=, how many there are")
    xp: Namespace = jnp if traced and sized else np
    a: AnyArray = xp.asarray(truth)
    b: AnyArray = xp.asarray(labels)
    if a.shape != b.shape or a.ndim not in (1, 2):
        raise ValueError(f"prequential: expected truth and labels (T,) or (N, T), got {a.shape}, {b.shape}")
    for field, array in (("truth", a), ("labels", b)):
        if array.dtype.kind not in "iub":
            raise ValueError(f"prequential({field}=…): expected integers, got {array.dtype}; −1 is noise")
    for field, many in (("classes", classes), ("clusters", clusters)):
        if many is not None:
            whole("prequential", field, many)
    if not isinstance(forgetting, Tracer) and not 0 < forgetting <= 1:
        raise ValueError(f"prequential(forgetting={forgetting!r}): expected 0 < forgetting <= 1")
    if xp is jnp:
        return _scanned(a + 1, b + 1, forgetting, (classes or 0) + 1, (clusters or 0) + 1)
    found = _in_pieces(_ranks(np.atleast_2d(a)), _ranks(np.atleast_2d(b)), float(forgetting))
    return {name: values.reshape(a.shape) for name, values in zip(_EXTERNAL, found)}


_EXTERNAL = ("ari", "nmi", "v", "purity", "cmm")
_CELLS = 2_000_000
"""Cells of the tables that are there at once."""


def _ranks(labels: AnyArray) -> NDArray[np.int64]:
    """The labels (N, T) of each stream by their order, from 1; −1, noise, is 0."""
    order = np.argsort(labels, axis=1, kind="stable")
    sorted_ = np.take_along_axis(labels, order, axis=1)
    ranks = np.zeros(labels.shape, np.int64)
    first = np.ones((len(labels), 1), np.int64)  # a boolean label has no difference
    steps = np.hstack([first[:, : labels.shape[1]], sorted_[:, 1:] != sorted_[:, :-1]])
    np.put_along_axis(ranks, order, np.cumsum(steps * (sorted_ != -1), axis=1), axis=1)
    return np.where(labels == -1, 0, ranks)


def _in_pieces(a: NDArray[np.int64], b: NDArray[np.int64], forgetting: float) -> NDArray[np.float64]:
    """The values (5, N, T), in pieces short enough that λ to the power of their length is no rounding error."""
    shape = int(a.max(initial=0)) + 1, int(b.max(initial=0)) + 1
    found = np.empty((len(_EXTERNAL), *a.shape))
    together = max(1, _CELLS // (64 * shape[0] * shape[1]))
    for low in range(0, len(a), together):
        streams = np.arange(low, min(low + together, len(a)))
        piece = max(1, min(_CELLS // (len(streams) * shape[0] * shape[1]), 4096))
        if forgetting < 1:
            piece = max(1, min(piece, int(np.log(1e4) / -np.log(forgetting))))
        table, Q = np.zeros((len(streams), 1, *shape)), 0.0
        for start in range(0, a.shape[1], piece):
            here = slice(start, start + piece)
            i, j = a[streams, here], b[streams, here]
            steps = np.arange(i.shape[1])
            fade = forgetting ** (steps + 1)
            hits = np.zeros((*i.shape, *shape))
            hits[np.arange(len(streams))[:, None], steps, i, j] = 1 / fade
            tables = fade[:, None, None] * (table + np.cumsum(hits, axis=1))
            squared = fade**2 * (Q + np.cumsum(1 / fade**2))
            with np.errstate(divide="ignore", invalid="ignore"):
                found[:, streams, here] = _external(np, tables, squared, 1e-12)
            table, Q = tables[:, -1:], float(squared[-1])
    return found


def _scanned(a: jax.Array, b: jax.Array, forgetting: float, rows: int, columns: int) -> dict[str, jax.Array]:
    """The same for JAX arrays with slots from 0, sample by sample."""
    dtype = jnp.result_type(float)
    fade, tolerance = jnp.asarray(forgetting, dtype), 1e-12 if dtype == jnp.float64 else 1e-6

    def step(carry: tuple[jax.Array, jax.Array], sample: tuple[jax.Array, jax.Array]) -> AnyArray:
        i, j = sample
        hit = (i[..., None] == jnp.arange(rows))[..., None] & (j[..., None] == jnp.arange(columns))[..., None, :]
        table, Q = fade * carry[0] + hit, fade**2 * carry[1] + 1
        return (table, Q), _external(jnp, table, Q, tolerance)

    start = jnp.zeros((*a.shape[:-1], rows, columns), dtype), jnp.zeros((), dtype)
    _, found = jax.lax.scan(step, start, (jnp.moveaxis(a, -1, 0), jnp.moveaxis(b, -1, 0)))
    return {name: jnp.moveaxis(values, 0, -1) for name, values in zip(_EXTERNAL, found)}


def _external(xp: Namespace, N: AnyArray, Q: AnyArray, tolerance: float) -> tuple[AnyArray, ...]:
    """External indices of tables (…, classes, clusters) with squared weights `Q`; noise is first in both."""
    rows, columns, n = N.sum(-1), N.sum(-2), N.sum((-2, -1))
    P, A, B, T = ((part - Q) / 2 for part in ((N * N).sum((-2, -1)), (rows**2).sum(-1), (columns**2).sum(-1), n * n))
    expected = A * B / xp.where(T > 0, T, 1)
    spread = (A + B) / 2 - expected
    same = (T <= tolerance * n * n) | (xp.abs(spread) <= tolerance * T)
    ari = xp.where(same, 1.0, (P - expected) / xp.where(same, 1.0, spread))
    flat = N.reshape(*N.shape[:-2], -1)
    H_rows, H_columns, H_both = (_entropy(xp, part / n[..., None]) for part in (rows, columns, flat))
    mutual = xp.maximum(H_rows + H_columns - H_both, 0)
    least = 4 * float(xp.finfo(N.dtype).eps)  # an entropy below is rounding
    single, one = (H_rows <= tolerance) & (H_columns <= tolerance), (H_rows <= least) | (H_columns <= least)
    nmi = xp.where(single, 1.0, xp.where(one, 0.0, mutual / xp.sqrt(xp.where(one, 1.0, H_rows * H_columns))))
    v = xp.where(single, 1.0, 2 * mutual / xp.where(single, 1.0, H_rows + H_columns))
    assigned = n - columns[..., 0]
    there = assigned > 0
    purity = xp.where(there, N[..., 1:].max(-2, initial=0).sum(-1) / xp.where(there, assigned, 1), xp.nan)
    return ari, nmi, v, purity, (N[..., 1:, 1:].max(-2, initial=0).sum(-1) + N[..., 0, 0]) / n


def _entropy(xp: Namespace, share: AnyArray) -> AnyArray:
    return -(share * xp.log(xp.where(share > 0, share, 1))).sum(-1)


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
