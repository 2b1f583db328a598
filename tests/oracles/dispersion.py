"""Dispersion statistics of a clustered stream, from the batch sums and from the plain recursion."""

import numpy as np


def prepare(X, U, V_path=None, active_path=None, forgetting=1.0, elapsed=None):
    """Drop the missing samples and put the rest in one shape.

    A sample is missing when a feature, a membership or the centre of an active slot is NaN or infinite. It leaves
    no trace: it does not fade the past, its time gap is lost and its row of ``active_path`` is ignored.

    Parameters
    ----------
    X : array (n, p)
    U : array (n, k)
        Memberships; an all-zero row is noise and is kept.
    V_path : array (n, k, p), optional
    active_path : bool array (n, k), optional
        All active when absent.
    forgetting : float
    elapsed : array (n,), optional
        Time gap before each sample; ones when absent.

    Returns
    -------
    dict
        ``X, U, V_path, active, fade, kept``; ``U`` is zero in inactive slots, ``fade[t]`` is the factor that step t
        applies to everything before it, ``kept`` the original row numbers.
    """
    X = np.asarray(X, dtype=float)
    U = np.asarray(U, dtype=float)
    n, k = U.shape
    active = np.ones((n, k), dtype=bool) if active_path is None else np.asarray(active_path, dtype=bool)
    gaps = np.ones(n) if elapsed is None else np.asarray(elapsed, dtype=float)
    kept = []
    for t in range(n):
        good = np.all(np.isfinite(X[t])) and np.all(np.isfinite(U[t]))
        if V_path is not None:
            # The centre of an inactive slot means nothing, so whatever stands there does not spoil the sample.
            good = good and np.all(np.isfinite(np.asarray(V_path, dtype=float)[t][active[t]]))
        if good:
            kept.append(t)
    kept = np.array(kept, dtype=int)
    fade = np.array([float(forgetting) ** gaps[t] for t in kept])
    return {
        "X": X[kept],
        "U": np.where(active[kept], U[kept], 0.0),
        "V_path": None if V_path is None else np.asarray(V_path, dtype=float)[kept],
        "active": active[kept],
        "fade": fade,
        "kept": kept,
    }


def sample_weights(fade):
    """Weight each sample has now: the product of the fades of all later steps.

    Parameters
    ----------
    fade : array (n,)

    Returns
    -------
    array (n,)
    """
    weights = np.zeros(len(fade))
    weight = 1.0
    for j in reversed(range(len(fade))):
        weights[j] = weight
        weight = weight * fade[j]
    return weights


def last_births(active):
    """Step at which each slot was last born; the number of steps for a slot that is not active now.

    Parameters
    ----------
    active : bool array (n, k)

    Returns
    -------
    int array (k,)
    """
    n, k = active.shape
    birth = np.full(k, n)
    for i in range(k):
        t = n - 1
        while t >= 0 and active[t, i]:
            birth[i] = t
            t -= 1
    return birth


def member_weights(U, active, fade, fuzzifier):
    """Faded weight of every sample in every slot, zero before the slot's last birth.

    Parameters
    ----------
    U : array (n, k)
    active : bool array (n, k)
    fade : array (n,)
    fuzzifier : float

    Returns
    -------
    array (n, k)
    """
    n, k = U.shape
    weights = sample_weights(fade)
    birth = last_births(active)
    out = np.zeros((n, k))
    for i in range(k):
        for j in range(birth[i], n):
            if U[j, i] > 0:
                out[j, i] = weights[j] * U[j, i] ** fuzzifier
    return out


def batch_dispersion(X, U, V_now, active_path=None, forgetting=1.0, fuzzifier=2.0, elapsed=None):
    """Dispersion after the last sample, as sums over all samples about the centres as they are now.

    Parameters
    ----------
    X : array (n, p)
    U : array (n, k)
    V_now : array (k, p)
    active_path : bool array (n, k), optional
    forgetting, fuzzifier : float
    elapsed : array (n,), optional

    Returns
    -------
    dict
        ``C`` (k,), ``M`` (k,), ``G`` (k, p) and ``M2`` (k,); zero in slots that are not active now.
    """
    data = prepare(X, U, None, active_path, forgetting, elapsed)
    V_now = np.asarray(V_now, dtype=float)
    k, p = V_now.shape
    w = member_weights(data["U"], data["active"], data["fade"], fuzzifier)
    C, M, G, M2 = np.zeros(k), np.zeros(k), np.zeros((k, p)), np.zeros(k)
    for i in range(k):
        for j in range(len(data["X"])):
            if w[j, i] == 0:
                continue  # an inactive slot may have NaN for a centre, and 0 times NaN is NaN
            gap = data["X"][j] - V_now[i]
            C[i] += w[j, i] * (gap @ gap)
            M[i] += w[j, i]
            G[i] += w[j, i] * gap
            M2[i] += w[j, i] ** 2
    return {"C": C, "M": M, "G": G, "M2": M2}


