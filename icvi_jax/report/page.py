"""The report: one HTML file that needs nothing else, drawn on canvases by a small script.

For a heat map of 1000 nodes by 2000 steps bokeh makes a page of 3.8 MB, plotly one of 18 MB, both without curves; this
one has 7.0 MB with all curves, first paint after 0.3 s and a click in 0.03 s (`benchmarks/command.py`).

Numbers are one compressed array of bytes, which browsers unpack themselves (`DecompressionStream`); names and sentences
are JSON. Values are 12-bit steps of the (logarithmic) range of their node, finer than a pixel; nodes may have different
units, so no two share a range. High and low bytes are stored one after the other, since they compress better so. A page
that would be too large is thinned in time: of several samples the worst index value stays.
"""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icvi_jax.report.alarm_text import alarm_sentences, at, count_alarms, indices_add
from icvi_jax.report.health_text import HEALTH, trust_before
from icvi_jax.report.result import (
    COLUMN_ALARMS,
    ONE_CLUSTER,
    Result,
    distress_score,
    missing_share,
    present,
    true_changes,
    worst_first,
)

LEVELS = 4094  # 0 is missing, 1 … 4094 the range, 4095 infinite
CURVE_BUDGET, DETAIL_BUDGET, MOST_DETAILED, MOST_SENTENCES, MOST_ALARMS = 6_000_000, 2_000_000, 100, 60, 200_000
MOST_TIMES = 5


class ByteBlock:
    """Byte arrays one after another, each aligned to 8 bytes so that a browser can use it without a copy."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0

    def add(self, array: NDArray[np.generic]) -> dict[str, object]:
        """Append an array and return its position."""
        raw = np.ascontiguousarray(array).tobytes()
        place = {"at": self.size, "length": int(array.size), "type": str(array.dtype)}
        self.parts.append(raw + bytes(-len(raw) % 8))
        self.size += len(self.parts[-1])
        return place

    def curves(self, steps: CurveSteps) -> dict[str, object]:
        """Append curves: their ranges, and their 12-bit steps as two arrays of bytes."""
        high, low = (steps.levels >> 4).astype(np.uint8), (steps.levels & 15).astype(np.uint8)
        data = {"high": self.add(high), "low": self.add(low)}
        return {"low": self.add(steps.low), "high": self.add(steps.high), "data": data}

    def text(self) -> str:
        """All bytes, compressed, as text."""
        return base64.b64encode(zlib.compress(b"".join(self.parts), 6)).decode()


def pool(values: NDArray[np.float32], factor: int, goal: str) -> NDArray[np.float32]:
    """Keep the worst of each `factor` samples, (N, T) to (N, ⌈T/factor⌉); missing only where all are missing.

    Examples
    --------
    >>> pool(np.array([[1.0, 5.0, np.nan]]), 2, "min").tolist()
    [[5.0, nan]]
    """
    if factor == 1:
        return values
    short = -values.shape[1] % factor
    padded = np.pad(values, ((0, 0), (0, short)), constant_values=np.nan).reshape(len(values), -1, factor)
    return np.asarray(np.fmax.reduce(padded, axis=2) if goal == "min" else np.fmin.reduce(padded, axis=2))


class CurveSteps(NamedTuple):
    """Values of N nodes as steps of the range of each node."""

    levels: NDArray[np.uint16]  # (N, T): 0 is missing, 1 … `LEVELS` the range, `LEVELS` + 1 infinite
    # low, high: (N,), the range of each node, in log10 where the scale is logarithmic
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def quantize(values: NDArray[np.float32] | NDArray[np.float64], log: bool) -> CurveSteps:
    """Turn values (N, T) into steps of the range of each node.

    Examples
    --------
    >>> quantize(np.array([[0.0, 5.0], [1e9, 2e9]]), log=False).levels.tolist()
    [[1, 4094], [1, 4094]]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = np.log10(values) if log else values.astype(np.float64)
    finite = np.isfinite(scaled)
    some = finite.any(axis=1)
    low = np.where(some, np.where(finite, scaled, np.inf).min(axis=1, initial=np.inf), 0.0)
    high = np.where(some, np.where(finite, scaled, -np.inf).max(axis=1, initial=-np.inf), 1.0)
    high = np.where(high > low, high, low + np.maximum(1.0, 1e-9 * np.abs(low)))
    part = (np.where(finite, scaled, low[:, None]) - low[:, None]) / (high - low)[:, None]
    steps = np.where(finite, np.round(part * (LEVELS - 1)) + 1, 0)
    steps = np.where(np.isposinf(scaled), LEVELS + 1, steps)
    # The logarithm of 0 is the bottom of the scale, not missing.
    return CurveSteps(np.where(np.isneginf(scaled), 1, steps).astype(np.uint16), low, high)


