"""No digit is lost between a file and its readings, however far from zero the samples are."""

from __future__ import annotations

import numpy as np
import pytest

import icvi_jax as icvi
from icvi_jax.cli import main, outputs
from icvi_jax.cli.clusterers import FOR_FILES
from icvi_jax.tables import read

PANEL = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.9)
PIPE = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=3, **FOR_FILES), panel=PANEL)
OFFSETS = [0.0, 1e6, 1e8, 1.7e9]


def samples(offset, spread, streams):
    rng = np.random.default_rng(4)
    at = np.array([[0, 0], [8, 2], [3, 9]])[rng.integers(0, 3, (streams, 240))]
    return spread * (rng.normal(size=(streams, 240, 2)) + at) + offset


@pytest.fixture
def plain(monkeypatch):
    """No picture and no page: they are not what is tested."""
    made = []

    def keep(result, output):
        made.append(result)
        outputs.write_table(output.out / output.readings, *outputs.readings_columns(result))
        return []

    for command in ("run", "fleet"):
        monkeypatch.setattr(f"icvi_jax.cli.{command}.write_all", keep)
    return made


@pytest.mark.parametrize("spread", [1.0, 0.05])
@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("form", ["run csv", "run parquet", "fleet npz"])
def test_readings_are_those_of_double_precision(form, offset, spread, tmp_path, plain):
    command, kind = form.split()
    X = samples(offset, spread, 2 if command == "fleet" else 1)
    path = tmp_path / f"in.{kind}"
    if kind == "npz":
        np.savez(path, X=X)
    else:
        outputs.write_table(path, {"a": X[0, :, 0], "b": X[0, :, 1]})
    assert main([command, str(path), "-k", "3", "--no-standardize", "--out", str(tmp_path / "o")]) == 0
    written = read(tmp_path / "o" / "readings.csv", columns=["xb", "db"]).x.reshape(len(X), 240, 2)
    exact = icvi.run_fleet(PIPE, X, backend="numpy", keep=icvi.Reading._fields).readings
    (result,) = plain
    same = result.label == exact.label
    assert same.mean() > 0.99
    for n, name in enumerate(("xb", "db")):
        fine = same & np.isfinite(exact.values[name])
        assert fine.mean() > 0.9
        np.testing.assert_allclose(written[..., n][fine], exact.values[name][fine], rtol=1e-5, err_msg=name)
    last = exact.centers[:, -1] - offset
    np.testing.assert_allclose(result.centers[:, -1] - offset, last, atol=1e-4 * spread)
