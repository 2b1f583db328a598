"""Change, version 2: a plain loop over rows and columns, written from docs/reference/definitions.md alone."""

import math

import numpy as np

B = 15
SPANS = (2, 3, 4, 6, 8, 11, 15, 20)
STARTS = {"level": (3.37, 1.14), "slow": (1.31, 0.93), "jump": (3.7, 5.0)}
WEIGHT = {"level": 1.0, "slow": 2.0, "jump": 0.5}


def med3(a, b, c):
    return sorted((a, b, c))[1]


def clip(a, c):
    return a if c == 0 else min(max(a, -c), c)


class Tail:
    """How large the quiet values of a view get."""

    def __init__(self, n=6, mean=0.0, spread=0.0):
        self.n, self.mean, self.square = n, mean, spread * spread

    def height(self, y):
        spread = max(math.sqrt(self.square), 0.2)
        return (y - self.mean) / (0.7797 * spread * (1 + 2 / self.n)) + 0.5772

    def learn(self, excess, free=False):
        limit = 4 * math.sqrt(self.square)
        if not free:
            excess = min(max(excess, -limit), limit)
        self.n = min(self.n + 1, 1000)
        g = max(2 / (self.n + 1), 1 / 80)
        self.mean += g * excess
        self.square = (1 - g) * (self.square + g * excess * excess)


