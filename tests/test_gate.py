"""The gate: error codes reach nothing that learns, and ordinary streams pass unchanged."""

import warnings

import jax
import numpy as np
import pytest
from installed import quick_jit
from oracles.gate import gate as oracle

import icvi_jax as icvi
from icvi_jax.monitors import PageHinkley

PANEL = icvi.Panel(indices=(icvi.XieBeni(),), forgetting=0.9)


def pipeline(standardize=False, **more):
    return icvi.Pipeline(
        clusterer=icvi.SequentialKMeans(k=3, memory=50),
        panel=PANEL,
        monitors={"xb": icvi.Distress(false_alarms=1e-3)},
        standardize=icvi.Standardize() if standardize else None,
        **more,
    )


def awkward(seed):
    """Rows with holes, codes alone and in runs of up to eight, constant columns, other levels and scales."""
    rng = np.random.default_rng(seed)
    x = rng.normal(20, 10.0 ** rng.uniform(-3, 3), size=(120, 2))
    if seed % 3 == 0:
        x = np.round(x)
    if seed % 5 == 0:
        x[: rng.integers(5, 40), 1] = 20.0
    for _ in range(rng.integers(0, 6)):
        at, much = rng.integers(0, 15) if rng.random() < 0.5 else rng.integers(0, 120), rng.integers(1, 9)
        x[at : at + much, rng.integers(2)] = rng.choice([-9999.0, 85.0, 1e6, 65535.0])
    x[rng.random(120) < 0.1, 0] = np.nan
    return x


def test_it_does_what_its_definition_says():
    """Missing, used or begun anew: seen in the reading, and in the number of samples that XB counts."""
    pipe, met = pipeline(), set()
    for seed in range(60):
        x = awkward(seed)
        run = icvi.run(pipe, x, backend="numpy")
        counts, anew, ninth = oracle(x)
        assert run.readings.seen.tolist() == counts.tolist()
        assert run.state.statistics["count"].samples == counts[ninth if anew else 0 :].sum(), seed
        met.add((anew, bool(counts[ninth])))
    assert met == {(False, True), (True, True), (True, False)}


def test_fifty_ranges_are_the_limit():
    rows = np.arange(30.0) % 2
    for ranges in (49.0, 51.0):
        x = rows.copy()
        x[20] = 1 + ranges
        seen = icvi.run(pipeline(), np.stack([x, rows], 1), backend="numpy").readings.seen
        assert seen.tolist() == oracle(np.stack([x, rows], 1))[0].tolist()
        assert seen[20] == (ranges < 50)


def test_what_begins_anew_is_as_if_it_had_begun_there():
    x = np.random.default_rng(0).normal(20, 0.1, size=(300, 2))
    spoilt = x.copy()
    spoilt[1:3, 1] = -9999
    got, clean = (icvi.run(pipeline(True), one, backend="numpy") for one in (spoilt, x[8:]))
    np.testing.assert_allclose(got.readings.values["xb"][8:], clean.readings.values["xb"], rtol=1e-9)
    assert (got.readings.alarms["xb"].code[8:] == clean.readings.alarms["xb"].code).all()


def test_an_ordinary_stream_passes_unchanged():
    for x in (icvi.streams.s2(seed=0).x, np.random.default_rng(0).standard_t(3, size=(1000, 2))):
        on, off = icvi.run(pipeline(), x), icvi.run(pipeline(gate=False), x)
        assert on.readings.seen.all()
        np.testing.assert_array_equal(on.readings.values["xb"], off.readings.values["xb"])


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize(
    ("code", "rows"), [(1e6, [0, 1, 2]), (2147483647, [50]), (-9999, range(7, 2000, 97)), (85, [400])]
)
def test_no_error_code_blinds_a_learned_threshold(standardize, code, rows):
    x = np.random.default_rng(1).normal(20, 0.1, size=(20, 2060, 2))
    x[:, 2000:, 1] += 1
    x[:, list(rows), 1] = code
    found = {}
    for gate in (None, False):
        alarm = icvi.run_fleet(pipeline(standardize, gate=gate), x, keep=("alarms",)).readings.alarms["xb"]
        found[gate] = np.isin(alarm.code[:, 2000:2051], (1, 3)).any(1).mean()
    assert found[None] >= 0.95
    assert not standardize or found[False] < 0.5


def test_it_is_there_where_a_rate_of_an_index_is_promised():
    def gated(monitors, **more):
        return icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=3), panel=PANEL, monitors=monitors, **more).gated

    assert gated({"xb": icvi.Distress(false_alarms=1e-3)})
    assert not gated({"xb": icvi.Distress()})
    assert not gated({"xb": PageHinkley(), "change": icvi.Change()})
    assert not gated({"surprise": icvi.Distress(false_alarms=1e-3)})
    assert gated({}, gate=True)
    assert not gated({"xb": icvi.Distress(false_alarms=1e-3)}, gate=False)


def test_every_way_to_run_it_agrees():
    x, pipe = np.stack([awkward(seed) for seed in range(8)]).astype(np.float32), pipeline(True)
    fleet = icvi.run_fleet(pipe, x, keep=("values", "seen"))
    live = icvi.Live(pipe, features=2, streams=8)
    ticks = [live.tick(x[:, t]) for t in range(x.shape[1])]
    assert (np.stack([np.array(tick.seen) for tick in ticks], 1) == fleet.readings.seen).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, scanned = jax.lax.scan(pipe.step, pipe.init(2), x[0])
    assert (np.asarray(scanned.seen) == fleet.readings.seen[0]).all()
    np.testing.assert_allclose(scanned.values["xb"], fleet.readings.values["xb"][0], rtol=1e-3)


def test_it_is_exported_saved_and_differentiated_with_the_pipeline(tmp_path):
    x, pipe = np.stack([awkward(seed) for seed in range(4)]).astype(np.float32), pipeline(True)
    whole = icvi.run_fleet(pipe, x, keep=("values", "seen"))
    out = icvi.export(pipe, features=2, streams=4, samples=x.shape[1])
    state, _ = out.scan.call(out.numbers, out.start, x.transpose(1, 2, 0))
    for got, leaf in zip(state, jax.tree.leaves(whole.state), strict=True):
        np.testing.assert_allclose(got, leaf, rtol=1e-3, atol=1e-4)

    first = icvi.run_fleet(pipe, x[:, :5], keep=("values",))  # codes of the first rows are judged after the restart
    icvi.save(tmp_path / "state.icvi", pipe, first.state)
    rest = icvi.run_fleet(pipe, x[:, 5:], state=icvi.load(tmp_path / "state.icvi", pipe), keep=("values", "seen"))
    np.testing.assert_array_equal(rest.readings.values["xb"], whole.readings.values["xb"][:, 5:])
    np.testing.assert_array_equal(rest.readings.seen, whole.readings.seen[:, 5:])

    quiet = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)

    def last(rows, of):
        return icvi.scan(of, of.init(2), rows)[1].values["xb"][-1]

    slope = quick_jit(jax.grad(last))
    on, off = (slope(quiet, pipeline(gate=gate)) for gate in (True, False))
    np.testing.assert_allclose(on, off, rtol=1e-3, atol=1e-6)
    spoilt = quiet.copy()
    spoilt[20] = 1e6
    found = np.asarray(slope(spoilt, pipeline(gate=True)))
    assert np.isfinite(found).all() and not found[20].any()
