"""Configuration of the documentation: `sphinx-build -W docs docs/_build/html`."""

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
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
HELPERS = ("plots", "recordings", "study", "claims")
exclude_patterns = ["_build", "conf.py", *(f"notebooks/{name}.py" for name in HELPERS)]
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
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_use_ivar = True
napoleon_use_param = False
napoleon_use_rtype = False
copybutton_prompt_text = ">>> |... |\\$ "
copybutton_prompt_is_regexp = True

# The notebooks lie beside the documentation; Sphinx reads only what is below it.
shutil.copytree(HERE.parent / "notebooks", HERE / "notebooks", dirs_exist_ok=True)

ENTRY = re.compile(r"^([*\w][\w*, .]*) : (.*)$")
STAR = re.compile(r"(?<![\\`\w*])(\*)(?=(streams|shape)\b)")
LISTS = ("Parameters", "Attributes", "Returns", "Raises")


def plain_entries(app, what, name, obj, options, lines):
    """Docstrings list `name : what it is`; numpydoc would take what follows the colon for a type."""
    inside, out = False, []
    for i, line in enumerate(lines):
        if line.strip() in LISTS and i + 1 < len(lines) and set(lines[i + 1].strip()) == {"-"}:
            inside = True
        elif inside and set(line.strip()) == {"-"} and lines[i - 1].strip() not in LISTS:
            inside = False
        match = ENTRY.match(line) if inside else None
        out += [match[1], "    " + match[2]] if match else [line]
    out = [line if ">>>" in line else STAR.sub(r"\\\1", line) for line in out]
    lines[:] = out


def setup(app):
    """Register the above before napoleon, which reads what is left."""
    app.connect("autodoc-process-docstring", plain_entries, priority=400)
