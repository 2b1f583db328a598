"""Stuck, value by value, written from docs/reference/definitions.md alone."""

from math import log10

import numpy as np


def stuck(X, false_alarms=1e-6, least=10, warm=100):
    X = np.asarray(X, float)
    width = X.shape[1]
    past = [[] for _ in range(width)]  # of each column: is the value a repeat?
    last, told = [None] * width, [False] * width
    out = []
    for row in X:
        chances, alarms = [1.0], []
        for j, x in enumerate(row):
            if not abs(x) <= 1e15:
                continue
            past[j].append(last[j] is not None and x == last[j])
            last[j] = x
            run = longest = r = 0
            while r < len(past[j]) and past[j][len(past[j]) - 1 - r]:
                r += 1
            n = len(past[j]) - r
            for repeat in past[j][:n]:
                run = run + 1 if repeat else 0
                longest = max(longest, run)
            chance = ((sum(past[j][:n]) + 1) / (n + 2)) ** r
            told[j] = told[j] and r > 0
            chances.append(width * chance)
            if not told[j] and width * chance < false_alarms and r >= 2 * longest + least and n >= warm:
                told[j] = True
                alarms.append((chance, j))
        if alarms:
            p = width * min(alarms)[0]
            out.append((1, min(alarms)[1], p, -log10(p)))
        else:
            out.append((0, -1, min(chances), 0.0))
    return dict(zip(("code", "cause", "p", "score"), map(np.array, zip(*out, strict=True)), strict=True))
