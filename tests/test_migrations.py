"""Files of earlier versions: they load, and what follows is what that version would have read."""

import contextlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import icvi_jax as icvi
from icvi_jax.checkpoint import container
from icvi_jax.cli.build_pipeline import pipeline_of
from icvi_jax.cli.options import Model
from icvi_jax.spec import changed

DATA = Path(__file__).parent / "data"
STOP = 160


def pipes():
    """The pipelines of the files in `data`; between them they have every statistic and monitor of 0.1.0."""
    indices = (
        icvi.XieBeni(),
        icvi.DaviesBouldin(),
        icvi.CalinskiHarabasz(),
        icvi.NegentropyIncrement(),
        icvi.PartitionCoefficient(),
    )
    panel = icvi.Panel(indices=indices, forgetting=0.95)
    monitors = {"xb": icvi.Distress(), "turn": icvi.PageHinkley(index="db")}
    kmeans, oec = icvi.SequentialKMeans(k=3), icvi.OnlineEllipsoidal(capacity=4)
    return {
        "kmeans": icvi.Pipeline(clusterer=kmeans, panel=panel, monitors=monitors),
        "scaled": icvi.Pipeline(clusterer=kmeans, panel=panel, monitors=monitors, standardize=icvi.Standardize()),
        "oec": icvi.Pipeline(clusterer=oec, panel=panel, monitors=monitors),
    }


def later_pipes():
    """The pipelines of files of 0.2.0 beside these: what 0.1.0 did not have."""
    panel = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.98)
    slots = icvi.Panel(indices=(icvi.XieBeni(), icvi.CONN(), icvi.OnlineSilhouette()), of="clusters")
    change = {"change": icvi.Change(false_alarms=1e-3), "xb": icvi.Distress(false_alarms=1e-3)}
    rebirth, scale = icvi.RebirthKMeans(k=4), icvi.Standardize(warmup=20, memory=50.0)
    return {
        "change": icvi.Pipeline(clusterer=rebirth, panel=panel, monitors=change, standardize=scale),
        "merge-split": icvi.Pipeline(clusterer=icvi.MergeSplit(slots=5), panel=slots),
        "fuzzy": icvi.Pipeline(clusterer=icvi.FuzzyCMeans(k=3), panel=panel),
        "alone": icvi.Pipeline(clusterer=None, panel=None, monitors={"change": icvi.Change()}),
    }


