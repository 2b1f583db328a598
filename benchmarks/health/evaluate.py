"""Score `icvi.Health` where training never was, by the protocol in README.md beside this file.

    python benchmarks/health/evaluate.py --data DIRECTORY --rows rows.npz

DIRECTORY has the shared data (`replay.py`, `temporal_silhouette_20.npz`, `gsa_mean100.csv`). `--rows` are those of
training, for the controls. Writes docs/results/health.csv and prints the tables.
"""

from __future__ import annotations

import argparse
import csv
import pathlib
import sys

import numpy as np
from runs import STRIDE, WINDOW, Rows, joined, rows_of_kmeans
from train import outputs, simulated

HERE = pathlib.Path(__file__).parent
TOLD = tuple(range(2, 13))
MEMORIES = (50.0, 200.0, float("inf"))


def real_streams(data: pathlib.Path, orders=("shuffled", "appear", "turns", "moving")):
    """Yield (name, x (T, p), y (T,)) of every labelled stream of the shared data."""
    sys.path.insert(0, str(data))
    from replay import replay

    for order in orders:
        for name, x, mode, _ in replay(order):
            yield f"{name} {order}", x.astype(np.float32), mode.astype(int)
    table = np.genfromtxt(data / "gsa_mean100.csv", delimiter=",", skip_header=1)
    x = table[:, :-1]
    yield "gsa", ((x - x.mean(0)) / x.std(0)).astype(np.float32), np.unique(table[:, -1], return_inverse=True)[1]
    sets = np.load(data / "temporal_silhouette_20.npz")
    for name in sorted(key[:-2] for key in sets.files if key.endswith("_x")):
        x, y = sets[f"{name}_x"][:5000], sets[f"{name}_label"][:5000].astype(int).ravel() - 1
        yield f"temporal {name}", x.astype(np.float32), y


def real_rows(data: pathlib.Path, any_k: tuple[int, ...] = TOLD) -> dict[str, Rows]:
    """Rows of the real streams, for k = 3, for the true k and for any k.

    Streams of one number of windows and about as many columns are run together, with columns of zeros up to a power of
    two, which change nothing: one compilation for all.
    """
    fleets: dict[tuple[int, int], list] = {}
    for i, (_, x, y) in enumerate(real_streams(data)):
        wide, length = 2 ** int(np.ceil(np.log2(x.shape[1]))), len(x) // STRIDE * STRIDE
        padded = np.c_[x, np.zeros((len(x), wide - x.shape[1]), np.float32)]
        fleets.setdefault((wide, length), []).append((i, padded[:length], y[:length], int(y.max()) + 1))
    found: dict[str, list[Rows]] = {"k = 3": [], "true k": [], "any k": []}
    for streams in fleets.values():
        number, x, y, true = (np.stack(part) for part in zip(*streams))
        lanes = [(n, k) for n in range(len(streams)) for k in sorted({*any_k, 3, true[n]})]
        which, sizes = np.array(lanes).T
        memory = np.array(MEMORIES)[number[which] % 3]
        rows = rows_of_kmeans(x, y, which, sizes, memory, "distinct", least=WINDOW)
        masks = (sizes == 3, sizes == true[which], np.isin(sizes, any_k))
        for parts, mask in zip(found.values(), masks):
            parts.append(Rows(*(a[mask[rows.run]] for a in rows)))
    return {name: joined(parts) for name, parts in found.items()}


def windows(data: pathlib.Path, streams: int, file: pathlib.Path) -> dict[str, Rows]:
    """All windows that are scored, from a file that an earlier call wrote: they do not depend on the coefficients."""
    if not file.exists():
        sets = {f"real, {name}": rows for name, rows in real_rows(data).items()}
        sets["families left out, any k"] = simulated(streams, held_out=True, seed=9000)
        np.savez(file, **{f"{name}|{part}": a for name, rows in sets.items() for part, a in rows._asdict().items()})
    found = np.load(file)
    names = dict.fromkeys(key.partition("|")[0] for key in found.files)
    return {name: Rows(*(found[f"{name}|{part}"] for part in Rows._fields)) for name in names}


def auc(wrong, score) -> float:
    """The chance that a wrong window has the higher score."""
    order = np.argsort(score, kind="stable")
    ranks = np.empty(len(score))
    values, start = score[order], 0
    for end in np.r_[np.flatnonzero(np.diff(values)) + 1, len(values)]:
        ranks[order[start:end]] = (start + end + 1) / 2
        start = end
    a, b = wrong.sum(), (~wrong).sum()
    return float((ranks[wrong].sum() - a * (a + 1) / 2) / (a * b)) if a and b else float("nan")


def within(rows: Rows, score) -> float:
    """The mean of the areas of runs with windows of both kinds, at least three of each."""
    wrong, areas = rows.ari < 0.5, []
    for run in np.unique(rows.run):
        mine = rows.run == run
        if 3 <= wrong[mine].sum() <= mine.sum() - 3:
            areas.append(auc(wrong[mine], score[mine]))
    return float(np.mean(areas)) if areas else float("nan")


