"""NPY and NPZ files: arrays saved from Python."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from icvi_jax.tables.table import TableError

SAMPLES = ("X", "x", "data", "samples", "values", "readings")
TIMES = ("times", "time", "time_utc", "timestamp", "timestamps", "t")
NODES = ("nodes", "node", "node_id", "node_ids", "ids", "names")
FEATURES = ("features", "columns", "feature_names", "variables")
LABELS = ("label", "labels", "mode", "y")


def load_arrays(path: Path, shown: str, kind: str) -> dict[str, NDArray[np.generic]]:
    """Load all arrays of an NPZ file, or the one of an NPY file under the name ``X``; Python objects are refused."""
    try:
        if kind == "npy":
            # A memory map compares the size in the header with that of the file before anything is allocated.
            return {"X": np.array(np.load(path, mmap_mode="r", allow_pickle=False))}
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                _check_size(archive, member, shown)
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except TableError:
        raise
    except (
        ValueError,
        OSError,
        EOFError,
        KeyError,
        zipfile.BadZipFile,
        SyntaxError,
        MemoryError,
        RuntimeError,
    ) as error:
        objects = "pickle" in str(error) or "objects" in str(error)
        what = "it holds Python objects, not numbers" if objects else "it is damaged; save it again"
        raise TableError(shown, f"this {kind.upper()} file cannot be read: {what}") from None


def _check_size(archive: zipfile.ZipFile, member: zipfile.ZipInfo, shown: str) -> None:
    """Refuse an array whose header claims more data than the file has."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    if np.prod([float(n) for n in shape]) * dtype.itemsize > member.file_size:
        raise TableError(
            shown, f"array {member.filename!r} claims the shape {shape}, but the file has less data; save it again"
        )


def samples(arrays: dict[str, NDArray[np.generic]], shown: str, ndim: int) -> NDArray[np.float64]:
    """Choose the samples: by name, otherwise the only array with `ndim` dimensions."""
    fitting = [name for name, array in arrays.items() if array.ndim == ndim and array.dtype.kind in "fiub"]
    if ndim == 2 and not fitting:  # a single feature saved as a vector
        vectors = [
            name for name in arrays if name in SAMPLES and arrays[name].ndim == 1 and arrays[name].dtype.kind in "fiu"
        ]
        if vectors:
            return arrays[vectors[0]].astype(np.float64)[:, None]
    named = [name for name in fitting if name in SAMPLES] or fitting
    if len(named) == 1:
        return arrays[named[0]].astype(np.float64)
    has = ", ".join(f"{name} {array.dtype}{list(array.shape)}" for name, array in list(arrays.items())[:12])
    shape = "(rows, features)" if ndim == 2 else "(nodes, steps, features)"
    raise TableError(
        shown, f"expected one array of numbers {shape}, called X if there are several; the file has {has or 'none'}"
    )


def companion(
    arrays: dict[str, NDArray[np.generic]], names: tuple[str, ...], length: int
) -> tuple[str, NDArray[np.generic]] | None:
    """Find a vector of the right length that belongs to the samples."""
    for name in names:
        if name in arrays and arrays[name].shape == (length,):
            return name, arrays[name]
    return None
