"""Online ellipsoidal clustering, one sample at a time, in plain loops."""

import numpy as np
from scipy.stats import chi2


def regularised_covariance(B):
    """Covariance of the rows of B (ddof = 1) with a small ridge.

    Parameters
    ----------
    B : array (b, p)

    Returns
    -------
    array (p, p)
    """
    p = B.shape[1]
    S = np.zeros((p, p))
    for x in B:
        d = x - B.mean(axis=0)
        S += np.outer(d, d) / (len(B) - 1)
    return S + (1e-6 * np.trace(S) / p + 1e-12) * np.eye(p)


def new_cluster(mean, S):
    """Cluster of p + 1 samples with this mean and covariance."""
    size = len(mean) + 1
    return {"mean": mean.copy(), "P": np.linalg.inv(S), "W": float(size), "W2": float(size), "n": size}


def memberships(F, fuzzifier):
    """Memberships from squared Mahalanobis distances, by differences of logarithms.

    Parameters
    ----------
    F : array (k,)
        Positive.
    fuzzifier : float
        Above 1.

    Returns
    -------
    array (k,)
    """
    logits = -2.0 / (fuzzifier - 1.0) * np.log(F)
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()


def absorb(cluster, x, w):
    """Let a cluster take in a sample with fractional weight w.

    Parameters
    ----------
    cluster : dict
        Changed in place.
    x : array (p,)
    w : float
    """
    cluster["n"] += 1
    if w <= 1e-12:
        return
    a, b, P = cluster["W"], cluster["W2"], cluster["P"]
    a_new, b_new = a + w, b + w**2
    d = x - cluster["mean"]
    chi = a * (a_new**2 - b_new) / (a_new * (a**2 - b))
    delta = a_new * (a**2 - b) / (a**2 * w)
    P = chi * (P - np.outer(P @ d, P @ d) / (delta + d @ P @ d))
    cluster["P"] = (P + P.T) / 2
    cluster["mean"] = cluster["mean"] + (w / a_new) * d
    cluster["W"], cluster["W2"] = a_new, b_new


def separated(tm, tS, clusters, c):
    """Whether the tracker is away from every cluster."""
    p = len(tm)
    reach_tracker = np.linalg.eigvalsh(tS).max()
    for cluster in clusters:
        reach = np.linalg.eigvalsh(np.linalg.inv(cluster["P"])).max()
        gap = tm - cluster["mean"]
        if not gap @ gap >= c**2 * p * max(reach, reach_tracker):
            return False
    return True


