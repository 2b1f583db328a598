r"""Quantiles of the χ² distribution, for plain Python numbers: not all array libraries have them.

With p degrees of freedom the tail is a finite sum, with y = x/2:

.. math:: P(χ²_p > x) = Σ_a e^{−y} y^a / Γ(a + 1) \quad (+ \mathrm{erfc}\sqrt{y}\ \mathrm{for\ odd\ } p),

where a = 0, 1, …, p/2 − 1 for even p and a = 1/2, 3/2, …, p/2 − 1 for odd p.
"""

from __future__ import annotations

import math
from functools import lru_cache


def tail(x: float, p: int) -> float:
    """P(χ²_p > x).

    Examples
    --------
    >>> round(tail(9.21034, 2), 6)
    0.01
    """
    if x <= 0:
        return 1.0
    y = x / 2
    start = (p % 2) / 2
    terms = (math.exp(a * math.log(y) - y - math.lgamma(a + 1)) for a in (start + i for i in range(p // 2)))
    return math.fsum((math.erfc(math.sqrt(y)) if p % 2 else 0.0, *terms))


@lru_cache(maxsize=256)
def quantile(level: float, p: int) -> float:
    """The x with P(χ²_p ≤ x) = level.

    Parameters
    ----------
    level : in (0, 1).
    p : degrees of freedom, at least 1.

    Examples
    --------
    >>> round(quantile(0.99, 2), 6), round(quantile(0.999, 11), 6)
    (9.21034, 31.264134)
    """
    low, high = 0.0, 1.0
    while tail(high, p) > 1 - level:
        low, high = high, 2 * high
    while True:  # bisection always works, and this runs once per level
        middle = (low + high) / 2
        if not low < middle < high:
            return middle
        if tail(middle, p) > 1 - level:
            low = middle
        else:
            high = middle
