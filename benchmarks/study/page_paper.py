"""The page on the paper with forgetful clusterers, and its picture, from paper_*.csv."""

from __future__ import annotations

import numpy as np
from paper_again import FULL
from store import RESULTS, made, read

PAPERS = ("k-means", "OEC")
OLD, NEW = "the paper's", "with memory"


def both(told):
    """{claim: {pair: row}}."""
    found = {}
    for row in told:
        found.setdefault(row["claim"], {})[row["pair"]] = row
    return found


def claims_table(told):
    """Verdicts side by side."""
    lines = ["| claim | k-means and OEC | with a memory of 100 | |", "|---|---|---|---|"]
    for claim, pair in both(told).items():
        a, b = pair[OLD]["verdict"], pair[NEW]["verdict"]
        lines.append(f"| {claim} | {a} | {b} | {'**changes**' if a != b else 'same'} |")
    return "\n".join(lines)


def changed(told):
    """What was measured where the verdict changes."""
    return "\n".join(
        f"- *{claim}*. {pair[OLD]['verdict'].capitalize()}: {pair[OLD]['measured']}. "
        f"With memory, {pair[NEW]['verdict']}: {pair[NEW]['measured']}."
        for claim, pair in both(told).items()
        if pair[OLD]["verdict"] != pair[NEW]["verdict"]
    )


def streams_table(rows):
    """Every clusterer on every stream."""
    lines = [
        "| stream | clusterer | Rand index | XB_λ rises at the first, the last change | F1 of spikes | at random "
        "| distress at the end |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        f1 = "" if np.isnan(r["f1"]) else f"{r['f1']:.2f}"
        rises = f"×{r['first_rise']:.1f}, ×{r['last_rise']:.1f}"
        cells = (r["stream"].upper(), r["clusterer"], f"{r['rand']:.2f}", rises, f1, f"{r['random_f1']:.2f}")
        lines.append(f"| {' | '.join(cells)} | {r['distress']:.0%} |")
    return "\n".join(lines)


def picture(rows):
    """Labels, spikes and distress of all clusterers on the three streams."""
    from drawing import dots, keep, plots, plt

    plots.style()
    names = list(dict.fromkeys(row["clusterer"] for row in rows))
    streams = list(dict.fromkeys(row["stream"] for row in rows))
    figure, axes = plt.subplots(1, len(streams), figsize=(10, 3.4), sharey=True)
    marks = (
        ("rand", plots.BLUE, "o", -0.15, "labels: Rand index"),
        ("f1", plots.VERMILION, "v", 0.1, "spikes: F1"),
        ("random_f1", plots.GREY, "d", 0.1, "as many alarms at random"),
        ("distress", plots.PURPLE, "X", 0.3, "distress at the end"),
    )
    for one, stream in zip(axes, streams):
        here = {row["clusterer"]: row for row in rows if row["stream"] == stream}
        for field, color, marker, shift, label in marks:
            x = [here[name][field] for name in names]
            dots(one, names, x, x, x, color, marker, shift, label)
        one.set(title=stream.upper(), xlim=(-0.06, 1.06), xlabel="share, or index")
    for one in axes:
        for i, name in enumerate(names):
            if name in PAPERS:
                one.axhspan(i - 0.45, i + 0.5, color="#f2f2f2", zorder=0)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    keep(figure, "paper-again")


def on_s2(by):
    """What memory does to k-means on S2, and why merge-split is silent there."""
    old, new, own = (by["s2", name] for name in ("k-means", "k-means, memory", "merge-split"))
    follows = new["rand"] < 0.2 and new["distress"] < old["distress"]
    lesson = """**A clusterer that forgets follows the stream with one centre: the index recovers and the
labels are as wrong as before.** Distress hears a clusterer that is left behind, not one that gives a new state an old
name."""
    return f"""On S2, k-means that never forgets makes XB_λ rise ×{old["first_rise"]:.0f} at the first change and
×{old["last_rise"]:.1f} at the last, and distress stands at the end in {old["distress"]:.0%} of the draws: the alarm is
right, for its Rand index is {old["rand"]:.2f}. With memory the last change makes ×{new["last_rise"]:.1f} and distress
stands in {new["distress"]:.0%}, while the Rand index is {new["rand"]:.2f}. {lesson if follows else ""}
Merge-split labels S2 with {own["rand"]:.2f}, and XB_λ rises ×{own["first_rise"]:.1f} and ×{own["last_rise"]:.1f}: what
is learned at once makes no spike, and its signal is the surprise."""


def facts():
    """What the template asks for."""
    told, rows = read(RESULTS / "paper_claims.csv"), read(RESULTS / "paper_streams.csv")
    found, names = both(told), dict.fromkeys(r["stream"] for r in rows)
    same = sum(pair[OLD]["verdict"] == pair[NEW]["verdict"] for pair in found.values())
    per = {s: [r for r in rows if r["stream"] == s] for s in names}
    right = {s: max(part, key=lambda r: r["rand"]) for s, part in per.items()}
    loud = {s: max(part, key=lambda r: np.nan_to_num(r["f1"], nan=-1)) for s, part in per.items()}
    return {
        "made": made("paper_again", told[0]["draws"] >= FULL, f"{FULL} draws"),
        "claims": len(found),
        "draws": told[0]["draws"],
        "same": same,
        "changes": len(found) - same,
        "claims_table": claims_table(told),
        "changed": changed(told),
        "streams_table": streams_table(rows),
        "on_s2": on_s2({(r["stream"], r["clusterer"]): r for r in rows}),
        "best_labels": _best(right, "rand"),
        "best_spikes": _best(loud, "f1", "random_f1"),
    }


def _best(rows, *fields):
    return "; ".join(
        f"{s.upper()} {r['clusterer']} ({', '.join(f'{r[f]:.2f}' for f in fields)})" for s, r in rows.items()
    )
