"""Train the coefficients of `icvi.Health` from simulated streams: the same seeds give the same file.

    python benchmarks/health/train.py --rows rows.npz --out icvi_jax/indices/health.json

`--rows` keeps the simulated rows for a second training; without the file they are made (minutes on 2 cores).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
from runs import STRIDE, Rows, joined, rows_of, rows_of_kmeans
from simulate import LENGTH, ORDERS, SHAPES, make

import icvi_jax as icvi
from icvi_jax.statistics.health_features import SIGNS

HERE = pathlib.Path(__file__).parent
MANY, SOME, FEW = (2, 3, 4, 5, 6, 8, 11, 12, 16), (2, 3, 4, 5, 7, 11), (2, 3, 5, 8)
TOLD = {1: FEW, 2: MANY, 4: MANY, 8: MANY, 16: SOME, 32: SOME, 64: FEW}
"""The numbers of clusters that k-means is told, by the number of columns."""
SEEDINGS = ("first", "distinct")
MEMORIES = (25.0, 50.0, 200.0, float("inf"))
ENDS = np.arange(STRIDE, LENGTH + 1, STRIDE)
SEEDS = (0,)
"""Of the three sets of streams."""
STALE, SHARE = ORDERS.index("stale"), 0.25
"""The order of tight classes, one after the other, and the share of it in training."""
WEIGHTS = 0.4
"""Share of the first layer's weights that are used."""
VERSION = "8"
TEACHERS, BALANCE, BATCH = 2, 0.2, 1024
"""Of the recipe: larger networks to learn from, what is added to the logit of health (`cross.py`), windows a step."""
PRUNED = ("widest", "skips", "worst edge", "dimension", "clusters", "distance over gap", "alone")
"""Signs whose coefficients are 0: those that cost time and hardly help on the training families."""


