"""The reason of an alarm for people: which reading has moved, from where, to where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

BEFORE, FEW, FAR = 60, 8, 4.0
"""How many samples show what is usual, how many are needed at least, and how far from their median is unusual."""
ROBUST = 1.4826


def moved(x: NDArray[np.float64], features: Sequence[str], units: Mapping[str, str]) -> str:
    """Which reading of the last sample of x (n, p) is furthest from what was usual before; empty if none is far.

    Usual is the median, and distances are in median absolute deviations: a single extreme sample changes neither.

    Examples
    --------
    >>> x = np.array([[20.0, 3.1], [20.5, 3.0], [19.5, 3.2]] * 5 + [[26.0, 3.1]])
    >>> moved(x, ["celsius", "bar"], {"celsius": "°C"})
    'celsius is 26 °C, usually about 20 °C'
    """
    past, last = x[-BEFORE - 1 : -1], x[-1]
    if np.isfinite(past).sum(axis=0).min(initial=len(past)) < FEW:
        return ""
    middle = np.nanmedian(past, axis=0)
    spread = ROBUST * np.nanmedian(np.abs(past - middle), axis=0)
    far = np.nan_to_num(np.abs(last - middle) / np.maximum(spread, 1e-9 * np.maximum(1, np.abs(middle))))
    column = int(np.argmax(far))
    if far[column] < FAR:
        return ""
    unit = f" {units[features[column]]}" if features[column] in units else ""
    return f"{features[column]} is {last[column]:.4g}{unit}, usually about {middle[column]:.4g}{unit}"
