"""Trust is shown to people: in the command's words, in the report and on the live page."""

import io
import json
from contextlib import redirect_stdout

import numpy as np
import pytest
from watching import begun, taken

import icvi_jax as icvi
from icvi_jax.cli import main
from icvi_jax.cli.build_pipeline import pipeline_of
from icvi_jax.cli.clusterers import choosing_k, clusterer_of
from icvi_jax.cli.options import Model
from icvi_jax.indices.health import MERGED
from icvi_jax.model_selection import Portfolio
from icvi_jax.report.health_text import Trust, reasons_of, trust_before, trust_counts, trust_now
from icvi_jax.watch.page_data import fleet_view, node_view, summary
from icvi_jax.watch.ring_buffers import RingBuffers
from icvi_jax.watch.sample import Sample
from icvi_jax.watch.shard import Shard

NAN = np.nan


def said(*words):
    out = io.StringIO()
    with redirect_stdout(out):
        assert main(list(words)) == 0
    return out.getvalue()


def states(n=1200, seed=0):
    """Five states, well apart."""
    rng = np.random.default_rng(seed)
    return 10.0 * np.array([[0, 0], [1, 0], [0, 1], [1, 1], [0.5, 2]])[rng.integers(0, 5, n)] + rng.normal(size=(n, 2))


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("trust") / "five.csv"
    np.savetxt(path, states(), delimiter=",", header="a,b", comments="", fmt="%.4f")
    return path


class TestWords:
    def test_since_when_is_since_the_last_time_that_they_fitted(self):
        values = np.array([NAN, 0.9, 0.2, 0.6, 0.45, 0.1, NAN])
        assert trust_now(values, (-1, -1), str) == Trust(0.1, "low", "since 4 the clusters do not fit (0.10)")
        assert trust_now(values[:1], (-1, -1), str).word == "unknown"
        assert trust_now(np.array([NAN, 0.1, 0.1]), (MERGED, 4), str).text.startswith("since 1 the clusters do not fit")

    def test_times_of_low_trust_that_are_over(self):
        values = np.array([0.9, 0.2, 0.5, 0.1, 0.8, 0.1, 0.6])
        assert trust_before(values, str) == ["from 1 to 4 the clusters did not fit (0.10 at the least)"]

    def test_nodes_are_counted_by_word(self):
        trusts = (Trust(0.1, "low", ""), Trust(NAN, "unknown", ""), Trust(0.2, "low", ""))
        assert trust_counts(trusts) == "low in 2 nodes, unknown in 1 node"

    def test_the_cluster_to_blame_has_the_name_that_people_see(self):
        pipe = icvi.Pipeline(clusterer=icvi.RebirthKMeans(k=2), panel=icvi.Panel(indices=(icvi.Health(),)))
        state = icvi.run(pipe, states()).state
        ((reason, cluster),) = reasons_of(pipe, state)
        slot = int(icvi.explain(pipe.panel, state.panel).health.cluster)
        assert reason == MERGED and cluster == int(state.clusterer.names[slot])


class TestCommand:
    def test_run_says_it_by_default(self, file, tmp_path):
        told = said("run", str(file), "-k", "2", "--out", str(tmp_path))
        (line,) = [line for line in told.splitlines() if line.startswith("trust: ")]
        assert line.startswith("trust: low; since ") and "do not fit" in line and "states share" in line
        meta = (tmp_path / "report.html").read_text()
        assert '"trust": [[0.' in meta and "do not fit" in meta

    def test_fleet_has_a_column(self, tmp_path):
        np.savez(tmp_path / "f.npz", X=np.stack([states(400, s) for s in range(3)]), nodes=["a", "b", "c"])
        told = said("fleet", str(tmp_path / "f.npz"), "-k", "2", "--out", str(tmp_path / "o"))
        assert "trust at the end: " in told and "in 3 nodes" in told
        assert "trust" in told.split("worst nodes")[1].splitlines()[0]

    def test_k_is_chosen_live_unless_there_are_very_many_nodes(self):
        assert choosing_k(Model())[0].k == choosing_k(Model(), 1000)[0].k == "auto"
        model, (why,) = choosing_k(Model(), 1001)
        assert model.k is None and clusterer_of(model).slots == 3 and "k = 3, since" in why
        for named in (Model(k=4), Model(clusterer="oec"), Model(set=("k=4",))):
            assert choosing_k(named) == (named, [])
        assert isinstance(clusterer_of(choosing_k(Model())[0]), Portfolio)


class TestLive:
    def test_the_page_has_the_number_the_word_and_the_sentence(self):
        pipe = pipeline_of(Model(k=2))
        buffers = RingBuffers([index.name for index in pipe.panel.indices])
        shard = Shard(pipe, ["a", "b"], "s")
        for x in np.array_split(states(500), 5):
            shard.accept([Sample("n", float(shard.taken + i), tuple(one)) for i, one in enumerate(x.tolist())])
            for tick in shard.compute():
                buffers.add(shard, tick)
            buffers._told = -np.inf
            view = node_view(buffers, "n")
        assert view["trust"]["word"] == "low" and "states share" in view["trust"]["text"]
        fleet = fleet_view(buffers, 0)
        assert fleet["trusts"] == "0" and fleet["nodes"][0]["trust"] == view["trust"]["value"] < 0.3
        json.dumps(view, allow_nan=False)

    def test_without_health_nothing_is_said(self):
        buffers = RingBuffers(["xb"])
        watch = begun(None, buffers=buffers)
        watch.take(taken([("b", 1, 60.0), ("d", 2, 1.0)]))
        assert node_view(buffers, "b")["trust"] is None and fleet_view(buffers, 0)["trusts"] == ""
        assert summary(watch, buffers)["distrusted"] is None

    def test_alarms_carry_the_trust_of_their_moment(self):
        pipe = pipeline_of(Model(k=2))
        shard = Shard(pipe, ["a", "b"], "s")
        x = states(500)
        x[450:] += 400
        alarms = shard.take([("n", float(i), tuple(one)) for i, one in enumerate(x.tolist())])
        assert alarms and all(0 < alarm["trust"] < 1 for alarm in alarms if alarm["sample"] > 100)
