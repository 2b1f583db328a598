"""Signs and truth of many runs: the rows that `train.py` and `evaluate.py` use."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

import icvi_jax as icvi
from icvi_jax.indices.base import Index
from icvi_jax.indices.health import CUT, MERGED, NOTHING, RIGHT, UNLEARNED
from icvi_jax.spec import spec, static
from icvi_jax.statistics import Count, Stats, Vitals
from icvi_jax.statistics.health_features import SIGNS
from icvi_jax.types import Array

WINDOW, STRIDE = 300, 150


@spec
class Sign(Index):
    """One of the numbers that `Health` is computed from, as an index."""

    name: str = static("")
    place: int = static(0)
    goal: ClassVar = "max"
    needs: ClassVar = (Count, Vitals)
    positive: ClassVar = False
    scattered: ClassVar = False

    def value(self, stats: Stats, forgetting: Array) -> Array:
        return stats[Vitals].signs[self.place]


PANEL = icvi.Panel(
    indices=(*(Sign(name=f"sign {i}", place=i) for i in range(len(SIGNS))), icvi.OnlineSilhouette(), icvi.XieBeni()),
    forgetting=0.99,
)


class Rows(NamedTuple):
    """Windows of runs: signs (n, F), the adjusted Rand index (n,), why (n,), osil and log XB (n, 2), run (n,), k told,
    true classes in the window, in the stream, columns, its memory, whether it is k-means, and places
    of the simulated stream's family in SHAPES and ORDERS, −1 if it is real (n,)."""

    signs: NDArray[np.float32]
    ari: NDArray[np.float64]
    why: NDArray[np.int64]
    others: NDArray[np.float32]
    run: NDArray[np.int64]
    k: NDArray[np.int64]
    here: NDArray[np.int64]
    true_k: NDArray[np.int64]
    columns: NDArray[np.int64]
    memory: NDArray[np.float64]
    kmeans: NDArray[np.bool_]
    shape: NDArray[np.int64]
    order: NDArray[np.int64]


def joined(parts: list[Rows]) -> Rows:
    """Rows one after the other; runs get new numbers."""
    base, runs = 0, []
    for part in parts:
        runs.append(part.run + base)
        base += int(part.run.max(initial=-1)) + 1
    return Rows(*(np.concatenate(a) for a in zip(*parts)))._replace(run=np.concatenate(runs))


def rows_of(
    clusterer: icvi.Clusterer,
    x: NDArray[np.float32],
    y: NDArray[np.int64],
    ends: NDArray[np.int64],
    family: NDArray[np.int64] | None = None,
) -> Rows:
    """The windows of one clusterer on a fleet x (N, T, p) with classes y (N, T) and families (N, 2), at `ends`."""
    pipe = icvi.Pipeline(clusterer=clusterer, panel=PANEL)
    readings = icvi.run_fleet(pipe, x, keep=("values", "cluster")).readings
    names = np.asarray(readings.cluster)
    signs = np.stack([np.asarray(readings.values[f"sign {i}"])[:, ends - 1] for i in range(len(SIGNS))], -1)
    osil = np.asarray(readings.values["osil"])[:, ends - 1]
    xb = np.asarray(readings.values["xb"])[:, ends - 1]
    keep, out = [], []
    for n in range(len(x)):
        for j, end in enumerate(ends):
            window = slice(max(end - WINDOW, 0), end)
            found = judged(y[n, window], names[n, window])
            if found is not None and np.isfinite(signs[n, j]).all():
                keep.append((n, j))
                out.append((*found, int(y[n].max()) + 1))
    if not keep:
        none = np.zeros(0, np.int64)
        return Rows(
            np.zeros((0, len(SIGNS)), np.float32), none.astype(float), none, np.zeros((0, 2), np.float32), *(none,) * 9
        )
    n, j = np.array(keep).T
    ari, why, here, true_k = (np.array(a) for a in zip(*out))
    others = np.stack([np.nan_to_num(osil[n, j]), np.log(np.clip(np.nan_to_num(xb[n, j], nan=1e6), 1e-6, 1e6))], -1)
    columns = (np.ptp(x, axis=1) > 0).sum(-1)[n]
    memory = np.full(len(n), min(getattr(clusterer, "memory", 1e4), 1e4))
    kmeans = np.full(len(n), isinstance(clusterer, icvi.SequentialKMeans))
    shape, order = (np.full((len(x), 2), -1) if family is None else family)[n].T
    told = np.full(len(n), clusterer.slots)
    return Rows(signs[n, j], ari, why, others, n, told, here, true_k, columns, memory, kmeans, shape, order)


def judged(truth: NDArray[np.int64], names: NDArray[np.int64]) -> tuple[float, int, int] | None:
    """The adjusted Rand index, why it is low, and how many classes there are; None with too few samples."""
    ok = truth >= 0
    if ok.sum() < 100:
        return None
    a, b = (np.unique(v[ok], return_inverse=True)[1] for v in (truth, names))
    table = (
        np.bincount(a * (b.max() + 1) + b, minlength=(a.max() + 1) * (b.max() + 1))
        .reshape(a.max() + 1, -1)
        .astype(float)
    )
    n, rows, columns = table.sum(), table.sum(1), table.sum(0)

    def pairs(v: NDArray[np.float64]) -> float:
        return float((v * (v - 1)).sum() / 2)

    s, p, q = pairs(table), pairs(rows), pairs(columns)
    expected, most = p * q / (n * (n - 1) / 2), (p + q) / 2
    ari = 1.0 if most == expected else (s - expected) / (most - expected)
    classes = len(rows)
    if ari >= 0.5:
        return ari, RIGHT, classes
    if classes == 1:
        return ari, NOTHING, classes
    share = table / n

    def entropy(v: NDArray[np.float64]) -> float:
        v = v[v > 0]
        return float(-(v * np.log(v)).sum())

    mutual = entropy(rows / n) + entropy(columns / n) - entropy(share)
    pure = mutual / max(entropy(rows / n), 1e-12)
    whole = mutual / entropy(columns / n) if len(columns) > 1 else 1.0
    if len(columns) > 1 and max(pure, whole) < 0.5:
        return ari, UNLEARNED, classes
    return ari, MERGED if pure < whole else CUT, classes
