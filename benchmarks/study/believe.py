"""When to believe an index: the true partition against rivals, and breaks against quiet twins, over many situations.

    python benchmarks/study/believe.py            3 seeds
    python benchmarks/study/believe.py --full     20 seeds to rank, 80 for breaks; docs/study/results/believe.csv

*Rank*: of the truth and four rivals (half of k, double k, a tenth of the labels mixed up, all labels random), is the
truth first? A score that sees no data is right in one of five. *Break*: a cluster jumps; sequential k-means with memory
100 follows. The index is heard when it rises further above its own quiet past than in any of the twins that do not
jump. A score that sees no data is heard in 1 of (twins + 1).
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from reading import COVARIANCES, entries, follow, score, series, settings
from situations import K, all_situations, rivals, stream
from store import RESULTS, write
from verdict import share

import icvi_jax as icvi
from icvi_jax.evaluation import temporal_silhouette

SAMPLES, JUMP, AFTER, QUIET = 1500, 1000, 300, 500
SOFT = {"pc": icvi.PartitionCoefficient(), "pe": icvi.PartitionEntropy()}
WARM, FULL = 300, 20


def reading_of(situation):
    """How labels are read: the settings of the study, with the situation's forgetting and few slots."""
    return settings()["reading"] | {"forgetting": situation.forgetting, "capacity": 2 * K, "warmup": WARM, "every": 150}


def soft_scores(X, labels, reading):
    """Scores of partition coefficient and entropy: memberships as fuzzy c-means has them, at the labels' centres."""
    u, centers, active = follow(
        np.asarray(X, np.float32), labels, reading["memory"], reading["idle"], reading["capacity"]
    )
    d = ((X[:, None] - centers) ** 2).sum(-1) + 1e-12
    u = np.where(active, 1 / d, 0.0) * (u.any(1) > 0)[:, None]
    u /= np.maximum(u.sum(1, keepdims=True), 1e-300)
    panel = icvi.Panel(indices=tuple(SOFT.values()), forgetting=reading["forgetting"])
    values = icvi.validate(
        panel, X.astype(np.float32), memberships=u.astype(np.float32), centers=centers, active=active
    )
    return {name: score(values[name], index, WARM, reading["clip"]) for name, index in SOFT.items()}


def labelled_scores(X, labels, reading):
    """Every score of one labelling, the temporal silhouette and a number that sees no data among them."""
    parts = entries()
    values = series(X, labels, list(parts), reading)
    found = {name: score(values[name], index, WARM, reading["clip"]) for name, index in parts.items()}
    found |= soft_scores(X, labels, reading)
    found["ts"] = temporal_silhouette(np.arange(len(X)), X, labels)
    return found


def ranked(situation, seeds):
    """By index: how often the truth is first of five, and how often before each rival."""
    found, reading = {}, reading_of(situation)
    for seed in range(seeds):
        X, truth = stream(situation, SAMPLES, seed)
        mine = labelled_scores(X, truth, reading)
        others = {name: labelled_scores(X, labels, reading) for name, labels in rivals(X, truth, seed).items()}
        asked = {"right": list(others), "half": ["half"], "double": ["double"]}[situation.told]
        for index, value in mine.items():
            one = found.setdefault(index, {"first": [], **{name: [] for name in others}})
            one["first"].append(share([value, *(others[name][index] for name in asked)], [0]))
            for name in others:
                one[name].append(share([value, others[name][index]], [0]))
    return {index: {name: float(np.mean(a)) for name, a in one.items()} for index, one in found.items()}


