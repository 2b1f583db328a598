"""Values of every index after the last sample, straight from their batch definitions."""

import numpy as np

from .facts import Facts, covariance

NAMES = "xb db ch wb pbm csil gd43 gd53 ps ni rcip rh bh hartigan xu r2 rmsstd pc pe fs kwon".split()
EPS = 2.0**-52
# Not built on C_i or a covariance, so defined with as many clusters as samples.
FREE_OF_DISPERSION = ("ps", "pc", "pe")


def ratio(a, b):
    """Quotient a / b, NaN over zero."""
    return a / b if b != 0 else np.nan


def log(a):
    """Logarithm, NaN where there is none (zero included: it may not pass for the best value)."""
    return np.log(a) if a > 0 else np.nan


def xb(f, normalizer="paper"):
    """Xie-Beni; +inf when h = 0, also with one cluster whose samples all sit on its centre."""
    if f.h == 0:
        return np.inf
    if normalizer == "exact":
        return f.J / (f.omega * f.h)
    return f.J / (f.N * f.h) if f.lam == 1 else (1 - f.lam) * f.J / f.h


def db(f, root=False):
    """Davies-Bouldin; the form with roots is not defined at one cluster: NaN."""
    L = f.spread if f.lam == 1 else f.C / np.maximum(1.0, f.M)
    if f.k == 1:
        if root:
            return np.nan
        return np.inf if f.h == 0 else L[0] / f.h
    total = 0.0
    for i in range(f.k):
        worst = -np.inf
        for j in f.others(i):
            if f.D[i, j] == 0:
                worst = np.inf
            elif root:
                worst = max(worst, (np.sqrt(L[i]) + np.sqrt(L[j])) / np.sqrt(f.D[i, j]))
            else:
                worst = max(worst, (L[i] + L[j]) / f.D[i, j])
        total += worst
    return total / f.k


def freedom(f, dof):
    """Degrees of freedom, NaN where there are none."""
    if dof == "none":
        return f.omega
    return f.omega - f.k if f.omega > f.k else np.nan


def csil(f, peer=False):
    """Centroid silhouette; NaN with an active slot without members (its silhouette would be perfect)."""
    if np.any(f.M == 0):
        return np.nan
    Q = np.zeros((f.k, f.k))
    for i in range(f.k):
        for j in range(f.k):
            Q[i, j] = sum(w * np.sum((x - f.V[j]) ** 2) for w, x in zip(f.w[:, i], f.X)) / f.M[i]
    total = 0.0
    for i in range(f.k):
        a = Q[i, i]
        b = min(Q[j, i] if peer else Q[i, j] for j in f.others(i))
        total += ratio(b - a, max(a, b))
    return total / f.k


def gd53(f):
    """Generalised Dunn 53; NaN with a pair of slots that has no weight at all."""
    gaps = [ratio(f.C[i] + f.C[j], f.M[i] + f.M[j]) for i, j in f.pairs]
    return ratio(np.min(gaps), 2 * f.spread.max())  # np.min keeps a NaN


def ps(f):
    """Partition separation."""
    beta = np.mean([np.sum((v - f.mean_centre) ** 2) for v in f.V])
    if beta == 0 or f.M.max() == 0:
        return np.nan
    return sum(f.M[i] / f.M.max() - np.exp(-min(f.D[i, j] for j in f.others(i)) / beta) for i in range(f.k))


def ni(f, tiny=1e-12):
    """Negentropy increment; an empty slot adds nothing (q log(1/q) tends to 0)."""
    if f.M.sum() == 0:
        return np.nan
    _, whole = covariance(f.X, f.weights, tiny)
    total = -0.5 * np.linalg.slogdet(whole)[1]
    for i in range(f.k):
        if f.M[i] > 0:
            q = f.M[i] / f.M.sum()
            total += q * (0.5 * np.linalg.slogdet(covariance(f.X, f.w[:, i], tiny)[1])[1] - np.log(q))
    return total


