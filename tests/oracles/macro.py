"""Clusters of several slots: M, mean and scatter of components from the samples, and XB, DB, CH from them.

`History` (events.py) knows which slot every sample counts for now; a component takes the samples of its slots.
A soft sample counts for a component with the sum of its weights. Readings chosen where the text allows more than one:

* The centre of a component is its member mean, so C is the scatter and G is 0 (not the clusterer's prototypes).
* Components are ordered by their number; k is the number of components with an active slot, also those with M = 0.
* One component: h of XB and DB follows the path (largest squared distance of a sample to the centre after its step), so
  it is given as `lone`; NaN without it. CH is NaN.
* N <= k (k >= 2) is NaN for all three. Coincident centres: XB and DB +inf. CH: W = 0 or omega <= k is NaN.
"""

import numpy as np


def macro(history, component, n, centers):
    """M (c,), mean (c, p), S (c,) of the components, and their numbers. component: number of each slot, -1 inactive."""
    numbers = sorted({int(g) for g in component if g >= 0})
    p = np.shape(centers)[1]
    age, X, W = history.ages(), np.array(history.x).reshape(-1, p), np.array(history.w).reshape(-1, history.k)
    M, mean, S = np.zeros(len(numbers)), np.zeros((len(numbers), p)), np.zeros(len(numbers))
    for row, g in enumerate(numbers):
        slots = [i for i in range(history.k) if component[i] == g]
        weight = age * W[:, slots].sum(1)
        M[row] = weight.sum()
        if M[row] > 0:
            mean[row] = (weight[:, None] * X).sum(0) / M[row]
            S[row] = (weight * ((X - mean[row]) ** 2).sum(1)).sum()
        else:
            mean[row] = sum(n[i] * centers[i] for i in slots) / sum(n[i] for i in slots)
    return M, mean, S, numbers


def values(history, component, n, centers, lone=None):
    """xb, db, ch of the components (paper's normaliser for lambda < 1)."""
    M, v, C, numbers = macro(history, component, n, centers)
    omega, mu, _ = history.overall()
    return index_values(M, v, C, history.seen, omega, mu, history.forgetting, lone)


def index_values(M, v, C, seen, omega, mu, forgetting, lone=None):
    """xb, db, ch from masses, centres and dispersions of clusters that are all active."""
    k, J = len(M), C.sum()
    out = {"xb": np.nan, "db": np.nan, "ch": np.nan}
    if k == 0 or (k >= 2 and seen <= k):
        return out
    L = np.zeros(k)
    for i in range(k):
        if M[i] > 0:
            L[i] = C[i] / (M[i] if forgetting == 1 else max(1.0, M[i]))
    normal = 1 / seen if forgetting == 1 else 1 - forgetting
    if k == 1:
        if lone is not None:
            out["xb"] = normal * J / lone if lone > 0 else np.inf
            out["db"] = L[0] / lone if lone > 0 else np.inf
        return out
    D = ((v[:, None] - v[None]) ** 2).sum(-1)
    h = min(D[i, j] for i in range(k) for j in range(k) if i != j)
    out["xb"] = normal * J / h if h > 0 else np.inf
    if h > 0:
        out["db"] = np.mean([max((L[i] + L[j]) / D[i, j] for j in range(k) if j != i) for i in range(k)])
    else:
        out["db"] = np.inf
    between = (M * ((v - mu) ** 2).sum(1)).sum()
    if J > 0 and omega > k:
        out["ch"] = (between / (k - 1)) / (J / (omega - k))
    return out
