"""Two criteria on rows of `answer.py`: is the truth ranked first, is the best algorithm picked; with intervals."""

from __future__ import annotations

import numpy as np

CONDITIONS = {"own": ("own", "plain"), "noise": ("noise", "plain"), "control": ("noise", "dropped")}
LABELS_ONLY = {"few": "fewest clusters", "even": "most even clusters"}
FACTS = ("stream", "labelling", "variant", "true_k", "k", "ami", "ami_inside")
SAME = 0.99  # agreement from which a labelling counts as the truth found
DRAWS = 2000


def indices(rows):
    """Names of the scores in the rows."""
    return [key for key in rows[0] if key not in FACTS]


def of_stream(rows, stream, condition):
    """The truth's row and the algorithms' rows of one stream."""
    truth, plain = CONDITIONS[condition]
    here = [row for row in rows if row["stream"] == stream]
    return (
        next(row for row in here if row["labelling"] == "truth" and row["variant"] == truth),
        [row for row in here if row["variant"] == plain],
    )


def agreement(row, condition):
    """AMI with the truth: over all samples where outliers are a cluster, else over those that are none."""
    return row["ami"] if condition == "own" else row["ami_inside"]


def share(values, mine):
    """Which part of the first place is `mine`'s: 1, 0, or shared among equals. No value is the worst value."""
    values = np.nan_to_num(np.asarray(values, float), nan=-np.inf)
    best = values == values.max()
    return float(best[mine].sum() / best.sum()) if np.isfinite(values.max()) else 0.0


def judged(rows, condition, index):
    """Per stream: the truth is first; it or a labelling like it is first; the best is picked; AMI lost by the pick."""
    found = []
    for stream in dict.fromkeys(row["stream"] for row in rows):
        truth, others = of_stream(rows, stream, condition)
        agree = np.array([agreement(row, condition) for row in others])
        values = [row[index] for row in (truth, *others)]
        like = [0, *(1 + np.flatnonzero(agree >= SAME))]
        picks = np.nan_to_num(np.array(values[1:], float), nan=-np.inf)
        picked = agree[picks == picks.max()].mean()
        found.append(
            (
                share(values, [0]),
                share(values, like),
                share(values[1:], np.flatnonzero(agree == agree.max())),
                agree.max() - picked,
            )
        )
    return np.array(found)


def blind(rows, condition):
    """The same per stream for a choice at random."""
    found = []
    for stream in dict.fromkeys(row["stream"] for row in rows):
        agree = np.array([agreement(row, condition) for row in of_stream(rows, stream, condition)[1]])
        n, best = len(agree), agree == agree.max()
        found.append((1 / (n + 1), (1 + (agree >= SAME).sum()) / (n + 1), best.mean(), agree.max() - agree.mean()))
    return np.array(found)


def always(rows, condition, name):
    """The same for taking one algorithm always; it never takes the truth."""
    found = []
    for stream in dict.fromkeys(row["stream"] for row in rows):
        others = of_stream(rows, stream, condition)[1]
        agree = np.array([agreement(row, condition) for row in others])
        mine = agree[[row["labelling"] for row in others].index(name)]
        found.append(
            (0.0, float(mine >= SAME), float(mine == agree.max()) / (agree == agree.max()).sum(), agree.max() - mine)
        )
    return np.array(found)


def intervals(per_stream, seed=0):
    """Mean and 90 % interval of each column, streams drawn again."""
    rng = np.random.default_rng(seed)
    drawn = per_stream[rng.integers(0, len(per_stream), (DRAWS, len(per_stream)))].mean(1)
    low, high = np.quantile(drawn, (0.05, 0.95), axis=0)
    return per_stream.mean(0), low, high


def favourite(rows, condition, ids=(1, 9, 17)):
    """The algorithm that agrees best with the truth on the streams looked at; on all, where those are absent."""
    seen = [row for row in rows if row["labelling"] != "truth" and row["variant"] == CONDITIONS[condition][1]]
    seen = [row for row in seen if int(row["stream"].split("_")[1]) in ids] or seen
    names = dict.fromkeys(row["labelling"] for row in seen)
    return max(names, key=lambda n: np.mean([agreement(row, condition) for row in seen if row["labelling"] == n]))


def table(rows, chosen=None):
    """Rows of (condition, score, column means, lows, highs), best first by the sum of the two criteria."""
    mine = rows if chosen is None else [row for row in rows if int(row["stream"].split("_")[1]) in chosen]
    out = []
    for condition in CONDITIONS:
        found = [(index, judged(mine, condition, index)) for index in indices(rows)]
        found.sort(key=lambda pair: -(pair[1][:, 0] + pair[1][:, 2]).mean())
        name = favourite(rows, condition)
        found += [("any, at random", blind(mine, condition)), (f"always {name}", always(mine, condition, name))]
        out += [(condition, index, *intervals(per)) for index, per in found]
    return out


def as_text(found):
    """The table for a terminal."""
    lines = [f"{'outliers':9s} {'score':20s} truth first       truth or equal    best picked       AMI lost"]
    for condition, index, mean, low, high in found:
        cells = "   ".join(f"{m:.2f} [{a:.2f} {b:.2f}]" for m, a, b in zip(mean, low, high))
        lines.append(f"{condition:9s} {LABELS_ONLY.get(index, index):20s} {cells}")
    return "\n".join(lines)
