"""The notebooks run from top to bottom, small; and the claims on recordings where the files are given."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
NEEDED = ("jupytext", "nbclient", "ipykernel", "matplotlib", "optax", "river", "sklearn")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
NOTEBOOKS = ("paper", "fleet", "embedding", "choosing", "your_own")
SMALL = {"ICVI_NOTEBOOK_SEEDS": "3", "ICVI_NOTEBOOK_NODES": "300", "ICVI_NOTEBOOK_STEPS": "3"}

pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"needs the extra notebooks: {', '.join(MISSING)} not installed"),
    pytest.mark.filterwarnings("default"),  # the warnings of jupyter's own libraries are not ours
]


@pytest.fixture
def folder(monkeypatch):
    if not FOLDER.is_dir():
        pytest.skip("the notebooks are not part of this installation")
    monkeypatch.syspath_prepend(str(FOLDER))
    return FOLDER


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_runs(name, folder, monkeypatch):
    import jupytext
    import nbclient

    for variable, value in {**SMALL, "OMP_NUM_THREADS": "1"}.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.delenv("MPLBACKEND", raising=False)  # a notebook draws inline
    monkeypatch.delenv("ICVI_NOTEBOOK_FIGURES", raising=False)
    book = jupytext.read(folder / f"{name}.py")
    assert not any(cell.get("outputs") for cell in book.cells), "no outputs are stored"
    here = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(book, timeout=1800, kernel_name="python3", resources=here).execute()
    shown = [out for cell in book.cells for out in cell.get("outputs", [])]
    assert sum("image/png" in out.get("data", {}) for out in shown) >= 1
    said = [out.text for out in shown if out.output_type == "stream" and out.name == "stderr"]
    assert not any("Warning" in text for text in said), said
    if name == "paper":
        table = next(out.data["text/markdown"] for out in shown if "text/markdown" in out.get("data", {}))
        assert table.count("| **") == 13 and table.count("**not run**") == 2 and "nan" not in table


def test_every_notebook_is_listed(folder):
    books = {path.stem for path in folder.glob("*.py") if "# %%" in path.read_text(encoding="utf-8")}
    assert books == set(NOTEBOOKS)
    assert not list(folder.glob("*.ipynb")), "notebooks are kept as text"


def test_figures_of_the_readme_are_small(folder):
    figures = list((folder / "figures").glob("*.png"))
    assert len(figures) == 2
    for figure in figures:
        assert figure.stat().st_size < 150_000, f"{figure.name} has {figure.stat().st_size} bytes"


def test_claims_on_recordings(folder, tmp_path, monkeypatch):
    import claims_recorded as claims
    import recordings

    monkeypatch.setattr(claims, "CAPACITY", 4)
    monkeypatch.setattr(recordings, "FOLDER", tmp_path)  # the small simulated recordings on every machine
    assert recordings.weather().changes == [864, 1008, 1296]
    assert recordings.gas().changes == [75, 150, 225] and recordings.nodes()[0].shape == (12, 2016, 2)
    (tmp_path / "meteo.txt").write_text(recordings._meteo())
    (tmp_path / "gas.txt").write_text(recordings._gas())
    weather = claims.le_genepi("LG", tmp_path / "meteo.txt")
    assert weather.verdict in ("holds", "partly", "fails") and "of 2 with oec" in weather.measured
    gas = claims.gas("GSA", tmp_path / "gas.txt", 0, 30)
    assert gas.verdict in ("holds", "partly", "fails") and "median XB_λ" in gas.measured
    assert "claims_recorded" in sys.modules and os.path.dirname(claims.__file__) == str(folder)