def cross_entropies(f, tiny, eps):
    """Minus the log density of every pair of slots; NaN with an empty slot, which has no mean.

    NaN also for a pair with too few members for the rank of its covariance, where rounding exceeds the ridge.
    """
    if np.any(f.M == 0):
        return np.array([np.nan])
    fits = [covariance(f.X, f.w[:, i], tiny) for i in range(f.k)]
    out = []
    members = [f.w[:, i].sum() ** 2 / np.sum(f.w[:, i] ** 2) for i in range(f.k)]
    noisy = [f.p * eps * np.trace(fit[1]) > 10.0 ** (-12.0 / f.p) for fit in fits]
    for i, j in f.pairs:
        if members[i] + members[j] < f.p + 1.5 and (noisy[i] or noisy[j]):
            out.append(np.nan)
            continue
        d, S = fits[i][0] - fits[j][0], fits[i][1] + fits[j][1]
        out.append(0.5 * (d @ np.linalg.solve(S, d) + np.linalg.slogdet(S)[1] + f.p * np.log(2 * np.pi)))
    return np.array(out)


def rcip(f, log=True, tiny=1e-12, eps=EPS):
    """Representative cross information potential or its logarithm."""
    logs = -cross_entropies(f, tiny, eps)
    if not log:
        return np.exp(logs).sum()
    return logs.max() + np.log(np.exp(logs - logs.max()).sum())


def fs(f):
    """Fukuyama-Sugeno."""
    return f.J - sum(M * np.sum((v - f.mean_centre) ** 2) for M, v in zip(f.M, f.V))


def kwon(f):
    """Kwon; coincident centres are the worst there is."""
    between = np.mean([np.sum((v - f.mean_centre) ** 2) for v in f.V])
    return np.inf if f.h == 0 else (f.J + between) / f.h


def entropy(u):
    """Sum of u log u, with 0 log 0 = 0."""
    return sum(a * np.log(a) for a in u if a > 0)


FORMULAS = {
    "xb": xb,
    "db": db,
    "ch": lambda f, dof="faded": ratio(f.B / (f.k - 1), f.W / freedom(f, dof)),
    "wb": lambda f: ratio(f.k * f.W, f.B),
    "pbm": lambda f: (ratio(f.S0, f.W) * f.D.max() / f.k) ** 2,
    "csil": csil,
    "gd43": lambda f, root=False: ratio(
        min(np.sqrt(f.D[i, j]) for i, j in f.pairs), 2 * (np.sqrt(f.spread) if root else f.spread).max()
    ),
    "gd53": gd53,
    "ps": ps,
    "ni": ni,
    "rcip": rcip,
    "rh": lambda f, tiny=1e-12, eps=EPS: cross_entropies(f, tiny, eps).sum(),
    "bh": lambda f: f.spread.mean(),
    "hartigan": lambda f: log(ratio(f.B, f.W)),
    "xu": lambda f: f.p * log(np.sqrt(f.W / (f.p * f.omega**2))) + np.log(f.k),
    "r2": lambda f: ratio(f.B, f.B + f.W),
    "rmsstd": lambda f, dof="faded": np.sqrt(f.W / (f.p * freedom(f, dof))),
    "pc": lambda f: sum(a * np.sum(u**2) for a, u in zip(f.weights, f.U)) / f.omega,
    "pe": lambda f: -sum(a * entropy(u) for a, u in zip(f.weights, f.U)) / f.omega,
    "fs": fs,
    "kwon": kwon,
}


def value(name, X, U, V_path, active_path=None, forgetting=1.0, fuzzifier=2.0, elapsed=None, **options):
    """Value of one index after the last sample.

    Parameters
    ----------
    name : str
        One of ``NAMES``.
    X : array (n, p)
    U : array (n, k)
    V_path : array (n, k, p)
        Centres after each step; the last row counts, and the whole path where there is one cluster.
    active_path : bool array (n, k), optional
    forgetting, fuzzifier : float
    elapsed : array (n,), optional
        Time gap before each sample.
    **options
        ``normalizer`` (xb), ``root`` (db, gd43), ``peer`` (csil), ``log`` (rcip), ``dof`` (ch, rmsstd), ``tiny``
        (ni, rcip, rh: when a covariance counts as undetermined), ``eps`` (rcip, rh: of the float type).

    Returns
    -------
    float
    """
    f = Facts(X, U, V_path, active_path, forgetting, fuzzifier, elapsed)
    if f.k == 0:
        return np.nan
    if f.k == 1 and name not in ("xb", "db"):
        return np.nan  # only these two have a meaning given for a single cluster
    if f.k >= 2 and f.N <= f.k and name not in FREE_OF_DISPERSION:
        return np.nan
    return float(FORMULAS[name](f, **options))
