"""`--clusterer` takes every clusterer with its options, and `compare` compares them."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import icvi_jax as icvi
from icvi_jax.cli import main
from icvi_jax.cli.build_pipeline import pipeline_of
from icvi_jax.cli.clusterers import clusterer_of, described
from icvi_jax.cli.compare import candidates_of
from icvi_jax.cli.options import Alarms, Model

ENTRIES = icvi.clusterers.catalogue()


def column(path, name):
    with open(path, encoding="utf-8") as file:
        return [row[name] for row in csv.DictReader(file)]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_clusterer_is_built_with_its_usual_size_and_with_one_that_is_given(entry):
    built = clusterer_of(Model(clusterer=entry.name))
    assert type(built) is entry.clusterer and built.slots == entry.clusterer.usual
    assert clusterer_of(Model(clusterer=entry.name, **{entry.size: 5})).slots == 5
    assert clusterer_of(Model(clusterer=entry.name, set=(f"{entry.size}=4",))).slots == 4
    assert described(built).startswith(f"{entry.name}, {entry.size} = ")


def test_the_usual_clusterer_forgets_on_files_and_is_the_papers_on_built_in_streams():
    assert clusterer_of(Model()) == icvi.SequentialKMeans(k=3, memory=50.0, seeding="distinct")
    assert clusterer_of(Model(), stream_k=11) == icvi.SequentialKMeans(k=11)
    assert clusterer_of(Model(k=4, memory=float("inf"))) == icvi.SequentialKMeans(k=4, seeding="distinct")


def test_options_reach_the_clusterer_by_name_and_type():
    got = clusterer_of(Model(clusterer="oec", capacity=4, memory=90, set=("trigger=window", "stabilization=9", "c=2")))
    want = icvi.OnlineEllipsoidal(capacity=4, memory=90.0, trigger="window", stabilization=9, c=2.0)
    assert got == want and "trigger = window" in described(got)


def test_the_panel_of_named_clusters_judges_clusters_and_who_finds_k_is_watched_by_surprise():
    pipe = pipeline_of(Model(clusterer="merge-split", index=("all",)))
    assert pipe.panel.of == "clusters" and "conn" in [index.name for index in pipe.panel.indices]
    assert "surprise" not in pipe.monitors, "the change monitor hears the columns themselves"
    alone = Alarms(monitor=("distress",))
    watched = [pipeline_of(Model(clusterer=name), alarms=alone).monitors for name in ("merge-split", "sk-means")]
    assert "surprise" in watched[0] and "surprise" not in watched[1]


def test_what_a_run_writes_has_names_and_surprise(tmp_path, capsys):
    rng = np.random.default_rng(0)
    homes = np.array([[0.0, 0.0], [30.0, 30.0]])
    x = homes[np.arange(300) // 150] + rng.normal(size=(300, 2))
    np.save(tmp_path / "x.npy", x)
    command = ["run", str(tmp_path / "x.npy"), "--clusterer", "merge-split", "--slots", "6", "--index", "xb"]
    assert main([*command, "--no-standardize", "--out", str(tmp_path / "o")]) == 0
    assert "merge-split, slots = 6" in capsys.readouterr().out
    pipe = icvi.Pipeline(clusterer=icvi.MergeSplit(slots=6), panel=None)
    want = icvi.run(pipe, x).readings
    assert column(tmp_path / "o" / "readings.csv", "cluster") == [str(name) for name in np.asarray(want.cluster)]
    surprise = column(tmp_path / "o" / "readings.csv", "surprise")
    assert surprise[0] == "" and float(surprise[150]) > 300


def test_index_all_says_what_it_leaves_out(tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(40, 1)))
    assert main(["run", str(tmp_path / "x.npy"), "--index", "all", "--out", str(tmp_path / "o")]) == 0
    assert "--index all leaves out conn, which needs a clusterer with several prototypes" in capsys.readouterr().out


def test_candidates_are_every_clusterer_and_every_k():
    every = candidates_of(Model(), (), (2, 3))
    assert list(every) == ["k = 2", "k = 3", *(entry.name for entry in ENTRIES if entry.name != "sk-means")]
    some = candidates_of(Model(memory=20), ("fuzzy", "rebirth"), (2, 4))
    assert list(some) == ["fuzzy k = 2", "fuzzy k = 4", "rebirth"]
    assert some["fuzzy k = 4"].memory is None and clusterer_of(some["rebirth"]).memory == 20


def test_compare_names_clusterers(tmp_path, capsys):
    command = ["compare", "s3", "--clusterer", "rebirth", "sk-means", "-k", "2", "--index", "xb"]
    assert main([*command, "--out", str(tmp_path / "o")]) == 0
    said = capsys.readouterr().out
    assert "candidates: rebirth, k = 2" in said and "xb (small is good) prefers" in said
