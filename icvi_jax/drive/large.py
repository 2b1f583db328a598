"""Samples that are too large to be squared and summed: they count as missing, and a warning says so."""

from __future__ import annotations

import warnings

import numpy as np

from icvi_jax.kernels.arrays import reach

BLOCK = 1 << 18
"""Bytes to look at in one go: they stay in the cache of a processor."""


class Large:
    """Finds the values that are finite and beyond reach, and warns once.

    Parameters
    ----------
    caller : the function that a user called.
    dtype : of the state: single precision reaches less far.
    """

    def __init__(self, caller: str, dtype: np.dtype) -> None:
        self._caller, self._limit, self._fleet = caller, reach(dtype, np), caller == "run_fleet"
        self._count = self._rows = 0
        self._first: tuple[int, int, int, float] | None = None

    def see(self, X: np.ndarray, among: np.ndarray | None = None) -> None:
        """Look at X (N, T, p), the samples that come next, or only at the streams `among` (N,) them."""
        step = max(1, BLOCK // max(1, X[0].nbytes))
        for start in range(0, len(X), step):
            part = slice(start, start + step)
            if among is None or among[part].any():
                self._look(X[part], start)
        self._rows += X.shape[1]

    def _look(self, X: np.ndarray, stream: int) -> None:
        # Two passes without memory of their own: a mask would cost four times as much, and is hardly ever needed.
        if np.fmax.reduce(X, axis=None) <= self._limit and np.fmin.reduce(X, axis=None) >= -self._limit:
            return
        places = np.argwhere(np.isfinite(X) & (np.abs(X) > self._limit))
        if len(places):
            self._count += len(places)
            row, which, column = min((row, which, column) for which, row, column in places.tolist())
            found = self._rows + row, stream + which, column, float(X[which, row, column])
            self._first = min(self._first, found) if self._first else found

    def tell(self, level: int = 3) -> None:
        """Warn, if there were any; `level` is the number of calls up to that of the user."""
        if self._first is not None:
            row, stream, column, value = self._first
            of = f" of stream {stream}" if self._fleet else ""
            many = "1 value is" if self._count == 1 else f"{self._count:,} values are"
            warnings.warn(
                f"{self._caller}: {many} beyond {self._limit:g} and count as missing, since their squares would "
                f"overflow; the first is {value:.3g}, in row {row}, column {column}{of}. Subtract an offset or use a "
                f"larger unit",
                UserWarning,
                stacklevel=level,
            )
