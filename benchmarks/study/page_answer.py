"""The page on Temporal Silhouette, and its picture, from answer.csv."""

from __future__ import annotations

import numpy as np
from reading import settings
from store import RESULTS, read
from verdict import CONDITIONS, LABELS_ONLY, SAME, blind, favourite, indices, intervals, judged, table

ABOUT = {
    "own": "outliers are a cluster of the truth",
    "noise": "outliers are noise in the truth; the algorithms have no such freedom",
    "control": "outliers are noise in the truth; every algorithm drops as many of its farthest samples",
}
REPORTED, LOOKED = (5, 13), (1, 9, 17)
COLUMNS = ("truth first", "truth or its equal first", "best algorithm picked", "AMI lost by the pick")


def chosen(rows, ids):
    """The rows of streams with these numbers."""
    return [row for row in rows if int(row["stream"].split("_")[1]) in ids]


def told_apart(rows, condition, ours, column):
    """How an index compares with `ts`, stream by stream: a word, the mean difference and its 90 % interval."""
    gap = judged(rows, condition, ours)[:, [column]] - judged(rows, condition, "ts")[:, [column]]
    mean, low, high = (float(a[0]) for a in intervals(gap))
    word = "better than" if low > 0 else "worse than" if high < 0 else "not told apart from"
    return word, mean, low, high


def percent(mean, low, high):
    """A share with its interval."""
    return f"{mean:.0%} [{low:.0%}, {high:.0%}]"


def sentences(rows):
    """What the numbers say of the spokesmen against TS, a line a condition and criterion."""
    out = []
    for condition, about in ABOUT.items():
        chance = blind(rows, condition).mean(0)
        for column, what in ((0, "the truth is ranked first"), (2, "the best algorithm is picked")):
            ts = percent(*(a[column] for a in intervals(judged(rows, condition, "ts"))))
            parts = []
            for index in settings()["spokesmen"]:
                word, mean, low, high = told_apart(rows, condition, index, column)
                mine = percent(*(a[column] for a in intervals(judged(rows, condition, index))))
                parts.append(f"`{index}` {mine}, {word} TS (difference {mean:+.0%} [{low:+.0%}, {high:+.0%}])")
            out.append(f"- *{about}*, {what}: TS {ts}; {'; '.join(parts)}; at random {chance[column]:.0%}.")
    return "\n".join(out)


def verdict(rows):
    """One sentence on the whole, which follows from the intervals of the reported streams."""
    words = {}
    for condition in CONDITIONS:
        for column in (0, 2):
            found = [told_apart(rows, condition, index, column)[0] for index in settings()["spokesmen"]]
            words[condition, column] = found
    count = {w: sum(f.count(w) for f in words.values()) for w in ("better than", "worse than", "not told apart from")}
    total = sum(count.values())
    worse = [ABOUT[c] for c in CONDITIONS if any("worse" in w for col in (0, 2) for w in words[c, col])]
    text = (
        f"Of {total} comparisons of `{'` and `'.join(settings()['spokesmen'])}` with TS, {count['better than']} are in "
        f"our favour, {count['worse than']} in that of TS, and in {count['not told apart from']} the two cannot be "
        f"told apart"
    )
    return text + (f" (TS is better where {'; and where '.join(worse)})." if worse else ".")


def markdown(rows, ids):
    """The table of one set of streams, all three conditions."""
    lines = []
    for condition, about in ABOUT.items():
        lines += [
            f"\n**{about[0].upper()}{about[1:]}**\n",
            "| score | " + " | ".join(COLUMNS) + " |",
            "|---|" + "---|" * 4,
        ]
        for _, index, mean, low, high in (row for row in table(rows, ids) if row[0] == condition):
            cells = [percent(m, a, b) for m, a, b in zip(mean[:3], low[:3], high[:3])]
            name = f"*{LABELS_ONLY.get(index, index)}*" if index in LABELS_ONLY or " " in index else f"`{index}`"
            lines.append(f"| {name} | {' | '.join(cells)} | {mean[3]:.2f} [{low[3]:.2f}, {high[3]:.2f}] |")
    return "\n".join(lines)


