"""Health from its definition: a plain loop over samples, written from docs/reference/definitions.md alone."""

import numpy as np

FADE = 1 - 1 / 150
MEMBER = "near core sil mid side gain ratio lone within tail follow own turn".split()
BY_MASS = "near core sil mid side gain".split()


def health(x, labels, centers, active, model, names=None):
    """Health, its 25 signs and the chances of its five reasons after each sample.

    Crisp labels (−1: noise) and the prototypes after each sample; `names` (T, k), if given, say which slots are one
    cluster. Rows of x with a value that is not finite are missing.
    """
    x, centers, active = np.asarray(x, float), np.asarray(centers, float), np.asarray(active, bool)
    T, p = x.shape
    k = active.shape[1]
    q, w, e, g = (np.zeros(k) for _ in range(4))
    a, spot = np.zeros((k, p)), np.zeros((k, p))
    last = np.zeros(k, bool)
    mu, x_last, r_last = np.zeros(p), np.zeros(p), np.zeros(p)
    n = m = c = 0.0
    means = dict.fromkeys([*MEMBER, *(f"{name} by mass" for name in BY_MASS)], 0.0)
    whole = dict.fromkeys("total tail jump cosine noise".split(), 0.0)
    was, at = np.zeros(k, bool), np.zeros((k, p))
    called = np.arange(k)
    values, signs, reasons = np.full(T, np.nan), np.full((T, 25), np.nan), np.full((T, 5), np.nan)
    for t in range(T):
        if not np.all(np.isfinite(x[t])):
            if t:
                values[t], signs[t], reasons[t] = values[t - 1], signs[t - 1], reasons[t - 1]
            continue
        started = active[t] & ~was
        q[started], last[started] = 0, False
        known = was & ~started
        j = int(labels[t]) if labels[t] >= 0 else None
        member = j is not None and known[j]
        r, inner, d0, mid, near, dot = np.zeros(p), np.zeros(p), 0.0, 0.0, 0.0, 0.0
        if member:
            r = x[t] - at[j]
            d0 = float(r @ r)
            same = known & (called == called[j])
            other = known & ~same & (q >= 0.01 * n)
            v = dict.fromkeys(MEMBER, 0.0)
            v["lone"] = float(not other.any())
            if other.any():
                far = np.where(other, ((x[t] - at) ** 2).sum(1), np.inf)
                o = int(np.argmin(far))
                d1 = float(far[o])
                D = float(((at[o] - at[j]) ** 2).sum())
                if D > 0:
                    s = (d0 + D - d1) / (2 * D)
                    v["near"], v["core"], v["ratio"] = float(s > 0.3), float(abs(s) < 0.2), min(d0 / D, 4)
                if max(d0, d1) > 0:
                    v["sil"] = (d1 - d0) / max(d0, d1)
            inner = x[t] - spot[j] if q[j] > 0 else np.zeros(p)
            dot, A = float(inner @ a[j]), float(a[j] @ a[j]) if q[j] > 0 else 0.0
            z = dot / A if A > 0 else 1.0
            v["mid"], v["side"] = float(abs(z) < 0.3), float(0.7 < abs(z) < 1.3)
            v["gain"] = min(A / w[j], 1) if w[j] > 0 else 0.0
            W = means["within"] or d0 or 1.0
            v["within"], v["tail"] = d0, min(d0 / W, 20) ** 2
            v["follow"] = float(np.clip(r @ r_last / W, -20, 20))
            v["own"] = float(q[same].sum() / max(n, 1))
            v["turn"] = float(last.any() and not last[same].any())
            v |= {f"{name} by mass": v[name] * v["own"] for name in BY_MASS}
            m = FADE * m + 1
            for name, value in v.items():
                means[name] += (value - means[name]) / m
            c = 0.0 if v["turn"] else min(c + 1, 1000)
            r_last = r
            mid, near = v["mid"], v["near"]
        first = n == 0
        n = FADE * n + 1
        mu = x[t].copy() if first else mu + (x[t] - mu) / n
        y, y_last = x[t] - mu, x_last - mu
        total = float(y @ y)
        scale = whole["total"] or total or 1.0
        norms = total * float(y_last @ y_last)
        now = {
            "total": total,
            "tail": min(total / scale, 20) ** 2,
            "jump": 0.0 if first else float(((x[t] - x_last) ** 2).sum()),
            "cosine": float(y @ y_last) ** 2 / norms if norms > 0 else 0.0,
            "noise": float(j is None),
        }
        for name, value in now.items():
            whole[name] += (value - whole[name]) / n
        x_last = x[t]
        q = FADE * q
        if j is not None:
            q[j] += 1
            b = 1 / max(q[j], 1)
            spot[j] += b * (x[t] - spot[j])
            w[j] += b * (float(inner @ inner) - w[j])
            a[j] += b * ((1 if dot >= 0 else -1) * inner - a[j])
            e[j] += b * (mid - e[j])
            g[j] += b * (near - g[j])
            last = np.arange(k) == j
        q[~active[t]] = 0
        last = last & active[t]
        was, at = active[t].copy(), centers[t].copy()
        called = np.arange(k) if names is None else np.asarray(names)[t]
        if n < 50 or m == 0 or not active[t].any():
            continue
        signs[t] = _signs(means, whole, q, w, a, e, g, active[t], called, n, c)
        values[t], reasons[t] = _network(signs[t], model)
    return values, signs, reasons


def _signs(means, whole, q, w, a, e, g, active, called, n, c):
    log = np.log
    T, o = whole["total"] or 1.0, max(means["own"], 0.001)
    heavy = active & (q >= 0.05 * n)
    masses = [q[active & (called == name)].sum() for name in set(called[active].tolist())]
    stretch = [float(a[i] @ a[i]) / w[i] if w[i] > 0 else 0.0 for i in np.flatnonzero(heavy)]
    by_mass = {name: means[f"{name} by mass"] for name in BY_MASS}
    return np.array(
        [
            log((means["near"] + 0.01) / (means["core"] + 0.01)),
            log((by_mass["near"] + 0.01 * o) / (by_mass["core"] + 0.01 * o)),
            log((means["mid"] + 0.01) / (means["side"] + 0.01)),
            log((by_mass["mid"] + 0.01 * o) / (by_mass["side"] + 0.01 * o)),
            means["sil"],
            by_mass["sil"] / o,
            means["gain"],
            by_mass["gain"] / o,
            log(means["ratio"] + 0.001),
            log(min(means["within"] / T, 1) + 0.0001),
            log(means["tail"] + 0.1),
            log(whole["tail"] + 0.1),
            log(whole["jump"] / T + 0.001),
            log(whole["cosine"] + 0.001),
            means["follow"],
            log(means["own"] + 0.01),
            log(sum(mass >= 0.01 * n and mass > 0 for mass in masses) + 0.5),
            log((means["turn"] + 0.005) / (max(1 - means["own"], 0) + 0.005)),
            whole["noise"],
            log(c + 1),
            log(max(1 - q.max() / max(n, 1), 0) + 0.003),
            max(stretch, default=0.0),
            min(e[heavy].tolist(), default=1.0),
            max(g[heavy].tolist(), default=0.0),
            means["lone"],
        ]
    )


def _network(signs, model):
    a = signs @ np.asarray(model["hidden"]) + np.asarray(model["hidden_bias"])
    out = (a / (1 + np.abs(a))) @ np.asarray(model["output"]) + np.asarray(model["output_bias"])
    chances = np.exp(out[1:] - out[1:].max())
    return 1 / (1 + np.exp(-np.clip(out[0], -8, 8))), chances / chances.sum()
