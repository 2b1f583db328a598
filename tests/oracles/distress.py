"""The signal monitor of an index series as a plain state machine."""

import math

import numpy as np


def distress(values, goal="min", factor=6, width=2.5, patience=100, memory=100, warm=50, back=0.5):
    """Codes and standing distress of a series of values of a positive index.

    Parameters
    ----------
    values : array (n,)
        NaN, infinite and non-positive values are skipped: code 0, and nothing changes.
    goal : {"min", "max"}
    factor, width, patience, memory, warm, back : float

    Returns
    -------
    codes : int array (n,)
        0 quiet, 1 spike, 2 recovered, 3 distress.
    standing : bool array (n,)
        Whether distress stands after each sample.
    """
    if goal not in ("min", "max"):
        raise ValueError(f"unknown goal {goal!r}")
    codes, stands = np.zeros(len(values), dtype=int), np.zeros(len(values), dtype=bool)
    n, m, s = 0, 0.0, 0.0  # samples learned from, level, spread
    watching, base, peak, thr, age = False, 0.0, 0.0, 0.0, 0
    standing, home, top, lowest = False, 0.0, -math.inf, math.inf
    for t, value in enumerate(values):
        if not (math.isfinite(value) and value > 0):
            stands[t] = standing
            continue
        y = math.log(value) if goal == "min" else -math.log(value)
        code = 0
        if watching:
            age += 1
            peak = max(peak, y)
            if y - base <= back * min(peak - base, thr):
                # The sample that ends the episode is not learned from: the level belongs to what came before.
                watching = False
                code = 0 if standing else 2
            elif age >= patience:
                code = 3
                if not standing:
                    home = base
                top = max(top, y)
                standing, watching = True, False
                m, n = y, 10  # relearn the level here; the spread is kept
        else:
            floor = 0.2 if standing else math.log(factor)
            limit = max(floor, width * s)
            if n >= warm and y - m > limit:
                code = 1
                watching, base, peak, thr, age = True, m, y, limit, 0
            else:
                if n == 0:
                    m = y  # the first sample is the level, so that the spread starts at zero
                gain = max(1 / (n + 1), 1 / memory)
                gap = y - m  # one residual for both updates
                if n < 10:
                    m, s = m + gain * gap, s + gain * (1.2533 * abs(gap) - s)
                else:
                    held = max(-3 * s, min(3 * s, gap))
                    m, s = m + gain * held, s + gain * (1.2533 * min(abs(gap), 3 * s) - s)
                n += 1
                if not standing and n >= warm:  # in warm-up the level swings by decades: no creep from there
                    lowest = min(lowest, m)
                    if m - lowest >= 2 * math.log(factor):
                        code = 3
                        standing, home, top = True, lowest, max(top, y)
                elif standing and y - home <= back * (top - home):
                    code = 2
                    # The next distress has its own lowest level and its own top.
                    standing, top, lowest = False, -math.inf, math.inf
        codes[t], stands[t] = code, standing
    return codes, stands