def oec(
    X,
    capacity,
    effective=0.99,
    outlier=0.999,
    stabilization=20,
    forgetting=0.9,
    fuzzifier=2.0,
    c=1.0,
    trigger="consecutive",
    seed="tracker",
    memory=np.inf,
):
    """Run online ellipsoidal clustering over a stream.

    Parameters
    ----------
    X : array (n, p)
        A row with NaN or infinity is missing: nothing changes, its label is -1 and its memberships are zero.
    capacity : int
        Number of slots K.
    effective, outlier : float
        Levels of the two chi-squared quantiles.
    stabilization : int
        Samples a cluster is young for; also the length of the window trigger.
    forgetting, fuzzifier, c : float
    trigger : {"consecutive", "window"}
    seed : {"tracker", "buffer"}
    memory : float
        After the members' update the weights of every cluster with W > memory fade to that sum.

    Returns
    -------
    dict
        ``label`` (n,), ``u`` (n, K), ``k`` (n,) clusters in the reading (0 for the first p + 1 samples), ``V``
        (n, K, p) and ``active`` (n, K) as the statistics see them under the exact warm-up (slot 0 from the first
        sample on, at the running mean), ``surprise`` and the flags ``outlier``, ``overflow``, ``birth``, ``ready``;
        index values are NaN where not ready.
    """
    if trigger not in ("consecutive", "window") or seed not in ("tracker", "buffer"):
        raise ValueError("unknown trigger or seed")
    X = np.asarray(X, dtype=float)
    n, p = X.shape
    lam = forgetting
    r_eff, r_out = chi2.ppf(effective, p), chi2.ppf(outlier, p)
    n_eff = 3.0 / (1.0 - lam) if lam < 1 else np.inf
    out = {
        "label": np.full(n, -1),
        "u": np.zeros((n, capacity)),
        "k": np.zeros(n, dtype=int),
        "V": np.zeros((n, capacity, p)),
        "active": np.zeros((n, capacity), dtype=bool),
    }
    out["surprise"] = np.full(n, np.nan)
    for flag in ("outlier", "overflow", "birth", "ready"):
        out[flag] = np.zeros(n, dtype=bool)
    seen, clusters, history = [], [], []
    run, reading_k, is_ready = 0, 0, False
    tm = tS = tk = None
    for t in range(n):
        x = X[t]
        if np.all(np.isfinite(x)) and not clusters:
            seen.append(x)
            out["label"][t] = 0
            out["u"][t, 0] = 1.0
            if len(seen) == p + 1:
                B = np.array(seen)
                tm, tS, tk = B.mean(axis=0), regularised_covariance(B), p + 1
                clusters.append(new_cluster(tm, tS))
        elif np.all(np.isfinite(x)):
            seen.append(x)
            is_ready = True
            # 1: distances and memberships before anything moves
            F = np.zeros(len(clusters))
            for i, cluster in enumerate(clusters):
                F[i] = max((x - cluster["mean"]) @ cluster["P"] @ (x - cluster["mean"]), 1e-12)
            out["surprise"][t] = min(((x - cluster["mean"]) ** 2).sum() for cluster in clusters)
            u = memberships(F, fuzzifier)
            young = [cluster["n"] < stabilization for cluster in clusters]
            # 2: the tracker follows every sample
            d, size = x - tm, min(tk, n_eff)
            tS = lam * (size - 1) / size * tS + lam**2 / size * np.outer(d, d)
            tk += 1
            tm = lam * tm + (1 - lam) * x
            # 3 and 4: members share the sample
            members = [i for i in range(len(clusters)) if F[i] <= r_out or young[i]]
            share = sum(u[i] for i in members)
            for i in members:
                # A share of zero (every member's u underflowed) leaves nothing to divide: no weight.
                absorb(clusters[i], x, u[i] / share if share > 0 else 0.0)
            for cluster in clusters:
                if cluster["W"] > memory:
                    cluster["W2"] *= (memory / cluster["W"]) ** 2
                    cluster["W"] = memory
            out["outlier"][t] = not members
            # 5: anomalies; none while any cluster is young
            anomaly = not any(F[i] <= r_eff or young[i] for i in range(len(clusters)))
            run = run + 1 if anomaly else 0
            history = [] if any(young) else (history + [anomaly])[-stabilization:]
            if trigger == "consecutive":
                fired = run >= p + 1
            else:
                fired = anomaly and sum(history) >= p + 1
            # 6: label and, perhaps, a new cluster
            label = int(np.argmax(u))
            if fired and separated(tm, tS, clusters, c):
                if len(clusters) < capacity:
                    if seed == "tracker":
                        clusters.append(new_cluster(tm, (3 + lam) / lam**2 * tS + 1e-9 * np.eye(p)))
                    else:
                        B = np.array(seen[-(p + 1) :])
                        clusters.append(new_cluster(B.mean(axis=0), regularised_covariance(B)))
                    run, history = 0, []
                    label = len(clusters) - 1
                    u = np.zeros(len(clusters))
                    u[label] = 1.0
                    out["birth"][t] = True
                else:
                    out["overflow"][t] = True
            out["label"][t] = label
            out["u"][t, : len(u)] = u
            reading_k = len(clusters)
        if seen and len(seen) <= p + 1:
            out["V"][t, 0] = np.mean(seen, axis=0)
            out["active"][t, 0] = True
        for i in range(len(clusters)):
            out["V"][t, i] = clusters[i]["mean"]
            out["active"][t, i] = True
        out["k"][t] = reading_k
        out["ready"][t] = is_ready
    return out
