"""What a person types at a prompt: printing a run, tables, NumPy's numbers, and messages for what cannot be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import icvi_jax as icvi

X = np.random.default_rng(0).normal(size=(600, 2))
X[400:, 1] += 3


def pipeline(**parts):
    panel = icvi.Panel(indices=(icvi.XieBeni(),))
    monitors = {"change": icvi.Change(), "xb": icvi.Distress()}
    return icvi.Pipeline(**{"clusterer": icvi.SequentialKMeans(k=3), "panel": panel, "monitors": monitors} | parts)


def test_a_run_is_printed_in_a_few_lines_and_told_as_the_command_tells_it():
    run = icvi.run(pipeline(), X)
    state, readings = run
    assert state is run.state and readings is run.readings
    text = str(run)
    assert (
        text == run.summary() and text.startswith("Run: 600 samples\nxb (small is good): first ") and len(text) < 3000
    )
    assert "column 1 rose from about" in text and icvi.story(run)[0] in text and "clusters at the end: 3" in text
    fleet = icvi.run_fleet(pipeline(), np.stack([X, X]))
    assert str(fleet).startswith("Run: 2 streams of 600 samples") and "alarms: " in str(fleet)
    with pytest.raises(ValueError, match="one stream"):
        icvi.story(fleet)
    chunks = icvi.run(pipeline(), iter([X[:300], X[300:]]))
    assert "column 1 changed" in str(chunks)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_run_is_a_table(library):
    made = pytest.importorskip(library)
    run = icvi.run(pipeline(), X)
    frame = run.to_frame(library)
    assert isinstance(frame, made.DataFrame) and len(frame) == 600
    assert list(frame["change_alarm"])[400:410].count("change") == 1
    np.testing.assert_array_equal(np.asarray(frame["xb"]), run.readings.values["xb"])
    assert len(icvi.run_fleet(pipeline(), np.stack([X, X])).to_frame(library)) == 1200
    with pytest.raises(ValueError, match="choose one of"):
        run.to_frame("excel")


def test_columns_may_be_called_by_numbers_and_masked_is_missing():
    pandas = pytest.importorskip("pandas")
    expected = icvi.run(pipeline(), X).readings.values["xb"]
    run = icvi.run(pipeline(), pandas.DataFrame(X))
    np.testing.assert_array_equal(run.readings.values["xb"], expected)
    assert run.features == ("0", "1") and "column 1 rose from about" in str(run)
    masked = np.ma.masked_array(X, mask=np.zeros(X.shape, bool))
    masked[10] = np.ma.masked
    run = icvi.run(pipeline(), masked)
    assert not run.readings.seen[10] and run.readings.seen.sum() == 599


def test_numbers_of_numpy_are_numbers_and_are_checked():
    assert icvi.SequentialKMeans(k=np.int64(3)) == icvi.SequentialKMeans(k=3)
    assert icvi.Panel(indices=(icvi.XieBeni(),), forgetting=np.float64(0.9)).forgetting == 0.9
    for wrong in (np.float32(1.2), np.array(1.2), 1.2, jnp.float32(1.2), jnp.asarray(1.2)):
        with pytest.raises(ValueError, match=r"forgetting=1\.2"):
            icvi.Panel(indices=(icvi.XieBeni(),), forgetting=wrong)
    traced = jax.vmap(lambda lam: icvi.Panel(indices=(icvi.XieBeni(),), forgetting=lam).forgetting)
    assert traced(jnp.array([0.9, 1.2])).shape == (2,)  # tracers have no value to be checked
    with pytest.raises(ValueError, match=r"Panel\(forgetting='0\.9'\): expected a number"):
        icvi.Panel(indices=(icvi.XieBeni(),), forgetting="0.9")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: pipeline(clusterer=icvi.SequentialKMeans), r"clusterer=SequentialKMeans\): this is a class"),
        (lambda: pipeline(panel=icvi.Panel), r"panel=Panel\): this is a class"),
        (lambda: pipeline(standardize=icvi.Standardize), r"standardize=Standardize\): this is a class"),
        (lambda: pipeline(standardize=True), r"standardize=True\): expected an object such as icvi\.Standardize"),
        (lambda: icvi.run(icvi.Pipeline, X), r"run\(pipe=Pipeline\): this is a class"),
        (lambda: icvi.run_fleet("oec", X[None]), r"run_fleet\(pipe='oec'\): expected an object such as icvi\.Pipeline"),
        (lambda: icvi.validate(icvi.Panel, X, labels=np.zeros(600, int)), r"validate\(panel=Panel\): this is a class"),
        (lambda: icvi.run(pipeline(), X.T), "a row is a sample"),
        (lambda: pipeline().step(pipeline(clusterer=icvi.SequentialKMeans(k=4)).init(2), X[0]), "step.*not a state of"),
        (lambda: pipeline(monitors={"xb": icvi.Distress}), "Distress.*this is a class"),
        (lambda: icvi.Panel(indices=(icvi.XieBeni,)), r"XieBeni\): this is a class"),
        (lambda: icvi.Panel(indices=("xb",)), r"indices='xb'.*icvi\.XieBeni\(\)"),
        (lambda: pipeline(clusterer="oec"), "clusterer='oec'"),
        (lambda: icvi.run(pipeline(), np.zeros((5, 30, 2))), "run_fleet takes many streams"),
        (lambda: icvi.run_fleet(pipeline(), X), "run takes one stream"),
        (
            lambda: icvi.run(pipeline(), X, state=icvi.run(pipeline(monitors={}), X).state),
            "not a state of this pipeline",
        ),
    ],
)
def test_what_cannot_be_is_said(make, said):
    with pytest.raises(ValueError, match=said):
        make()
