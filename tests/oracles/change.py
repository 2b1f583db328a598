"""Change, the index of the partition in time: a plain loop over rows and channels, one stream, float64.

`change(X, ...)` takes raw rows; anchoring is only a translation, so it is left out. Readings chosen where the text
allows more than one:

* `lag`, `W_s > 5`, "5 samples after", "n_v >= 20", "n_v <= 30" and "16 v" are literal; `feed` is the 4 in both
  "min(y - mu, 4 s)" and "clipped to +-4 s". "k samples after the last firing" means t - t_fired >= k.
* wake: "the same in all of 0..t-1" looks only at rows where the column was there; never seen counts as the same.
* A missing column waits as a whole: neither `now`, `before` nor `wake` touches it; t0 is still set by a firing.
* A channel whose `before` is still empty (W_s = 0, every z was a hole) has no value.
* "From its 7th block on": each channel counts the blocks it has learned from; firings and the prior n = 6 do not count.
* A disarmed index with y < mu at this row is armed at this row, so it is tested in it.
* An index value that is not finite after the logarithm (inf, 0) is no value, as NaN is.
* A row without any finite column changes nothing, even where an index has a value: code 0, p NaN, mute as before.

`jumps` is no part of that text: beside the channel's y, times a factor, stands the gap between the last two values and
the two before, over the spread that differences of neighbours tell. `without_season` is what seasons do to rows.
"""

import numpy as np


def change(
    X,
    false_alarms=1e-3,
    indices=None,
    *,
    fast=0.9,
    slow=0.99,
    lag=20,
    variance=0.999,
    block=15,
    warm=6,
    memory=40,
    floor=0.1,
    feed=4.0,
    mute=0.8,
    silent=200,
    jumps=False,
):
    """Per row: code, cause, p, y (n, p + q), fired (also before `silent`), mute (n, p), which fired."""
    X = np.asarray(X, float)
    rows, p = X.shape
    V = np.empty((rows, 0)) if indices is None else np.asarray(indices, float).reshape(rows, -1)
    q = V.shape[1]
    out = {
        "code": np.zeros(rows, int),
        "cause": np.full(rows, -1),
        "p": np.full(rows, np.nan),
        "y": np.full((rows, p + q), np.nan),
        "fired": np.zeros(rows, bool),
        "mute": np.zeros((rows, p), bool),
        "which": np.full(rows, -1),
    }
    channels = [Channel(fast, slow, lag, variance, mute, jumps) for _ in range(p)]
    quiet = (1.275, 0.206) if jumps else (1.235, 0.225)
    tails = [Tail(6, *quiet, memory, floor, feed) for _ in range(p)]
    tails += [Tail(0, 0.0, 0.0, memory, floor, feed) for _ in range(q)]
    factor = [p] * p if q == 0 else [2 * p] * p + [2 * q] * q
    disarmed = [False] * q
    t, last, ready = 0, None, True
    count, maxima = 0, [None] * (p + q)

    for row in range(rows):
        if not np.isfinite(X[row]).any():
            out["mute"][row] = [c.is_mute for c in channels]
            continue
        y = [c.step(t, x) for c, x in zip(channels, X[row])]
        for value in V[row]:
            logarithm = np.log(value) if value > 0 else np.nan
            y.append(logarithm if np.isfinite(logarithm) else np.nan)

        # test
        best, w = np.inf, -1
        for j in range(p + q):
            if np.isnan(y[j]):
                continue
            if j >= p:
                if y[j] < tails[j].mu:
                    disarmed[j - p] = False
                if disarmed[j - p] or tails[j].n < warm:
                    continue
            log_p = np.log(factor[j]) + tails[j].log_p(y[j])
            if log_p < best:
                best, w = log_p, j
        p_value = min(1.0, np.exp(best)) if w >= 0 else np.nan
        rested = last is None or t - last >= 5
        fires = w >= 0 and p_value < false_alarms * block and ready and rested

        if fires:
            if t >= silent:
                out["code"][row] = 1
                out["cause"][row] = w if w < p else -1
            tails[w].learn(min(y[w] - tails[w].mu, feed * tails[w].s))
            for c in channels:
                c.restart(t)
            for j in range(q):
                if y[p + j] > tails[p + j].mu:  # NaN: no
                    disarmed[j] = True
            count, maxima = 0, [None] * (p + q)
            ready, last = False, t
        elif rested and not np.isnan(y).all():
            count += 1
            for j in range(p + q):
                if not np.isnan(y[j]):
                    maxima[j] = y[j] if maxima[j] is None else max(maxima[j], y[j])
            if count == block:
                for j in range(p + q):
                    if maxima[j] is not None:
                        tails[j].learn_block(maxima[j])
                count, maxima, ready = 0, [None] * (p + q), True

        out["p"][row] = p_value
        out["y"][row] = y
        out["fired"][row] = fires
        out["which"][row] = w if fires else -1
        out["mute"][row] = [c.is_mute for c in channels]
        t += 1
    return out