def pipelines(situation):
    """The clusterers under watch, each with the indices that can judge it."""
    k = {"half": K // 2, "right": K, "double": 2 * K}[situation.told]
    parts = [i for name, i in entries().items() if situation.features <= 20 or name not in COVARIANCES]
    grouped = icvi.Panel(indices=(icvi.CONN(),), forgetting=situation.forgetting)
    plain, soft = (icvi.Panel(indices=tuple(i), forgetting=situation.forgetting) for i in (parts, SOFT.values()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=k, memory=100.0, seeding="distinct"), panel=plain)
        yield icvi.Pipeline(clusterer=icvi.FuzzyCMeans(k=k), panel=soft)
        if situation.told == "right":
            yield icvi.Pipeline(clusterer=icvi.MergeSplit(slots=12), panel=grouped)


def badness(values, index):
    """The index turned so that large is bad, on a log scale where it is positive; the worst value where it is inf."""
    with np.errstate(divide="ignore", invalid="ignore"):
        y = np.log(values) if index.positive else values
    return np.clip(np.where(index.goal == "min", y, -y), -1e6, 1e6)


def rises(y):
    """How far above its quiet past, in its own spreads, each series (N, T) is after JUMP; NaN where it has no past."""
    past = y[:, JUMP - QUIET : JUMP]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        level = np.nanmedian(past, axis=1, keepdims=True)
        spread = np.nanmedian(np.abs(past - level), axis=1, keepdims=True)
    return (y[:, JUMP : JUMP + AFTER] - level) / np.where(spread > 0, spread, np.nan)


def heard(jumping, quiet):
    """Share of breaks that rise further than every quiet twin does, and the median delay (AFTER where not heard)."""
    top = np.nanmax(np.where(np.isnan(quiet), -np.inf, quiet))
    if not np.isfinite(top):
        return float("nan"), float("nan")
    above = np.where(np.isnan(jumping), -np.inf, jumping) > top
    delay = np.where(above.any(1), above.argmax(1), AFTER)
    return float(above.any(1).mean()), float(np.median(delay))


def broken(situation, seeds):
    """By index: (heard, delay)."""
    made = [stream(situation, JUMP + AFTER, 1000 + s, jump)[0] for jump in (JUMP, None) for s in range(seeds)]
    X, found = np.stack(made).astype(np.float32), {}
    for pipe in pipelines(situation):
        values = icvi.run_fleet(pipe, X, keep=("values",)).readings.values
        for index in pipe.panel.indices:
            z = rises(badness(np.asarray(values[index.name], float), index))
            found[index.name] = heard(z[:seeds], z[seeds:])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="all seeds; writes docs/study/results/believe.csv")
    parser.add_argument("--seeds", type=int, help="seeds to rank with, four times as many for breaks")
    parser.add_argument("--factor", nargs="*", help="only these factors")
    parser.add_argument("--out", help="a CSV file")
    options = parser.parse_args()
    seeds, rows, known = options.seeds or (FULL if options.full else 3), [], {}
    for factor, level, situation in all_situations():
        if options.factor and factor not in options.factor:
            continue
        clock = time.perf_counter()
        if situation not in known:
            known[situation] = ranked(situation, seeds), broken(situation, 4 * seeds)
        first, late = known[situation]
        for index in dict.fromkeys([*first, *late]):
            nothing = dict.fromkeys(("first", "half", "double", "mixed", "random"), float("nan"))
            share_heard, delay = late.get(index, (float("nan"), float("nan")))
            rows.append(
                {
                    "factor": factor,
                    "level": level,
                    "index": index,
                    **first.get(index, nothing),
                    "heard": share_heard,
                    "delay": delay,
                    "seeds": seeds,
                }
            )
        print(f"{factor} {level}: {time.perf_counter() - clock:.0f} s", flush=True)
        if options.full or options.out:
            write(rows, Path(options.out) if options.out else RESULTS / "believe.csv")
    for row in rows:
        if row["index"] in ("xb", "db", "ch", "csil", "osil", "ts"):
            said = "  ".join(f"{key} {row[key]:.2f}" for key in ("first", "half", "double", "heard", "delay"))
            print(f"{row['factor']:11s} {row['level']!s:7s} {row['index']:5s} {said}")


if __name__ == "__main__":
    main()
