"""CONN: the connectivity index of a map of prototypes, incremental with forgetting and events, and from its pairs.

Readings chosen where the text allows more than one:

* With fewer than two active slots before the step, nothing is added; whether CADJ fades then is left open by the text
  (here it does not), and makes no difference as long as no slot dies.
* Only CONN is cut at epsilon; intra uses CADJ as it is. "Sum CADJ" in the cut runs over active slots too.
* Clusters (slot -> cluster) and active slots are those after the sample; best and second-best are those before it.
* The Event follows the sample's own count: a birth also clears what this sample added to its slot.
* A missing sample changes nothing.
"""

import numpy as np


def best_two(x, centers, active):
    """(best, second) active slot, ties to the lowest; None with fewer than two active."""
    slots = [i for i in range(len(centers)) if active[i]]
    if len(slots) < 2:
        return None
    order = sorted(slots, key=lambda i: (((x - centers[i]) ** 2).sum(), i))
    return order[0], order[1]


class Conn:
    """CADJ of K slots."""

    def __init__(self, K, forgetting=1.0):
        self.forgetting, self.cadj = forgetting, np.zeros((K, K))

    def step(self, x, centers, active, merge=None, born=()):
        """Centres and active slots BEFORE the sample; merge (a, b) takes b into a; born: slots born at this sample."""
        if not np.isfinite(x).all():
            return self.cadj
        pair = best_two(x, centers, active)
        if pair is not None:
            self.cadj *= self.forgetting
            self.cadj[pair] += 1
        if merge is not None:
            a, b = merge
            self.cadj[a, :] += self.cadj[b, :]
            self.cadj[:, a] += self.cadj[:, b]
            self.cadj[a, a] = 0
            self.cadj[b, :] = self.cadj[:, b] = 0
        for i in born:
            self.cadj[i, :] = self.cadj[:, i] = 0
        return self.cadj


def batch_cadj(pairs, K, forgetting=1.0):
    """CADJ without merges and births, from the list of (best, second) or None, one a sample."""
    cadj = np.zeros((K, K))
    age = 0
    for pair in reversed([pair for pair in pairs if pair is not None]):
        cadj[pair] += forgetting**age
        age += 1
    return cadj


def conn(cadj, cluster, active, forgetting=1.0, epsilon=1e-3):
    """The value. cluster: name of each slot, read only where active."""
    if forgetting == 1:
        epsilon = 0.0
    slots = [i for i in range(len(cadj)) if active[i]]
    total = sum(cadj[i, j] for i in slots for j in slots)
    both = cadj + cadj.T
    both = np.where(both <= epsilon * total, 0.0, both)
    groups = {}
    for i in slots:
        groups.setdefault(cluster[i], []).append(i)
    if len(groups) < 2:
        return np.nan

    def sums(matrix, rows, columns):
        return sum(matrix[i, j] for i in rows for j in columns)

    intra, inter = [], []
    for k, inside in groups.items():
        everything = sums(cadj, inside, slots)
        intra.append(sums(cadj, inside, inside) / everything if everything > 0 else 0.0)
        worst = 0.0
        for l, other in groups.items():
            if l == k:
                continue
            border = [i for i in inside if sums(both, [i], other) > 0]
            if border:
                whole = sums(both, border, inside + other) - 0.5 * sums(both, border, border)
                worst = max(worst, sums(both, border, other) / whole)
        inter.append(worst)
    return np.mean(intra) * (1 - np.mean(inter))
