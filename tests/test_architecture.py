"""The folder list is the architecture: imports go up only, and each file is short."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "icvi_jax"
FILES = sorted(PACKAGE.rglob("*.py"))
LAYERS = (
    "array_api", "exports", "kernels", "types", "spec", "forgetting", "named", "anchor", "gate", "norm", "statistics",
    "indices", "clusterers", "monitors", "standardize", "panel", "pipeline_state", "pipeline",
)  # fmt: skip
"""From the bottom up; a file may import from its own layer and those before it."""


def imports(path):
    """Modules a file imports when it is loaded."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "icvi_jax":
            yield from (f"icvi_jax.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def layer(module):
    part = module.split(".")[1] if module.startswith("icvi_jax.") else None
    return LAYERS.index(part) if part in LAYERS else None


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_up_only_and_files_are_short(path):
    source = path.read_text()
    assert len(source.splitlines()) <= 250
    here = path.relative_to(PACKAGE).with_suffix("").parts[0]
    for module in imports(path):
        if here in LAYERS and module.startswith("icvi_jax"):
            assert layer(module) is not None, f"{here} imports {module}, which is above it"
            assert layer(module) <= LAYERS.index(here), f"{here} imports {module}, which is above it"
        if here in ("kernels", "statistics", "indices", "clusterers", "monitors"):
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
