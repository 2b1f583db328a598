"""Quantities that the index formulas are written in, from batch sums."""

import numpy as np

from .dispersion import batch_dispersion, member_weights, prepare, sample_weights, separation


def covariance(X, w, tiny):
    """Weighted mean and unbiased, regularised covariance.

    Parameters
    ----------
    X : array (n, p)
    w : array (n,)
        Weights; not all zero.
    tiny : float
        Where 1 - R is at most this, the scatter is nothing but rounding and the covariance is the ridge alone.

    Returns
    -------
    mean : array (p,)
    cov : array (p, p)
    """
    n, p = X.shape
    ridge = 10.0 ** (-12.0 / p) * np.eye(p)
    M = w.sum()
    mean = np.zeros(p)
    for j in range(n):
        mean += w[j] * X[j] / M
    scatter = np.zeros((p, p))
    for j in range(n):
        scatter += w[j] * np.outer(X[j] - mean, X[j] - mean)
    R = np.sum(w**2) / M**2
    return mean, ridge if 1 - R <= tiny else scatter / (M * (1 - R)) + ridge


class Facts:
    """All quantities of the formulas, after the last sample that is not missing, active slots only."""

    def __init__(self, X, U, V_path, active_path, forgetting, fuzzifier, elapsed):
        data = prepare(X, U, V_path, active_path, forgetting, elapsed)
        self.N, self.k = len(data["kept"]), 0
        if self.N == 0:
            return
        on = np.flatnonzero(data["active"][-1])
        self.k, self.p = len(on), data["X"].shape[1]
        if self.k == 0:
            return
        self.X, self.U, self.V = data["X"], data["U"], data["V_path"][-1][on]
        # Forgetting of the last step: with constant gaps this is the same as forgetting faster.
        self.lam = data["fade"][-1]
        self.weights = sample_weights(data["fade"])
        self.w = member_weights(self.U, data["active"], data["fade"], fuzzifier)[:, on]
        kept_gaps = None if elapsed is None else np.asarray(elapsed, dtype=float)[data["kept"]]
        sums = batch_dispersion(self.X, self.U, data["V_path"][-1], data["active"], forgetting, fuzzifier, kept_gaps)
        self.C, self.M = sums["C"][on], sums["M"][on]
        self.h = separation(data["V_path"], self.X, data["active"])[-1]
        self.omega = self.weights.sum()
        self.mu = (self.weights[:, None] * self.X).sum(axis=0) / self.omega
        self.S0 = sum(a * np.sum((x - self.mu) ** 2) for a, x in zip(self.weights, self.X))
        self.W = self.J = self.C.sum()
        self.B = sum(M * np.sum((v - self.mu) ** 2) for M, v in zip(self.M, self.V))
        self.D = np.array([[np.sum((a - b) ** 2) for b in self.V] for a in self.V])
        self.mean_centre = self.V.mean(axis=0)
        # An active slot without weight has no spread.
        self.spread = np.array([C / M if M > 0 else 0.0 for C, M in zip(self.C, self.M)])
        self.pairs = [(i, j) for i in range(self.k) for j in range(i + 1, self.k)]

    def others(self, i):
        """Active slots except i."""
        return [j for j in range(self.k) if j != i]
