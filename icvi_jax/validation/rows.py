"""Rows: a recorded clustering on the host, in pieces, one row of numbers per sample."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

PIECE = 2**22
"""Numbers in one piece."""


class Rows:
    """A recording cut into lanes, stretches of time that are computed in parallel; one lane is the full recording.

    Parameters
    ----------
    parts : arrays (T, n), side by side in a row.
    origin : (columns,), subtracted from every row when it is used.
    elapsed : (T,) or None.
    lanes : how many stretches; if T is not divisible, the last ends with missing samples.
    """

    def __init__(self, parts: list[np.ndarray], origin: np.ndarray, elapsed: np.ndarray | None, lanes: int = 1) -> None:
        self._parts, self._elapsed, self.lanes = parts, elapsed, lanes
        self.samples = len(parts[0])
        self.length = -(-self.samples // lanes)
        self.origin = np.tile(origin, (lanes, 1))
        self.columns, self.timed = len(origin), elapsed is not None
        self._dtype = np.result_type(np.float32, *(a.dtype for a in parts if a.dtype.kind == "f"))

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """Pieces (lanes, t, columns) in order of time, with elapsed times (lanes, t) or None."""
        size = max(1, PIECE // (self.lanes * self.columns))
        for lo in range(0, self.length, size):
            hi = min(lo + size, self.length)
            piece, at = np.empty((self.lanes, hi - lo, self.columns), self._dtype), 0
            for part in self._parts:
                self._fill(piece[..., at : at + part.shape[1]], part, lo, hi, np.nan)
                at += part.shape[1]
            gaps = None
            if self._elapsed is not None:
                gaps = np.empty((self.lanes, hi - lo))
                self._fill(gaps, self._elapsed, lo, hi, 1.0)
            yield piece, gaps

    def joined(self, pieces: list[np.ndarray]) -> np.ndarray:
        """Outputs (lanes, t) of all pieces as (T,)."""
        return np.concatenate(pieces, axis=1).reshape(-1)[: self.samples]

    def _fill(self, to: np.ndarray, part: np.ndarray, lo: int, hi: int, missing: float) -> None:
        for lane in range(self.lanes):
            start = lane * self.length
            here = part[min(start + lo, self.samples) : min(start + hi, self.samples)]
            to[lane, : len(here)] = here
            to[lane, len(here) :] = missing