class Column:
    """One column: what it has learned, and its views of the present value."""

    def __init__(self):
        self.past = []  # newest first
        self.N = 0
        self.repeats = self.mode_share = 0.0
        self.mode, self.votes = math.nan, 0
        self.still, self.rests = 0, 0
        self.constant, self.n = True, 0
        self.m = self.m2 = self.s2 = self.v2 = self.k = 0.0
        self.n_m = self.n_s = 5
        self.q = self.q2 = 0.2
        self.F = self.W = self.Q = 0.0
        self.A = 0
        self.tails = {name: Tail(6, *start) for name, start in STARTS.items()}

    @property
    def mute(self):
        return self.repeats > 0.8 and self.mode_share > 0.65

    def take(self, x):
        """Views by name of the value x, and the surprise of a move after a rest, or None."""
        N, last = self.N, self.past[0] if self.past else math.nan
        moved = N >= 1 and x != last
        gain = max(1 / N, 0.002) if N else 0.0
        if N:
            self.repeats += gain * ((x == last) - self.repeats)
        if self.votes <= 0:
            self.mode, self.votes = x, 1
        elif x == self.mode:
            self.votes = min(self.votes + 1, 500)
        else:
            self.votes -= 1
        if N:
            self.mode_share += gain * ((x == self.mode) - self.mode_share)
        rested = moved and self.still >= 15
        if moved:
            self.still = 0
        elif N:
            self.still += 1
        self.rests += rested
        if moved and self.constant:
            if self.n >= 3:
                self.n = 0
            else:
                self.constant = False
        self.N += 1
        self.past = [x, *self.past[:23]]
        starting, views = self.n < 9, {}
        if starting:
            self.n += 1
            if self.n == 9:
                self.begin()
        else:
            views = self.look()
            self.A += 1
        rest = None
        if rested and N >= 20 and (starting or self.s2 <= 0 or self.repeats > 0.8):
            rest = (N + 1) / self.rests
        return views, rest

    def begin(self):
        v = self.past[8::-1]
        thirds = [med3(*v[i : i + 3]) for i in (0, 3, 6)]
        self.m = self.m2 = med3(*thirds)
        steps = [abs(b - a) for a, b in zip(v, v[1:])]
        d = med3(med3(*steps[:3]), med3(*steps[3:6]), (steps[6] + steps[7]) / 2) / 0.954
        off = [abs(value - self.m) for value in v]
        around = med3(*(med3(*off[i : i + 3]) for i in (0, 3, 6))) / 0.6745
        self.s2 = max(d * d, around * around)
        self.v2 = max(d * d, 0.03 * self.s2)
        self.k, self.n_m, self.n_s, self.q, self.q2 = 0.0, 5, 5, 0.2, 0.2
        self.F = self.W = self.Q = 0.0
        self.A = 9

    def memory(self):
        if self.s2 <= 0:
            return 0.0
        return min(max(self.k / self.s2 * self.n_s / (self.n_s + 10), 0.0), 0.98)

    def learn(self, i):
        r, m, s, v = self.past, self.m, math.sqrt(self.s2), math.sqrt(self.v2)
        z, before = r[i], r[i + 1]
        z_hat = med3(r[i + 1], z, r[i - 1]) if abs(z - m) > 6 * s else z
        before_hat = med3(r[i + 2], before, z) if abs(before - m) > 6 * s else before
        e, e_before = z_hat - m, before_hat - m
        self.n_m += 1
        g, g2 = max(1 / self.n_m, 0.01), max(1 / self.n_m, 0.002)
        self.m += g * clip(e, 3 * s)
        self.q = (1 - g) ** 2 * self.q + g * g
        self.m2 += g2 * clip(z_hat - self.m2, 3 * s)
        self.q2 = (1 - g2) ** 2 * self.q2 + g2 * g2
        if self.A >= 2:
            self.n_s += 1
            h = max(1 / (self.n_s + 1), 0.001)
            self.s2 += h * (clip(e, 4 * s) ** 2 - self.s2)
            self.k += h * (clip(e, 4 * s) * clip(e_before, 4 * s) - self.k)
            self.v2 += h * (clip(e - self.memory() * e_before, 4 * v) ** 2 - self.v2)

    def look(self):
        A = self.A
        if 1 <= A < 8:
            self.learn(1)
        elif A >= 28:
            self.learn(20)
        if self.s2 <= 0:
            return {}
        phi = self.memory()
        sigma = math.sqrt(max(self.v2, 0.03 * self.s2))
        d = [(r - self.m) / sigma for r in self.past]
        e = [a - phi * b for a, b in zip(d, d[1:])]
        self.F = 0.98 * self.F + clip(e[0] + (1 - phi) * (self.m - self.m2) / sigma, 3)
        self.W = 0.98 * self.W + 1
        self.Q = 0.98**2 * self.Q + 1
        if self.mute or A < 9:
            return {}
        sums = np.cumsum([clip(value, 3) for value in e[:20]])
        level = max(sums[k - 1] ** 2 / (k + self.q * k * k) for k in SPANS if k <= A - 7)
        views = {"level": level**0.75}
        if A >= 18:
            views["slow"] = (abs(self.F) / math.sqrt(max(self.Q + self.q2 * self.W**2, 0.03))) ** 1.5
        a, b, c = d[2] - d[3], d[1] - d[2], d[0] - d[1]
        up = b - max(-c - 1, 0) - max(-a - 1, 0)
        down = -b - max(c - 1, 0) - max(a - 1, 0)
        G = max(0.0, up, down)
        views["jump"] = min(G, 4.2) ** 1.75 * (1 + 1.25 * math.log(max(G, 4.2) / 4.2))
        return views

    def restart(self):
        if self.n == 9:
            self.A = 0
            self.m = self.m2 = med3(*self.past[:3])
            self.n_m = self.q = self.q2 = 1
            self.F = self.W = self.Q = 0.0
            self.n_s = min(self.n_s, 200)