class Channel:
    """One feature: mean now, mean before, innovation variance, repeats."""

    def __init__(self, fast, slow, lag, variance, mute, jumps=False):
        self.fast, self.slow, self.lag, self.variance, self.mute = fast, slow, lag, variance, mute
        self.r = self.v = 0.0
        self.n_v = 0
        self.past = []  # every row, holes too
        self.previous, self.constant = None, True  # the last value that was there; were all of them the same?
        self.jumps, self.u, self.n_u = jumps, 0.0, 0
        self.restart(0)

    def restart(self, t):
        self.W_f = self.Q_f = self.m_f = self.W_s = self.Q_s = self.m_s = 0.0
        self.t0 = t

    @property
    def is_mute(self):
        return self.r > self.mute

    def step(self, t, x):
        """The signal y of this row, NaN where there is none."""
        assert t == len(self.past)
        self.past.append(x)
        if not np.isfinite(x):
            return np.nan
        if t >= 1:
            self.r += max(1 / t, 0.002) * ((x == self.previous) - self.r)
        if t >= self.lag and self.constant:
            self.restart(t)
        self.constant = self.constant and self.previous in (None, x)
        self.previous = x
        self.W_f = self.fast * self.W_f + 1
        self.Q_f = self.fast**2 * self.Q_f + 1
        self.m_f += (x - self.m_f) / self.W_f
        if t - self.lag >= self.t0 and np.isfinite(self.past[t - self.lag]):
            self.before(self.past[t - self.lag])
        if self.jumps:
            self.differ(t)
        if t - self.t0 < self.lag + 10 or self.is_mute or not self.v > 0:
            return np.nan
        y = np.nan
        if self.n_v >= 20 and self.W_s > 0:
            noise = self.v * (self.Q_f / self.W_f**2 + self.Q_s / self.W_s**2)
            y = ((self.m_f - self.m_s) ** 2 / noise) ** 0.25
        return self.leap(y) if self.jumps and self.n_u >= 20 else y

    def differ(self, t):
        """Learn from the difference of the two values before this one, both of this regime."""
        if self.constant or t - self.t0 < 3:
            return
        square = (self.past[t - 1] - self.past[t - 2]) ** 2 / 2
        if np.isfinite(square):
            self.n_u += 1
            square = square if self.n_u <= 30 else min(square, 16 * self.u)
            self.u += max(1 / (self.n_u + 1), 1 - self.variance) * (square - self.u)

    def leap(self, y):
        """The larger of y, heard less the more memory there is, and of the gap."""
        u = max(self.u, 0.03 * self.v)
        r = min(1.0, u / self.v)
        y *= (r / (2 - r)) ** 0.375
        *before, a, b = self.past[-4:]
        if not np.isfinite([*before, a, b]).all():
            return y
        gap = max(0.0, min(a, b) - max(before), min(before) - max(a, b))
        return np.fmax(y, np.sqrt(gap / np.sqrt(u)))

    def before(self, z):
        self.W_s = self.slow * self.W_s + 1
        self.Q_s = self.slow**2 * self.Q_s + 1
        e = z - self.m_s
        if self.W_s > 5:
            self.n_v += 1
            e2 = e**2 if self.n_v <= 30 else min(e**2, 16 * self.v)
            self.v += max(1 / (self.n_v + 1), 1 - self.variance) * (e2 - self.v)
        self.m_s += e / self.W_s


class Tail:
    """Gumbel tail of a channel's block maxima."""

    def __init__(self, n, mu, s, memory, floor, feed):
        self.n, self.mu, self.s2, self.blocks = n, mu, s**2, 0
        self.memory, self.floor, self.feed = memory, floor, feed

    @property
    def s(self):
        return np.sqrt(self.s2)

    def log_p(self, y):
        sigma = 0.7797 * max(self.s, self.floor) * (1 + 2 / self.n)
        exponent = -(y - self.mu) / sigma - 0.5772
        if exponent < -30:  # log(1 - exp(-a)) = log a for a tiny a
            return exponent
        return np.log(-np.expm1(-np.exp(exponent)))

    def learn(self, e):
        self.n += 1
        g = max(1 / self.n, 1 / self.memory)
        self.mu += g * e
        self.s2 = (1 - g) * (self.s2 + g * e**2)

    def learn_block(self, largest):
        e = largest - self.mu
        self.blocks += 1
        if self.blocks >= 7:
            e = min(max(e, -self.feed * self.s), self.feed * self.s)
        self.learn(e)


def without_season(X, season):
    """The rows less what each column was in earlier seasons: their mean, from the tenth on with a gain of a tenth."""
    X = np.where(np.isfinite(X), X, np.nan)
    left, usual, row = np.full_like(X, np.nan), np.full((season, X.shape[1]), np.nan), 0
    for i, x in enumerate(X):
        if np.isnan(x).all():
            continue
        gain = max(1 / (row // season + 1), 0.1)
        for j, value in enumerate(x):
            known = usual[row % season, j]
            if np.isnan(known):
                usual[row % season, j] = value
            elif not np.isnan(value):
                left[i, j] = value - known
                usual[row % season, j] += gain * (value - known)
        row += 1
    return left
