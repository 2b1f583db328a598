"""B, MergeSplit: a quantiser that merges and splits, with links from slots to clusters, as a plain loop.

`run(X, ...)` gives one record (a dict) a sample, the state after it: label (slot given, -1 missing), born (slot or -1),
merge ((a, b), b into a, or None), split, names, cluster (name of the slot given), k (components), component (number:
lowest strong slot, or the slot itself; -1 inactive), surprise, centers, active, n, q, s2, adj, t.
A missing row changes nothing (label and cluster -1, surprise NaN). Readings chosen where the text allows more than one:

* A component is numbered by its lowest strong slot; a weak slot that joins it does not change the number.
* Ties: equal Ward costs, the pair that comes first in (c, e) order, c < e; equal strong slots at a weak one, the
  lowest; equal masses in a component, the lowest slot.
* One slot (K = 1) has no pair: nothing can merge, w = inf (no split); a far sample then takes the only slot as `new`.
* `9 s2` in step 6 and the .2, 1.25, 1.04, 1.2 of step 7 are literal, not derived from `far`.
* s2 before this sample is the s2 of step 3; d of the first sample is 0, so far = "no active slot" there.
* k of a missing row repeats; before the first sample it is 0.

`traffic` is no part of SPEC: a link then also needs samples whose two nearest slots (before the sample) are its ends,
faded like masses: at least traffic (half of it for a link that stands) times the least of the ends' masses and of the
most that any two slots, one of them an end, have between them. A merge adds them up, a birth has none; a slot born of a
split has as many with all others as the slot it came from, and as many with that one as it has mass.
"""

import numpy as np

from oracles.clusterers import nearest, snapshot