def recursive_dispersion(X, U, V_path, active_path=None, forgetting=1.0, fuzzifier=2.0, elapsed=None):
    """Dispersion after every step by the plain three-line recursion.

    Parameters
    ----------
    X : array (n, p)
    U : array (n, k)
    V_path : array (n, k, p)
        Centres after each step.
    active_path : bool array (n, k), optional
    forgetting, fuzzifier : float
    elapsed : array (n,), optional

    Returns
    -------
    dict
        ``C`` (n, k), ``M`` (n, k) and ``G`` (n, k, p); a missing sample repeats the step before it.
    """
    data = prepare(X, U, V_path, active_path, forgetting, elapsed)
    n, k, p = np.shape(V_path)
    C, M, G = np.zeros(k), np.zeros(k), np.zeros((k, p))
    v_old = np.zeros((k, p))
    was_active = np.zeros(k, dtype=bool)
    C_path, M_path, G_path = np.zeros((n, k)), np.zeros((n, k)), np.zeros((n, k, p))
    row = 0
    for t in range(n):
        if row < len(data["kept"]) and data["kept"][row] == t:
            x, lam = data["X"][row], data["fade"][row]
            for i in range(k):
                if not data["active"][row, i]:
                    C[i], M[i], G[i] = 0.0, 0.0, 0.0  # death: everything is discarded
                    continue
                v_new = data["V_path"][row, i]
                if not was_active[i]:
                    C[i], M[i], G[i] = 0.0, 0.0, 0.0  # birth: no past, and it did not move
                    v_old[i] = v_new
                u = data["U"][row, i]
                w = u**fuzzifier if u > 0 else 0.0
                d = v_old[i] - v_new
                C[i] = lam * (C[i] + 2 * (d @ G[i]) + M[i] * (d @ d)) + w * ((x - v_new) @ (x - v_new))
                G[i] = lam * (G[i] + M[i] * d) + w * (x - v_new)
                M[i] = lam * M[i] + w
                v_old[i] = v_new
            was_active = data["active"][row].copy()
            row += 1
        C_path[t], M_path[t], G_path[t] = C, M, G
    return {"C": C_path, "M": M_path, "G": G_path}


def separation(V_path, X, active_path=None, U=None):
    """Separation h after every step: the least squared distance between active centres.

    With one active slot it is the largest squared distance seen so far of a sample to the centre of its own step.

    Parameters
    ----------
    V_path : array (n, k, p)
    X : array (n, p)
    active_path : bool array (n, k), optional
    U : array (n, k), optional
        Only to tell which samples are missing.

    Returns
    -------
    array (n,)
        NaN with no active slot. Also NaN with one active slot once there have been two: what h restarts from is
        left open by the definition.
    """
    V_path = np.asarray(V_path, dtype=float)
    n, k, _ = V_path.shape
    data = prepare(X, np.zeros((n, k)) if U is None else U, V_path, active_path)
    h = np.full(n, np.nan)
    reach, current, had_two, row = 0.0, np.nan, False, 0
    for t in range(n):
        if row < len(data["kept"]) and data["kept"][row] == t:
            slots = np.flatnonzero(data["active"][row])
            V, x = data["V_path"][row], data["X"][row]
            if len(slots) == 0:
                current = np.nan
            elif len(slots) == 1:
                gap = V[slots[0]] - x
                reach = max(reach, gap @ gap)
                current = np.nan if had_two else reach
            else:
                had_two = True
                current = min((V[i] - V[j]) @ (V[i] - V[j]) for i in slots for j in slots if i < j)
            row += 1
        h[t] = current
    return h
