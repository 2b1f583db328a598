"""The gate before a clusterer, row by row, written from docs/reference/definitions.md alone."""

from math import inf

import numpy as np


def gate(X):
    """(rows that count, whether all begins anew at the ninth row that is not missing, that row)."""
    X = np.asarray(X, float)
    counts, rows, anew, ninth, burst = np.zeros(len(X), bool), [], False, None, 0
    for t, x in enumerate(X):
        if not np.all(abs(x) <= 1e15):
            continue
        rows.append(x)
        if len(rows) < 9:
            counts[t] = True
        elif len(rows) == 9:
            nine, ninth = np.array(rows), t
            groups = [nine[j::3] for j in range(3)]
            c = np.median([np.median(g, axis=0) for g in groups], axis=0)
            r = np.max([np.median(abs(g - c), axis=0) for g in groups], axis=0)
            codes = (r > 0) & (abs(nine - c) > 50 * r)
            anew, counts[t] = bool(codes.any()), not codes[8].any()
            low = np.where(codes, inf, nine).min(axis=0)
            high = np.where(codes, -inf, nine).max(axis=0)
        else:
            outside = np.maximum(x - high, low - x)
            suspect = bool(((high > low) & (outside > 50 * (high - low))).any())
            burst = burst + 10 if suspect else max(burst - 1, 0)
            counts[t] = not suspect or burst >= 50
            burst = 0 if suspect and counts[t] else burst
            if counts[t]:
                low, high = np.minimum(low, x), np.maximum(high, x)
    return counts, anew, ninth