def pack(result: Result) -> tuple[dict[str, object], str]:
    """Pack a result: what goes to the page as JSON, and the compressed bytes."""
    order, score = worst_first(result), distress_score(result)
    nodes, steps = result.label.shape
    factor = max(1, -(-nodes * steps * len(result.values) // CURVE_BUDGET))
    thin = slice(None, None, factor)
    block, indices = ByteBlock(), []
    for name, values in result.values.items():
        about = result.about[name]
        known = np.where(result.seen, values, np.nan)[order]  # a missing sample repeats the last value: show a gap
        steps_of = quantize(pool(known, factor, about.goal), about.positive)
        indices.append(
            {
                "name": name,
                "title": about.title,
                "goal": about.goal,
                "log": about.positive,
                "meaning": about.meaning,
                **block.curves(steps_of),
            }
        )
    shown = result.label[:1, thin].shape[1]
    detailed = int(np.clip(DETAIL_BUDGET // (shown * len(result.features)), 1, min(MOST_DETAILED, nodes)))
    dated = result.times is not None and result.times.dtype.kind == "M"
    times = np.arange(steps) if result.times is None else result.times
    clock = (times.astype("datetime64[us]").astype(np.int64) / 1e3 if dated else times.astype(np.float64))[thin]
    trusts = [result.trust[n] for n in order] if result.trust else []
    there = present(result)[order]
    spans = [[int(row.argmax()), int(len(row) - 1 - row[::-1].argmax())] if row.any() else [0, 0] for row in there]
    return {
        "name": result.name,
        "nodes": [result.nodes[n] for n in order],
        "score": [round(float(score[n]), 4) for n in order],
        "steps": shown,
        "factor": factor,
        "time": {
            "kind": "date" if dated else "number" if result.times is not None else "sample",
            "name": result.time_name or "sample",
            "data": block.add(clock),
        },
        "indices": indices,
        "alarms": [_alarms(result, name, order, factor, block) for name in result.codes],
        "detail": _detail(result, order[:detailed], thin, block),
        "changes": (true_changes(result) // factor).tolist(),
        "spans": [[first // factor, last // factor] for first, last in spans],
        "samples": int(there.sum()),
        "noun": "candidate" if result.settings[:1] and result.settings[0][0] == "candidates" else "node",
        "stories": _stories(result, order),
        "trust": [(round(value, 2) if value == value else None, word, text) for value, word, text in trusts],
        "happened": count_alarms(result.codes)[0],
        "settings": result.settings,
        "notes": [*result.notes, *([ONE_CLUSTER.capitalize()] if result.k.max() <= 1 else [])],
        "missing": missing_share(result)[order].round(4).tolist(),
        "overflow": bool(result.overflow.any()),
    }, block.text()


def _alarms(result: Result, name: str, order: NDArray[np.int64], factor: int, block: ByteBlock) -> dict[str, object]:
    codes = result.codes[name][order]
    row, at = np.nonzero(codes)
    row, at = row[:MOST_ALARMS], at[:MOST_ALARMS]
    cause = result.causes[name][order[row], at] + 1 if name in result.causes else np.zeros(len(row))
    standing = np.pad(result.standing[name][order].astype(np.int8), ((0, 0), (1, 1)))
    edges = np.diff(standing, axis=1)
    begin, end = np.nonzero(edges == 1), np.nonzero(edges == -1)
    return {
        "index": name,
        "row": block.add(row.astype(np.uint32)),
        "at": block.add((at // factor).astype(np.uint32)),
        "code": block.add(codes[row, at].astype(np.uint8)),
        "cause": block.add(cause.astype(np.uint32)),  # the column, counted from 1; 0 for none
        "spans": {
            "row": block.add(begin[0].astype(np.uint32)),
            "from": block.add((begin[1] // factor).astype(np.uint32)),
            "to": block.add(((end[1] - 1) // factor).astype(np.uint32)),
        },
    }


def _detail(result: Result, rows: NDArray[np.int64], thin: slice, block: ByteBlock) -> dict[str, object]:
    x = result.x[rows][:, thin]
    features, lowest = [], []
    for j, name in enumerate(result.features):
        steps = quantize(x[:, :, j], log=False)
        lowest.append(steps.low)
        features.append({"name": name, **block.curves(steps)})
    # Relative to the smallest reading: single precision is not enough for a centre far from zero.
    centers = (result.centers[rows] - np.stack(lowest, axis=1)[:, None, None]).astype(np.float32)
    return {
        "rows": len(rows),
        "features": features,
        "label": block.add(
            np.where(result.label[rows][:, thin] < 0, 255, result.label[rows][:, thin] % 255).astype(np.uint8)
        ),
        "k": block.add((result.k * result.seen)[rows][:, thin].astype(np.uint8)),  # 0: missing, a gap in the curve
        "snapshots": (result.snapshots // (thin.step or 1)).tolist(),
        "slots": centers.shape[2],
        "centers": block.add(centers),
    }


def _stories(result: Result, order: NDArray[np.int64]) -> list[list[str]]:
    stories = []
    for n in order:
        sentences = trust_before(result.values[HEALTH][n], lambda t: at(result.times, t)) if result.trust else []
        sentences, alone = sentences[-MOST_TIMES:], len(result.codes) == 1
        said = alarm_sentences(result, int(n), [name for name, codes in result.codes.items() if codes[n].any()])
        sentences += [t if alone or name in COLUMN_ALARMS else f"{name}: {t}" for _, name, t in said[:MOST_SENTENCES]]
        if len(said) > MOST_SENTENCES:
            sentences.append(f"… and {len(said) - MOST_SENTENCES} more")
        add = indices_add(result, int(n))
        if sentences and add:
            sentences.append(f"{add[0].upper()}{add[1:]}.")
        stories.append(sentences)
    return stories


BARS, WIDE, HIGH = 60, 12, 120


def distribution(score: NDArray[np.float64], shown: int) -> str:
    """The scores of all nodes as a picture with bars, and how many of the nodes the page has.

    Examples
    --------
    >>> distribution(np.array([0.0, 0.5, 2.0]), 2).count("<rect")
    3
    """
    top = float(score.max()) or 1.0
    many, edges = np.histogram(score, BARS, (0.0, top))
    bars = "".join(
        f'<rect x="{WIDE * n}" y="{HIGH - high:.1f}" width="{WIDE - 1}" height="{high:.1f}" fill="currentColor">'
        f"<title>score {edges[n]:.3g} to {edges[n + 1]:.3g}: {many[n]:,} nodes</title></rect>"
        for n, high in enumerate(HIGH * np.log1p(many) / np.log1p(many.max()))
        if many[n]
    )
    middle, late = np.quantile(score, (0.5, 0.99))
    return (
        f'<section id="everyone"><h2>Scores of all {len(score):,} nodes</h2><p class="hint">From 0 to {top:.3g}; '
        f"heights are logarithms of numbers of nodes. Quiet all the time: {int((score == 0).sum()):,}. Half of the "
        f"nodes are below {middle:.3g}, 99 % below {late:.3g}. This page has the worst {shown:,}; nodes.csv and "
        f'alarms.csv have all.</p><svg viewBox="0 0 {WIDE * BARS} {HIGH}" width="100%" height="{HIGH}" role="img" '
        f'aria-label="distribution of scores">{bars}</svg></section>'
    )


EMBED = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def page(result: Result) -> str:
    """The report as text.

    Names from the file go into the page as JSON whose angle brackets are escaped, and the script writes them as text
    nodes, so that a node called ``<script>`` is only a name.
    """
    meta, block = pack(result)
    folder = files("icvi_jax.report")
    names = ("page.html", "page.css", "draw.js", "data.js", "map.js", "node.js", "page.js")
    texts = {name: (folder / name).read_text(encoding="utf-8") for name in names}
    filled = {
        "title": html.escape(result.name),
        "css": texts["page.css"],
        "draw": texts["draw.js"],
        "script": texts["data.js"] + texts["map.js"] + texts["node.js"] + texts["page.js"],
        "meta": json.dumps(meta, allow_nan=False, ensure_ascii=False).translate(EMBED),
        "block": block,
        "everyone": "" if result.everyone is None else distribution(result.everyone, len(result.nodes)),
    }
    # One pass over the template only: a name from a file that looks like a mark is not replaced again.
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: filled[mark[1]], texts["page.html"])
