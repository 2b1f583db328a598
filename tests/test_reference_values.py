"""Values that other packages computed: recorded trajectories, frozen constants, and scikit-learn itself."""

import json

import jax
import numpy as np
import pytest

import icvi_jax as icvi

PEERS = {  # as the package cvi names them; ours with the options that make the definitions the same
    "CH": icvi.CalinskiHarabasz(),
    "WB": icvi.WB(),
    "XB": icvi.XieBeni(),
    "DB": icvi.DaviesBouldin(),
    "GD43": icvi.GeneralizedDunn43(),
    "GD53": icvi.GeneralizedDunn53(),
    "PS": icvi.PartitionSeparation(),
    "cSIL": icvi.CentroidSilhouette(peer=True),
    "rCIP": icvi.RepresentativeCIP(log=False),
}
FROZEN = {  # clusterCrit's names of the same definitions; its PBM, Xie_Beni, GDI and Davies_Bouldin are others
    "Ray_Turi": icvi.XieBeni(),
    "Calinski_Harabasz": icvi.CalinskiHarabasz(),
    "Ball_Hall": icvi.BallHall(),
    "Log_SS_Ratio": icvi.Hartigan(),
}


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("part", ["correct", "over", "under"])
def test_recorded_trajectories(shared, part):
    table = np.loadtxt(shared / f"ap6yc_{part}_partition.csv", delimiter=",")
    paths = np.load(shared / "ref_ap6yc_icvi_trajectories.npz")
    panel = icvi.Panel(indices=tuple(PEERS.values()))
    values = icvi.validate(panel, table[:, :2], labels=table[:, 2].astype(int))
    for peer, index in PEERS.items():
        want, got = paths[f"{part}_{peer}"], np.asarray(values[index.name])
        np.testing.assert_allclose(got[500:], want[500:], rtol=1e-6, atol=1e-300, err_msg=peer)
        if index.name not in ("xb", "db"):
            assert np.all(np.isnan(got[:500])), f"{peer} has a value for one cluster"


def test_frozen_values(shared):
    record = json.loads((shared / "ref_clustercrit_400_4.json").read_text())
    X, labels, frozen = np.array(record["X"], float), np.array(record["partition"], int), record["values"]
    indices = (*FROZEN.values(), icvi.RSquared(), icvi.RMSSTD(), icvi.Xu(), icvi.WB())
    values = {name: float(v[-1]) for name, v in icvi.validate(icvi.Panel(indices=indices), X, labels=labels).items()}
    for peer, index in FROZEN.items():
        np.testing.assert_allclose(values[index.name], frozen[peer], rtol=1e-9, err_msg=peer)
    # The sum of squares within is frozen too, and with the logarithm of the ratio gives that between.
    n, k, p = len(X), 4, 2
    W = frozen["Trace_W"]
    B = W * np.exp(frozen["Log_SS_Ratio"])
    np.testing.assert_allclose(values["r2"], B / (B + W), rtol=1e-9)
    np.testing.assert_allclose(values["wb"], k * W / B, rtol=1e-9)
    np.testing.assert_allclose(values["rmsstd"], np.sqrt(W / (p * (n - k))), rtol=1e-9)
    np.testing.assert_allclose(values["xu"], p * np.log(np.sqrt(W / (p * n**2))) + np.log(k), rtol=1e-9)


def test_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(1)
    X, labels = rng.normal(size=(120, 3)), rng.integers(0, 5, size=120)
    panel = icvi.Panel(indices=(icvi.CalinskiHarabasz(),))
    values = icvi.validate(panel, X, labels=labels)["ch"]
    for t in (30, 75, 119):
        np.testing.assert_allclose(values[t], metrics.calinski_harabasz_score(X[: t + 1], labels[: t + 1]), rtol=1e-10)
