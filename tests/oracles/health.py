"""Oracle of Health, written from docs/reference/definitions.md alone; only the coefficients are the package's."""

import json
from importlib.resources import files

import numpy as np

RHO = 1 - 1 / 150
REASONS = ("right", "merged", "cut", "not learned", "nothing to find")
OF_MEMBERS = (
    "near", "core", "near by mass", "core by mass", "sil", "mid", "side", "gain", "ratio", "lone", "within", "inside",
    "follow", "own", "turn", "leap", "stay", "skip", "met", "clump", "spread", "beside", "alike",
)  # fmt: skip
OF_SAMPLES = ("total", "jump", "cosine")
LATELY = ("met", "clump", "spread")
KEPT, EVERY = 16, 18
COEFFICIENTS = json.loads(files("icvi_jax.indices").joinpath("health.json").read_text())


def divide(a, b, otherwise=0.0):
    return a / b if b else otherwise


class Vitals:
    """The statistic; step it with what the clusterer said of every sample that is not missing."""

    def __init__(self, slots, p):
        self.q, self.w, self.g = (np.zeros(slots) for _ in range(3))
        self.spot, self.half = np.zeros((slots, p)), np.zeros((slots, p))
        self.last = np.zeros(slots, bool)
        self.mu, self.x, self.r = np.zeros(p), np.zeros(p), np.zeros(p)
        self.n = self.m = self.m_late = 0.0
        self.kept, self.kept_names, self.phase = np.zeros((KEPT, p)), np.full(KEPT, -1), 0
        self.member = dict.fromkeys(OF_MEMBERS, 0.0)
        self.sample, self.late = dict.fromkeys(OF_SAMPLES, 0.0), dict.fromkeys(LATELY, 0.0)
        self.centres, self.used, self.names = np.zeros((slots, p)), np.zeros(slots, bool), np.arange(slots)

    def step(self, x, u, centres, used, names=None, born=(), merge=None):
        """u, centres and used (a mask) after the sample; born: slots that start again; merge: (from, into)."""
        if merge is not None:
            self.merge(*merge)
        born = [i for i in range(len(u)) if i in born or (used[i] and not self.used[i])]
        self.q[born], self.last[born] = 0, False
        known = [i for i in range(len(u)) if self.used[i] and i not in born]
        u = np.where(used, u, 0)
        j = int(np.argmax(u)) if u.max() > 0 else None
        e, t, near = np.zeros(len(x)), 0.0, 0.0
        jump = np.sum((x - self.x) ** 2) if self.n else 0.0
        if j in known:
            e, t, near = self.step_member(x, j, known, jump)
        self.step_sample(x, jump)
        tiny = np.finfo(float).tiny
        self.q = np.where(self.q > 0, np.maximum(RHO * self.q, tiny), 0)
        if j is not None:
            self.q[j] += 1
            b = 1 / max(self.q[j], 1)
            self.spot[j] += b * (x - self.spot[j])
            self.w[j] += b * (e @ e - self.w[j])
            self.half[j] += b * ((e if t >= 0 else -e) - self.half[j])
            self.g[j] += b * (near - self.g[j])
            self.last[:] = False
            self.last[j] = True
        self.q[~used], self.last[~used] = 0, False
        self.centres, self.used = centres.copy(), used.copy()
        self.names = np.arange(len(u)) if names is None else names.copy()

    def merge(self, e, c):
        self.take_slot(c, self, e)
        for a in (self.q, self.spot, self.w, self.g, self.half):
            a[e] = 0
        self.last[c], self.last[e] = self.last[c] or self.last[e], False

    def take_slot(self, c, other, e):
        """Add what slot e of another state (or of this one) has to slot c."""
        q_c, q_e = self.q[c], other.q[e]
        if q_c + q_e > 0:
            sign = -1 if self.half[c] @ other.half[e] < 0 else 1
            for name, turn in (("spot", 1), ("w", 1), ("g", 1), ("half", sign)):
                a = getattr(self, name)
                a[c] = (q_c * a[c] + q_e * turn * getattr(other, name)[e]) / (q_c + q_e)
        self.q[c] = q_c + q_e

    def combine(self, later):
        """This shard with the one after it, which has samples."""
        for i in range(len(self.q)):
            self.take_slot(i, later, i)
        for means, others, n, more in (
            (self.member, later.member, self.m, later.m),
            (self.sample, later.sample, self.n, later.n),
        ):
            for name in means:
                means[name] = (n * means[name] + more * others[name]) / (n + more)
        self.mu = (self.n * self.mu + later.n * later.mu) / (self.n + later.n)
        self.n, self.m = self.n + later.n, self.m + later.m
        self.x, self.r, self.last = later.x, later.r, later.last
        self.late, self.m_late = later.late, later.m_late
        self.kept, self.kept_names, self.phase = later.kept, later.kept_names, later.phase
        self.centres, self.used, self.names = later.centres, later.used, later.names
        self.q[~self.used] = 0

    def step_member(self, x, j, known, jump):
        v, M = self.centres, self.member
        r = x - v[j]
        d0 = r @ r
        same = [i for i in known if self.names[i] == self.names[j]]
        others = [i for i in known if i not in same and self.q[i] >= 0.01 * self.n]
        near = core = sil = ratio = 0.0
        if others:
            distances = [np.sum((x - v[i]) ** 2) for i in others]
            o, d1 = others[int(np.argmin(distances))], min(distances)
            D = np.sum((v[o] - v[j]) ** 2)
            if D > 0:
                s = (d0 + D - d1) / (2 * D)
                near, core, ratio = float(s > 0.3), float(abs(s) < 0.2), min(d0 / D, 4)
            sil = divide(d1 - d0, max(d0, d1))
        e = x - self.spot[j] if self.q[j] > 0 else np.zeros(len(x))
        A = self.half[j] @ self.half[j] if self.q[j] > 0 else 0.0
        t = e @ self.half[j]
        z = abs(divide(t, A, 1.0))
        W = M["within"] or d0 or 1
        own, turn = self.q[same].sum() / max(self.n, 1), float(self.last.any() and not self.last[same].any())
        leap = jump if turn else 0.0
        now = {
            "near": near, "core": core, "near by mass": near * own, "core by mass": core * own, "sil": sil,
            "mid": float(z < 0.3), "side": float(0.7 < z < 1.3), "gain": min(divide(A, self.w[j]), 1), "ratio": ratio,
            "lone": float(not others), "within": d0, "inside": e @ e, "follow": np.clip(r @ self.r / W, -20, 20),
            "own": own, "turn": turn, "leap": leap, "stay": jump - leap, "skip": min((jump - leap) / W, 20) ** 2,
        } | self.among_the_kept(x, self.names[j])  # fmt: skip
        self.m = RHO * self.m + 1
        for name in OF_MEMBERS:
            M[name] += (now[name] - M[name]) / self.m
        self.m_late = (1 - 1 / 25) * self.m_late + 1
        for name in LATELY:
            self.late[name] += (now[name] - self.late[name]) / self.m_late
        self.r = r
        if self.phase % EVERY == 0:
            self.kept[self.phase // EVERY], self.kept_names[self.phase // EVERY] = x, self.names[j]
        self.phase = (self.phase + 1) % (KEPT * EVERY)
        return e, t, near

    def among_the_kept(self, x, name):
        """What a member of the cluster with this name has to do with the members that were kept."""
        kin, others = ([], [])
        for z, whose in zip(self.kept, self.kept_names):
            if whose >= 0:
                (kin if whose == name else others).append(np.sum((x - z) ** 2))
        a, b, now = len(kin), len(others), dict.fromkeys(("met", "clump", "spread", "beside"), 0.0)
        if a >= 2:
            G = sum(kin) / a
            now["met"] = 1.0
            if G > 0:
                now |= {"clump": min(kin) / G, "spread": sum((g / G) ** 2 for g in kin) / a}
        if a >= 1 and b >= 1:
            now["beside"] = divide(min(kin), min(kin) + min(others))
        return now | {"alike": a / max(a + b, 1)}

    def step_sample(self, x, jump):
        self.n = RHO * self.n + 1
        self.mu = self.mu + (x - self.mu) / self.n
        y, before = x - self.mu, self.x - self.mu
        yy = y @ y
        now = {"total": yy, "jump": jump, "cosine": divide((y @ before) ** 2, yy * (before @ before))}
        for name, value in now.items():
            self.sample[name] += (value - self.sample[name]) / self.n
        self.x = x.copy()

    def heavy(self):
        return [i for i in range(len(self.q)) if self.used[i] and self.q[i] >= 0.05 * self.n]

    def signs(self):
        M, S, L, q, log = self.member, self.sample, self.late, self.q, np.log
        T, o, heavy = S["total"] or 1, max(M["own"], 0.001), self.heavy()
        mass = {}
        for i in np.flatnonzero(self.used):
            mass[self.names[i]] = mass.get(self.names[i], 0) + q[i]
        clusters = sum(a >= 0.01 * self.n and a > 0 for a in mass.values())
        met, met_lately, spread = max(M["met"], 0.001), max(L["met"], 0.001), self.w @ q / max(self.n, 1)
        return np.array([
            log((M["near"] + 0.01) / (M["core"] + 0.01)),
            log((M["near by mass"] + 0.01 * o) / (M["core by mass"] + 0.01 * o)),
            log((M["mid"] + 0.01) / (M["side"] + 0.01)), M["sil"], M["gain"], log(M["ratio"] + 0.001),
            log(min(M["within"] / T, 1) + 0.0001), log((M["inside"] + 0.001 * T) / (M["within"] + 0.001 * T)),
            log(S["jump"] / T + 0.001), log(S["cosine"] + 0.001), M["follow"], log(M["own"] + 0.01),
            log(clusters + 0.5), log((M["turn"] + 0.005) / (max(1 - M["own"], 0) + 0.005)),
            log((max(M["leap"], 0) + 0.001 * T) / (max(M["stay"], 0) + 0.001 * T)), log(M["skip"] + 0.01),
            log(max(1 - q.max() / max(self.n, 1), 0) + 0.003), max((self.g[i] for i in heavy), default=0),
            log((max((self.w[i] for i in heavy), default=0) + 0.001 * T) / (spread + 0.001 * T)),
            M["lone"], log(M["clump"] / met + 0.01), log(M["spread"] / met + 0.1),
            M["beside"], log(M["alike"] + 0.01),
            log(L["clump"] / met_lately + 0.01), log(L["spread"] / met_lately + 0.1),
        ])  # fmt: skip

    def gain(self, i):
        return divide(self.half[i] @ self.half[i], self.w[i])

    def read(self):
        """(health, chances of the reasons, reason, cluster to blame), or NaN, None, None, −1."""
        if self.n < 50 or self.m == 0 or not self.used.any():
            return np.nan, None, None, -1
        a = self.signs() @ np.array(COEFFICIENTS["hidden"]) + COEFFICIENTS["hidden_bias"]
        out = (a / (1 + abs(a))) @ np.array(COEFFICIENTS["output"]) + COEFFICIENTS["output_bias"]
        health = 1 / (1 + np.exp(-np.clip(out[0], -8, 8)))
        chances = np.exp(out[1:] - out[1:].max())
        chances /= chances.sum()
        reason = int(np.argmax(chances)) if health >= 0.5 else 1 + int(np.argmax(chances[1:]))
        blame = {"merged": self.gain, "cut": lambda i: self.g[i]}.get(REASONS[reason])
        cluster = max(self.heavy(), key=blame, default=-1) if blame else -1
        return health, dict(zip(REASONS, chances, strict=True)), REASONS[reason], cluster
