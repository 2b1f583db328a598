"""Dispersion through merges, rebirths and deaths, from the list of all samples and the weights they have now.

Every sample carries the weights w = u^m it was given. A merge b -> a turns b's earlier weights into a's; a slot that is
born (again) or dies loses its earlier weights. C, M, G, R, member mean and scatter are then plain sums.
Readings chosen where the text allows more than one:

* At a merge of soft memberships the weights u^m add, not the memberships u; the squares in R add as squares.
* A missing sample (any feature or membership not finite) is not in the list, and its Event is not applied.
* Noise (all-zero u) is in the list with zero weights: it ages the others.
"""

import numpy as np


class History:
    """All samples of one stream. `append` one Event a sample, `read` the sums about any centres."""

    def __init__(self, k, forgetting=1.0, fuzzifier=2.0):
        self.k, self.forgetting, self.fuzzifier = k, forgetting, fuzzifier
        self.x, self.w, self.w2 = [], [], []

    def append(self, x, u, merge=None, born=(), dead=()):
        """One Event. merge (a, b): b into a. born, dead: slots. u: memberships, or a slot number (-1: noise)."""
        if np.ndim(u) == 0:
            u = np.array([float(i == u) for i in range(self.k)])
        x, u = np.asarray(x, float), np.asarray(u, float)
        if not (np.isfinite(x).all() and np.isfinite(u).all()):
            return
        for weights in (self.w, self.w2):
            for w in weights:
                if merge is not None:
                    a, b = merge
                    w[a] += w[b]
                    w[b] = 0.0
                for i in (*born, *dead):
                    w[i] = 0.0
        w = np.array([ui**self.fuzzifier if ui > 0 else 0.0 for ui in u])
        self.x.append(x)
        self.w.append(w)
        self.w2.append(w**2)

    @property
    def seen(self):
        return len(self.x)

    def ages(self):
        """lambda^(n - j) of every sample."""
        return np.array([self.forgetting ** (self.seen - 1 - j) for j in range(self.seen)])

    def read(self, centers):
        """C, M, G, R about these centres; mean and scatter of the members (the centre and 0 where M = 0)."""
        k, p = np.shape(centers)
        C, M, G, R = np.zeros(k), np.zeros(k), np.zeros((k, p)), np.zeros(k)
        mean, scatter = np.array(centers, float), np.zeros(k)
        if self.seen == 0:
            return {"C": C, "M": M, "G": G, "R": R, "mean": mean, "scatter": scatter}
        age, X, W, W2 = self.ages(), np.array(self.x), np.array(self.w), np.array(self.w2)
        for i in range(k):
            weight = age * W[:, i]
            M[i] = weight.sum()
            C[i] = (weight * ((X - centers[i]) ** 2).sum(1)).sum()
            G[i] = (weight[:, None] * (X - centers[i])).sum(0)
            if M[i] > 0:
                R[i] = (age**2 * W2[:, i]).sum() / M[i] ** 2
                mean[i] = (weight[:, None] * X).sum(0) / M[i]
                scatter[i] = (weight * ((X - mean[i]) ** 2).sum(1)).sum()
        return {"C": C, "M": M, "G": G, "R": R, "mean": mean, "scatter": scatter}

    def overall(self):
        """omega = sum of the ages, faded mean of all samples, faded scatter about it (noise too)."""
        age, X = self.ages(), np.array(self.x)
        mean = (age[:, None] * X).sum(0) / age.sum()
        return age.sum(), mean, (age * ((X - mean) ** 2).sum(1)).sum()
