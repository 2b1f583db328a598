"""Signs and truth of many runs: the rows that `train.py` and `evaluate.py` use."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

import icvi_jax as icvi
from icvi_jax.indices.base import Index
from icvi_jax.indices.health import CUT, MERGED, NOTHING, RIGHT, UNLEARNED
from icvi_jax.spec import spec, static
from icvi_jax.statistics import Count, Stats, Vitals
from icvi_jax.statistics.health_features import SIGNS
from icvi_jax.types import Array, Prototypes

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


def rows_of_kmeans(
    x: NDArray[np.float32],
    y: NDArray[np.int64],
    which: NDArray[np.int64],
    sizes: NDArray[np.int64],
    memory: NDArray[np.float64],
    seeding: str,
    family: NDArray[np.int64] | None = None,
    least: int = STRIDE,
) -> Rows:
    """The windows of many k-means: number i has `sizes[i]` clusters and `memory[i]`, and is on stream `which[i]` of x.

    All are streams of one clusterer with as many slots as the largest needs, as in `Portfolio`: one compilation.
    Windows end every STRIDE samples, from `least` on.
    """
    blocks = x.shape[1] // STRIDE
    clusterer = icvi.SequentialKMeans(k=int(sizes.max()), seeding=seeding)
    told, remembered = jnp.asarray(sizes, jnp.int32), jnp.asarray(memory, jnp.float32)
    seen = jnp.ones(len(which), bool)

    def sample(carry, now):
        state, statistics, _ = carry
        state, event = clusterer.advance(state, now[:, which], seen, told, remembered)
        return (state, PANEL.update(statistics, event, None, True), event.ready), event.shown.cluster.astype(jnp.int8)

    def block(carry, some):
        carry, names = jax.lax.scan(sample, carry, some)
        state, statistics, ready = carry
        return carry, (names, PANEL.values(statistics, Prototypes(state.centers, state.active), ready))

    xs = np.moveaxis(x - x[:, :1], 0, -1)[: blocks * STRIDE].reshape(blocks, STRIDE, x.shape[2], len(x))
    lanes = (len(which),)
    start = (
        clusterer.init(x.shape[2], lanes, jnp, jnp.float32),
        PANEL.start(clusterer.k, x.shape[2], lanes, jnp, jnp.float32),
        ~seen,
    )
    names, values = jax.jit(lambda start, xs: jax.lax.scan(block, start, xs)[1])(start, jnp.asarray(xs, jnp.float32))
    names = np.asarray(names).reshape(blocks * STRIDE, -1).T
    ends = np.arange(least, blocks * STRIDE + 1, STRIDE)
    values = {name: np.asarray(a)[-len(ends) :].T for name, a in values.items()}
    family = np.full((len(x), 2), -1) if family is None else family
    return windows_of(x, y, which, names, values, ends, sizes, memory, True, family)


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
    values = {name: np.asarray(a)[:, ends - 1] for name, a in readings.values.items()}
    memory = np.full(len(x), min(getattr(clusterer, "memory", 1e4), 1e4))
    family = np.full((len(x), 2), -1) if family is None else family
    told, kmeans = np.full(len(x), clusterer.slots), isinstance(clusterer, icvi.SequentialKMeans)
    return windows_of(x, y, np.arange(len(x)), np.asarray(readings.cluster), values, ends, told, memory, kmeans, family)


def windows_of(x, y, which, names, values, ends, told, memory, kmeans: bool, family) -> Rows:
    """The windows of runs: number i on stream `which[i]` has clusters `names` (n, T), and `values` (n, E) at `ends`."""
    signs = np.stack([values[f"sign {i}"] for i in range(len(SIGNS))], -1)
    osil, xb = values["osil"], values["xb"]
    keep, out = [], []
    for n, stream in enumerate(which):
        for j, end in enumerate(ends):
            window = slice(max(end - WINDOW, 0), end)
            found = judged(y[stream, window], names[n, window])
            if found is not None and np.isfinite(signs[n, j]).all():
                keep.append((n, j))
                out.append((*found, int(y[stream].max()) + 1))
    if not keep:
        none = np.zeros(0, np.int64)
        return Rows(
            np.zeros((0, len(SIGNS)), np.float32), none.astype(float), none, np.zeros((0, 2), np.float32), *(none,) * 9
        )
    n, j = np.array(keep).T
    ari, why, here, true_k = (np.array(a) for a in zip(*out))
    others = np.stack([np.nan_to_num(osil[n, j]), np.log(np.clip(np.nan_to_num(xb[n, j], nan=1e6), 1e-6, 1e6))], -1)
    columns = (np.ptp(x, axis=1) > 0).sum(-1)[which[n]]
    shape, order = family[which[n]].T
    remembered, kind = np.minimum(memory, 1e4)[n], np.full(len(n), kmeans)
    return Rows(signs[n, j], ari, why, others, n, told[n], here, true_k, columns, remembered, kind, shape, order)


def judged(truth: NDArray[np.int64], names: NDArray[np.int64]) -> tuple[float, int, int] | None:
    """The adjusted Rand index, why it is low, and how many classes there are; None with too few samples."""
    ok = truth >= 0
    if ok.sum() < 100:
        return None
    width = int(names.max()) + 2
    table = np.bincount(truth[ok] * width + names[ok] + 1, minlength=(int(truth.max()) + 1) * width).astype(float)
    table = table.reshape(-1, width)
    table = table[table.any(1)][:, table.any(0)]
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
