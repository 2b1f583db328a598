"""The page on when to believe an index, and its two maps, from believe.csv."""

from __future__ import annotations

import numpy as np
from believe import FULL
from situations import LEVELS, WORDS, Situation
from store import RESULTS, made, read

DEFAULT, BATCH = "xb", ("ts",)
LOST = 0.5  # below this share an index is not to be believed
WELL, GAP = 0.8, 0.2  # the default misleads where it is right in fewer than this, and another in so many more
LIKE = 0.1  # of the best in a situation: those so near count as well, and the one that is best over all is taken
AFTER = 300
CHANCE = {"right": 0.2, "half": 0.5, "double": 0.5}
KIND = {"first": "ranks the true partition first", "heard": "finds a break"}


def columns():
    """Every (factor, level) in order."""
    return [(factor, level) for factor, levels in LEVELS.items() for level in levels]


def easy(factor, level):
    """Whether this is the situation in which nothing is hard."""
    return Situation()._asdict()[factor] == level


def grid(rows, field):
    """{index: values in the order of `columns`}, NaN where there is none."""
    known = {(row["factor"], row["level"], row["index"]): row[field] for row in rows}
    names = dict.fromkeys(row["index"] for row in rows)
    return {n: np.array([known.get((f, v, n), np.nan) for f, v in columns()], float) for n in names}


def ranked(rows, field, live=False):
    """Indices by their mean over all hard situations, best first, with the means."""
    hard = np.array([not easy(f, v) for f, v in columns()])
    means = {n: float(np.nanmean(a[hard])) for n, a in grid(rows, field).items() if not np.isnan(a).all()}
    return sorted(((n, m) for n, m in means.items() if not (live and n in BATCH)), key=lambda pair: -pair[1])


def alternative(rows, field, column):
    """A live index that does well in a situation: of those near the best there, the one that is best over all."""
    values, overall = grid(rows, field), [n for n, _ in ranked(rows, field, live=True)]
    found = {n: np.nan_to_num(values[n][column], nan=-1.0) for n in overall if n != DEFAULT}
    top = max(found.values())
    chosen = next(n for n in overall if n != DEFAULT and found[n] >= top - LIKE)
    return chosen, found[chosen]


def misleading(rows):
    """Situations in which the default index fails and another does not: one a factor and kind, largest gap first."""
    found = {}
    for field in KIND:
        mine = grid(rows, field)[DEFAULT]
        for column, (factor, level) in enumerate(columns()):
            other, value = alternative(rows, field, column)
            gap = value - mine[column]
            if mine[column] < WELL and gap >= GAP and gap > found.get((factor, field), (0,))[0]:
                found[factor, field] = gap, level, mine[column], other, value
    return sorted(((f, k, *rest) for (f, k), rest in found.items()), key=lambda row: -row[2])


def hopeless(rows):
    """Situations in which no index is right in half of the cases, by field."""
    best = {field: np.nanmax(np.array([a for a in grid(rows, field).values()]), axis=0) for field in KIND}
    return {field: [c for c, top in zip(columns(), best[field]) if top < LOST] for field in KIND}


def says(factor, level):
    """A situation in words."""
    if factor == "forgetting":
        return f"λ = {level:g}, a memory of {1 / (1 - level):.0f} samples" if level < 1 else "no forgetting at all"
    words = {
        "apart": "clusters only {:g} standard deviations apart",
        "imbalance": "the largest cluster {:g} times the smallest",
        "noise": "{:.0%} noise",
        "drift": "centres that drift {:g} standard deviations a sample",
        "told": "{} the true number of clusters",
        "features": "{} features",
    }
    return words[factor].format(level)


def advice(rows):
    """One line per factor: which index to use to rank partitions and to find a break, if this factor is hard."""
    lines = ["| when this is hard | to rank partitions | to find a break | the default `xb` |", "|---|---|---|---|"]
    for factor in LEVELS:
        here = [i for i, (f, v) in enumerate(columns()) if f == factor and not easy(f, v)]
        cells = []
        for field in KIND:
            means = {n: np.nanmean(a[here]) for n, a in grid(rows, field).items() if not np.isnan(a[here]).all()}
            order = [n for n, _ in ranked(rows, field, live=True)]
            best = sorted((n for n in order if n in means), key=lambda n: (-round(means[n], 3), order.index(n)))[:3]
            cells.append(", ".join(f"`{n}` {means[n]:.0%}" for n in best))
            cells.append(f"{means[DEFAULT]:.0%}")
        lines.append(f"| {WORDS[factor]} | {cells[0]} | {cells[2]} | {cells[1]} and {cells[3]} |")
    return "\n".join(lines)