def change(X, false_alarms=1e-3, indices=None, *, silent=60):
    """Code, cause and p of each row, and which columns were mute."""
    X = np.asarray(X, float)
    n, p = X.shape
    others = np.zeros((n, 0)) if indices is None else np.asarray(indices, float).reshape(n, -1)
    columns = [Column() for _ in range(p)]
    tails = [Tail(0) for _ in range(others.shape[1])]
    armed = [True] * len(tails)
    u, b, kappa, N_b, N_e = 1.5, 1.0, 0.0, 0, 0
    since, ready, row = 5, True, 0  # since: rows from the last firing to this one
    block = {"rows": 0, "top": -math.inf, "views": {}}
    result = {
        "code": np.zeros(n, int),
        "cause": np.full(n, -1),
        "p": np.full(n, np.nan),
        "mute": np.zeros((n, p), bool),
    }
    for t in range(n):
        there = np.isfinite(X[t])
        if not there.any():
            result["mute"][t] = [column.mute for column in columns]
            continue
        views, rests = {}, {}
        for j in np.flatnonzero(there):
            seen, rest = columns[j].take(float(X[t, j]))
            views |= {(j, name): y for name, y in seen.items()}
            if rest is not None:
                rests[j] = rest
        result["mute"][t] = [column.mute for column in columns]
        heard = {i: math.log(v) for i, v in enumerate(others[t]) if np.isfinite(v) and v > 0}
        for i, y in heard.items():
            armed[i] = armed[i] or y < tails[i].mean
        tested = [i for i in heard if tails[i].n >= 6 and armed[i]]

        P = len({j for j, name in views if name == "level"} | set(rests))
        best, cause, winner = -math.inf, -1, None
        for j in range(p):
            offers = [
                (columns[j].tails[name].height(views[j, name]) - math.log(WEIGHT[name]) - math.log(3.5), (j, name))
                for name in STARTS
                if (j, name) in views
            ]
            if j in rests:
                offers.append((math.log(rests[j] / 15), None))
            for offer, view in offers:
                if offer > best:
                    best, cause, winner = offer, j, view
        L = best - math.log(P) if P else -math.inf
        if tails:
            for i in tested:
                height = tails[i].height(heard[i]) - math.log(len(tails))
                if height > L:
                    L, cause, winner = height, -1, i
            L -= math.log(2)
        valued = P > 0 or bool(tested)

        since += 1
        beta, extra = min(max(b, 0.15), 2.5), kappa + 6 / (1 + N_b / 6)
        fires = False
        if valued:
            log_p = min(0.0, math.log(0.1) - (L - extra - u) / beta)
            result["p"][t] = math.exp(log_p)
            fires = log_p < math.log(false_alarms * B) and ready and since >= 5
        if fires:
            if row >= silent:
                result["code"][t], result["cause"][t] = 1, cause
            N_b, N_e = N_b + 1, N_e + 1
            b += max(1.5 / (N_e + 6), 1 / 60) * (min(L - u, 3 * beta) - b)
            u += 9 * beta * max(2 / (N_b + 10), 0.01)
            kappa = min(kappa + 0.6, 3)
            if isinstance(winner, tuple):
                tail = columns[winner[0]].tails[winner[1]]
                tail.learn(views[winner] - tail.mean)
            elif winner is not None:
                tails[winner].learn(heard[winner] - tails[winner].mean, tails[winner].n < 6)
            for i, y in heard.items():
                armed[i] = armed[i] and y <= tails[i].mean
            for column in columns:
                column.restart()
            block, ready, since = {"rows": 0, "top": -math.inf, "views": {}}, False, 0
        elif valued and since >= 5:
            block["rows"] += 1
            block["top"] = max(block["top"], L)
            for key, y in [*views.items(), *heard.items()]:
                block["views"][key] = max(block["views"].get(key, -math.inf), y)
            if block["rows"] == B:
                top = block["top"]
                unsettled = not ready and N_b > 10 and top > u + extra + beta * math.log(0.1 / (false_alarms * B))
                if not unsettled:
                    N_b += 1
                    kappa = max(kappa - 0.6 * false_alarms * B, -1.5)
                    if N_b > 4:
                        step = beta * max(2 / (N_b + 10), 0.01)
                        if top > u:
                            N_e += 1
                            b += max(1.5 / (N_e + 6), 1 / 60) * (min(top - u, 3 * beta) - b)
                            u += 9 * step
                        else:
                            u -= step
                    for key, y in block["views"].items():
                        if isinstance(key, tuple):
                            tail = columns[key[0]].tails[key[1]]
                            tail.learn(y - tail.mean)
                        else:
                            tails[key].learn(y - tails[key].mean, tails[key].n < 6)
                block, ready = {"rows": 0, "top": -math.inf, "views": {}}, True
        row += 1
    return result
