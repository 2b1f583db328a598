"""What a new contributor does: copy a skeleton, write a formula, add one line. No other edit is needed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SKELETON = ROOT / "docs" / "howto" / "skeleton"
PARTS = {"index": ("indices", "Index"), "clusterer": ("clusterers", "Clusterer"), "monitor": ("monitors", "Monitor")}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the project with one more index, clusterer and monitor, and the index of the documentation."""
    place = tmp_path_factory.mktemp("contributor")
    hidden = shutil.ignore_patterns("__pycache__", "_build", ".*cache", "data")
    for name in ("icvi_jax", "tests", "docs", "notebooks"):
        shutil.copytree(ROOT / name, place / name, ignore=hidden)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, place)
    for kind, (folder, base) in PARTS.items():
        text = (SKELETON / f"{kind}.py").read_text()
        text = text.replace(f"Skeleton{base}", f"Fresh{base}").replace("skeleton", "fresh").replace("Skeleton", "Fresh")
        (place / "icvi_jax" / folder / "fresh.py").write_text(text)
        with open(place / "icvi_jax" / folder / "listing.py", "a") as listing:
            listing.write(f"from icvi_jax.{folder}.fresh import Fresh{base} as Fresh{base}\n")
    page = (ROOT / "docs" / "howto" / "own_index.md").read_text()
    lines = re.search(r"```python\n(.*?)```", page, re.S)[1].splitlines()
    code = [line[4:] for line in lines if line.startswith((">>> ", "... ")) or line == "..."]
    (place / "icvi_jax" / "indices" / "widest.py").write_text(
        "\n".join(code[: code.index("from icvi_jax.testing import check_index")])
    )
    with open(place / "icvi_jax" / "indices" / "listing.py", "a") as listing:
        listing.write("from icvi_jax.indices.widest import WidestGap as WidestGap\n")
    return place


def ran(tree, *command):
    """Exit code and output of a command, in the copy."""
    env = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run([sys.executable, *command], cwd=tree, env=env, capture_output=True, text=True, timeout=900)
    return done.returncode, done.stdout + done.stderr


def test_all_laws_and_catalogues_are_green(tree):
    chosen = "numpy and not separate and (test_indices or fresh or Fresh) or Catalogue or catalogue or imports"
    files = ("test_laws.py", "test_indices.py", "test_clusterers.py", "test_readme.py", "test_architecture.py")
    code, said = ran(tree, "-m", "pytest", "-n", "0", "-vv", "-k", chosen, *(f"tests/{name}" for name in files))
    assert code == 0, said[-4000:]
    assert re.search(r"\[fresh \d", said) and "FreshMonitor" in said and "test_indices[numpy" in said


SITE = """
import sys
sys.path.insert(0, "docs")
import conf
for page in ("concepts/indices", "api/indices", "api/clusterers", "api/monitors"):
    text = [open(f"docs/{page}.md").read()]
    conf.from_listings(None, page, text)
    print(text[0])
"""


def test_the_documentation_has_them(tree):
    code, said = ran(tree, "-c", SITE)
    assert code == 0, said
    for entry in ("| `fresh` | FreshIndex |", "| `wg` | WidestGap |"):
        assert entry in said
    for name in ("FreshIndex", "WidestGap", "FreshClusterer", "FreshMonitor"):
        assert f".. autoclass:: icvi_jax.{name}" in said


@pytest.mark.parametrize(
    "command",
    [("indices", "fresh"), ("clusterers", "fresh"), ("monitors", "fresh-monitor")],
    ids=lambda pair: pair[0],
)
def test_the_command_lists_them(tree, command):
    pytest.importorskip("cyclopts")
    code, said = ran(tree, "-m", "icvi_jax.cli", command[0])
    assert code == 0 and command[1] in said, said


def test_the_command_runs_them(tree):
    pytest.importorskip("duckdb")
    options = ("--index", "fresh", "wg", "--clusterer", "fresh", "--monitor", "fresh-monitor", "--out", "out")
    code, said = ran(tree, "-m", "icvi_jax.cli", "run", "s1", *options)
    assert code == 0 and (tree / "out" / "report.html").is_file(), said
    head = (tree / "out" / "readings.csv").read_text().splitlines()[0]
    assert "fresh" in head and "wg" in head