def simulated(most: int, held_out: bool = False, seed: int = 0, columns=tuple(TOLD)) -> Rows:
    """Rows of sequential k-means with several k and memories, and of the other clusterers.

    There are `most` streams for each number of columns, an eighth of that from 32 columns on: they take the time.
    """
    parts = []
    for p, told in ((p, TOLD[p]) for p in columns):
        streams = most if p < 32 else most // 8
        pool = [make(seed + i, p, held_out) for i in range(streams)]
        x, y = np.stack([s.x for s in pool]), np.stack([s.y for s in pool])
        right = np.array([s.k for s in pool])
        family = np.array([(SHAPES.index(s.shape), ORDERS.index(s.order)) for s in pool])
        rng = np.random.default_rng((1, p, seed))
        lanes = []  # (stream, k, memory, seeding)
        for k in told:
            chance = np.where(np.abs(right - k) <= 1, 1.0, 0.5)  # more of those where k is nearly right
            some = np.flatnonzero(rng.random(streams) < chance)
            lanes += [(n, k, i % len(MEMORIES), i // len(MEMORIES) % 2) for i, n in enumerate(some)]
        if not held_out:  # centres that all begin in one class, the others come one after the other
            extra = [make(seed + 100_000 + i, p, only="late") for i in range(streams // 4)]
            extra += [make(seed + 200_000 + i, p, only="stale") for i in range(streams // 3)]
            x, y = (np.concatenate([a, np.stack([s[i] for s in extra])]) for i, a in enumerate((x, y)))
            family = np.concatenate([family, [(SHAPES.index(s.shape), ORDERS.index(s.order)) for s in extra]])
            lanes += [(streams + i, k, (i + k) % len(MEMORIES), 0) for i in range(streams // 4) for k in (7, 11)]
            for i in range(streams + streams // 4, len(x)):
                for seeding in (0, 0, 1):  # a memory without end counts twice
                    memory = min(int(rng.integers(len(MEMORIES) + 1)), len(MEMORIES) - 1)
                    lanes.append((i, int(rng.integers(2, max(told) + 1)), memory, seeding))
        for place, seeding in enumerate(SEEDINGS):
            which, k, memory = np.array([lane[:3] for lane in lanes if lane[3] == place]).T
            parts.append(rows_of_kmeans(x, y, which, k, np.array(MEMORIES)[memory], seeding, family))
        for i, clusterer in enumerate(OTHERS if p in (2, 8) else ()):
            mine = np.arange(i % 2, streams, 2)
            parts.append(rows_of(clusterer, x[mine], y[mine], ENDS, family[mine]))
        rows = sum(len(part.ari) for part in parts)
        print(f"p = {p}: {rows} rows, {time.process_time():.0f} s of CPU time", flush=True)
    return joined(parts)


OTHERS = (
    icvi.MergeSplit(slots=16),
    icvi.OnlineEllipsoidal(capacity=16),
    icvi.RebirthKMeans(k=10),
    icvi.FuzzyCMeans(k=3),
    icvi.FuzzyCMeans(k=6),
)


def network(params, signs):
    """Logits (n, 6) of six outputs: right or not, and the five reasons."""
    hidden = jax.nn.soft_sign(signs @ params["hidden"] + params["hidden_bias"])
    return hidden @ params["output"] + params["output_bias"]


def outputs(rows: Rows, params):
    """The logits (n, 6) of coefficients as they are in the file."""
    a = rows.signs.astype(float) @ np.asarray(params["hidden"]) + np.asarray(params["hidden_bias"])
    return a / (1 + np.abs(a)) @ np.asarray(params["output"]) + np.asarray(params["output_bias"])


def ways(rows: Rows):
    """The rows of k-means, by how k was told, without those of the order stale: masks (n,)."""
    plain = rows.kmeans & (rows.order != STALE)
    return {"k = 3": plain & (rows.k == 3), "true k": plain & (rows.k == rows.true_k), "any k": plain}


def fit(
    rows: Rows,
    hidden: int = 12,
    steps: int = 16_000,
    seed: int = 0,
    decay: float = 1e-4,
    rank: float = 0.3,
    mixed: bool = True,
    teachers: int = 0,
    pruned: tuple[str, ...] = PRUNED,
    stale: float = SHARE,
    share: float = WEIGHTS,
):
    """The network's coefficients, for signs as they are: their means and spreads are folded into the first layer.

    If `mixed`, k = 3, the true k and any k count alike among the rows of k-means: who tells a clusterer its k often
    knows it, and otherwise the network is too careful there. `rank` is the weight of the second term of the loss: of
    two windows of one run, the right one should have the higher logit. With `teachers`, that many larger networks are
    fitted first, which see every sign, and this one learns the mean of their logits instead of the outcomes. Rows of
    the order stale have the share `stale` of the weight, four fifths of it where one cluster has nearly all samples. After half the steps only the largest weights of the first
    layer stay, the given share of them: the others are 0 and cost nothing.
    """
    told = [outputs(rows, fit(rows, 48, steps // 2, 1 + i, decay, rank, mixed, pruned=(), stale=stale, share=1.0)) for i in range(teachers)]
    mean, spread = rows.signs.mean(0), rows.signs.std(0) + 1e-6
    used = np.array([name not in pruned for name in SIGNS])
    signs = jnp.asarray((rows.signs - mean) / spread * used, jnp.float32)
    right = jnp.asarray(rows.ari >= 0.5, jnp.float32)
    chance, why = right, jax.nn.one_hot(rows.why, 5)
    if told:
        out = jnp.asarray(np.mean(told, 0), jnp.float32)
        chance, why = jax.nn.sigmoid(out[:, 0]), jax.nn.softmax(out[:, 1:])
    total = len(rows.ari)
    weight = np.ones(total)
    if mixed:
        part, corner = rows.kmeans.mean(), rows.order == STALE
        weight = ~rows.kmeans / total + sum(m * (part / 3 / max(m.sum(), 1)) for m in ways(rows).values())
        weight = (1 - stale) * weight / weight.sum()
        alone = corner & (rows.signs[:, SIGNS.index("outside the largest")] < -5)  # one cluster has nearly all samples
        weight += sum(part * m / max(m.sum(), 1) for part, m in ((stale / 5, corner), (stale * 4 / 5, alone)))
    rng = np.random.default_rng(seed)
    one = np.minimum(np.searchsorted(np.cumsum(weight) / weight.sum(), rng.random((steps, BATCH))), total - 1)
    _, start, place, count = np.unique(rows.run, return_index=True, return_inverse=True, return_counts=True)
    two = start[place[one]] + (rng.random((steps, BATCH)) * count[place[one]]).astype(int)  # of the same run
    keys = jax.random.split(jax.random.key(seed), 2)
    params = {
        "hidden": jax.random.normal(keys[0], (len(SIGNS), hidden)) / np.sqrt(len(SIGNS)),
        "hidden_bias": jnp.zeros(hidden),
        "output": jax.random.normal(keys[1], (hidden, 6)) / np.sqrt(hidden),
        "output_bias": jnp.zeros(6),
    }
    def loss(params, mask, one, two):
        params = params | {"hidden": params["hidden"] * mask}
        out = network(params, signs[one])
        reasons = -jnp.sum(jax.nn.log_softmax(out[:, 1:]) * why[one], 1)
        total = jnp.mean(optax.sigmoid_binary_cross_entropy(out[:, 0], chance[one]) + 0.3 * reasons)
        if rank:
            better, ahead = right[one] - right[two], out[:, 0] - network(params, signs[two])[:, 0]
            total += rank * jnp.mean(jnp.abs(better) * jax.nn.softplus(-better * ahead))
        return total

    @jax.jit
    def improved(params, mask, one, two):
        rule = optax.adamw(optax.cosine_decay_schedule(0.01, len(one)), weight_decay=decay)

        def step(carry, rows):
            params, state = carry
            change, state = rule.update(jax.grad(loss)(params, mask, *rows), state, params)
            return (optax.apply_updates(params, change), state), None

        return jax.lax.scan(step, (params, rule.init(params)), (one, two))[0][0]

    one, two = jnp.asarray(one, jnp.int32), jnp.asarray(two, jnp.int32)
    mask = jnp.asarray(np.broadcast_to(used[:, None], params["hidden"].shape), jnp.float32)
    if share < 1:
        params = improved(params, mask, one[: steps // 2], two[: steps // 2])
        size = np.abs(np.asarray(params["hidden"] * mask))
        mask = jnp.asarray(size >= np.quantile(size[used], 1 - share), jnp.float32)
        one, two = one[steps // 2 :], two[steps // 2 :]
    params = improved(params, mask, one, two)
    params = params | {"hidden": params["hidden"] * mask}
    params = {name: np.asarray(a, np.float64) for name, a in params.items()}
    params["hidden"] *= (used / spread)[:, None]
    params["hidden_bias"] -= mean @ params["hidden"]
    return {name: np.round(a, 5) for name, a in params.items()}


def written(params) -> str:
    """The file of coefficients, with its version and checksum."""
    body = {"version": VERSION, "signs": list(SIGNS)} | {name: a.tolist() for name, a in params.items()}
    text = json.dumps(body, sort_keys=True)
    return json.dumps(body | {"checksum": hashlib.sha256(text.encode()).hexdigest()}, sort_keys=True, indent=0) + "\n"


def main() -> None:
    """Make the rows, train, write the file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=pathlib.Path, default=HERE / "rows.npz")
    parser.add_argument("--out", type=pathlib.Path, default=HERE.parents[1] / "icvi_jax/indices/health.json")
    parser.add_argument("--streams", type=int, default=600)
    given = parser.parse_args()
    if given.rows.exists():
        rows = Rows(**np.load(given.rows))
    else:
        rows = joined([simulated(given.streams, seed=seed) for seed in SEEDS])
        np.savez(given.rows, **rows._asdict())
    params = fit(rows, teachers=TEACHERS)
    params["output_bias"][0] = np.round(params["output_bias"][0] + BALANCE, 5)
    given.out.write_text(written(params))
    print(f"{len(rows.ari)} rows, {time.process_time():.0f} s of CPU time: {given.out}")


if __name__ == "__main__":
    main()
