"""The folder list is the architecture: imports go up only, and a file is one idea."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "icvi_jax"
FILES = sorted(PACKAGE.rglob("*.py"))
LAYERS = (
    "array_api | distributed | terminal_text",
    "numerics",
    "types",
    "spec",
    "origin",
    "statistics",
    "indices | clusterers | monitors | standardize | error_code_filter",
    "panel",
    "pipeline | model_selection",
    "panel_ops",
    "what_if",
    "checkpoint",  # below the engine, since a live fleet saves itself
    "engine",
    "run",
    "live",
    "evaluation | export",
    "validation",
    "streams | tables",
    "adapters | report",
    "testing | watch",  # what a watch says of an alarm is what the report says
    "icvi_jax",
    "cli | gpu_check",  # use the public API
)
"""From the bottom up. A file may import from its own part and from layers before its own; parts beside each other know
nothing of each other. `icvi_jax` is the package's own file, which gathers the public names."""

WHEN_ASKED = {("engine", "tables"), ("run", "report")}
"""Against the order, and loaded only at the call that needs it: `run(pipe, frame)` reads a data frame as the command
would, and `result.plot()` draws as the report does. The engine itself needs neither."""

HEIGHT = {part: height for height, layer in enumerate(LAYERS) for part in layer.split(" | ")}


def part_of(path):
    name = path.relative_to(PACKAGE).with_suffix("").parts[0]
    return "icvi_jax" if name == "__init__" else name


def imports(path):
    """Modules a file imports, wherever in it; relative ones begin with dots."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "icvi_jax":
            yield from (f"icvi_jax.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def late_imports(path):
    """Modules that a file loads by their name, at a call."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            assert isinstance(node.args[0], ast.Constant), f"{path}: nobody can see what this loads"
            yield node.args[0].value


def imported_part(module):
    """The part of the package that a module belongs to, or None; a public name belongs to the package's own file."""
    package, _, rest = module.partition(".")
    if package != "icvi_jax":
        return None
    name = rest.partition(".")[0]
    return name if name in HEIGHT else "icvi_jax"


def test_every_part_has_one_layer():
    listed = [part for layer in LAYERS for part in layer.split(" | ")]
    assert sorted(listed) == sorted({part_of(path) for path in FILES})


def test_what_is_loaded_late_goes_up_too_but_for_what_is_named():
    found = {(part_of(path), imported_part(module)) for path in FILES for module in late_imports(path)}
    against = {(here, part) for here, part in found if part not in (None, here) and HEIGHT[part] >= HEIGHT[here]}
    assert against == WHEN_ASKED


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_up_only(path):
    source = path.read_text()
    assert len(source.splitlines()) <= 600, "one idea a file: split it by ideas"
    here = part_of(path)
    for module in imports(path):
        assert not module.startswith("."), f"{here} imports {module}: say it with icvi_jax in front"
        part = imported_part(module)
        if part not in (None, here):
            assert HEIGHT[part] < HEIGHT[here], f"{here} imports {module}, which is not below it"
        if here in ("numerics", "statistics", "indices", "clusterers", "monitors"):
            assert module.split(".")[0] != "jax", f"{here} is for any array library, and imports {module}"
    names = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    assert "hasattr" not in names
    assert "Any" not in names or here in ("array_api", "spec", "watch"), "what has no better type is named in array_api"


def test_importing_the_package_starts_no_device_and_needs_no_extra():
    code = """
import sys
import icvi_jax
import jax._src.xla_bridge as bridge
assert not bridge.backends_are_initialized(), "importing icvi_jax started a JAX backend"
heavy = {"torch", "matplotlib", "duckdb", "cyclopts", "rich", "pandas", "river", "sklearn", "optax", "chex"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
