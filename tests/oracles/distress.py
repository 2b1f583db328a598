"""Distress as a plain state machine, written from docs/reference/definitions.md alone."""

from math import exp, expm1, inf, isfinite, log, nan, sqrt

import numpy as np

B = 15


def clip(a, c):
    return min(max(a, -c), c)


def badness(value, goal, signed):
    """y of an index value, NaN where there is none."""
    if not isfinite(value) or (not signed and value <= 0):
        return nan
    y = value if signed else log(value)
    return y if goal == "min" else -y


def distress(
    values, goal="min", *, signed=False, factor=6, width=2.5, patience=100, memory=100, warm=50, back=0.5,
    false_alarms=None,
):  # fmt: skip
    """Code, score, p and standing after each value of an index; NaN: there is none."""
    n, m, s, spike, stands, lowest, top = 0, 0.0, 0.0, False, False, inf, -inf
    age = since = 0
    peak = home = 0.0
    learned = false_alarms is not None
    tail_n, mu, spread, kappa, ready, count, largest = 4, 0.6, 0.4, 0.0, True, 0, -inf
    score = 0.0
    out = []

    def learn_tail(e):
        nonlocal tail_n, mu, spread
        tail_n += 1
        g = max(1 / tail_n, 1 / 200)
        mu += g * e
        spread = sqrt((1 - g) * (spread**2 + g * e * e))

    for value in values:
        y = badness(value, goal, signed)
        code, p = 0, nan
        if isfinite(y):
            eps = 1e-5 * max(abs(m), abs(y)) if signed else 1e-5
            c = max(s, eps)
            f = factor * c if signed else log(factor)
            theta = max((0 if signed else 0.2) if stands else f, width * c)
            if signed and s <= eps:
                theta = inf
            before = m
            if learned:
                least = eps if signed else 0.1
                scale = 0.7797 * max(spread, least) * (1 + 2 / tail_n)
                quantile = max(least, mu - scale * (log(-log(1 - false_alarms * B)) + 0.5772))
                t = 0.6 if stands else 0.5 + kappa
                theta = min(max(1, t) * quantile, max(theta, t * quantile))
                if tail_n >= 6:
                    p = -expm1(-exp(min(-(y - m - mu) / scale - 0.5772, 700)))
            stood, was = stands, stands or spike
            if spike:
                age, peak = age + 1, max(peak, y)
                if y - m <= back * min(peak - m, theta):
                    spike, code = False, 0 if stands else 2
                    if learned and age < 35:
                        learn_tail(min(peak - m - mu, 6 * spread))
                        kappa = kappa if stands else min(1.5, kappa + 0.4)
                elif age >= patience:
                    spike, code = False, 3
                    home, stands = home if stands else m, True
                    top, n, m = max(top, y), 10, y
            elif n >= warm and y - m > theta and (not learned or tail_n >= 6 and ready):
                spike, code, age, peak = True, 1, 0, y
                ready, count, largest = False, 0, -inf
            else:
                if learned and n >= warm:
                    count += 1
                    if ready:
                        largest = max(largest, y - m)
                    if count == B:
                        if largest > -inf:
                            learn_tail(clip(max(largest, mu - 1.5 * spread) - mu, 6 * spread))
                        kappa = max(0, kappa - 0.4 * false_alarms * B)
                        ready, count, largest = True, 0, -inf
                if s <= eps and n >= 10 and abs(y - m) > 3 * eps:
                    n = 0
                if n == 0:
                    m = y
                e = y - m
                r = abs(e) if n < 10 else 3 * c
                g = max(1 / (n + 1), 1 / memory)
                m += g * clip(e, r)
                s += g * (1.2533 * min(abs(e), r) - s)
                n += 1
                if not stands and n >= warm:
                    lowest = min(lowest, m)
                    if m - lowest >= 2 * f and m > lowest:
                        stands, code, home, top = True, 3, lowest, max(top, y)
                if stood and y - home <= back * (top - home):
                    stands, code, top, lowest = False, 2, -inf, inf
            since = since + 1 if was and (stands or spike) else 0
            scale = theta if learned else f
            base = home if stands else before
            score = max(0, y - base) / (scale or 1) * (1 + since / patience) if spike or stands else 0.0
        out.append((code, score, p, stands))
    return dict(zip(("code", "score", "p", "standing"), map(np.array, zip(*out, strict=True)), strict=True))
