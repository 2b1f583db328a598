"""The study: scores, criteria and situations are right and the same each time; the pages follow from the numbers."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "benchmarks" / "study"
MISSING = [name for name in ("matplotlib", "river", "sklearn", "PIL") if importlib.util.find_spec(name) is None]

STORED = (ROOT / "docs" / "study" / "results").is_dir()

pytestmark = [
    pytest.mark.skipif(not FOLDER.is_dir(), reason="the benchmarks are not part of this installation"),
    pytest.mark.skipif(bool(MISSING), reason=f"needs the extra notebooks: {', '.join(MISSING)} not installed"),
]


@pytest.fixture
def scripts(monkeypatch):
    """The folder on the path, and its modules forgotten afterwards: their names are short."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(FOLDER) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def blobs(samples=400, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, samples)
    return (rng.normal(size=(samples, 2)) + 12 * np.eye(3)[truth][:, :2]).astype(np.float32), truth


def test_centres_are_faded_means_and_idle_clusters_leave(scripts):
    follow = scripts("reading").follow
    X = np.arange(60, dtype=np.float64)[:, None]
    labels = np.r_[np.zeros(10, int), np.ones(49, int), 0]
    u, centers, active = follow(X, labels, memory=4, idle=20, capacity=2)
    mean = 0.0
    for n, x in enumerate(X[:10, 0], 1):
        mean += max(1 / n, 1 / 4) * (x - mean)
    assert centers[9, 0, 0] == pytest.approx(mean)
    assert active[10].all() and not active[45, 0] and active[45, 1]
    assert u[59, 0] == 1 and active[59, 0] and centers[59, 0, 0] == 59.0, "back after a pause: a new cluster"


def test_newcomers_wait_one_sample_for_the_slot_that_is_fed_least(scripts):
    X, labels = np.arange(6.0)[:, None], np.array([0, 1, 1, 2, 2, -1])
    u, _, active = scripts("reading").follow(X, labels, memory=10, idle=100, capacity=2)
    assert not u[3].any() and not active[3, 0], "the oldest has left, and the panel sees its slot empty"
    assert u[4, 0] == 1 and active[5].all() and not u[5].any()


def test_score_prefers_the_truth_whatever_the_goal(scripts):
    reading, (X, truth) = scripts("reading"), blobs()
    use = reading.settings()["reading"] | {"warmup": 100, "capacity": 4}
    names = ["xb", "ch", "csil", "osil", "ni"]
    good = reading.scores(X, truth, names, use)
    bad = reading.scores(X, np.random.default_rng(1).permutation(truth), names, use)
    assert all(good[name] > bad[name] for name in names), (good, bad)
    assert reading.scores(X, truth, names, use) == good


def test_looks_equal_the_recursion(scripts):
    reading, (X, truth) = scripts("reading"), blobs(300)
    use = reading.settings()["reading"] | {"capacity": 3, "every": 100, "forgetting": 0.95}
    seen = reading.follow(X, truth, use["memory"], use["idle"], use["capacity"])
    import icvi_jax as icvi

    panel = icvi.Panel(indices=(reading.entries()["ni"],), forgetting=0.95)
    every = np.asarray(icvi.validate(panel, X, memberships=seen[0], centers=seen[1], active=seen[2])["ni"])
    looks = reading.series(X, truth, ["ni"], use)["ni"]
    at = np.flatnonzero(np.isfinite(looks))
    assert at.tolist() == [99, 199, 299]
    np.testing.assert_allclose(looks[at], every[at], rtol=2e-3)


def test_as_many_are_dropped_as_asked_and_they_are_the_farthest(scripts):
    X, truth = blobs()
    X[[5, 77]] += 50
    dropped = scripts("labellings").without_farthest(X, truth, 2)
    assert np.flatnonzero(dropped == -1).tolist() == [5, 77] and (np.delete(dropped - truth, [5, 77]) == 0).all()


def made(scores, amis, truth=3.0):
    """Rows of one stream with a score `s`: the truth's two, and two algorithms' two."""
    facts = {"stream": "base_5", "true_k": 2, "k": 2}
    rows = [
        facts | {"labelling": "truth", "variant": v, "ami": 1.0, "ami_inside": 1.0, "s": truth}
        for v in ("own", "noise")
    ]
    for name, score, ami in zip("ab", scores, amis):
        both = facts | {"labelling": name, "ami": ami, "ami_inside": ami, "s": score}
        rows += [both | {"variant": v} for v in ("plain", "dropped")]
    return rows