def pictures(rows):
    """Two maps: ranking, and breaks."""
    from drawing import heat, keep, plots, plt

    plots.style()
    widths = [len(levels) for levels in LEVELS.values()]
    for field, name, extra in (("first", "believe-rank", None), ("delay", "believe-break", "heard")):
        values = grid(rows, field)
        order = [n for n, _ in ranked(rows, extra or field)]
        high = AFTER if field == "delay" else 1.0
        figure, axes = plt.subplots(1, len(LEVELS), figsize=(12.5, 5.6), width_ratios=widths, sharey=True)
        start = 0
        for one, (factor, levels) in zip(axes, LEVELS.items()):
            block = np.array([values[n][start : start + len(levels)] for n in order])
            start += len(levels)
            shown = [f"{v:g}" if not isinstance(v, str) else v for v in levels]
            good, digits = ("large", "{:.0%}") if field == "first" else ("small", "{:.0f}")
            heat(one, block, order, shown, 0.0, high, good, digits)
            one.set_title(WORDS[factor], fontsize=8)
            one.tick_params(labelsize=7.5)
        keep(figure, name)


def bullet(row):
    """One situation in which the default misleads."""
    factor, field, _, level, mine, other, value = row
    chance = f"; at random {CHANCE.get(level, 0.2):.0%}" if field == "first" else ""
    return (
        f"- **{_first_upper(says(factor, level))}**: `{DEFAULT}` {KIND[field]} in {mine:.0%} of the draws{chance}. "
        f"Use `{other}`: {value:.0%}."
    )


def facts():
    """What the template asks for."""
    rows = read(RESULTS / "believe.csv")
    seeds, rank, hear = rows[0]["seeds"], ranked(rows, "first", live=True), ranked(rows, "heard", live=True)
    base = next(i for i, (f, v) in enumerate(columns()) if easy(f, v))
    delays, lost = grid(rows, "delay"), hopeless(rows)
    quick = sorted((delays[n][base], n) for n, _ in hear if not np.isnan(delays[n][base]))[:3]
    task = {"first": "rank", "heard": "find a break"}
    none = "; ".join(f"{says(*c)} (to {task[field]})" for field in KIND for c in lost[field])
    return {
        "rank_names": _listed(rank),
        "rank_shares": _shares(rank),
        "rank_default": f"{dict(rank)[DEFAULT]:.0%}",
        "rank_ts": f"{dict(ranked(rows, 'first'))['ts']:.0%}",
        "rank_chance": f"{CHANCE['right']:.0%}",
        "rank_worst": ", ".join(f"`{n}` {m:.0%}" for n, m in rank[-4:]),
        "hear_names": _listed(hear),
        "hear_shares": _shares(hear),
        "hear_default": f"{dict(hear)[DEFAULT]:.0%}",
        "hear_chance": f"{1 / (4 * seeds + 1):.1%}",
        "quickest": ", ".join(f"`{n}` after {d:.0f} samples" for d, n in quick),
        "made": made("believe", seeds >= FULL, f"{FULL} draws to rank and {4 * FULL} for breaks"),
        "well": f"{WELL:.0%}",
        "gap": f"{100 * GAP:.0f}",
        "failures": "\n".join(bullet(row) for row in misleading(rows)),
        "hopeless": f"No index is right in half of the draws with {none}: there, none can be believed."
        if none
        else "In every situation some index is right in at least half of the draws.",
        "advice": advice(rows),
        "seeds": seeds,
        "twins": 4 * seeds,
        "after": AFTER,
        "features": Situation().features,
        "apart": f"{Situation().apart:g}",
        "forgetting": Situation().forgetting,
    }


def _first_upper(text):
    return text[0].upper() + text[1:]


def _listed(order):
    return ", ".join(f"`{n}`" for n, _ in order[:3])


def _shares(order):
    return ", ".join(f"{m:.0%}" for _, m in order[:3])
