"""Clusterers A, C and D as plain loops (E is in `oec`): `run(X, ...)` gives one record (a dict) a sample.

A record holds the state after the sample: `label` (-1: missing), `u`, `centers`, `active`, `born` (slot or -1),
`surprise` (squared distance to the nearest prototype before the step) and the clusterer's own masses.
A missing row (any feature not finite) changes nothing. Inactive slots keep centres of zero.
Readings chosen where the text allows more than one:

* C: `f` fades before the test of the same sample, and while seeding too; a new seed or reborn slot then has f = 1.
* D: "distinct" compares with the samples that became centres, not with where those centres have moved since.
* D: a repeat before all centres are there counts as a step: N of the seeds there are fades by it.
"""

import numpy as np


def nearest(x, V, active):
    """Lowest slot at the smallest squared distance, and that distance; (-1, NaN) without an active slot."""
    best, d = -1, np.nan
    for i in range(len(V)):
        if active[i]:
            distance = ((x - V[i]) ** 2).sum()
            if best < 0 or distance < d:
                best, d = i, distance
    return best, d


def one_hot(i, k):
    u = np.zeros(k)
    if i >= 0:
        u[i] = 1
    return u


def snapshot(**fields):
    """A record that later steps cannot change."""
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in fields.items()}


def sequential_kmeans(X, k, memory=np.inf, seeding="first"):
    """A: i nearest; n_i += 1; v_i += max(1/n_i, 1/memory)(x - v_i). Records: n too."""
    p = X.shape[1]
    V, n, active, records = np.zeros((k, p)), np.zeros(k, int), np.zeros(k, bool), []
    for x in X:
        label, born, d = -1, -1, np.nan
        if np.isfinite(x).all():
            i, d = nearest(x, V, active)
            repeat = seeding == "distinct" and i >= 0 and (x == V[i]).all()
            if not active.all() and not repeat:
                label = born = int(active.sum())
                V[label], n[label], active[label] = x, 1, True
            else:
                label = i
                n[i] += 1
                V[i] += max(1 / n[i], 1 / memory) * (x - V[i])
        records.append(snapshot(label=label, u=one_hot(label, k), centers=V, active=active, born=born, surprise=d, n=n))
    return records


def rebirth_kmeans(X, k, memory=100, mass_memory=500):
    """C. Records: n, f, names, cluster (name of the slot given, -1 missing), s2, r too."""
    p = X.shape[1]
    V, n, f, active = np.zeros((k, p)), np.zeros(k, int), np.zeros(k), np.zeros(k, bool)
    names, following, s2, r, records = np.arange(k), k, 0.0, 0, []
    for x in X:
        label, born, d = -1, -1, np.nan
        if np.isfinite(x).all():
            f = (1 - 1 / mass_memory) * f
            i, d = nearest(x, V, active)
            full = active.all()
            if not full and (i < 0 or (x != V[i]).any()):
                label = born = int(active.sum())
                V[label], n[label], f[label], active[label] = x, 1, 1, True
            elif full and r > 20 and d > 9 * s2 and f.min() < 0.1 * f.sum() / k:
                label = born = int(f.argmin())
                V[label], n[label], f[label] = x, 1, 1
                names[label], following = following, following + 1
            else:
                label = i
                n[i] += 1
                V[i] += max(1 / n[i], 1 / memory) * (x - V[i])
                f[i] += 1
                r += 1
                s2 += max(1 / r, 0.01) * ((d if r <= 20 else min(d, 9 * s2)) - s2)
        cluster = int(names[label]) if label >= 0 else -1
        fields = {"n": n, "f": f, "names": names, "cluster": cluster, "s2": s2, "r": r}
        records.append(
            snapshot(label=label, u=one_hot(label, k), centers=V, active=active, born=born, surprise=d, **fields)
        )
    return records


def fuzzy_memberships(d, fuzzifier=2.0):
    """u_i proportional to e_i^(-1/(m-1)), e = d + 1e-12 max d; all equal where every d is 0."""
    e = d + 1e-12 * d.max()
    if d.max() == 0:
        return np.full(len(d), 1 / len(d))
    logarithm = -np.log(e) / (fuzzifier - 1)
    weight = np.exp(logarithm - logarithm.max())
    return weight / weight.sum()


def fuzzy_cmeans(X, k, forgetting=0.99, fuzzifier=2.0):
    """D. Records: N too; the label is argmax u, lowest on ties."""
    p = X.shape[1]
    V, N, active, seeds, records = np.zeros((k, p)), np.zeros(k), np.zeros(k, bool), [], []
    for x in X:
        label, born, d, u = -1, -1, np.nan, np.zeros(k)
        if np.isfinite(x).all():
            _, d = nearest(x, V, active)
            if len(seeds) < k and not any((x == z).all() for z in seeds):
                label = born = len(seeds)
                seeds.append(x.copy())
                V[label], N[label], active[label] = x, 1, True
                u = one_hot(label, k)
            else:
                there = len(seeds)
                u[:there] = fuzzy_memberships(((x - V[:there]) ** 2).sum(1), fuzzifier)
                for i in range(there):
                    w = u[i] ** fuzzifier
                    N[i] = forgetting * N[i] + w
                    V[i] += w / N[i] * (x - V[i])
                label = int(u.argmax())
        records.append(snapshot(label=label, u=u, centers=V, active=active, born=born, surprise=d, N=N))
    return records
