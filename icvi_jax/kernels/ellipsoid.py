r"""Ellipsoids carried as factors: covariances that a rank-one update can never make indefinite.

A covariance is held as :math:`S = G D^{−1} Gᵀ` with a lower triangular G and its diagonal D, all positive: what
elimination leaves of S. One array `(k, p (p + 1)/2, *streams)` has the columns of G one after the other, each led by
its diagonal element. In exact arithmetic this is the same as carrying :math:`P = S^{−1}`. In single precision it is
not: the recursion for P subtracts, and turns indefinite; here everything that is added to D is positive.

Symmetric matrices that are not factored come in the same columns. Nothing calls a linear algebra library: each loop
runs over p and does all clusters and all streams at once.
"""

from __future__ import annotations

from icvi_jax.kernels.arrays import far, namespace, reach


def packed(p):
    """Length of the packed lower triangle of a (p, p) matrix."""
    return p * (p + 1) // 2


def columns(A, p):
    """The columns (k, p − j, *streams), j = 0, 1, …, of a packed A (k, p (p + 1)/2, *streams)."""
    ends = [packed(p) - packed(p - j) for j in range(p + 1)]
    return [A[:, a:b, ...] for a, b in zip(ends, ends[1:])]


def identity(p, like):
    """The identity matrix, packed, to broadcast against a packed `like` (k, p (p + 1)/2, *streams)."""
    xp = namespace(like)
    ones = [1.0 if i == 0 else 0.0 for j in range(p) for i in range(p - j)]
    return xp.reshape(xp.asarray(ones, dtype=like.dtype), (1, packed(p)) + (1,) * (like.ndim - 2))


def outer(d):
    """d dᵀ, packed, for d (k, p, *streams)."""
    return namespace(d).concat([d[:, j:, ...] * d[:, j : j + 1, ...] for j in range(d.shape[1])], axis=1)


def substitute(A, d):
    r"""Forward substitution :math:`G y = d`, with what is left of d after each column.

    .. math:: y_j = z_j / D_j, \quad r_j = r_{j−1} − y_j G_j, \quad z_j = (r_{j−1})_j, \quad r_{−1} = d

    Returns
    -------
    p triples of z_j and y_j (k, *streams), and the rest r_j (k, p − j − 1, *streams); None at last.
    """
    xp = namespace(d)
    most, limit = reach(d.dtype, xp), far(d.dtype, xp)
    r, triples = d, []
    for G in columns(A, d.shape[1]):
        z = xp.clip(r[:, 0, ...], -most, most)
        y = z / xp.maximum(G[:, 0, ...], z * z / limit)  # whatever the sample was, neither y nor y z can overflow
        triples.append((z, y, r[:, 1:, ...] - y[:, None, ...] * G[:, 1:, ...] if G.shape[1] > 1 else None))
        r = triples[-1][2]
    return triples


def mahalanobis(triples):
    r"""Squared distance :math:`F = dᵀ S^{−1} d = Σ_j y_j z_j`, from `substitute`; at least 1e-12."""
    F = sum(z * y for z, y, _ in triples)
    xp = namespace(F)
    return xp.clip(F, 1e-12, far(F.dtype, xp))


def rates(a, b, w):
    r"""How the weighted covariance changes with a sample of weight w:      S ← α S + β d dᵀ.

    With :math:`a = Σw, b = Σw²` before the sample and the covariance :math:`Σ w (x − m)(x − m)ᵀ \, a/(a² − b)`,

    .. math:: β = a w / (a² − b + 2 a w), \quad α = 1 − β (1 + b/a²),

    exactly, for fractional w; 1/α and α/β are the χ and δ of the update of :math:`S^{−1}`. For w = 0 they are 1 and 0.
    """
    beta = a * w / (a * a - b + 2 * a * w)
    return 1 - beta * (1 + b / (a * a)), beta


def absorb(A, triples, alpha, beta):
    r"""The factors of :math:`α S + β d dᵀ`, from the `substitute` of d.

    Column by column (Gill, Golub, Murray and Saunders 1974), with β starting as given:

    .. math:: ρ = α + β y_j z_j, \quad D'_j = ρ D_j, \quad G'_j = ρ G_j + β z_j r_j, \quad β ← β α / ρ.

    With α = 1 and β = 0 nothing changes, to the last bit.
    """
    new = []
    for G, (z, y, r) in zip(columns(A, len(triples)), triples):
        gain = beta * z
        rho = alpha + gain * y
        new.append(rho[:, None, ...] * G[:, :1, ...])
        if r is not None:
            new.append(rho[:, None, ...] * G[:, 1:, ...] + gain[:, None, ...] * r)
            beta = beta * (alpha / rho)
    return namespace(A).concat(new, axis=1)


def compose(A, p):
    r"""The columns of the matrix :math:`S = G D^{−1} Gᵀ`."""
    parts = columns(A, p)
    units = [G[:, 1:, ...] / G[:, :1, ...] for G in parts[:-1]]
    S = []
    for r, column in enumerate(parts):
        for j, (G, unit) in enumerate(zip(parts[:r], units)):
            column = column + unit[:, r - j - 1 : r - j, ...] * G[:, r - j :, ...]
        S.append(column)
    return S


def factor(S, floor):
    r"""Packed factors of a symmetric matrix given by its columns.

    Every exact pivot is at least the smallest eigenvalue of S, so a matrix with a ridge loses nothing by the floor, and
    rounding cannot make it indefinite.

    Parameters
    ----------
    S : p arrays (k, p − j, *streams).
    floor : (k, *streams), the least that a pivot can be in exact arithmetic.
    """
    xp = namespace(floor)
    rounding = 4 * float(xp.finfo(floor.dtype).eps)
    roots, parts = [], []
    for r, c in enumerate(S):
        least = xp.maximum(floor, rounding * c[:, 0, ...])[:, None, ...]
        for j, root in enumerate(roots):
            c = c - root[:, r - j - 1 : r - j, ...] * root[:, r - j - 1 :, ...]
        D = xp.maximum(c[:, :1, ...], least)
        parts.append(D)
        if r + 1 < len(S):
            parts.append(c[:, 1:, ...])
            roots.append(c[:, 1:, ...] / xp.sqrt(D))
    return xp.concat(parts, axis=1)


def covariance(rows):
    """Covariance (ddof = 1), packed, and mean of the samples `rows` (n, p, *streams), with a leading axis of 1."""
    xp = namespace(rows)
    n, p = rows.shape[0], rows.shape[1]
    mean = xp.mean(rows, axis=0)
    e = rows - mean
    parts = [xp.sum(e[:, j:, ...] * e[:, j : j + 1, ...], axis=0) for j in range(p)]
    return xp.concat(parts, axis=0)[None, ...] / (n - 1), mean


def ridge(S, p):
    """What makes a covariance safe to invert, to be put on the diagonal:      1e-6 trace/p + 1e-12."""
    return 1e-6 / p * sum(c[:, 0, ...] for c in columns(S, p)) + 1e-12


def fuzzy(F, active, m):
    r"""Memberships from squared distances:      u_i = F_i^{−e} / Σ_j F_j^{−e} over the active slots, e = 2/(m − 1)."""
    xp = namespace(F)
    F = xp.where(active, F, xp.full_like(F, far(F.dtype, xp)))
    power = xp.exp((2 / (m - 1)) * xp.log(xp.min(F, axis=0) / F))  # relative to the nearest, so the sum is at least 1
    power = xp.where(active, power, xp.zeros_like(power))
    total = xp.sum(power, axis=0)
    return power / xp.where(total > 0, total, xp.ones_like(total))
