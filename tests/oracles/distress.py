"""The signal monitor of an index series as a plain state machine."""

import math

import numpy as np


class Learned:
    """The learned threshold: docs/reference/definitions.md, "Distress, learned threshold"."""

    def __init__(self, rate):
        self.rate, self.n, self.mu, self.square = rate, 4, 0.6, 0.16
        self.kappa, self.ready, self.size, self.block = 0.0, True, 0, []

    def limit(self, plain):
        scale = 0.7797 * max(math.sqrt(self.square), 0.1) * (1 + 2 / self.n)
        alone = max(0.1, self.mu - scale * (math.log(-math.log(1 - 15 * self.rate)) + 0.5772))
        share = 0.5 + self.kappa
        return min(max(1.0, share) * alone, max(plain, share * alone))

    def learn(self, e):
        self.n += 1
        g = max(1 / self.n, 1 / 200)
        self.mu += g * e
        self.square = (1 - g) * (self.square + g * e * e)

    def spike(self):
        self.ready, self.size, self.block = False, 0, []

    def quiet(self, d):
        self.size += 1
        if self.ready:
            self.block.append(d)
        if self.size == 15:
            s = math.sqrt(self.square)
            if self.block:
                e = max(max(self.block), self.mu - 1.5 * s) - self.mu
                self.learn(min(max(e, -6 * s), 6 * s))
            self.kappa = max(0.0, self.kappa - 0.2 * 15 * self.rate)
            self.ready, self.size, self.block = True, 0, []

    def back(self, peak):
        self.learn(min(peak - self.mu, 6 * math.sqrt(self.square)))
        self.kappa = min(1.0, self.kappa + 0.2)


def distress(values, goal="min", factor=6, width=2.5, patience=100, memory=100, warm=50, back=0.5, false_alarms=None):
    """Codes and standing distress of a series of values of a positive index.

    Parameters
    ----------
    values : array (n,)
        NaN, infinite and non-positive values are skipped: code 0, and nothing changes.
    goal : {"min", "max"}
    factor, width, patience, memory, warm, back : float
    false_alarms : float or None
        With a rate the threshold is learned.

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
    learned = None if false_alarms is None else Learned(false_alarms)
    for t, value in enumerate(values):
        if not (math.isfinite(value) and value > 0):
            stands[t] = standing
            continue
        y = math.log(value) if goal == "min" else -math.log(value)
        code = 0
        if watching:
            age += 1
            peak = max(peak, y)
            if learned:
                thr = learned.limit(max(0.2 if standing else math.log(factor), width * s))
            if y - base <= back * min(peak - base, thr):
                # The sample that ends the episode is not learned from: the level belongs to what came before.
                watching = False
                code = 0 if standing else 2
                if learned and age < 35:
                    learned.back(peak - base)
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
            able = True
            if learned:
                limit, able = learned.limit(limit), learned.n >= 6 and learned.ready
            if n >= warm and able and y - m > limit:
                code = 1
                if learned:
                    learned.spike()
                watching, base, peak, thr, age = True, m, y, limit, 0
            else:
                if learned and n >= warm:
                    learned.quiet(y - m)
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
