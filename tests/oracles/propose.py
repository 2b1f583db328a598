"""propose: the panel's values if x joined each cluster, and if it made a new one, from the raw list of samples.

Crisp members, labels 0..k-1 (-1: noise, which ages the others and joins nothing), centres = faded member means, or
`centers` given as they are now, of which the one that x joins moves by g = 1/(lambda M_c + 1) towards x.
Readings chosen where the text allows more than one:

* A slot is active if it has a member, or where `active` says so.
* k = 1: h of XB and DB is the largest squared distance of a sample to the centre after its step, over all samples and
  x itself; here the centre's path is the faded running mean of the only cluster, so `centers` may not be given.
* k < 2 makes CH, WB, BH and R2 NaN (the text names k < 2 as undefined for all of them).
* Zero denominators: XB and DB +inf; CH, WB and R2 NaN. CH needs omega > k.
* N <= k with k >= 2: NaN for all.
"""

import numpy as np

NAMES = ("xb", "db", "ch", "wb", "bh", "r2")


def propose(X, labels, k, x, forgetting=1.0, centers=None, active=None):
    """{name: (k + 1,)}: x joins 0..k-1 (NaN where inactive); last, a new cluster."""
    labels = np.asarray(labels, int)
    members = np.array([np.any(labels == c) for c in range(k)])
    active = members if active is None else np.asarray(active, bool)
    everything = np.vstack([np.reshape(X, (-1, len(x))), x])
    out = {name: np.full(k + 1, np.nan) for name in NAMES}
    for c in [*np.flatnonzero(active), k]:
        moved = None
        if centers is not None:
            mass = sum(forgetting ** (len(X) - 1 - j) for j in range(len(X)) if labels[j] == c)
            moved = np.vstack([centers, x]).astype(float)
            if c < k:
                moved[c] += (x - moved[c]) / (forgetting * mass + 1)
        slots = [i for i in range(k + 1) if i == c or (i < k and active[i])]
        for name, value in partition(everything, np.append(labels, c), slots, forgetting, moved).items():
            out[name][c] = value
    return out


def partition(X, labels, slots, forgetting=1.0, centers=None):
    """The six values of a list of samples with crisp labels over these (active) slots."""
    n, k = len(X), len(slots)
    age = np.array([forgetting ** (n - 1 - j) for j in range(n)])
    out = dict.fromkeys(NAMES, np.nan)
    if k == 0 or (k >= 2 and n <= k):
        return out
    M, C, v = np.zeros(k), np.zeros(k), np.zeros((k, X.shape[1]))
    for row, i in enumerate(slots):
        weight = age * (labels == i)
        M[row] = weight.sum()
        v[row] = (weight[:, None] * X).sum(0) / M[row] if centers is None else centers[i]
        C[row] = (weight * ((X - v[row]) ** 2).sum(1)).sum()
    J = C.sum()
    normal = 1 / n if forgetting == 1 else 1 - forgetting
    L = [0.0 if m == 0 else c / (m if forgetting == 1 else max(1.0, m)) for c, m in zip(C, M)]
    if k == 1:
        if centers is not None:
            return out
        h = lone_distance(X, labels == slots[0], forgetting)
        out["xb"] = normal * J / h if h > 0 else np.inf
        out["db"] = L[0] / h if h > 0 else np.inf
        return out
    D = ((v[:, None] - v[None]) ** 2).sum(-1)
    h = min(D[i, j] for i in range(k) for j in range(k) if i != j)
    out["xb"] = normal * J / h if h > 0 else np.inf
    out["db"] = np.inf
    if h > 0:
        out["db"] = np.mean([max((L[i] + L[j]) / D[i, j] for j in range(k) if j != i) for i in range(k)])
    omega = age.sum()
    mu = (age[:, None] * X).sum(0) / omega
    B = (M * ((v - mu) ** 2).sum(1)).sum()
    if J > 0 and omega > k:
        out["ch"] = (B / (k - 1)) / (J / (omega - k))
    if B > 0:
        out["wb"] = k * J / B
    if B + J > 0:
        out["r2"] = B / (B + J)
    out["bh"] = np.mean([c / m if m > 0 else 0.0 for c, m in zip(C, M)])
    return out


def lone_distance(X, mine, forgetting):
    """h of a lone cluster: the largest squared distance of a sample to the running faded mean just after its step."""
    h, mass, v = 0.0, 0.0, None
    for x, member in zip(X, mine):
        mass *= forgetting
        if member:
            mass += 1
            v = x.copy() if v is None else v + (x - v) / mass
        if v is not None:
            h = max(h, ((v - x) ** 2).sum())
    return h