def samples():
    """Three streams of three clusters, visited in stretches, then at random, which then blur; one has a gap."""
    rng = np.random.default_rng(7)
    at = np.array([[0, 0], [30, 5], [8, 40]])[np.r_[np.arange(120) // 40, rng.integers(0, 3, 140)]]
    X = rng.normal(size=(3, 260, 2)) + at + 100
    X[1, 50:54] = np.nan
    X[0, 200:] += 9 * rng.normal(size=(60, 2))
    X[2, 200:] += 30
    return X.astype(np.float32)


def write(version: str) -> None:
    """What made the files in `data`, run once with that version."""
    X = samples()  # float32, so that another precision of the input makes no difference
    for name, pipe in (pipes() | later_pipes()).items():
        run = icvi.run_fleet(pipe, X[:, :STOP])
        icvi.save(DATA / f"{version}-{name}.icvi", pipe, run.state, position=STOP, names=("a", "b", "c"))
        rest = icvi.run_fleet(pipe, X[:, STOP:], state=run.state, keep=("values", "label", "k", "centers", "alarms"))
        fields = jax.tree_util.tree_flatten_with_path(rest.readings)[0]
        np.savez_compressed(
            DATA / f"{version}-{name}.npz", **{jax.tree_util.keystr(path): np.asarray(a) for path, a in fields}
        )


OF_ALARM = {"0.1.0": 3, "0.2.0.dev0": 5, "0.2.0": 5}
"""Fields of an alarm in each version."""


@pytest.mark.parametrize(
    "version, name", [(v, n) for v in OF_ALARM for n in (later_pipes() if v == "0.2.0" else pipes())]
)
def test_a_file_of_an_earlier_version_goes_on_as_that_version_would_have(version, name):
    pipe = (pipes() | later_pipes())[name]
    begun = "change" in pipe.monitors  # by 0.2: goes on as version 1, and says so
    with pytest.warns(UserWarning, match=r"begun by 0.2") if begun else contextlib.nullcontext():
        found = icvi.load_checkpoint(DATA / f"{version}-{name}.icvi", pipe)
    assert (found.position, found.names) == (STOP, ("a", "b", "c"))
    kept = ("values", "label", "k", "centers", "alarms")
    readings = icvi.run_fleet(pipe, samples()[:, STOP:], state=found.state, keep=kept).readings
    now = {jax.tree_util.keystr(path): np.asarray(a) for path, a in jax.tree_util.tree_flatten_with_path(readings)[0]}
    with np.load(DATA / f"{version}-{name}.npz") as then:
        assert len(then.files) == len(pipe.indices) + 3 + len(pipe.monitors) * OF_ALARM[version]
        assert set(then.files) <= set(now)
        # since 0.3 a learned `Distress` learns from other blocks: what it foresees differs, not what it raised here
        for field in set(then.files) - ({".alarms['xb'].p"} if name == "change" else set()):
            np.testing.assert_allclose(now[field], then[field], rtol=2e-3, atol=1e-4, err_msg=field)


@pytest.mark.parametrize("name", pipes())
def test_the_layout_is_that_of_states_without_a_panel_inside(tmp_path, name):
    """0.2.0.dev0 had the parts of the panel's state beside the others; files are the same byte for byte."""
    pipe, old = pipes()[name], DATA / f"0.2.0.dev0-{name}.icvi"
    found = icvi.load_checkpoint(old, pipe, xp=np)
    new = icvi.save(tmp_path / "new.icvi", pipe, found.state, found.position, found.names)
    assert new.read_bytes() == old.read_bytes()


def test_a_live_fleet_goes_on_from_a_file_of_an_earlier_version():
    pipe = pipes()["oec"]
    live = icvi.Live.load(DATA / "0.1.0-oec.icvi", pipe)
    assert live.names == ("a", "b", "c") and live.positions.tolist() == [STOP] * 3
    with np.load(DATA / "0.1.0-oec.npz") as then:
        for t in range(5):
            reading = live.tick(samples()[:, STOP + t])
            np.testing.assert_allclose(reading.values["xb"], then[".values['xb']"][:, t], rtol=2e-3)


def test_a_watch_of_an_earlier_version_goes_on(tmp_path):
    """The folder of 0.2.0 subtracted an origin of its own; what follows are the alarms that version gave."""
    folder = tmp_path / "watch"
    shutil.copytree(DATA / "0.2.0-watch", folder)
    then = [json.loads(line) for line in (folder / "then.jsonl").read_text().splitlines()]
    rng = np.random.default_rng(0)
    x = rng.normal(size=(260, 2)) + 1e6
    x[150:, 0] += 60
    items = [(node, t, x[t, n]) for t in range(260) for n, node in enumerate("ab")]
    feed = "".join(json.dumps({"node": node, "time": t, "v": v}) + "\n" for node, t, v in items[280:])
    command = [sys.executable, "-m", "icvi_jax.cli", "watch", "-k", "2", "--index", "xb", "--no-standardize"]
    done = subprocess.run([*command, "--checkpoint", folder], input=feed, text=True, capture_output=True, check=True)
    assert "continuing after 280 samples of 2 nodes" in done.stderr and len(then) == 2
    found = [json.loads(line) for line in done.stdout.splitlines()]
    for field in ("id", "node", "time", "alarm", "index", "clusters", "sample"):
        assert found[0][field] == then[0][field], field
    np.testing.assert_allclose(found[0]["value"], then[0]["value"], rtol=2e-3)
    # since 0.3 `Distress` does not learn from what it suspects, so that it recovers later
    assert [(one["node"], one["alarm"]) for one in found] == [(one["node"], one["alarm"]) for one in then]
    pipe = pipeline_of(Model(k=2, index=("xb",), standardize=False))
    whole = icvi.run_fleet(pipe, x.T[:, :, None]).state
    had = {name: one for name, one in pipe.monitors.items() if name != "stuck"}
    found = icvi.load_checkpoint(folder, changed(pipe, monitors=had), xp=np).state
    np.testing.assert_allclose(found.anchor.high + found.anchor.low, whole.anchor.high + whole.anchor.low)
    np.testing.assert_allclose(found.clusterer.centers, whole.clusterer.centers, rtol=1e-4, atol=1e-4)


def test_a_change_of_an_earlier_version_is_saved_and_goes_on_live_without_a_word(tmp_path):
    pipe = later_pipes()["alone"]
    with pytest.warns(UserWarning, match="begun by 0.2"):
        live = icvi.Live.load(DATA / "0.2.0-alone.icvi", pipe)
    code = icvi.Live.load(live.save(tmp_path / "again.icvi"), pipe).tick_many(samples()[:, STOP:]).alarms["change"].code
    with np.load(DATA / "0.2.0-alone.npz") as then:
        np.testing.assert_array_equal(code, then[".alarms['change'].code"])


@pytest.mark.parametrize("missing", [(), ("last",), ("reserve", "last")])
def test_files_without_what_learned_thresholds_have_since_go_on(tmp_path, missing):
    """A file of 0.2 has neither, one of the days before 0.3 has a reserve."""
    path = tmp_path / "a.icvi"
    pipe = changed(pipes()["kmeans"], monitors={"xb": icvi.Distress(false_alarms=1e-3)})
    X = samples()
    half = icvi.run_fleet(pipe, X[:, :STOP]).state
    icvi.save(path, pipe, half)
    header, arrays = container.decode(path.read_bytes())
    kept = {name: a for name, a in arrays.items() if not name.endswith(tuple(f".threshold.{one}" for one in missing))}
    assert len(arrays) - len(kept) == len(missing)
    path.write_bytes(container.encode({name: one for name, one in header.items() if name != "arrays"}, kept))
    again = icvi.load(path, pipe)
    assert jax.tree.structure(again) == jax.tree.structure(half)
    if not missing:
        np.testing.assert_array_equal(again.monitors["xb"].threshold.last, half.monitors["xb"].threshold.last)
    icvi.run_fleet(pipe, X[:, STOP:], state=again)
