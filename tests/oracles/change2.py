"""Change, version 2: a plain loop over rows and columns, written from docs/reference/definitions.md alone."""

from math import exp, inf, isfinite, log, nan, sqrt

import numpy as np

B = 15  # values in a block
WINDOWS = (2, 3, 4, 6, 8, 11, 15, 20)
VIEWS = {"level": (3.37, 1.14, 1.0), "slow": (1.31, 0.93, 2.0), "jump": (3.7, 5.0, 0.5)}  # mean, spread, share


def is_usable(x):
    return isfinite(x) and abs(x) <= 1e15


def med3(a, b, c):
    return sorted((a, b, c))[1]


def clip(a, c):
    return min(max(a, -c), c)


def clip_unless_zero(a, c):
    return clip(a, c) if c > 0 else a


class Tail:
    """Block maxima of one view or index: their mean and spread."""

    def __init__(self, n, mean, spread, always_clipped=True):
        self.n, self.mean, self.spread, self.always_clipped = n, mean, spread, always_clipped

    def height(self, y):
        return (y - self.mean) / (0.7797 * max(self.spread, 0.2) * (1 + 2 / self.n)) + 0.5772

    def learn(self, e):
        if self.always_clipped or self.n >= 6:
            e = clip(e, 4 * self.spread)
        self.n = min(self.n + 1, 1000)
        g = max(2 / (self.n + 1), 1 / 80)
        self.mean += g * e
        self.spread = sqrt((1 - g) * (self.spread**2 + g * e * e))


