"""Configuration of the documentation: `sphinx-build -W docs docs/_build/html`."""

import importlib
import math
import re
import shutil
from pathlib import Path

import icvi_jax

HERE = Path(__file__).parent

project = "icvi_jax"
author = "the icvi_jax authors"
release = version = icvi_jax.__version__
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
]
HELPERS = ("plots", "recordings", "study", "claims", "claim_tools", "claims_recorded")
exclude_patterns = [
    "_build",
    "conf.py",
    "check_links.py",
    "howto/*.py",
    "howto/skeleton/*.py",
    *(f"notebooks/{name}.py" for name in HELPERS),
]
default_role = "code"
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_custom_formats = {".py": ["jupytext.reads", {"fmt": "py:percent"}]}
html_theme = "furo"
html_title = "icvi_jax"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_preserve_defaults = True  # `xp=jnp`, not where its module is on this machine
napoleon_use_ivar = True
napoleon_custom_sections = ["Result"]
napoleon_use_param = False
napoleon_use_rtype = False
copybutton_prompt_text = ">>> |... |\\$ "
copybutton_prompt_is_regexp = True

# The notebooks are beside the documentation, and Sphinx only reads files below it.
shutil.copytree(HERE.parent / "notebooks", HERE / "notebooks", dirs_exist_ok=True)

ENTRY = re.compile(r"^([*\w][\w*, .]*) : (.*)$")
STAR = re.compile(r"(?<![\\`\w*])(\*)(?=(streams|shape)\b)")
LISTS = ("Parameters", "Attributes", "Returns", "Raises")


def prose_results(lines):
    """Rename a section "Returns" that is prose: numpydoc would take each of its lines for a type."""
    heads = [i for i in range(len(lines) - 1) if lines[i + 1].strip() and set(lines[i + 1].strip()) == {"-"}]
    for here, after in zip(heads, [*heads[1:], len(lines)]):
        if lines[here].strip() == "Returns" and not any(ENTRY.match(line) for line in lines[here:after]):
            lines[here : here + 2] = ["Result", "------"]


def plain_entries(app, what, name, obj, options, lines):
    """Turn entries `name : what it is` into a name and a text; numpydoc would take the text for a type."""
    prose_results(lines)
    inside, out = False, []
    for i, line in enumerate(lines):
        if line.strip() in LISTS and i + 1 < len(lines) and set(lines[i + 1].strip()) == {"-"}:
            inside = True
        elif inside and set(line.strip()) == {"-"} and lines[i - 1].strip() not in LISTS:
            inside = False
        match = ENTRY.match(line) if inside else None
        out += [match[1], "    " + match[2]] if match else [line]
    out = [line if ">>>" in line else STAR.sub(r"\\\1", line) for line in out]
    if what == "property" and out:
        out[0] = out[0].replace(": ", " – ", 1)  # napoleon would take what is before a colon for a type
    lines[:] = out


def index_table():
    """The table of all indices, from the catalogue."""
    words = {math.inf: "∞", -math.inf: "−∞"}
    lines = ["| name | index | best | range | what it measures |", "|---|---|---|---|---|"]
    for entry in icvi_jax.indices.catalogue():
        low, high = (words.get(end, f"{end:g}") for end in entry.range)
        lines.append(f"| `{entry.name}` | {entry.index.__name__} | {entry.goal} | {low} … {high} | {entry.meaning} |")
    return "\n".join(lines)


def from_listings(app, docname, source):
    """Fill in the listings: a new index, clusterer or monitor is in the documentation without an edit."""
    text = source[0]
    if "<!-- catalogue -->" in text:
        before, rest = text.split("<!-- catalogue -->")
        text = before + "\n" + index_table() + "\n" + rest.split("<!-- /catalogue -->")[1]
    for folder in ("indices", "clusterers", "monitors"):
        package = importlib.import_module(f"icvi_jax.{folder}.listing")
        classes = [name for name, value in vars(package).items() if isinstance(value, type)]
        entries = "\n\n".join(f".. autoclass:: icvi_jax.{name}" for name in classes)
        text = text.replace(f".. all {folder}", entries)
    for block, table in re.findall(r"(```\{csv-table\}\n:file: (\S+)\n.*?```)", text, re.S):
        if not (HERE / docname).parent.joinpath(table).exists():  # a table that a benchmark writes
            text = text.replace(block, "*Not measured yet.*")
    source[0] = text


def setup(app):
    """Register these functions, the first one before napoleon."""
    app.connect("autodoc-process-docstring", plain_entries, priority=400)
    app.connect("source-read", from_listings)
