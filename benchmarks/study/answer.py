"""The answer to Temporal Silhouette on its own data: which index ranks the truth first and picks the best algorithm?

    python benchmarks/study/answer.py                  streams 5 and 13 of each family: those to report
    python benchmarks/study/answer.py --ids 1 9 17     those to look at while settings are chosen
    python benchmarks/study/answer.py --full           all 20, written to docs/study/results/answer.csv

Settings are read from settings.json, which was written down before the run. One row a labelling: its agreement with the
truth and every score, large is good. The truth comes twice (outliers a cluster of their own; outliers noise), every
algorithm twice (as it is; its farthest samples dropped, as many as the truth has outliers).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from labellings import NOISE, algorithms, without_farthest
from reading import entries, scores, settings
from store import RESULTS, recordings, write

from icvi_jax.evaluation import temporal_silhouette

FAMILIES = ("base", "moving", "nonstat", "sequential")
REPORTED = (5, 13)


def variants(X, y, named):
    """Every (labelling, variant, labels): the truth's two, and each algorithm's two."""
    yield "truth", "own", y
    yield "truth", "noise", np.where(y == 0, NOISE, y)
    for name, labels in named.items():
        yield name, "plain", labels
        yield name, "dropped", without_farthest(X, labels, int((y == 0).sum()))


def evenness(labels):
    """Entropy of the cluster sizes over its largest: a score that has seen no sample, only labels."""
    share = np.unique(labels[labels != NOISE], return_counts=True)[1] / (labels != NOISE).sum()
    return float(-(share * np.log(share)).sum() / np.log(len(share))) if len(share) > 1 else 0.0


def rows_of(stream, X, y, use):
    """The rows of one stream."""
    from sklearn.metrics import adjusted_mutual_info_score as ami

    k = len(set(y.tolist()) - {0})
    named = {name: np.asarray(label(X, k)) for name, label in algorithms(use).items()}
    t, inside, names = np.arange(len(X)), y > 0, list(entries())
    for labelling, variant, labels in variants(X, y, named):
        row = {"stream": stream, "labelling": labelling, "variant": variant, "true_k": k}
        row["k"] = len(set(labels.tolist()) - {NOISE})
        row["ami"] = float(ami(y, labels))
        row["ami_inside"] = float(ami(y[inside], labels[inside]))
        row["few"], row["even"] = -float(row["k"]), evenness(labels)
        row["ts"] = temporal_silhouette(t, X, labels, **use["temporal_silhouette"])
        yield row | scores(X, labels, names, use["reading"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ids", type=int, nargs="*", default=REPORTED, help="streams of each family")
    parser.add_argument("--families", nargs="*", default=FAMILIES)
    parser.add_argument("--full", action="store_true", help="all 20 streams")
    parser.add_argument("--out", help="a CSV file; docs/study/results/answer.csv with --full")
    options = parser.parse_args()
    data, use, rows = np.load(recordings("temporal_silhouette_20.npz")), settings(), []
    for family in options.families:
        for number in (1, 5, 9, 13, 17) if options.full else options.ids:
            clock, stream = time.perf_counter(), f"{family}_{number}"
            rows += rows_of(stream, data[stream + "_x"], data[stream + "_label"].astype(int), use)
            print(f"{stream}: {time.perf_counter() - clock:.0f} s", flush=True)
    if options.out or options.full:
        write(rows, RESULTS / "answer.csv" if options.out is None else Path(options.out))
    from verdict import as_text, table

    print(as_text(table(rows)))


if __name__ == "__main__":
    main()