def test_criteria(scripts):
    judged = scripts("verdict").judged
    for scores, amis, wanted in (
        ((1.0, 2.0), (0.5, 0.9), (1, 1, 1, 0)),
        ((5.0, 2.0), (0.5, 0.9), (0, 0, 0, 0.4)),
        ((5.0, 2.0), (0.995, 0.9), (0, 1, 1, 0)),
        ((3.0, float("nan")), (0.5, 0.9), (0.5, 0.5, 0, 0.4)),
        ((float("nan"), 1.0), (0.5, 0.9), (1, 1, 1, 0)),
    ):
        np.testing.assert_allclose(judged(made(scores, amis), "noise", "s")[0], wanted, atol=1e-12)
    blind = scripts("verdict").blind(made((1.0, 2.0), (0.5, 0.9)), "noise")[0]
    np.testing.assert_allclose(blind, (1 / 3, 1 / 3, 1 / 2, 0.2))
    mean, low, high = scripts("verdict").intervals(np.array([[0.0], [1.0]] * 10))
    assert mean == 0.5 and 0.2 < low < 0.5 < high < 0.8


def test_situations_are_the_same_for_the_same_seed_and_jump_when_told(scripts):
    situations = scripts("situations")
    easy = situations.Situation()
    X, truth = situations.stream(easy, 300, 7)
    again, jumped = situations.stream(easy, 300, 7)[0], situations.stream(easy, 300, 7, jump=200)[0]
    np.testing.assert_array_equal(X, again)
    moved = (X != jumped).any(1)
    assert moved[200:].any() and not moved[:200].any() and (truth[moved] == 1).all()
    rivals = situations.rivals(X, truth, 0)
    assert [len(np.unique(rivals[name])) for name in ("half", "double", "random")] == [2, 8, 4]
    means = np.array([X[truth == i].mean(0) for i in range(4)])
    gaps = np.sqrt(((means[:, None] - means) ** 2).sum(-1))[np.triu_indices(4, 1)]
    assert gaps.min() > 5
    assert np.isclose(situations.shares(16.0).max() / situations.shares(16.0).min(), 16)


def test_ranking_and_breaks_are_deterministic(scripts, monkeypatch):
    believe, situation = scripts("believe"), scripts("situations").Situation(features=2)
    first_pipe = [next(believe.pipelines(situation))]
    monkeypatch.setattr(believe, "pipelines", lambda _: first_pipe)  # merge-split takes a minute to compile
    first = believe.ranked(situation, 1)
    assert first == believe.ranked(situation, 1)
    assert first["xb"]["first"] == first["ts"]["first"] == 1.0 and first["rmsstd"]["double"] == 0.0
    late = believe.broken(situation, 4)
    np.testing.assert_equal(late, believe.broken(situation, 4))
    assert late["db"][0] == 1.0 and 0 < late["db"][1] < 100


def test_a_break_is_heard_above_every_twin(scripts):
    heard = scripts("believe").heard
    quiet = np.array([[0.0, 3.0], [1.0, 2.0]])
    assert heard(np.array([[1.0, 4.0], [5.0, 0.0], [3.0, 3.0]]), quiet)[0] == pytest.approx(2 / 3)
    assert np.isnan(heard(quiet, np.full((2, 2), np.nan))[0])


def test_k_is_found_where_it_is_easy(scripts):
    rng = np.random.default_rng(0)
    mode = rng.integers(0, 4, 500)
    X = rng.normal(size=(500, 2)) + 20 * np.array([[0, 0], [1, 0], [0, 1], [1, 1]])[mode]
    which_k = scripts("which_k")
    own = which_k.merge_split([X[:60], X[60:120]])
    assert own.shape == (2, 60) and own.min() >= 1
    rows = list(which_k.looks(X, mode, [500], False, np.full(500, 9), ks=(2, 3, 4, 5, 6), names=("xb", "rmsstd")))
    assert rows[0]["xb"] == rows[0]["true"] == 4 and rows[0]["rmsstd"] == 6 and rows[0]["mergesplit"] == 9
    assert rows[1]["row"] == "truth" and rows[1]["xb"] == 1 and rows[1]["rmsstd"] == 0
    rows = [{"set": "a", "order": "b", **row} for row in rows]
    right, off, wins = scripts("k_table").judged(rows, "xb")
    assert (right, off, wins) == (1.0, 0.0, 1.0) and scripts("k_table").judged(rows, "always 3")[0] == 0.0


@pytest.mark.skipif(not STORED, reason="the documentation is not part of this installation")
def test_pages_follow_from_the_numbers(scripts):
    pages = scripts("pages")
    for name, text in pages.texts().items():
        stored = (ROOT / "docs" / "study" / f"{name}.md").read_text(encoding="utf-8")
        assert text == stored, f"docs/study/{name}.md: run python benchmarks/study/pages.py --text"
        assert "nan" not in text.split() and "${" not in text
    failures = scripts("page_believe").misleading(pages.read(pages.RESULTS / "believe.csv"))
    assert len({row[0] for row in failures}) >= 3, "at least three kinds of situation in which the default misleads"


def test_results_and_figures_are_small():
    for path in (*(ROOT / "docs" / "study").rglob("*.csv"), *(ROOT / "docs" / "study").rglob("*.png")):
        assert path.stat().st_size < 150_000, path.name
