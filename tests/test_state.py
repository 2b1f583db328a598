"""The state of a pipeline contains that of its panel, everywhere the same; what is kept of it has the centres once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import icvi_jax as icvi
from icvi_jax.clusterers.base import prototypes_of
from icvi_jax.engine.executor import Engine, fresh

INDICES = (icvi.XieBeni(), icvi.DaviesBouldin())
PANEL = icvi.Panel(indices=INDICES, forgetting=0.95)
PIPES = {
    "k-means": icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=3), panel=PANEL, standardize=icvi.Standardize()),
    "rebirth": icvi.Pipeline(clusterer=icvi.RebirthKMeans(k=3), panel=PANEL),
    "fuzzy": icvi.Pipeline(clusterer=icvi.FuzzyCMeans(k=3), panel=PANEL, monitors={"xb": icvi.Distress()}),
    "ellipsoidal": icvi.Pipeline(clusterer=icvi.OnlineEllipsoidal(capacity=3), panel=PANEL),
    "merge-split": icvi.Pipeline(
        clusterer=icvi.MergeSplit(slots=4), panel=icvi.Panel(indices=(*INDICES, icvi.CONN()), of="clusters")
    ),
    "no panel": icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=3), panel=None),
    "no clusterer": icvi.Pipeline(clusterer=None, panel=None, monitors={"change": icvi.Change()}),
}
every = pytest.mark.parametrize("name", PIPES)


def samples(N=4, T=60, seed=0):
    """Streams (N, T, 2) of three clusters; some samples are missing, the last ones are not."""
    rng = np.random.default_rng(seed)
    X = np.array([[0, 0], [30, 5], [8, 40]])[rng.integers(0, 3, (N, T))] + rng.normal(size=(N, T, 2)) + 100
    X[:, 5:50][rng.random((N, 45)) < 0.1] = np.nan
    return X.astype(np.float32)


def equal(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    jax.tree.map(np.testing.assert_array_equal, a, b)


def form(state):
    return jax.tree.map(lambda a: (a.shape, np.dtype(a.dtype)), state)


def live(pipe, X):
    fleet = icvi.Live(pipe, X.shape[2], X.shape[0])
    fleet.tick_many(X[:, :-1])
    reading = fleet.tick(X[:, -1])
    return fleet.state, reading.values


def ran(pipe, X):
    run = icvi.run_fleet(pipe, X)
    return run.state, {name: a[:, -1] for name, a in run.readings.values.items()}


def scanned(scan, pipe, X):
    state, readings = scan(pipe.init(X.shape[2], X.shape[:1]), jnp.asarray(X.transpose(1, 2, 0)))
    return state, {name: a[-1] for name, a in readings.values.items()}


WAYS = {
    "live": live,
    "fleet": ran,
    "scan": lambda pipe, X: scanned(lambda *given: icvi.scan(pipe, *given), pipe, X),
    "lax.scan": lambda pipe, X: scanned(lambda *given: jax.lax.scan(pipe.step, *given), pipe, X),
}


@every
@pytest.mark.parametrize("way", WAYS)
def test_its_panel_is_that_of_the_last_sample(name, way):
    pipe, X = PIPES[name], samples()
    state, values = WAYS[way](pipe, X)
    assert isinstance(state.panel, icvi.PanelState)
    assert form(state) == form(pipe.init(2, (4,), xp=np, dtype=np.float32))
    np.testing.assert_array_equal(state.panel.missing, np.isnan(X).any(2).sum(1))
    if pipe.clusterer is None:
        assert state.panel.prototypes.centers.shape == (0, 2, 4) and state.panel.prototypes.active.shape == (0, 4)
    else:
        equal(state.panel.prototypes, prototypes_of(state.clusterer))
    if pipe.panel is None:
        assert state.panel.statistics == {}
        return
    assert np.isfinite(values["xb"]).all()
    for index, value in icvi.read(pipe.panel, state.panel).items():
        np.testing.assert_allclose(value, values[index], rtol=2e-5, err_msg=index)


def test_the_pipeline_and_its_parts_by_hand_are_the_same():
    pipe, X = PIPES["rebirth"], samples(N=1)[0].astype(float)
    X = X[np.isfinite(X).all(1)]
    state = pipe.init(2, xp=np)
    mine, panel = pipe.clusterer.init(2, (), np, np.float64), PANEL.init(3, 2, xp=np)
    panel = panel._replace(anchor=pipe.step(state, X[0])[0].anchor)
    for x in X:
        state, reading = pipe.step(state, x)
        mine, event = pipe.clusterer.step(mine, x - X[0], np.array(True))
        panel, values = PANEL.observe(panel, event, crisp=True)
        equal(values, reading.values)
    equal(panel, state.panel)


@every
def test_the_engine_has_the_centres_once(name):
    pytest.importorskip("llvmlite", reason="native code needs llvmlite")
    pipe = PIPES[name]
    engine = Engine(pipe, fresh(pipe, 2, 7, np.dtype(np.float32)), ("values",))
    parts = pipe.init(2, xp=np)
    mine = (parts.missing, parts.scaler, parts.clusterer, parts.statistics, parts.monitors)
    assert engine._words.shape[0] == sum(a.size for a in jax.tree.leaves(mine))


@every
def test_a_file_has_the_centres_once(name, tmp_path):
    pipe = PIPES[name]
    state = icvi.run_fleet(pipe, samples(), keep=("final",)).state
    file = icvi.save(tmp_path / "state.icvi", pipe, state)
    with np.load(file) as content:
        held = [field for field in content.files if field.startswith("state")]
        assert {field.removeprefix("state.").split(".")[0].split("[")[0] for field in held} <= set(state._fields)
        assert sum(content[field].nbytes for field in held) == sum(a.nbytes for a in jax.tree.leaves(state))
    equal(icvi.load(file, pipe, xp=np), state)


@every
def test_no_array_of_a_state_is_there_twice(name):
    pipe, x = PIPES[name], jnp.ones(2)
    for state in (pipe.init(2), pipe.init(2, (3,), xp=np)):
        leaves = jax.tree.leaves(state)
        assert len({id(a) for a in leaves}) == len(leaves)
    donated, _ = jax.jit(pipe.step, donate_argnums=0)(pipe.init(2), x)  # an error where a buffer is given twice
    equal(donated, jax.jit(pipe.step)(pipe.init(2), x)[0])


def test_steps_are_compared_by_structure_and_numbers():
    def made(forgetting, k=3):
        panel = icvi.Panel(indices=(icvi.XieBeni(),), forgetting=forgetting)
        return icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=k), panel=panel)

    assert made(0.9).step is made(0.9).step
    assert made(0.9).step != made(0.8).step and made(0.9).step != made(0.9, k=2).step
    traces, X = [], jnp.asarray(samples(N=1)[0][:5])

    def count(*args, **kwargs):
        traces.append(args[0])

    jax.monitoring.register_event_duration_secs_listener(count)
    try:
        first = jax.lax.scan(made(0.91).step, made(0.91).init(2), X)
        compiled = traces.count("/jax/core/compile/backend_compile_duration")
        again = jax.lax.scan(made(0.91).step, made(0.91).init(2), X)
        assert compiled and traces.count("/jax/core/compile/backend_compile_duration") == compiled
    finally:
        jax.monitoring.clear_event_listeners()
    equal(first, again)
    other = jax.lax.scan(made(0.5).step, made(0.5).init(2), X)[1].values["xb"]
    assert not np.allclose(other, first[1].values["xb"], equal_nan=True)


@every
def test_jax_export_writes_a_function_of_the_state(name):
    pytest.importorskip("flatbuffers")
    pipe, x = PIPES[name], jnp.ones(2)
    program = jax.export.deserialize(jax.export.export(jax.jit(pipe.step))(pipe.init(2), x).serialize())
    got, want = program.call(pipe.init(2), x), jax.jit(pipe.step)(pipe.init(2), x)
    assert jax.tree.structure(got) == jax.tree.structure(want)
    equal(got, want)
