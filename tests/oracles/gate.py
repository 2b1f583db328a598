"""The gate before a clusterer, row by row, from docs/reference/definitions.md."""

import math

import numpy as np


def med3(values):
    return sorted(values)[1]


def gate(rows):
    """What becomes of each row (T, p): "used", "missing", "anew" where everything begins, or "anew, missing"."""
    said, first, low, high, b = [], [], None, None, 0
    for row in np.asarray(rows, float).tolist():
        if not all(map(math.isfinite, row)):
            said.append("missing")
            continue
        if len(first) < 9:
            first.append(row)
            said.append("used")
            if len(first) == 9:
                codes = [judge([one[j] for one in first]) for j in range(len(row))]
                low = [min(one[j] for i, one in enumerate(first) if i not in codes[j]) for j in range(len(row))]
                high = [max(one[j] for i, one in enumerate(first) if i not in codes[j]) for j in range(len(row))]
                if any(codes):
                    said[-1] = "anew, missing" if any(8 in some for some in codes) else "anew"
            continue
        suspect = False
        for x, bottom, top in zip(row, low, high):
            if top > bottom and (x > top + 50 * (top - bottom) or x < bottom - 50 * (top - bottom)):
                suspect = True
        b = b + 10 if suspect else max(b - 1, 0)
        if suspect and b < 50:
            said.append("missing")
            continue
        if suspect:
            b = 0
        said.append("used")
        low, high = list(map(min, low, row)), list(map(max, high, row))
    return said


def judge(v):
    """Which of the first nine values of a column are codes."""
    groups = [[v[j], v[j + 3], v[j + 6]] for j in range(3)]
    c = med3([med3(group) for group in groups])
    r = max(med3([abs(x - c) for x in group]) for group in groups)
    return {i for i, x in enumerate(v) if r > 0 and abs(x - c) > 50 * r}
