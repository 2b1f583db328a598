"""Distress, plain and with a learned threshold: from docs/reference/definitions.md alone, one value at a time."""

import math

import numpy as np


def clip(a, c):
    return min(max(a, -c), c)


class Tail:
    """Block maxima of d: n, mean, variance."""

    def __init__(self):
        self.n, self.mu, self.s = 4, 0.6, 0.4

    def learn(self, e):
        self.n += 1
        g = max(1 / self.n, 1 / 200)
        self.mu, self.s = self.mu + g * e, math.sqrt((1 - g) * (self.s**2 + g * e**2))

    def scale(self, floor):
        return 0.7797 * max(self.s, floor) * (1 + 2 / self.n)


class Distress:
    """``step(value)`` is (code, score, p, standing) of one value of an index, NaN where there is none."""

    BLOCK = 15

    def __init__(self, sign, signed, factor, width, patience, memory, warm, back, rate):
        self.sign, self.signed = sign, signed
        self.factor, self.width, self.patience, self.memory = factor, width, patience, memory
        self.warm, self.back, self.rate = warm, back, rate
        self.n, self.m, self.s = 0, 0.0, 0.0
        self.spike = self.distress = False
        self.age, self.peak, self.home = 0, 0.0, 0.0
        self.lowest, self.top = math.inf, -math.inf
        self.tail, self.kappa, self.ready, self.block = Tail(), 0.0, True, []
        self.since, self.score = -1, 0.0
        self.previous = None

    def replaced(self):
        """Every cluster was born at the sample that comes."""
        if self.rate is not None:
            self.n, self.lowest = 0, math.inf

    def step(self, value):
        if not math.isfinite(value) or (not self.signed and value <= 0):
            return 0, self.score, math.nan, self.distress
        y = self.sign * (value if self.signed else math.log(value))
        learned = self.rate is not None
        eps = 1e-5 * max(abs(self.m), abs(y)) if self.signed else 1e-5
        c = max(self.s, eps)
        f = self.factor * c if self.signed else math.log(self.factor)
        a = (0.0 if self.signed else 0.2) if self.distress else f
        theta = math.inf if self.signed and self.s <= eps else max(a, self.width * c)
        d, p = y - self.m, math.nan
        phi = eps if self.signed else 0.1
        if learned:
            tail = self.tail
            gumbel = math.log(-math.log(1 - self.rate * self.BLOCK)) + 0.5772
            height = max(phi, tail.mu - tail.scale(phi) * gumbel)
            t = 0.6 if self.distress else 0.5 + self.kappa
            theta = min(max(1.0, t) * height, max(theta, t * height))
            if tail.n >= 6:
                b = -(d - tail.mu) / tail.scale(phi) - 0.5772
                p = -math.expm1(-math.exp(b)) if b < 700 else 1.0
        fits = True
        if learned:
            agree = self.previous is not None and self.previous - self.m >= 0.95 * theta and y >= self.previous
            fits = tail.n >= 6 and self.ready and (agree or d > 1.5 * max(1.0, t) * height)
        self.previous = y
        before, code = self.distress, 0
        if self.spike:
            code = self.watch(y, d, theta, before)
        elif self.n >= self.warm and d > theta and fits:
            code, self.spike, self.age, self.peak = 1, True, 0, y
            self.ready, self.block = False, []
        else:
            warm = self.n >= self.warm
            code = self.learn(y, eps, c, f, before)
            if learned and warm:
                self.quiet(d)
        if self.spike or self.distress:
            self.since += 1
            over = max(0.0, y - (self.home if self.distress else self.m))
            unit = (theta or 1.0) if learned else f
            self.score = over / unit * (1 + self.since / self.patience)
        else:
            self.since, self.score = -1, 0.0
        return code, self.score, p, self.distress

    def watch(self, y, d, theta, before):
        self.age += 1
        self.peak = max(self.peak, y)
        if d <= self.back * min(self.peak - self.m, theta):
            self.spike = False
            if self.rate is not None and self.age < 35:
                self.tail.learn(min(self.peak - self.m - self.tail.mu, 6 * self.tail.s))
                if not before:
                    self.kappa = min(1.5, self.kappa + 0.4)
            return 0 if before else 2
        if self.age >= self.patience:
            self.spike, self.distress = False, True
            self.home = self.home if before else self.m
            self.top, self.n, self.m = max(self.top, y), 10, y
            return 3
        return 0

    def learn(self, y, eps, c, f, before):
        if self.s <= eps and self.n >= 10 and abs(y - self.m) > 3 * eps:
            self.n = 0
        if self.n == 0:
            self.m = y
        e = y - self.m
        r = abs(e) if self.n < 10 else 3 * c
        g = max(1 / (self.n + 1), 1 / self.memory)
        self.m += g * clip(e, r)
        self.s += g * (1.2533 * min(abs(e), r) - self.s)
        self.n += 1
        if not before and self.n >= self.warm:
            self.lowest = min(self.lowest, self.m)
            if self.m - self.lowest >= 2 * f and self.m > self.lowest:
                self.distress, self.home, self.top = True, self.lowest, max(self.top, y)
                return 3
        if before and y - self.home <= self.back * (self.top - self.home):
            self.distress, self.top, self.lowest = False, -math.inf, math.inf
            return 2
        return 0

    def quiet(self, d):
        tail = self.tail
        self.block.append(d)
        if len(self.block) == self.BLOCK:
            if self.ready:
                tail.learn(clip(max(max(self.block), tail.mu - 1.5 * tail.s) - tail.mu, 6 * tail.s))
            self.kappa = max(0.0, self.kappa - 0.4 * self.rate * self.BLOCK)
            self.ready, self.block = True, []


def distress(
    values, goal="min", *, signed=False, factor=6, width=2.5, patience=100, memory=100, warm=50, back=0.5,
    false_alarms=None, replaced=None,
):  # fmt: skip
    """Codes, scores, p and standing along the values of an index; every cluster is born at samples with `replaced`."""
    one = Distress(1 if goal == "min" else -1, signed, factor, width, patience, memory, warm, back, false_alarms)
    found = []
    for value, anew in zip(values, np.zeros(len(values), bool) if replaced is None else replaced):
        if anew:
            one.replaced()
        found.append(one.step(value))
    parts = zip(*found, strict=True)
    return dict(zip(("code", "score", "p", "standing"), map(np.array, parts), strict=True))
