"""The synthetic streams: their draws, lengths, change points and recursions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from icvi_jax.streams import Stream, catalogue, s1, s2, s3
from icvi_jax.streams.synthetic import centers, modes

M1 = np.array([1.018, 0.0, 1.801, -0.8187])
M2 = np.array([1.0, 0.5, 1.5, -0.7])


def regressors(stream: Stream) -> np.ndarray:
    """(x_{n-1}, x_{n-2}, y_{n-1}, y_{n-2}) at each n, zero before the start."""
    x, y = np.concatenate([np.zeros((2, 2)), stream.x]).T
    return np.stack([x[1:-1], x[:-2], y[1:-1], y[:-2]], axis=1)


def runs(mode: np.ndarray) -> list[tuple[int, int]]:
    """(mode, length) of each run."""
    edges = np.concatenate([[0], 1 + np.flatnonzero(np.diff(mode)), [len(mode)]])
    return [(int(mode[a]), int(b - a)) for a, b in pairwise(edges)]


@pytest.mark.parametrize("name", list(catalogue()))
def test_every_stream_is_reproducible_and_well_formed(name):
    entry = catalogue()[name]
    stream, again, other = entry.function(seed=3), entry.function(seed=3), entry.function(seed=4)
    assert isinstance(stream, Stream)
    assert np.array_equal(stream.x, again.x) and stream.changes == again.changes
    assert not np.array_equal(stream.x[:100], other.x[:100])
    n = len(stream.x)
    assert stream.name == name and stream.x.shape == (n, entry.p) and stream.x.dtype == np.float64
    assert stream.mode.shape == stream.noise.shape == (n,)
    assert stream.mode.dtype.kind == "i" and stream.noise.dtype == bool
    assert len(stream.features) == entry.p and len(set(stream.mode.tolist()) - {-1}) == entry.k
    assert all(type(change) is int for change in stream.changes)
    assert np.isfinite(stream.x).all()
    assert entry.meaning and "\n" not in entry.meaning


@pytest.mark.parametrize("name", list(catalogue()))
def test_changes_are_where_a_mode_is_left(name):
    stream = catalogue()[name].function(seed=5)
    left = [n for n in range(1, len(stream.mode)) if stream.mode[n] != stream.mode[n - 1] and stream.mode[n - 1] >= 0]
    assert stream.changes == left


@pytest.mark.parametrize("seed", range(5))
def test_s1_follows_its_recursion_everywhere(seed):
    stream = s1(seed=seed)
    z, y = regressors(stream), stream.x[:, 1]
    assert y[0] == 0 and y[1] == 1.018 * stream.x[0, 0]
    expected = np.full(len(y), np.nan)
    for mode, a in enumerate((M1, M2)):
        here = stream.mode == mode
        expected[here] = z[here] @ a
    for i, change in enumerate(stream.changes):
        source, target = (M1, M2) if i % 2 == 0 else (M2, M1)
        for j in range(1, 6):
            step = slice(change + 10 * (j - 1), change + 10 * j)
            expected[step] = z[step] @ (source + j / 5 * (target - source))
        last = slice(change + 40, change + 50)
        np.testing.assert_allclose(y[last], z[last] @ target, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(y, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_s1_coefficients_can_be_regressed_from_each_transition_step(seed):
    stream = s1(seed=seed)
    z, y = regressors(stream), stream.x[:, 1]
    for j in range(1, 6):
        step = slice(stream.changes[0] + 10 * (j - 1), stream.changes[0] + 10 * j)
        found = np.linalg.lstsq(z[step], y[step], rcond=None)[0]
        np.testing.assert_allclose(found, M1 + j / 5 * (M2 - M1), atol=1e-6)


def test_s1_segments_alternate_with_transitions_between_and_lengths_in_range():
    lengths = []
    for seed in range(60):
        stream = s1(seed=seed)
        found = runs(stream.mode)
        assert [mode for mode, _ in found] == [0, -1, 1, -1, 0, -1, 1, -1, 0]
        assert all(size == 50 for mode, size in found if mode < 0)
        lengths += [size for mode, size in found if mode >= 0]
    assert 200 <= min(lengths) < 215 and 485 < max(lengths) <= 500
    assert abs(np.mean(lengths) - 350) < 4 * (301 / 12**0.5) / len(lengths) ** 0.5


def test_s1_both_ends_of_the_length_range_are_possible():
    sizes = {size for seed in range(20) for mode, size in runs(s1(seed=seed, lengths=(2, 3)).mode) if mode >= 0}
    assert sizes == {2, 3}


def test_s1_x_is_normal_with_mean_and_variance_one():
    x = np.concatenate([s1(seed=seed).x[:, 0] for seed in range(20)])
    assert abs(x.mean() - 1) < 4 / len(x) ** 0.5
    assert abs(x.var() - 1) < 4 * (2 / len(x)) ** 0.5
    assert abs(np.corrcoef(x[1:], x[:-1])[0, 1]) < 4 / len(x) ** 0.5


def test_s1_options():
    stream = s1(seed=1, segments=3, lengths=(50, 50), steps=2, hold=7)
    assert runs(stream.mode) == [(0, 50), (-1, 14), (1, 50), (-1, 14), (0, 50)]
    assert stream.changes == [50, 114]
    assert s1(seed=1, segments=1).changes == []


def test_s2_text_layout():
    stream = s2(seed=0)
    assert len(stream.x) == 2500
    assert runs(stream.mode) == [(0, 500)] + [(j, 200) for j in range(1, 11)]
    assert stream.changes == list(range(500, 2500, 200))
    assert [int(stream.noise[stream.mode == j].sum()) for j in range(11)] == [5] + [2] * 10


def test_s2_table_layout_appends_the_noise():
    stream = s2(seed=0, layout="table")
    assert len(stream.x) == 2727
    assert runs(stream.mode) == [(0, 707)] + [(j, 202) for j in range(1, 11)]
    for j in range(11):
        mask = stream.noise[stream.mode == j]
        regular = 200 if j else 700
        assert not mask[:regular].any() and mask[regular:].all()


def test_s2_modes_move_in_equal_steps():
    mean, covariance = modes()
    assert mean[0].tolist() == [95, 75] and mean[10].tolist() == [5, 5]
    np.testing.assert_allclose(np.diff(mean, axis=0), np.tile([-9.0, -7.0], (10, 1)))
    np.testing.assert_allclose(covariance[0], [[3.8418, -2.6474], [-2.6474, 4.8478]])
    np.testing.assert_allclose(covariance[10], [[1.5239, -0.5390], [-0.5390, 1.6467]])
    np.testing.assert_allclose(np.diff(covariance, n=2, axis=0), 0, atol=1e-12)


@pytest.mark.parametrize("layout", ["text", "table"])
def test_s2_draws_have_the_mean_and_covariance_of_their_mode(layout):
    streams = [s2(seed=seed, layout=layout) for seed in range(30)]
    for j, (mean, covariance) in enumerate(zip(*modes())):
        x = np.concatenate([s.x[(s.mode == j) & ~s.noise] for s in streams])
        error = 4.5 * np.sqrt(np.diag(covariance) / len(x))
        assert (abs(x.mean(axis=0) - mean) < error).all()
        np.testing.assert_allclose(np.cov(x.T), covariance, rtol=0.12, atol=0.05)


@pytest.mark.parametrize("layout", ["text", "table"])
def test_s2_noise_is_uniform_on_top_of_the_gaussian(layout):
    mean, covariance = modes()
    noise, extra = [], []
    for seed in range(200):
        stream = s2(seed=seed, layout=layout)
        noise.append((stream.x - mean[stream.mode])[stream.noise])
        extra.append(covariance[stream.mode[stream.noise]])
    noise, extra = np.concatenate(noise), np.concatenate(extra).mean(axis=0)
    uniform = 20**2 / 12
    assert (abs(noise.mean(axis=0)) < 4.5 * np.sqrt((uniform + np.diag(extra)) / len(noise))).all()
    np.testing.assert_allclose(noise.var(axis=0), uniform + np.diag(extra), rtol=0.06)
    assert abs(noise).max() < 10 + 5 * 2.3
    assert abs(np.cov(noise.T)[0, 1] - extra[0, 1]) < 0.1 * uniform


def test_s2_text_noise_is_anywhere_in_its_block():
    places = np.concatenate([np.flatnonzero(s2(seed=seed).noise[:500]) for seed in range(100)])
    assert np.histogram(places, bins=5, range=(0, 500))[0].min() > 60


def test_s3_blocks_and_circle():
    stream = s3(seed=0)
    assert runs(stream.mode) == [(i, 200) for i in range(10)]
    assert stream.changes == list(range(200, 2000, 200))
    np.testing.assert_allclose(np.hypot(*centers().T), 10)
    np.testing.assert_allclose(np.hypot(*np.diff(centers(), axis=0).T), 20 * np.sin(np.pi / 10))


@pytest.mark.parametrize("place", ["random", "end", "start"])
@pytest.mark.parametrize("lengths", [200, 60, "jittered"])
def test_s3_draws_come_from_the_circle_or_its_middle(place, lengths):
    streams = [s3(seed=seed, place=place, lengths=lengths) for seed in range(30)]
    regular = np.concatenate([(s.x - centers()[s.mode])[~s.noise] for s in streams])
    noise = np.concatenate([s.x[s.noise] for s in streams])
    for sample in (regular, noise):
        assert (abs(sample.mean(axis=0)) < 4.5 / len(sample) ** 0.5).all()
        np.testing.assert_allclose(np.cov(sample.T), np.eye(2), atol=6 / len(sample) ** 0.5)


@pytest.mark.parametrize("place", ["random", "end", "start"])
def test_s3_noise_counts_are_uniform_from_1_to_20(place):
    masks = [s3(seed=seed, place=place).noise.reshape(10, 200) for seed in range(100)]
    counts = np.concatenate(masks, axis=0).sum(axis=1).tolist()
    assert set(counts) == set(range(1, 21))
    assert abs(np.mean(counts) - 10.5) < 4 * (399 / 12 / 1000) ** 0.5


def test_s3_places():
    spread = []
    for seed in range(20):
        for block in s3(seed=seed, place="end").noise.reshape(10, 200):
            assert block[-block.sum() :].all()
        for block in s3(seed=seed, place="start").noise.reshape(10, 200):
            assert block[: block.sum()].all()
        spread += [np.flatnonzero(block) for block in s3(seed=seed).noise.reshape(10, 200)]
    assert np.histogram(np.concatenate(spread), bins=5, range=(0, 200))[0].min() > 300


def test_s3_jittered_lengths():
    sizes = [size for seed in range(60) for _, size in runs(s3(seed=seed, lengths="jittered").mode)]
    assert 120 <= min(sizes) < 125 and 275 < max(sizes) <= 280
    assert abs(np.mean(sizes) - 200) < 4 * (161 / 12**0.5) / len(sizes) ** 0.5
    stream = s3(seed=2, lengths="jittered")
    assert stream.changes == np.cumsum([size for _, size in runs(stream.mode)])[:-1].tolist()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: s1(segments=0), r"segments=0\): expected an integer of at least"),
        (lambda: s1(lengths=(0, 5)), r"lengths\[0\]=0\): expected an integer of at least"),
        (lambda: s1(lengths=(9, 5)), r"lengths\[1\]=5\): expected an integer of at least 9"),
        (lambda: s1(lengths=(1, 2, 3)), r"lengths must be \(shortest, longest\), got \(1, 2, 3\)"),
        (lambda: s1(steps=2.5), r"steps=2.5\): expected an integer of at least"),
        (lambda: s1(hold=True), r"hold=True\): expected an integer of at least"),
        (lambda: s1(seed=-1), r"seed=-1\): expected an integer of at least"),
        (lambda: s2(layout="figure"), r"layout='figure'\): choose one of 'text', 'table'"),
        (lambda: s2(seed=-1), r"seed=-1\): expected an integer of at least"),
        (lambda: s3(place="middle"), r"place='middle'\): choose one of "),
        (lambda: s3(lengths=20), r"lengths=20\): expected an integer of at least 21"),
        (lambda: s3(lengths="wild"), r"lengths='wild'\): choose one of 'jittered'"),
        (lambda: s3(seed=-1), r"seed=-1\): expected an integer of at least"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