def agreements(rows):
    """Mean AMI of every algorithm, as it is and with its farthest samples dropped."""
    names = dict.fromkeys(row["labelling"] for row in rows if row["labelling"] != "truth")
    lines = ["| algorithm | AMI, all samples | AMI without outliers | clusters over true k |", "|---|---|---|---|"]
    for name in names:
        mine = [row for row in rows if row["labelling"] == name and row["variant"] == "plain"]
        all_, inside = (np.mean([row[key] for row in mine]) for key in ("ami", "ami_inside"))
        many = np.median([row["k"] / row["true_k"] for row in mine])
        lines.append(f"| {name} | {all_:.2f} | {inside:.2f} | {many:.1f} |")
    return "\n".join(lines)


def picture(rows):
    """Both criteria under the three conditions, all streams."""
    from drawing import dots, keep, plots, plt

    plots.style()
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 5.2), sharey=True)
    both = {c: {row[1]: row[2:] for row in table(rows) if row[0] == c} for c in CONDITIONS}
    order = sorted(indices(rows), key=lambda n: -sum(both[c][n][0][0] + both[c][n][0][2] for c in CONDITIONS))
    for one, condition in zip(axes, CONDITIONS):
        for column, color, shift, label in ((0, plots.BLUE, -0.15, COLUMNS[0]), (2, plots.VERMILION, 0.15, COLUMNS[2])):
            mean, low, high = (np.array([both[condition][n][i][column] for n in order]) for i in range(3))
            dots(one, [LABELS_ONLY.get(n, n) for n in order], mean, low, high, color, shift=shift, label=label)
            one.axvline(both[condition]["any, at random"][0][column], color=color, lw=0.9, ls=(0, (2, 2)))
        titles = {
            "own": "outliers: a cluster",
            "noise": "outliers: noise",
            "control": "noise, and rivals may drop as many",
        }
        one.set(title=titles[condition], xlim=(-0.03, 1.03), xlabel="share of streams")
    axes[0].legend(loc="lower right")
    keep(figure, "answer")


def reading_of_it(rows):
    """What the worst and the best of all indices do where rivals may drop, and the score that sees labels alone."""
    found = {name: judged(rows, "control", name).mean(0) for name in indices(rows)}
    live = [name for name in found if name not in (*LABELS_ONLY, "ts")]
    blind_ = {column: blind(rows, "control").mean(0)[column] for column in (0, 2)}
    below = [name for name in live if found[name][0] <= blind_[0]]
    even = found["even"]
    return (
        f"Not every index answers. Where rivals may drop samples, {len(below)} of {len(live)} rank the truth first no "
        f"more often than chance: {', '.join(f'`{n}`' for n in below)}. Most of them reward small dispersion alone, so "
        f"that a finer partition wins. And some of the success is cheap: to prefer the most even clusters, without a "
        f"look at any sample, ranks the truth first in {even[0]:.0%} and picks the best algorithm in {even[2]:.0%}."
    )


def facts():
    """What the template asks for."""
    rows, use = read(RESULTS / "answer.csv"), settings()
    held, seen = chosen(rows, REPORTED), chosen(rows, LOOKED)
    names = list(dict.fromkeys(row["labelling"] for row in rows if row["labelling"] != "truth"))
    reading, ts = use["reading"], use["temporal_silhouette"]
    return {
        "streams": len({row["stream"] for row in rows}),
        "labellings": len(names) + 1,
        "held": len({row["stream"] for row in held}),
        "verdict": verdict(held),
        "sentences": sentences(held),
        "reading_of_it": reading_of_it(rows),
        "reported": " and ".join(map(str, REPORTED)),
        "looked": ", ".join(map(str, LOOKED)),
        "score": use["score"],
        "block": use["block"],
        **reading,
        **ts,
        "spokesmen": " and ".join(f"`{n}`, {why}" for n, why in use["spokesmen"].items()),
        "left_out": "; ".join(f"`{n}` ({why})" for n, why in use["left_out"].items()),
        "algorithms": ", ".join(names),
        "agreements": agreements(rows),
        "same": SAME,
        "favourite": favourite(rows, "noise"),
        "table_held": markdown(rows, REPORTED),
        "table_all": markdown(rows, None),
        "sentences_seen": sentences(seen),
    }
