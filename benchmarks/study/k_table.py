"""How far each index is from the true k, from rows of `which_k.py`; beside MergeSplit's count and blind rules."""

from __future__ import annotations

import numpy as np

FACTS = ("set", "order", "row", "end", "true")
BLIND = 3
NEAR = 0.2  # of the true k: nearer than that is right


def judged(rows, name):
    """Share of looks with k right (within a fifth), mean |log2(k / true)|, and share where the truth beats k-means."""
    asked = [row for row in rows if row["row"] == "k"]
    true = np.array([row["true"] for row in asked], float)
    k = np.full(len(true), BLIND, float) if name == "always 3" else np.array([row[name] for row in asked], float)
    wins = [row[name] for row in rows if row["row"] == "truth"] if name in asked[0] and name != "mergesplit" else []
    right = np.abs(k - true) <= NEAR * true
    return float(right.mean()), float(np.abs(np.log2(np.maximum(k, 1) / true)).mean()), float(np.mean(wins or [np.nan]))


def groups(rows):
    """The rows of every (set, order)."""
    found = {}
    for row in rows:
        found.setdefault((row["set"], row["order"]), []).append(row)
    return found


def candidates(rows):
    """Names that say a k: the indices, MergeSplit and the blind rule."""
    return [name for name in rows[0] if name not in FACTS] + ["always 3"]


def table(rows):
    """(name, right, off, truth wins) as means over streams, nearest first."""
    per = [[judged(part, name) for part in groups(rows).values()] for name in candidates(rows)]
    means = [
        tuple(np.nanmean(np.array(one), axis=0))
        if not np.isnan(np.array(one)).all(0).any()
        else (*np.mean(np.array(one)[:, :2], axis=0), float("nan"))
        for one in per
    ]
    return sorted(((name, *map(float, m)) for name, m in zip(candidates(rows), means)), key=lambda row: row[2])


def trust(rows, most=0.5):
    """Every stream with its best index in hindsight, and whether that one is right in more than `most` of the looks."""
    out = []
    for (name, order), part in groups(rows).items():
        scored = {c: judged(part, c)[0] for c in candidates(rows) if c not in ("always 3", "mergesplit")}
        top = max(scored, key=scored.get)
        out.append(
            (
                name,
                order,
                top,
                scored[top],
                judged(part, "mergesplit")[0],
                judged(part, "always 3")[0],
                scored[top] > most,
            )
        )
    return out


def as_text(found):
    """The table for a terminal."""
    lines = [f"{'index':12s} right  |log2 k/true|  truth beats k-means"]
    return "\n".join(lines + [f"{name:12s} {right:5.2f}  {off:13.2f}  {wins:5.2f}" for name, right, off, wins in found])