def calibration(right, chance) -> float:
    """The expected calibration error over ten bins of equal width."""
    bins = np.minimum((chance * 10).astype(int), 9)
    return float(
        sum(abs(right[bins == b].mean() - chance[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins))
    )


def controls(train: Rows):
    """The constant and the regression with five coefficients, fitted on the rows of training."""

    def inputs(rows: Rows):
        return np.c_[
            rows.others[:, 0],
            np.log(rows.k),
            np.log(np.maximum(rows.columns, 1)),
            np.log(rows.memory),
            np.ones(len(rows.k)),
        ]

    a, right = inputs(train), (train.ari >= 0.5).astype(float)
    w = np.zeros(5)
    for _ in range(25):  # Newton's method
        chance = 1 / (1 + np.exp(-a @ w))
        weight = chance * (1 - chance)
        w += np.linalg.solve((a * weight[:, None]).T @ a + 1e-6 * np.eye(5), a.T @ (right - chance))
    return right.mean(), lambda rows: 1 / (1 + np.exp(-inputs(rows) @ w))


def chances(rows: Rows, params=None):
    """Health (n,) and the chances of the five reasons (n, 5)."""
    if params is None:
        from icvi_jax.indices.health import coefficients

        params = coefficients()
    out = outputs(rows, params)
    reasons = np.exp(out[:, 1:] - out[:, 1:].max(1, keepdims=True))
    return 1 / (1 + np.exp(-out[:, 0])), reasons / reasons.sum(1, keepdims=True)


def scored(name: str, rows: Rows, train: Rows, params=None) -> list[dict[str, object]]:
    """A line for each of health and the controls."""
    right, wrong = rows.ari >= 0.5, rows.ari < 0.5
    constant, regression = controls(train)
    got, five = chances(rows, params)[0], regression(rows)
    small, fit, large = rows.k < rows.here, rows.k == rows.here, rows.k > rows.here
    lines = []
    for model, chance, score in (
        ("health", got, -got),
        ("regression", five, -five),
        ("constant", np.full(len(right), constant), np.zeros(len(right))),
        ("osil", None, -rows.others[:, 0]),
        ("log xb", None, rows.others[:, 1]),
    ):
        line = {
            "streams": name,
            "model": model,
            "windows": len(right),
            "right": right.mean(),
            "auc": auc(wrong, score),
            "within": within(rows, score),
        }
        if chance is not None:
            line |= {"brier": np.mean((chance - right) ** 2), "calibration": calibration(right, chance)}
            for kind, mask in (("small", small), ("fit", fit), ("large", large)):
                line[f"calibration {kind}"] = (
                    calibration(right[mask], chance[mask]) if mask.sum() > 50 else float("nan")
                )
        lines.append(line)
    return lines


def tell(lines) -> None:
    """Print lines as a table."""
    heads = (
        "streams",
        "model",
        "windows",
        "right",
        "auc",
        "within",
        "brier",
        "calibration",
        "calibration small",
        "calibration fit",
        "calibration large",
    )
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for line in lines:
        print(
            "| " + " | ".join(f"{v:.3f}" if isinstance(v := line.get(h, ""), float) else str(v) for h in heads) + " |"
        )


def main() -> None:
    """Score, print, write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--rows", type=pathlib.Path, default=HERE / "rows.npz")
    parser.add_argument("--windows", type=pathlib.Path, default=HERE / "windows.npz", help="made if it is not there")
    parser.add_argument("--streams", type=int, default=60)
    given = parser.parse_args()
    train = Rows(**np.load(given.rows))
    sets = windows(given.data, given.streams, given.windows)
    lines = [line for name, rows in sets.items() for line in scored(name, rows, train)]
    tell(lines)
    with (HERE.parents[1] / "docs/results/health.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows({k: f"{v:.4f}" if isinstance(v, float) else v for k, v in line.items()} for line in lines)
    for name, rows in sets.items():
        reliability(name, rows)
        confusion(name, rows)
    draw(sets)


def reliability(name: str, rows: Rows) -> None:
    """Print what was said and how often it was right, for ten bins."""
    chance, right = chances(rows)[0], rows.ari >= 0.5
    bins = np.minimum((chance * 10).astype(int), 9)
    print(
        f"\nreliability, {name}: "
        + ", ".join(
            f"{chance[bins == b].mean():.2f}→{right[bins == b].mean():.2f} ({(bins == b).sum()})"
            for b in np.unique(bins)
        )
    )


def draw(sets: dict[str, Rows]) -> None:
    """Draw the reliability diagrams: what was said, and how often it was right."""
    from matplotlib.figure import Figure

    figure = Figure((4.5, 4.5))
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], color="0.7")
    for name, rows in sets.items():
        chance, right = chances(rows)[0], rows.ari >= 0.5
        bins = np.minimum((chance * 10).astype(int), 9)
        some = [b for b in range(10) if (bins == b).sum() >= 20]
        axes.plot(
            [chance[bins == b].mean() for b in some], [right[bins == b].mean() for b in some], "o-", ms=4, label=name
        )
    axes.set(xlabel="health", ylabel="share of windows that are right", xlim=(0, 1), ylim=(0, 1))
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(HERE.parents[1] / "docs/results/health.png", dpi=130, bbox_inches="tight")


def confusion(name: str, rows: Rows) -> None:
    """Print the reasons said (columns) of the true reasons (rows)."""
    said = chances(rows)[1].argmax(1)
    print(f"\nreasons, {name}: right, merged, cut, not learned, nothing to find; rows are the truth, shares of a row")
    for why in range(5):
        mine = rows.why == why
        if mine.any():
            print("| " + " | ".join(f"{(said[mine] == c).mean():.2f}" for c in range(5)) + f" | {mine.sum()} |")


if __name__ == "__main__":
    main()
