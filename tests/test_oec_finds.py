"""What online ellipsoidal clustering finds in the streams it is for, in recordings, and with too few slots."""

import numpy as np

import icvi_jax as icvi
from icvi_jax.evaluation import adjusted_rand_index, match


def test_full_capacity_is_said():
    X = icvi.streams.s2(seed=0).x
    pipe = icvi.Pipeline(clusterer=icvi.OnlineEllipsoidal(capacity=3), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    readings = icvi.run(pipe, X).readings
    k, full = np.asarray(readings.k), np.asarray(readings.overflow)
    assert k.max() == k[-1] == 3 and full.any() and not full[:900].any()
    assert np.isfinite(np.asarray(readings.values["xb"])[3:]).all()
    assert full[920:].mean() > 0.5, "the flag is up only once"


def test_what_it_is_for():
    """Clusters, delays and partitions on new draws, and the index at changes."""
    pipe = icvi.Pipeline(
        clusterer=icvi.OnlineEllipsoidal(capacity=16), panel=icvi.Panel(indices=(icvi.XieBeni(),), forgetting=0.9)
    )
    seeds = range(500, 508)
    s2, s3 = ([draw(seed=seed) for seed in seeds] for draw in (icvi.streams.s2, icvi.streams.s3))
    X = np.full((16, 2500, 2), np.nan, np.float32)
    for i, s in enumerate(s2 + s3):
        X[i, : len(s.x)] = s.x
    readings = icvi.run_fleet(pipe, X, keep=("values", "label", "k")).readings
    k, label, xb = np.asarray(readings.k), np.asarray(readings.label), np.asarray(readings.values["xb"])
    assert np.sum(k[8:, -1] == 10) >= 6
    assert (k[:8, -1] == 11).all()
    delays, scores = [], []
    for i, s in enumerate(s2):
        births = (np.flatnonzero(np.diff(k[i]) > 0) + 1)[1:].tolist()
        score = match(births, s.changes, 199, len(s.x))
        assert not score.false and not score.missed
        delays += [alarm - change for change, alarm in score.matched]
        scores.append(adjusted_rand_index(s.mode[~s.noise], label[i][~s.noise]))
        for change in s.changes:
            level = np.median(xb[i, change - 50 : change])
            assert xb[i, change : change + 10].max() > 8 * level
            assert xb[i, change + 10 : change + 61].min() < 2 * level
    assert np.median(delays) <= 5 and np.mean(scores) >= 0.96


def test_recordings(shared):
    for name, chosen in (("gsb_node18_lg_standin.csv", [1, 2]), ("gsa_mean100.csv", list(range(11)))):
        X = np.genfromtxt(shared / name, delimiter=",", skip_header=1, usecols=chosen)[:600]
        X = ((X - X.mean(0)) / X.std(0)).astype(np.float32)
        panel = icvi.Panel(indices=(icvi.XieBeni(),), forgetting=0.9)
        pipe = icvi.Pipeline(clusterer=icvi.OnlineEllipsoidal(capacity=16), panel=panel)
        readings = icvi.run(pipe, X, backend="numpy", keep=("values", "k", "u", "label")).readings
        first = X.shape[1] + 1
        assert np.isfinite(readings.values["xb"][first:]).all() and np.isfinite(readings.u).all()
        assert readings.k[-1] >= 2 and (readings.label >= 0).all()
