"""Error codes: what a station writes where it has no reading, such as −9999 or 65535.

A value is a code if it is one of the usual ones *and* far from what the column of its node read before: 999 is a
pressure in hPa and an error of a thermometer. Only the past counts, so that a recording and a live stream are read
alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

FILLS = frozenset((1e20, 9.969209968386869e36, 3.4028234663852886e38))
"""Numbers too large for any reading, which are missing in either sign; the exact ones of float32 come as such."""

SURE = frozenset((-9999.0, -99999.0, -999.0, -9999.9, -999.9, -999.99, -2147483648.0, 2147483647.0, 4294967295.0))
"""Codes that no sensor measures: missing even where nothing is known of the column yet."""

LIKELY = frozenset(
    (9999.0, 99999.0, 999.0, 999.9, 9999.9, -99.9, -99.0, 65535.0, 65534.0, 32767.0, -32768.0, 85.0, -127.0)
)
"""Codes that are readings elsewhere: missing where they are far from the readings before them."""

CODES = SURE | LIKELY
PAST, LEAST, FAR, ROBUST = 60, 8, 10.0, 1.4826
"""Readings that show what is usual, how many are needed, and how many standard deviations are far."""


def is_code(value: float, past: NDArray[np.float64]) -> bool:
    """Whether a value is an error code, given the readings of its column before it (codes are not readings).

    Examples
    --------
    >>> warm = np.array([20.1, 20.3, 20.2, 19.9, 20.0, 20.2, 20.1, 20.0, 19.8])
    >>> is_code(85.0, warm), is_code(85.0, warm + 64), is_code(-9999.0, warm[:0])
    (True, False, True)
    """
    if value not in CODES:
        return False
    known = past[np.isfinite(past)][-PAST:]
    if known.size < LEAST:
        return value in SURE
    middle = float(np.median(known))
    spread = ROBUST * float(np.median(np.abs(known - middle)))
    return abs(value - middle) > FAR * max(spread, 1e-3 * abs(middle), 1e-9)


def clear_codes(x: NDArray[np.float64]) -> list[dict[float, int]]:
    """Make the codes in x (rows of one node, p) missing, in place; returns how often each came, by column."""
    found: list[dict[float, int]] = []
    for column in x.T:
        counts: dict[float, int] = {}
        for row in np.flatnonzero(np.isin(column, list(CODES))).tolist():
            start = row
            known = 0
            while start > 0 and known < PAST:  # codes before this row are missing already
                start = max(0, start - PAST)
                known = int(np.isfinite(column[start:row]).sum())
            if is_code(float(column[row]), column[start:row]):
                counts[float(column[row])] = counts.get(float(column[row]), 0) + 1
                column[row] = np.nan
        found.append(counts)
    return found


def code_notes(features: Sequence[str], found: Sequence[Sequence[dict[float, int]]]) -> list[str]:
    """A sentence for each column with codes; `found` has the counts of each node."""
    notes = []
    for j, name in enumerate(features):
        total: dict[float, int] = {}
        for node in found:
            for value, count in node[j].items():
                total[value] = total.get(value, 0) + count
        if total:
            codes = ", ".join(f"{value:.10g} ({count:,}×)" for value, count in sorted(total.items()))
            notes.append(f"error codes in {name!r} are taken as missing: {codes}; --keep-codes keeps them")
    return notes
