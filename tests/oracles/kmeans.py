"""Sequential k-means, one sample at a time, in plain loops."""

import numpy as np


def kmeans(X, k, seeding="first"):
    """Run sequential k-means over a stream.

    Parameters
    ----------
    X : array (n, p)
        A row with NaN or infinity is missing: nothing changes and its label is -1.
    k : int
    seeding : {"first", "distinct"}
        Whether the first k samples or the first k distinct samples become the centres.

    Returns
    -------
    dict
        ``label`` (n,), ``u`` (n, k), ``V`` (n, k, p) centres after each step (zero in slots not seeded yet),
        ``active`` (n, k) and ``ready`` (n,), False where index values are NaN: until the last centre is seeded,
        the seeding sample included.
    """
    if seeding not in ("first", "distinct"):
        raise ValueError(f"unknown seeding {seeding!r}")
    X = np.asarray(X, dtype=float)
    n, p = X.shape
    label, u = np.full(n, -1), np.zeros((n, k))
    V_path, active, ready = np.zeros((n, k, p)), np.zeros((n, k), dtype=bool), np.zeros(n, dtype=bool)
    centres, counts = [], []
    is_ready = False
    for t in range(n):
        x = X[t]
        if np.all(np.isfinite(x)):
            is_ready = len(centres) == k
            if not is_ready:
                slot = None
                if seeding == "distinct":
                    for i in range(len(centres)):
                        # A seed only ever takes in its own repeats before all are there, so it has not moved.
                        if np.array_equal(centres[i], x):
                            slot = i
                if slot is None:
                    centres.append(x.copy())
                    counts.append(1)
                    slot = len(centres) - 1
                else:
                    counts[slot] += 1
            else:
                slot, best = 0, np.inf
                for i in range(k):
                    distance = np.sum((x - centres[i]) ** 2)
                    if distance < best:  # strictly, so that the lowest index wins a tie
                        slot, best = i, distance
                counts[slot] += 1
                centres[slot] = centres[slot] + (x - centres[slot]) / counts[slot]
            label[t] = slot
            u[t, slot] = 1.0
        for i in range(len(centres)):
            V_path[t, i] = centres[i]
            active[t, i] = True
        ready[t] = is_ready
    return {"label": label, "u": u, "V": V_path, "active": active, "ready": ready}