class MergeSplit:
    """State and one step."""

    def __init__(self, slots, p, memory=100, mass_memory=500, far=3.0, gain=20.0, traffic=0.0):
        self.K, self.p, self.eta, self.H, self.far, self.gain = slots, p, 1 / memory, mass_memory, far, gain
        self.v, self.n, self.q = np.zeros((slots, p)), np.zeros(slots), np.zeros(slots)
        self.active, self.name = np.zeros(slots, bool), np.full(slots, -1)
        self.adj = np.zeros((slots, slots), bool)
        self.component = np.full(slots, -1)
        self.s2, self.t, self.next = 0.0, 0, 0
        self.traffic, self.between = traffic, {}  # samples between two slots, by the set of both

    def distances(self):
        """D, squared, between all slots."""
        return ((self.v[:, None] - self.v[None]) ** 2).sum(-1)

    def cheapest(self):
        """The smallest Ward cost and its pair."""
        if self.K == 1:
            return np.inf, None
        cost = self.n[:, None] * self.n[None] / (self.n[:, None] + self.n[None]) * self.distances()
        cost[np.tril_indices(self.K)] = np.inf
        c, e = divmod(int(cost.argmin()), self.K)
        return cost[c, e], (c, e)

    def step(self, x):
        # 0
        self.t += 1
        for c in range(self.K):
            if self.active[c]:
                self.n[c] = max((1 - 1 / self.H) * self.n[c], 1e-12)
        # 1
        i, surprise = nearest(x, self.v, self.active)
        d = surprise if i >= 0 else 0.0
        order = sorted((((x - self.v[c]) ** 2).sum(), c) for c in range(self.K) if self.active[c])
        self.between = {pair: (1 - 1 / self.H) * samples for pair, samples in self.between.items()}
        if len(order) > 1:
            pair_of_sample = frozenset((order[0][1], order[1][1]))
            self.between[pair_of_sample] = self.between.get(pair_of_sample, 0) + 1
        # 2
        full = self.active.all()
        w, pair = self.cheapest() if full else (0.0, None)
        # 3
        far = i < 0 or (d > self.far**2 * self.s2 and d > 0)
        fat = (
            i >= 0
            and self.n[i] >= 3
            and d > self.q[i]
            and self.n[i] * self.q[i] / 2 > self.gain * w
            and not (pair and i in pair)
        )
        born, split = far or fat, fat and not far
        # 4
        new, merge = -1, None
        if born and pair:
            a, b = pair if self.n[pair[0]] >= self.n[pair[1]] else pair[::-1]
            self.join(a, b)
            for c in set(range(self.K)) - {a, b}:
                ours, theirs = frozenset((a, c)), frozenset((b, c))
                self.between[ours] = self.between.get(ours, 0) + self.between.get(theirs, 0)
            new, merge = b, (a, b)
        elif born:
            new = 0 if full else int(np.flatnonzero(~self.active)[0])
        # 5
        if born:
            self.v[new], self.active[new] = x, True
            self.adj[new, :] = self.adj[:, new] = False
            self.between = {pair: samples for pair, samples in self.between.items() if new not in pair}
            if split:
                self.n[i] /= 2
                self.q[i] /= 2
                self.n[new], self.q[new], self.name[new] = max(self.n[i], 1), self.q[i], self.name[i]
                for c in set(range(self.K)) - {i, new}:
                    self.between[frozenset((new, c))] = self.between.get(frozenset((i, c)), 0)
                self.between[frozenset((i, new))] = self.n[new]
            else:
                self.n[new], self.q[new], self.name[new] = 1, 0, self.next
                self.next += 1
        else:
            self.n[i] += 1
            g = max(1 / self.n[i], self.eta)
            self.q[i] = (1 - g) * (self.q[i] + g * d)
            self.v[i] += g * (x - self.v[i])
        # 6
        felt = min(d, 9 * self.s2) if born and self.t > 2 * self.K else d
        self.s2 += max(1 / self.t, 1 / self.H) * (felt - self.s2)
        # 7
        self.link()
        self.rename()
        return {"label": new if born else i, "born": new, "merge": merge, "split": split, "surprise": surprise}

    def join(self, a, b):
        m = self.n[a] + self.n[b]
        spread = self.n[a] * self.n[b] * self.distances()[a, b] / m**2
        self.q[a] = (self.n[a] * self.q[a] + self.n[b] * self.q[b]) / m + spread
        self.v[a] = (self.n[a] * self.v[a] + self.n[b] * self.v[b]) / m
        self.n[a] = m

    def link(self):
        """adj, then the component of every active slot."""
        slots = [c for c in range(self.K) if self.active[c]]
        radius = np.sqrt(np.maximum(self.q, self.s2 / 4))
        bar = 0.2 * sum(self.n[c] for c in slots) / len(slots)
        strong = [c for c in slots if self.n[c] >= bar]
        on = max(1.25, 1.04 * np.sqrt(3 / self.p))
        off = 1.2 * on
        D = self.distances()
        old, self.adj = self.adj, np.zeros((self.K, self.K), bool)
        for c in strong:
            for e in strong:
                if c != e:
                    reach = (off if old[c, e] else on) * (radius[c] + radius[e])
                    most = max((samples for pair, samples in self.between.items() if pair & {c, e}), default=0)
                    busy = self.traffic * min(self.n[c], self.n[e], most) * (0.5 if old[c, e] else 1)
                    self.adj[c, e] = np.sqrt(D[c, e]) <= reach and self.between.get(frozenset((c, e)), 0) >= busy
        self.component = np.full(self.K, -1)
        for c in strong:  # flood from the lowest slot not reached yet
            frontier = [c] if self.component[c] < 0 else []
            while frontier:
                e = frontier.pop()
                if self.component[e] < 0:
                    self.component[e] = c
                    frontier += [j for j in strong if self.adj[e, j]]
        for c in slots:
            if c not in strong:
                e = min(strong, key=lambda j: (D[c, j], j))
                near = np.sqrt(D[c, e]) <= off * (radius[c] + radius[e])
                self.component[c] = self.component[e] if near else c

    def rename(self):
        numbers = sorted(set(self.component[self.active]))
        members = {g: [c for c in range(self.K) if self.component[c] == g] for g in numbers}
        mass = {g: sum(self.n[c] for c in members[g]) for g in numbers}
        claim = {g: self.name[max(members[g], key=lambda c: (self.n[c], -c))] for g in numbers}
        given = {}
        for g in numbers:
            rivals = [h for h in numbers if claim[h] == claim[g]]
            if g == max(rivals, key=lambda h: (mass[h], -h)):
                given[g] = claim[g]
            else:
                given[g], self.next = self.next, self.next + 1
        for g in numbers:
            for c in members[g]:
                self.name[c] = given[g]


def run(X, slots=16, memory=100, mass_memory=500, far=3.0, gain=20.0, traffic=0.0):
    """One record a sample."""
    m = MergeSplit(slots, X.shape[1], memory, mass_memory, far, gain, traffic)
    records = []
    for x in X:
        event = {"label": -1, "born": -1, "merge": None, "split": False, "surprise": np.nan}
        if np.isfinite(x).all():
            event = m.step(x)
        label = event["label"]
        records.append(
            snapshot(
                **event,
                cluster=int(m.name[label]) if label >= 0 else -1,
                names=m.name,
                component=m.component,
                k=len(set(m.component[m.active])),
                centers=m.v,
                active=m.active,
                n=m.n,
                q=m.q,
                s2=m.s2,
                adj=m.adj,
                t=m.t,
            )
        )
    return records