class Column:
    """The model of one column; step(x) sets `views` (name: y) and `rest` (None or R) of this value."""

    def __init__(self):
        self.r = []  # the newest first
        self.N = self.n = self.w = self.o = self.v = 0
        self.repeats = self.most = 0.0
        self.c = None
        self.constant = True
        self.s2 = self.v2 = self.k = self.m = self.m2 = 0.0
        self.A = 0
        self.views, self.rest = {}, None
        self.tails = {name: Tail(6, mean, spread) for name, (mean, spread, _) in VIEWS.items()}

    def step(self, x):
        self.r = [x, *self.r[:22]]
        r, N = self.r, self.N
        self.views, self.rest = {}, None
        moved = N >= 1 and x != r[1]
        if N >= 1:
            gamma = max(1 / N, 0.002)
            self.repeats += gamma * ((x == r[1]) - self.repeats)
        if self.v <= 0:
            self.c, self.v = x, 1
        elif x == self.c:
            self.v = min(self.v + 1, 500)
        else:
            self.v -= 1
        if N >= 1:
            self.most += gamma * ((x == self.c) - self.most)
        rested = moved and self.w >= 15
        self.w = 0 if moved else self.w + (N >= 1)
        self.o += rested
        mute = self.repeats > 0.8 and self.most > 0.65
        if moved and self.constant:
            if self.n >= 3:
                self.n = 0
            else:
                self.constant = False
        if self.n < 9:
            self.n += 1
            if self.n == 9:
                self.start(r[8::-1])
        else:
            self.learn()
            if self.s2 > 0:
                self.look(mute)
            self.A += 1
        if rested and N >= 20 and (self.n < 9 or self.s2 <= 0 or self.repeats > 0.8):
            self.rest = (N + 1) / self.o
        self.N += 1

    def start(self, v):
        def of_nine(a):
            return med3(med3(*a[:3]), med3(*a[3:6]), med3(*a[6:]))

        self.m = self.m2 = of_nine(v)
        delta = [abs(b - a) for a, b in zip(v, v[1:], strict=False)]
        d = med3(med3(*delta[:3]), med3(*delta[3:6]), (delta[6] + delta[7]) / 2) / 0.954
        d_level = of_nine([abs(a - self.m) for a in v]) / 0.6745
        self.s2 = max(d * d, d_level * d_level)
        self.v2 = max(d * d, 0.03 * self.s2)
        self.k = self.F = self.W = self.Q = 0.0
        self.n_m = self.n_s = 5
        self.q = self.q2 = 0.2
        self.A = 9

    def phi(self):
        return min(max(self.k / self.s2 * self.n_s / (self.n_s + 10), 0), 0.98) if self.s2 > 0 else 0.0

    def learn(self):
        r, A = self.r, self.A
        i = 1 if 1 <= A < 8 else 20 if A >= 28 else None
        if i is None:
            return
        s, v, z, before = sqrt(self.s2), sqrt(self.v2), r[i], r[i + 1]
        z_hat = med3(r[i + 1], z, r[i - 1]) if abs(z - self.m) > 6 * s else z
        before_hat = med3(r[i + 2], before, z) if abs(before - self.m) > 6 * s else before
        e, e_before = z_hat - self.m, before_hat - self.m
        self.n_m += 1
        g, g2 = max(1 / self.n_m, 0.01), max(1 / self.n_m, 0.002)
        self.m += g * clip_unless_zero(e, 3 * s)
        self.q = (1 - g) ** 2 * self.q + g * g
        self.m2 += g2 * clip_unless_zero(z_hat - self.m2, 3 * s)
        self.q2 = (1 - g2) ** 2 * self.q2 + g2 * g2
        if A >= 2:
            self.n_s += 1
            h = max(1 / (self.n_s + 1), 0.001)
            self.s2 += h * (clip_unless_zero(e, 4 * s) ** 2 - self.s2)
            self.k += h * (clip_unless_zero(e, 4 * s) * clip_unless_zero(e_before, 4 * s) - self.k)
            self.v2 += h * (clip_unless_zero(e - self.phi() * e_before, 4 * v) ** 2 - self.v2)

    def look(self, mute):
        A, phi = self.A, self.phi()
        sigma = sqrt(max(self.v2, 0.03 * self.s2))
        d = [(r - self.m) / sigma for r in self.r]
        e = [a - phi * b for a, b in zip(d, d[1:], strict=False)]
        self.F = 0.98 * self.F + clip(e[0] + (1 - phi) * (self.m - self.m2) / sigma, 3)
        self.W = 0.98 * self.W + 1
        self.Q = 0.98**2 * self.Q + 1
        if mute or A < 9:
            return
        sums = [sum(clip(a, 3) for a in e[:k]) ** 2 / (k + self.q * k * k) for k in WINDOWS if k <= A - 7]
        self.views["level"] = max(sums) ** 0.75
        if A >= 18:
            self.views["slow"] = (abs(self.F) / sqrt(max(self.Q + self.q2 * self.W**2, 0.03))) ** 1.5
        a, b, c = d[2] - d[3], d[1] - d[2], d[0] - d[1]
        up = b - max(-c - 1, 0) - max(-a - 1, 0)
        down = -b - max(c - 1, 0) - max(a - 1, 0)
        G = max(0, up, down)
        self.views["jump"] = min(G, 4.2) ** 1.75 * (1 + 1.25 * log(max(G, 4.2) / 4.2))

    def restart(self):
        if self.n == 9:
            self.A = 0
            self.m = self.m2 = med3(*self.r[:3])
            self.n_m, self.q, self.q2 = 1, 1.0, 1.0
            self.F = self.W = self.Q = 0.0
            self.n_s = min(self.n_s, 200)


