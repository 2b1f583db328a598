"""The page on k, and its pictures, from which_k.csv."""

from __future__ import annotations

import numpy as np
from k_table import candidates, groups, judged, table, trust
from store import RESULTS, made, read
from which_k import KS, SETS, WINDOW

OTHERS = ("mergesplit", "always 3")
SHOWN = ("xb", "db", "ch", "csil", "gd43")


def pictures(rows):
    """What some indices say over time on four streams; and the share of right looks of all, everywhere."""
    from drawing import heat, keep, plots, plt

    plots.style()
    parts = groups(rows)
    wanted = [("gas sensors", "as recorded"), ("fcps_hepta", "appear"), ("sipu_s1", "appear"), ("uci_ecoli", "appear")]
    wanted = [key for key in dict.fromkeys([*wanted, *reversed(parts)]) if key in parts][:4]
    figure, axes = plt.subplots(2, 2, figsize=(10, 5.6))
    colors = (plots.BLUE, plots.ORANGE, plots.GREEN, plots.PURPLE, plots.SKY)
    for one, key in zip(axes.flat, wanted):
        asked = [row for row in parts[key] if row["row"] == "k"]
        ends = [row["end"] for row in asked]
        for i, (name, color) in enumerate(zip(SHOWN, colors)):
            one.plot(ends, [row[name] * 1.012 ** (i - 2) for row in asked], ".-", color=color, label=name, lw=0.9, ms=4)
        one.plot(ends, [row["mergesplit"] for row in asked], ".:", color=plots.VERMILION, label="merge-split's own")
        one.step(ends, [row["true"] for row in asked], where="mid", color="black", lw=2, alpha=0.6, label="truth")
        one.set(title=", ".join(key), yscale="log", yticks=(1, 2, 3, 5, 8, 12, 20), ylabel="k")
        one.set_yticklabels(map(str, (1, 2, 3, 5, 8, 12, 20)))
        one.minorticks_off()
    for one in axes[-1]:
        one.set(xlabel="sample")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=7)
    keep(figure, "k-over-time")

    names = [name for name, *_ in table(rows)]
    keys = list(parts)
    values = np.array([[judged(parts[key], name)[0] for name in names] for key in keys])
    figure, one = plt.subplots(figsize=(10.5, 0.24 * len(keys) + 1.1))
    heat(one, values, [", ".join(key) for key in keys], names)
    one.tick_params(axis="x", rotation=60, labelsize=7.5)
    one.tick_params(axis="y", labelsize=7.5)
    keep(figure, "k-right")


def ranking(rows):
    """The table of all candidates."""
    lines = ["| says k | right | off by a factor of | the true labels beat every k-means |", "|---|---|---|---|"]
    for name, right, off, wins in table(rows):
        title = {"mergesplit": "merge-split's own count", "always 3": "*always 3, blindly*"}.get(name, f"`{name}`")
        lines.append(f"| {title} | {right:.0%} | {2**off:.2f} | {'' if np.isnan(wins) else f'{wins:.0%}'} |")
    return "\n".join(lines)


def streams(rows):
    """The table of streams: the best index there, in hindsight, beside merge-split and the blind rule."""
    lines = ["| stream | best index, in hindsight | merge-split | always 3 | to be trusted |", "|---|---|---|---|---|"]
    for name, order, top, share, own, blind, ok in trust(rows):
        lines.append(
            f"| {name}, {order} | `{top}` {share:.0%} | {own:.0%} | {blind:.0%} | {'yes' if ok else '**no index**'} |"
        )
    return "\n".join(lines)


def said(right, off):
    """How near one is, in words."""
    return f"is right in {right:.0%} of the looks and off by a factor of {2**off:.2f} on average"


def facts():
    """What the template asks for."""
    rows = read(RESULTS / "which_k.csv")
    found, parts, told = table(rows), groups(rows), trust(rows)
    by = {name: (right, off) for name, right, off, _ in found}
    indices = [row for row in found if row[0] not in OTHERS]
    lost = [f"{name} ({order})" for name, order, *_, ok in told if not ok]
    beaten = sum(share <= blind for *_, share, _, blind, _ in told)
    gas = {name: judged(parts["gas sensors", "as recorded"], name) for name in candidates(rows)}
    best = max((n for n in gas if n not in OTHERS), key=lambda n: (gas[n][0], -gas[n][1]))
    worse = [f"`{name}`" for name, *_ in indices if by[name][1] > by["always 3"][1]]
    fairest = max(indices, key=lambda row: -1 if np.isnan(row[3]) else row[3])
    return {
        "made": made("which_k", len(parts) > 2 * SETS, f"{SETS} labelled sets in both orders"),
        "window": WINDOW,
        "ks": len(KS),
        "k_low": KS[0],
        "k_high": KS[-1],
        "streams": len(parts),
        "states": max(row["true"] for row in parts["gas sensors", "as recorded"]),
        "best": f"`{indices[0][0]}`: it {said(*indices[0][1:3])}",
        "blind": said(*by["always 3"]),
        "own": said(*by["mergesplit"]),
        "worse": len(worse),
        "indices": len(indices),
        "worse_names": ", ".join(worse),
        "gas": f"the best is `{best}`, right in {gas[best][0]:.0%} of the looks; `xb`, the default, in "
        f"{gas['xb'][0]:.0%}, merge-split in {gas['mergesplit'][0]:.0%}, always 3 in {gas['always 3'][0]:.0%}",
        "lost": len(lost),
        "beaten": beaten,
        "lost_names": ", ".join(lost),
        "stream_table": streams(rows),
        "ranking": ranking(rows),
        "fairest": f"`{fairest[0]}`, in {fairest[3]:.0%} of the looks",
    }
