"""Scores of alarms and partitions."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from math import isnan

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icvi_jax.evaluation import adjusted_rand_index, match, metronome, prequential


def test_a_worked_example():
    score = match([690, 510, 760, 520, 1100], [500, 700, 1000], tolerance=60, samples=2000)
    assert score.matched == [(500, 510), (700, 760)]
    assert score.missed == [1000] and score.false == [520, 690, 1100]
    assert score.precision == 2 / 5 and score.recall == 2 / 3
    assert score.f1 == pytest.approx(2 * (2 / 5) * (2 / 3) / (2 / 5 + 2 / 3))
    assert score.delay == 35 and score.false_per_1000 == 1.5


@pytest.mark.parametrize(("alarm", "hit"), [(99, False), (100, True), (110, True), (111, False)])
def test_both_ends_of_the_window_belong_to_it(alarm, hit):
    assert match([alarm], [100], tolerance=10, samples=200).matched == ([(100, alarm)] if hit else [])


def test_delay_is_the_median_of_the_matched():
    assert match([1, 102, 230, 399], [0, 100, 200, 300], tolerance=50, samples=400).delay == 2


def test_second_alarm_in_the_window_is_false_even_at_the_same_sample():
    assert match([100, 100], [100], tolerance=10, samples=200).false == [100]
    assert match([101, 105], [100], tolerance=10, samples=200).false == [105]


def test_overlapping_windows_match_one_to_one():
    score = match([55, 60], [0, 50], tolerance=100, samples=200)
    assert score.matched == [(0, 55), (50, 60)] and score.false == []
    assert match([55], [0, 50], tolerance=100, samples=200).missed == [50]


def test_no_alarms():
    score = match([], [100], tolerance=10, samples=200)
    assert isnan(score.precision) and score.recall == 0 and score.f1 == 0
    assert isnan(score.delay) and score.false_per_1000 == 0 and score.missed == [100]


def test_no_changes():
    score = match([100], [], tolerance=10, samples=200)
    assert score.precision == 0 and isnan(score.recall) and score.f1 == 0
    assert score.false_per_1000 == 5 and score.false == [100]


def test_neither_alarms_nor_changes():
    score = match([], [], tolerance=10, samples=200)
    assert isnan(score.precision) and isnan(score.recall) and isnan(score.f1) and score.false_per_1000 == 0


def most_pairs(alarms, changes, tolerance):
    """The size of a largest matching, by augmenting paths."""
    taken = {}

    def place(change, seen):
        for i, alarm in enumerate(alarms):
            if change <= alarm <= change + tolerance and i not in seen:
                seen.add(i)
                if i not in taken or place(taken[i], seen):
                    taken[i] = change
                    return True
        return False

    return sum(place(change, set()) for change in changes)


indices = st.lists(st.integers(0, 49), max_size=12)


@given(indices, indices.map(set).map(list), st.integers(0, 20))
def test_matching_is_one_to_one_complete_and_as_large_as_possible(alarms, changes, tolerance):
    score = match(alarms, changes, tolerance, samples=50)
    assert sorted([a for _, a in score.matched] + score.false) == sorted(alarms)
    assert sorted([c for c, _ in score.matched] + score.missed) == sorted(changes)
    assert all(c <= a <= c + tolerance for c, a in score.matched)
    assert len(score.matched) == most_pairs(alarms, changes, tolerance)
    if score.matched:
        assert score.f1 == pytest.approx(2 / (1 / score.precision + 1 / score.recall))


def test_arrays_are_taken_and_plain_numbers_given():
    score = match(np.array([5, 1]), np.array([1]), tolerance=0, samples=10)
    assert score.matched == [(1, 1)] and type(score.false[0]) is int


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1], [1], -1, 10), "tolerance must be at least 0, got -1"),
        (([1], [1], 1, 0), "samples must be at least 1, got 0"),
        (([10], [1], 1, 10), "alarms must be from 0 to 9, got 10"),
        (([-1], [1], 1, 10), "alarms must be from 0 to 9, got -1"),
        (([1], [12], 1, 10), "changes must be from 0 to 9, got 12"),
        (([1], [3, 3], 1, 10), r"changes must be all different, got \[3, 3\]"),
        (([1.5], [3], 1, 10), "alarms must be a list of sample numbers, got float64"),
        (([True, False], [1], 1, 10), "alarms must be a list of sample numbers, got bool"),
        (([[1]], [1], 1, 10), r"alarms must be a list of sample numbers, got int64 of shape \(1, 1\)"),
    ],
)
def test_bad_arguments_of_match_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        match(*arguments)


def test_metronome():
    assert metronome(10, 3) == [3, 6, 9]
    assert metronome(9, 3) == [3, 6] and metronome(3, 5) == []
    with pytest.raises(ValueError, match="interval must be at least 1, got 0"):
        metronome(10, 0)
    with pytest.raises(ValueError, match="samples must be at least 1, got 0"):
        metronome(0, 1)


def test_a_metronome_is_caught_by_jittered_lengths():
    from icvi_jax.streams import s3

    even, uneven = s3(seed=0), s3(seed=0, lengths="jittered")
    assert match(metronome(2000, 200), even.changes, 15, 2000).f1 == 1
    n = len(uneven.x)
    assert match(metronome(n, 200), uneven.changes, 15, n).f1 < 0.5


labels = st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 4)), min_size=2, max_size=30)


@given(labels)
def test_adjusted_rand_index_counts_pairs(pairs):
    a, b = zip(*pairs)
    both = first = second = total = 0
    for i, j in combinations(range(len(a)), 2):
        together = a[i] == a[j], b[i] == b[j]
        both, first, second, total = both + all(together), first + together[0], second + together[1], total + 1
    expected = first * second / total
    most = (first + second) / 2
    value = 1.0 if most == expected else (both - expected) / (most - expected)
    assert adjusted_rand_index(a, b) == pytest.approx(value, abs=1e-12)


@settings(deadline=None)  # the first call imports scikit-learn
@given(labels)
def test_adjusted_rand_index_is_scikit_learns(pairs):
    metrics = pytest.importorskip("sklearn.metrics")
    a, b = zip(*pairs)
    assert adjusted_rand_index(a, b) == pytest.approx(metrics.adjusted_rand_score(a, b), abs=1e-12)


def test_adjusted_rand_index_at_its_ends():
    rng = np.random.default_rng(0)
    a = rng.integers(5, size=200_000)
    names = np.array(list("vwxyz"))
    assert adjusted_rand_index(a, names[a]) == 1.0
    assert abs(adjusted_rand_index(a, rng.integers(5, size=200_000))) < 1e-3
    assert adjusted_rand_index([3], [4]) == 1.0
    assert adjusted_rand_index([1, 1, 1], [2, 2, 2]) == 1.0 == adjusted_rand_index([1, 2, 3], [3, 1, 2])
    assert adjusted_rand_index([1, 1, 1], [1, 2, 3]) == 0.0


@pytest.mark.parametrize(("a", "b"), [([], []), ([1, 2], [1]), ([[1]], [[1]])])
def test_adjusted_rand_index_refuses_what_cannot_be_compared(a, b):
    with pytest.raises(ValueError, match="a and b must be labels of the same samples, got shapes"):
        adjusted_rand_index(a, b)


def weighted_definitions(truth, labels, forgetting):
    """The external indices after the last sample, pair by pair and sample by sample, from their definitions."""
    n = len(truth)
    w = [forgetting ** (n - 1 - j) for j in range(n)]
    both = first = second = every = 0.0
    for i, j in combinations(range(n), 2):
        weight = w[i] * w[j]
        every += weight
        first += weight * (truth[i] == truth[j])
        second += weight * (labels[i] == labels[j])
        both += weight * (truth[i] == truth[j] and labels[i] == labels[j])
    expected = first * second / every if every else 0.0
    slack = (first + second) / 2 - expected
    ari = 1.0 if abs(slack) <= 1e-12 * max(every, 1e-300) else (both - expected) / slack

    def share(values):
        return [sum(w[j] for j in range(n) if values[j] == value) / sum(w) for value in sorted(set(values))]

    def entropy(values):
        return -sum(q * np.log(q) for q in share(values))

    h, k, joint = entropy(truth), entropy(labels), entropy(list(zip(truth, labels)))
    mutual = max(h + k - joint, 0)
    single = h < 1e-12 and k < 1e-12
    majority, mapped, assigned, outside = 0.0, 0.0, 0.0, 0.0
    for cluster in set(labels) - {-1}:
        members = [j for j in range(n) if labels[j] == cluster]
        weights = {c: sum(w[j] for j in members if truth[j] == c) for c in set(truth)}
        majority += max(weights.values())
        mapped += max([weight for c, weight in weights.items() if c != -1], default=0.0)
        assigned += sum(w[j] for j in members)
    outside = sum(w[j] for j in range(n) if labels[j] == -1 and truth[j] == -1)
    return {
        "ari": ari,
        "nmi": 1.0 if single else mutual / np.sqrt(h * k) if h * k > 0 else 0.0,
        "v": 1.0 if single else 2 * mutual / (h + k),
        "purity": majority / assigned if assigned else np.nan,
        "cmm": (mapped + outside) / sum(w),
    }


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 4)), min_size=1, max_size=40),
    st.sampled_from([1.0, 0.999, 0.9, 0.3]),
)
def test_prequential_indices_equal_their_definitions_at_every_sample(pairs, forgetting):
    truth, labels = (list(part) for part in zip(*pairs))
    got = prequential(truth, labels, forgetting)
    for n in range(1, len(truth) + 1):
        want = weighted_definitions(truth[:n], labels[:n], forgetting)
        for name, value in want.items():
            assert got[name][n - 1] == pytest.approx(value, abs=1e-9, nan_ok=True), (name, n)


def test_prequential_indices_of_many_streams_in_pieces_and_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics", reason="needs the extra peers")
    random = np.random.default_rng(0)
    truth, labels = random.integers(0, 4, (3, 9000)), random.integers(0, 6, (3, 9000))
    got = prequential(truth, labels)
    assert got["ari"].shape == (3, 9000)
    for n in (4096, 4097, 9000):
        args = truth[1, :n], labels[1, :n]
        assert got["ari"][1, n - 1] == pytest.approx(metrics.adjusted_rand_score(*args), abs=1e-9)
        assert got["v"][1, n - 1] == pytest.approx(metrics.v_measure_score(*args), abs=1e-9)
        nmi = metrics.normalized_mutual_info_score(*args, average_method="geometric")
        assert got["nmi"][1, n - 1] == pytest.approx(nmi, abs=1e-9)
    for n in range(1, 80):  # every prefix, and purity from scikit-learn's own table
        args = truth[2, :n], labels[2, :n]
        assert got["ari"][2, n - 1] == pytest.approx(metrics.adjusted_rand_score(*args), abs=1e-9)
        assert got["v"][2, n - 1] == pytest.approx(metrics.v_measure_score(*args), abs=1e-9)
        purity = metrics.cluster.contingency_matrix(*args).max(axis=0).sum() / n
        assert got["purity"][2, n - 1] == got["cmm"][2, n - 1] == pytest.approx(purity)
    short = prequential(truth[:, -400:], labels[:, -400:], 0.9)["ari"][:, -1]
    np.testing.assert_allclose(prequential(truth, labels, 0.9)["ari"][:, -1], short, atol=1e-9)


@pytest.mark.parametrize("forgetting", [1.0, 0.97])
def test_prequential_is_one_operation_over_streams_in_numpy_and_jax(forgetting):
    random = np.random.default_rng(1)
    truth, labels = random.integers(-1, 3, (5, 300)), random.integers(-1, 6, (5, 300))
    labels[3] += 1000 * (labels[3] >= 0)  # names of clusters may be large
    got = prequential(truth, labels, forgetting)
    for n in range(5):
        for name, values in prequential(truth[n], labels[n], forgetting).items():
            np.testing.assert_array_equal(got[name][n], values)
    labels[3] -= 1000 * (labels[3] >= 0)
    with jax.enable_x64(True):
        a, b = jnp.asarray(truth), jnp.asarray(labels)
        plain = prequential(a, b, forgetting)
        assert isinstance(plain["ari"], np.ndarray)  # how many classes there are is not known before
        one = partial(prequential, forgetting=forgetting, classes=3, clusters=6)
        mapped = jax.jit(jax.vmap(one))(a, b)
        for found in (plain, one(a, b), jax.jit(one)(a, b), mapped):
            for name, values in got.items():
                np.testing.assert_allclose(found[name], values, atol=1e-9)
        rates = jnp.array([1.0, forgetting])
        several = jax.vmap(lambda lam: prequential(a, b, lam, classes=3, clusters=6)["v"])(rates)
        np.testing.assert_allclose(several[1], got["v"], atol=1e-9)
    half = jax.jit(one)(jnp.asarray(truth), jnp.asarray(labels))
    for name, values in got.items():
        np.testing.assert_allclose(half[name], values, atol=1e-3)
    with pytest.raises(ValueError, match="needs classes= and clusters="):
        jax.jit(prequential)(truth, labels)


@pytest.mark.parametrize(
    ("truth", "labels", "forgetting", "said"),
    [
        ([0, 1], [0], 1.0, "got \\(2,\\), \\(1,\\)"),
        ([0.5, 1], [0, 1], 1.0, "truth=…\\): expected integers"),
        ([0, 1], [0, 1], 1.2, "forgetting=1.2"),
    ],
)
def test_prequential_says_what_it_expects(truth, labels, forgetting, said):
    with pytest.raises(ValueError, match=said):
        prequential(truth, labels, forgetting)
