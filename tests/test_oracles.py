"""The oracles against each other: two ways to one number, both far from the package."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from oracles import clusterers, mergesplit, silhouettes
from oracles.change import change
from oracles.conn import Conn, batch_cadj, best_two, conn
from oracles.events import History
from oracles.macro import macro
from oracles.propose import propose

import icvi_jax as icvi
from icvi_jax.statistics.base import Statistic

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "definitions.md"


def kinds_of(base):
    for kind in base.__subclasses__():
        part = not inspect.isabstract(kind) and "name" in vars(kind) and kind.__module__.startswith("icvi_jax.")
        yield from [kind.__name__] if part else []
        yield from kinds_of(kind)


@pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not part of this installation")
def test_every_part_has_a_definition():
    parts = [*kinds_of(Statistic), *(f"`{entry.name}`" for entry in icvi.indices.catalogue())]
    parts += [entry.clusterer.__name__ for entry in icvi.clusterers.catalogue()]
    parts += [entry.monitor.__name__ for entry in icvi.monitors.catalogue()]
    parts += ["Portfolio", "Standardize", "Health", "Budget", "propose", "temporal_silhouette", "prequential"]
    parts += ["match", "judge", "adjusted_rand_index"]
    text = PAGE.read_text()
    assert not [part for part in parts if not re.search(rf"(?<!\w){re.escape(part)}(?!\w)", text)]


def wandering(n=300):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 2)) + 8 * rng.integers(0, 3, n)[:, None]
    X[n // 2 :] += [30, 0]
    X[40] = np.nan
    return X


@pytest.mark.parametrize("forgetting", [1.0, 0.95])
def test_the_recursion_follows_the_samples_through_merges_and_births(forgetting):
    X, K = wandering(), 6
    history, records = History(K, forgetting), mergesplit.run(X, slots=K, gain=2.0)
    assert sum(r["merge"] is not None for r in records) >= 2
    C, M, G, old = np.zeros(K), np.zeros(K), np.zeros((K, 2)), np.zeros((K, 2))
    for x, r in zip(X, records):
        if r["label"] < 0:
            continue
        v, born = r["centers"], [r["born"]] if r["born"] >= 0 else []
        history.append(x, r["label"], r["merge"], born)
        if r["merge"]:
            a, b = r["merge"]
            for i in (a, b):
                d = old[i] - v[a]
                C[i] += 2 * d @ G[i] + M[i] * d @ d
                G[i] += M[i] * d
            C[a], M[a], G[a], old[a] = C[a] + C[b], M[a] + M[b], G[a] + G[b], v[a]
        for i in born:
            C[i], M[i], G[i], old[i] = 0, 0, 0, v[i]
        for i in range(K):
            d, w = old[i] - v[i], float(i == r["label"])
            C[i] = forgetting * (C[i] + 2 * d @ G[i] + M[i] * d @ d) + w * ((x - v[i]) ** 2).sum()
            G[i] = forgetting * (G[i] + M[i] * d) + w * (x - v[i])
            M[i] = forgetting * M[i] + w
        old = v.copy()
        want = history.read(v)
        for got, name in ((C, "C"), (M, "M"), (G, "G")):
            np.testing.assert_allclose(got, want[name], rtol=1e-10, atol=1e-9)


def test_a_slot_born_again_without_a_merge_forgets_its_samples():
    history = History(2, 0.5)
    for x, slot, born in ((1.0, 0, [0]), (5.0, 1, [1]), (9.0, 0, [0])):
        history.append([x], slot, born=born)
    got = history.read(np.zeros((2, 1)))
    assert got["M"].tolist() == [1.0, 0.5] and got["C"].tolist() == [81.0, 12.5]


def test_components_are_the_sum_of_their_slots():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 2)) * [6, 0.5] + 15 * rng.integers(0, 2, 300)[:, None] * [0, 1]
    history, records = History(16, 0.98), mergesplit.run(X, gain=2.0)
    for x, r in zip(X, records):
        history.append(x, r["label"], r["merge"], [r["born"]] if r["born"] >= 0 else [])
    last = records[-1]
    M, mean, S, numbers = macro(history, last["component"], last["n"], last["centers"])
    assert 1 < len(numbers) < last["active"].sum()  # some component has several slots
    slots = history.read(last["centers"])
    for row, g in enumerate(numbers):
        s = last["component"] == g
        m = (slots["M"][s, None] * slots["mean"][s]).sum(0) / slots["M"][s].sum()
        scatter = slots["scatter"][s].sum() + (slots["M"][s] * ((slots["mean"][s] - m) ** 2).sum(1)).sum()
        np.testing.assert_allclose(m, mean[row], atol=1e-10)
        np.testing.assert_allclose(scatter, S[row], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("forgetting", [1.0, 0.9])
def test_conn_counts_its_pairs(forgetting):
    rng = np.random.default_rng(2)
    V, active, c, pairs = rng.normal(size=(6, 2)), np.arange(6) != 3, Conn(6, forgetting), []
    for x in rng.normal(size=(200, 2)):
        c.step(x, V, active)
        pairs.append(best_two(x, V, active))
    np.testing.assert_allclose(c.cadj, batch_cadj(pairs, 6, forgetting), atol=1e-12)
    assert best_two(np.zeros(1), np.array([[3.0], [1.0], [2.0]]), [True] * 3) == (1, 2)
    assert 0 <= conn(c.cadj, [0, 0, 1, 1, 2, 1], active, forgetting) <= 1
    assert np.isnan(conn(c.cadj, [0] * 6, active, forgetting))


@pytest.mark.parametrize("forgetting", [1.0, 0.97])
def test_the_fast_form_of_propose_holds_where_every_sample_is_a_member(forgetting):
    rng = np.random.default_rng(3)
    n, k = 60, 4
    X, labels, x = 3 * rng.normal(size=(n, 2)), rng.integers(0, k, n), rng.normal(size=2)
    got, age = propose(X, labels, k, x, forgetting), forgetting ** np.arange(n - 1, -1, -1.0)
    M = np.array([age[labels == c].sum() for c in range(k)])
    v = np.array([(age[labels == c, None] * X[labels == c]).sum(0) / M[c] for c in range(k)])
    W = sum((age[labels == c] * ((X[labels == c] - v[c]) ** 2).sum(1)).sum() for c in range(k))
    mu = (age[:, None] * X).sum(0) / age.sum()
    total = (age * ((X - mu) ** 2).sum(1)).sum()
    n1 = forgetting * age.sum() + 1
    T1, d = forgetting * total + (1 - 1 / n1) * ((x - mu) ** 2).sum(), ((v - x) ** 2).sum(1)
    for c in range(k):
        W1 = forgetting * W + forgetting * M[c] / (forgetting * M[c] + 1) * d[c]
        B1 = T1 - W1
        assert got["wb"][c] == pytest.approx(k * W1 / B1, rel=1e-9)
        assert got["r2"][c] == pytest.approx(B1 / T1, rel=1e-9)
        assert got["ch"][c] == pytest.approx(B1 / (k - 1) / (W1 / (n1 - k)), rel=1e-9)


def test_change_sees_a_step_and_keeps_its_units_and_columns():
    X = np.random.default_rng(3).normal(size=(1200, 3)).round(1)
    X[600:, 2] += 3
    X[::5, 1], X[17], X[:300, 0] = np.nan, np.nan, 4.0
    one, turned, scaled = change(X), change(X[:, ::-1]), change(X * [2, 1000, 0.5] + 64)
    assert list(one["cause"][600:620][one["code"][600:620] > 0]) == [2]
    np.testing.assert_array_equal(one["code"], scaled["code"])
    np.testing.assert_allclose(one["y"], scaled["y"], atol=1e-8)
    np.testing.assert_allclose(one["p"], turned["p"], rtol=1e-12)
    assert one["mute"][299, 0] and np.isnan(one["y"][:320, 0]).all()
    assert np.isfinite(one["y"][500:, 0]).any()  # a channel that was dead wakes


def test_the_signal_of_white_noise_is_an_f_ratio_with_mean_one():
    y = change(np.random.default_rng(0).normal(size=(4000, 2)))["y"][500:]
    assert np.nanmean(y**4) == pytest.approx(1, abs=0.2)


def test_a_missing_row_leaves_every_clusterer_as_it_was():
    X = wandering(60)
    runs = [clusterers.sequential_kmeans(X, 3, 50, "distinct"), clusterers.rebirth_kmeans(X, 3)]
    for records in [*runs, clusterers.fuzzy_cmeans(X, 3), mergesplit.run(X, slots=5)]:
        assert records[40]["label"] == -1 and np.isnan(records[40]["surprise"])
        np.testing.assert_array_equal(records[40]["centers"], records[39]["centers"])


def test_memory_without_end_is_the_mean_of_the_members():
    X = wandering(120)
    records = clusterers.sequential_kmeans(X, 3)
    labels = np.array([r["label"] for r in records])
    for i in range(3):
        np.testing.assert_allclose(records[-1]["centers"][i], X[labels == i].mean(0), atol=1e-10)


def test_silhouettes_prefer_the_right_labels():
    rng = np.random.default_rng(4)
    X, y, t = rng.normal(size=(120, 2)), np.arange(120) % 2, np.arange(120)
    X[y == 1] += 20
    right = silhouettes.temporal_silhouette(t, X, y, 5, 10)
    assert right > 0.8 > silhouettes.temporal_silhouette(t, X, rng.integers(0, 2, 120), 5, 10)
    X, labels = np.array([[0.0], [2.0], [10.0], [4.0]]), np.array([0, 1, 2, 0])
    assert silhouettes.width(X, labels, 0, np.array([1.0]), 2) == 0.5  # a = 1, b = 2: the nearer of two others
