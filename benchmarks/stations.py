"""Figures of real stations: what was measured, the cluster of each sample, how many there are, how surprising.

    python benchmarks/stations.py FOLDER                    all stations of the Intel lab, Beijing and Grand St Bernard
    python benchmarks/stations.py FOLDER --only beijing     one of the three
    python benchmarks/stations.py FOLDER --most 2           the first two stations of each

One picture a station, by `MergeSplit` with its defaults after `Standardize`. Recordings are read from ICVI_SHARED, or
from ../shared beside the project; the pictures are derived from them and belong beside them, not into the project.
"""

import argparse
import os
import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.dates as dates
import matplotlib.pyplot as plt
import numpy as np

import icvi_jax as icvi

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHARED = pathlib.Path(os.environ.get("ICVI_SHARED", ROOT.parent / "shared")) / "data"
COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c6d31", "#7f7f7f")
ROWS = len(COLORS) - 1
"""Clusters with a row of their own; the last colour is for all others."""


def intel():
    """Motes of the Intel lab: temperature, every 30 s for five days."""
    data = np.load(SHARED / "intel_temp_even_cols.npz")
    x = data["temp_centi_c"].astype(float) / 100
    time = np.datetime64("2004-02-29") + np.arange(len(x)) * np.timedelta64(30, "s")
    for n, column in enumerate(data["column"]):
        yield f"intel_column{int(column):02d}", "Intel lab,", ("temperature, °C",), time, x[:, n, None], 2880


def beijing():
    """Stations of Beijing: air and weather, hourly for four years."""
    data = np.load(SHARED / "beijing_air_6stations.npz", allow_pickle=True)
    names = [str(name) for name in data["features"]]
    chosen = [names.index(name) for name in ("PM2.5", "O3", "TEMP", "DEWP", "WSPM")]
    time = np.datetime64("2013-03-01T00") + np.arange(data["X"].shape[1]) * np.timedelta64(1, "h")
    for station, x in zip(data["station"], data["X"][:, :, chosen]):
        yield f"beijing_{station}", "Beijing air,", tuple(names[c] for c in chosen), time, x.astype(float), 24 * 30


def gsb():
    """Stations of the Grand St Bernard: weather, every 10 minutes for six weeks."""
    data = np.load(SHARED / "gsb_nodes_10min.npz", allow_pickle=True)
    time, names = data["time_utc"].astype("datetime64[s]"), [str(name) for name in data["features"]]
    chosen = [names.index(name) for name in ("ambient_temp", "surface_temp", "rel_hum", "wind_speed")]
    for node, x in zip(data["node_id"], data["X"][:, :, chosen]):
        yield (
            f"gsb_node{int(node):02d}",
            "Grand St Bernard,",
            tuple(names[c] for c in chosen),
            time,
            x.astype(float),
            144,
        )


SETS = {"intel": intel, "beijing": beijing, "gsb": gsb}


def follow(x, warmup):
    """Names, k and surprise of one station."""
    pipe = icvi.Pipeline(clusterer=icvi.MergeSplit(), panel=None, standardize=icvi.Standardize(warmup=warmup))
    r = icvi.run(pipe, x, keep=("cluster", "k", "surprise", "seen")).readings
    return (np.asarray(a) for a in (r.cluster, r.k, r.surprise, r.seen))


def rows_of(cluster):
    """The row of each sample: clusters with most samples, in the order they appeared; the others share the last row."""
    names, counts = np.unique(cluster[cluster >= 0], return_counts=True)
    largest = sorted(names[np.argsort(-counts)][:ROWS].tolist())
    place = {name: row for row, name in enumerate(largest)}
    return np.array([place.get(int(name), ROWS) if name >= 0 else -1 for name in cluster]), largest, len(names)


def smooth(y, width):
    """The median of each stretch of so many samples, where there is one."""
    n = len(y) // width
    with np.errstate(all="ignore"):
        block = y[: n * width].reshape(n, width)
        return np.array([np.median(row[np.isfinite(row)]) if np.isfinite(row).any() else np.nan for row in block])


def draw(title, features, time, x, warmup, path):
    """One picture."""
    cluster, k, surprise, seen = follow(x, warmup)
    row, largest, many = rows_of(cluster)
    colors = np.array([*COLORS, "#ffffff"])[row]
    heights = [1.0] * len(features) + [1.6, 0.8, 1.2]
    figure, axes = plt.subplots(
        len(heights), 1, figsize=(11, 1.5 * sum(heights) + 1), sharex=True, height_ratios=heights
    )
    thin = np.flatnonzero(seen)[:: 1 + seen.sum() // 8000]
    for one, name, values in zip(axes, features, x.T):
        one.scatter(time[thin], values[thin], s=1.5, c=colors[thin], lw=0)
        low, high = np.percentile(values[seen], (0.05, 99.95))
        one.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
        one.set_ylabel(name.replace("_", "\n"), fontsize=8)
    names, count, odd = axes[len(features) :]
    names.scatter(time[thin], row[thin], s=14, marker="|", c=colors[thin], lw=0.7)
    shown = [f"cluster {name}" for name in largest] + ([f"{many - len(largest)} smaller ones"] if many > ROWS else [])
    names.set_yticks(range(len(shown)) if many > ROWS else range(len(largest)), shown, fontsize=7)
    names.invert_yaxis()
    width = max(12, len(x) // 400)
    near = np.convolve(seen, np.ones(width), "same") > 0.5  # no line where nothing was measured for long
    count.step(time, np.where(near, k, np.nan), where="post", lw=0.7, color="#333333")
    count.set_ylabel("clusters\nat a time", fontsize=8)
    count.set_ylim(0)
    usual = np.nanmedian(surprise)
    odd.semilogy(time[thin], np.maximum(surprise[thin] / usual, 1e-3), ",", color="#bbbbbb")
    odd.semilogy(time[: len(x) // width * width : width], smooth(surprise / usual, width), lw=1, color="#b2182b")
    odd.set_ylim(1e-2, None)
    odd.set_ylabel("surprise\n(usual = 1)", fontsize=8)
    locator = dates.AutoDateLocator(maxticks=12)
    odd.xaxis.set_major_locator(locator)
    odd.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    for one in axes:
        one.tick_params(labelsize=7)
        one.spines[["top", "right"]].set_visible(False)
    missing = f", {100 * (1 - seen.mean()):.0f} % missing" if not seen.all() else ""
    told = (
        "A colour is a cluster; its name is a number that is never used again. Surprise: squared distance from the\n"
        f"nearest prototype before the sample is learned, over its median; dots: samples, line: medians of {width}."
    )
    figure.suptitle(f"{title}: {len(x):,} samples{missing}; {many} clusters had a name", fontsize=11)
    figure.text(0.5, 0.002, told, ha="center", va="bottom", fontsize=8, color="#555555")
    figure.align_ylabels()
    figure.tight_layout(rect=(0, 0.5 / figure.get_figheight(), 1, 1))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="where the pictures go")
    parser.add_argument("--only", choices=SETS, help="one set")
    parser.add_argument("--most", type=int, default=None, help="stations of each set")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in [options.only] if options.only else SETS:
        for station, title, features, time, x, warmup in list(SETS[name]())[: options.most]:
            path = options.folder / f"{station}.png"
            draw(f"{title} {station.rpartition('_')[2]}", features, time, x, warmup, path)
            print(path, flush=True)


if __name__ == "__main__":
    main()
