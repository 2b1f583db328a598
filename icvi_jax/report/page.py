"""The report: one HTML file that needs nothing else, drawn on canvases by a small script.

Compared with other libraries, for a heat map of 1000 nodes by 2000 steps in headless Chromium: bokeh makes a page of
3.8 MB, first paint after 1.4 s; plotly one of 18 MB, drawn after 6 s; both only for the map, without curves. The script
here has 25 kB and draws map and curves from one compressed array: 7.0 MB with all curves and the readings of the worst
hundred nodes, first paint after 0.3 s, everything drawn after 1.0 s, a click in 0.03 s (`benchmarks/command.py`).
Browsers since 2023 unpack it themselves (`DecompressionStream`).
"""

from __future__ import annotations

import html
import json
import re
from importlib.resources import files
from pathlib import Path

from icvi_jax.report.payload import pack
from icvi_jax.report.result import Result

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
    }
    # One pass over the template only: a name from a file that looks like a mark is not replaced again.
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: filled[mark[1]], texts["page.html"])


def write_page(result: Result, path: Path) -> None:
    """Write the report to `path`."""
    path.write_text(page(result), encoding="utf-8")