def remove_season(X, season):
    """Values less what was there a season ago; NaN where that is not known."""
    f, out, i = np.full((season, X.shape[1]), nan), np.full(X.shape, nan), 0
    for t, row in enumerate(X):
        usable = [j for j, x in enumerate(row) if is_usable(x)]
        h = i % season
        for j in usable:
            out[t, j] = row[j] - f[h, j]
            f[h, j] = row[j] if np.isnan(f[h, j]) else f[h, j] + max(1 / (i // season + 1), 0.1) * (row[j] - f[h, j])
        i += bool(usable)
    return out


def change(X, false_alarms=1e-3, indices=None, *, silent=60, season=0):
    """Change, version 2. indices: an array (samples, q) of y of indices as channels, NaN where there is no value."""
    X = np.asarray(X, float)
    X = remove_season(X, season) if season else X
    q = 0 if indices is None else indices.shape[1]
    columns = [Column() for _ in range(X.shape[1])]
    channels = [Tail(0, 0.0, 0.0, always_clipped=False) for _ in range(q)]
    armed = [True] * q
    u, b, kappa, N_b, N_e, since, ready, rows = 1.5, 1.0, 0.0, 0, 0, 4, True, 0
    block, count, top = {}, 0, -inf  # the largest y of each tail; rows; the largest L
    out = []  # code, cause, p and score of each row

    def learn_threshold(high, beta):  # of an excess over u
        nonlocal b, u, N_e
        N_e += 1
        b += max(1.5 / (N_e + 6), 1 / 60) * (min(high - u, 3 * beta) - b)
        u += 9 * beta * max(2 / (N_b + 10), 0.01)

    for t, row in enumerate(X):
        present = [j for j, x in enumerate(row) if is_usable(x)]
        if not present:
            out.append((0, -1, nan, 0.0))
            continue
        for j in present:
            columns[j].step(row[j])
        # What this row says: (height, column, its tail, y), the first of the highest wins.
        said = [
            (columns[j].tails[name].height(y) - log(VIEWS[name][2]) - log(3.5), j, columns[j].tails[name], y)
            for j in present
            for name, y in columns[j].views.items()
        ]
        said += [(log(columns[j].rest / B), j, None, None) for j in present if columns[j].rest is not None]
        P = sum(bool(columns[j].views) or columns[j].rest is not None for j in present)
        L, cause, source, y_source = max(said, key=lambda s: s[0], default=(-inf, -1, None, None))
        L -= log(P) if P else 0
        values = {} if indices is None else {i: y for i, y in enumerate(indices[t]) if isfinite(y)}
        tested = []
        for i, y in values.items():
            armed[i] = armed[i] or y < channels[i].mean
            if armed[i] and channels[i].n >= 6:
                tested.append(i)
                h = channels[i].height(y) - log(q)
                if h > L:
                    L, cause, source, y_source = h, -1, channels[i], y
        L -= log(2) if q else 0
        has = P > 0 or bool(tested)
        beta = min(max(b, 0.15), 2.5)
        extra = kappa + 6 / (1 + N_b / 6)
        since += 1
        log_p = min(0, log(0.1) - (L - extra - u) / beta) if has else nan
        fires = has and log_p < log(false_alarms * B) and ready and since >= 5
        loud = fires and rows >= silent
        out.append((int(loud), cause if loud else -1, exp(log_p) if has else nan, -log_p / log(10) if has else 0.0))
        if fires:
            N_b += 1
            learn_threshold(L, beta)
            kappa = min(kappa + 0.6, 3)
            if source is not None:
                source.learn(y_source - source.mean)
            for i, y in values.items():
                armed[i] = armed[i] and not y > channels[i].mean
            for column in columns:
                column.restart()
            block, count, top, ready, since = {}, 0, -inf, False, 0
        elif has and since >= 5:
            count, top = count + 1, max(top, L)
            heard = [(columns[j].tails[name], y) for j in present for name, y in columns[j].views.items()]
            for tail, y in heard + [(channels[i], y) for i, y in values.items()]:
                block[tail] = max(block.get(tail, -inf), y)
            if count == B:
                if ready or N_b <= 10 or top <= u + extra + beta * log(0.1 / (false_alarms * B)):
                    N_b += 1
                    kappa = max(kappa - 0.6 * false_alarms * B, -1.5)
                    if N_b > 4 and top > u:
                        learn_threshold(top, beta)
                    elif N_b > 4:
                        u -= beta * max(2 / (N_b + 10), 0.01)
                    for tail, y in block.items():
                        tail.learn(y - tail.mean)
                block, count, top, ready = {}, 0, -inf, True
        rows += 1
    return dict(zip(("code", "cause", "p", "score"), map(np.array, zip(*out, strict=True)), strict=True))
