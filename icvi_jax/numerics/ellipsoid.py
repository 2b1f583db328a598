r"""Ellipsoids as factors: covariances that a rank-one update can never make indefinite.

A covariance is stored as :math:`S = G D^{−1} Gᵀ` with a lower triangular G and its diagonal D, all positive: the result
of elimination of S. In exact arithmetic this is the same as storing :math:`P = S^{−1}`. In single precision it is not:
the recursion for P subtracts and becomes indefinite; here everything that is added to D is positive.

Triangular and symmetric matrices come as a tuple of the columns of the lower triangle, p arrays `(k, p − j, *streams)`,
each beginning with its diagonal element; `packed` ones have the columns one after the other in one array. No linear
algebra library is used: each loop runs over p, for all clusters and all streams at once.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from typing import TypeAlias

from icvi_jax.array_api import Array
from icvi_jax.numerics.arrays import far, namespace, reach, smaller

Triples: TypeAlias = list[tuple[Array, Array, Array]]
"""What `substitute` gives for each column."""


def packed(p: int) -> int:
    """Length of the packed lower triangle of a (p, p) matrix."""
    return p * (p + 1) // 2


def columns(A: Array, p: int) -> list[Array]:
    """The columns (k, p − j, *streams), j = 0, 1, …, of a packed A (k, p (p + 1)/2, *streams)."""
    ends = [packed(p) - packed(p - j) for j in range(p + 1)]
    return [A[:, a:b, ...] for a, b in zip(ends, ends[1:])]


def ridged(A: Array, p: int, by: Array | float) -> Array:
    """A + by I, for a packed A (k, p (p + 1)/2, *streams) and a number, or one a matrix: (k, 1, *streams)."""
    xp = namespace(A)
    diagonal = [i == 0 for j in range(p) for i in range(p - j)]
    return xp.where(xp.reshape(xp.asarray(diagonal), (1, packed(p)) + (1,) * (A.ndim - 2)), A + by, A)


def squared(d: Array) -> tuple[Array, ...]:
    """The columns of d dᵀ, for d (k, p, *streams)."""
    return tuple(d[:, j:, ...] * d[:, j : j + 1, ...] for j in range(d.shape[1]))


def along(column: Array, lead: float, rest: float) -> Array:
    """The number `lead` in the diagonal element and `rest` in the others, to broadcast against a column."""
    xp = namespace(column)
    values = [lead] + [rest] * (column.shape[1] - 1)
    return xp.reshape(xp.asarray(values, dtype=column.dtype), (1, -1) + (1,) * (column.ndim - 2))


def raised(S: Sequence[Array], by: Array) -> tuple[Array, ...]:
    """The columns of S + by I, for by (k, *streams)."""
    return tuple(c + by[:, None, ...] * along(c, 1.0, 0.0) for c in S)


def substitute(G: Sequence[Array], d: Array) -> Triples:
    r"""Forward substitution :math:`G y = d`, with what is left of d after each column.

    .. math:: y_j = z_j / D_j, \quad r_j = r_{j−1} − y_j G_j, \quad z_j = (r_{j−1})_j, \quad r_{−1} = d

    Column by column z_j, y_j (k, *streams) and r_j (k, p − j, *streams), which is 0 in its first element.
    """
    xp = namespace(d)
    most, limit = reach(d.dtype, xp), far(d.dtype, xp)
    r, triples = d, []
    for c in G:
        z = xp.clip(r[:, 0, ...], -most, most)
        y = z / xp.maximum(c[:, 0, ...], z * z / limit)  # for any sample, neither y nor y z can overflow
        r = r - y[:, None, ...] * c
        triples.append((z, y, r))
        r = r[:, 1:, ...]
    return triples


def mahalanobis(triples: Triples) -> Array:
    r"""Squared distance :math:`F = dᵀ S^{−1} d = Σ_j y_j z_j`, from `substitute`; at least 1e-12."""
    F = reduce(operator.add, [z * y for z, y, _ in triples])
    xp = namespace(F)
    return xp.clip(F, 1e-12, far(F.dtype, xp))


def rates(a: Array, b: Array, w: Array) -> tuple[Array, Array]:
    r"""How the weighted covariance changes with a sample of weight w:      S ← α S + β d dᵀ.

    With :math:`a = Σw, b = Σw²` before the sample and the covariance :math:`Σ w (x − m)(x − m)ᵀ \, a/(a² − b)`,

    .. math:: β = a w / (a² − b + 2 a w), \quad α = 1 − β (1 + b/a²),

    exactly, for fractional w; 1/α and α/β are the χ and δ of the update of :math:`S^{−1}`. For w = 0 they are 1 and 0.
    """
    beta = a * w / (a * a - b + 2 * a * w)
    return 1 - beta * (1 + b / (a * a)), beta


def absorb(G: Sequence[Array], triples: Triples, alpha: Array, beta: Array) -> tuple[Array, ...]:
    r"""The factors of :math:`α S + β d dᵀ`, from the `substitute` of d.

    Column by column (Gill, Golub, Murray and Saunders 1974), with β starting as given:

    .. math:: ρ = α + β y_j z_j, \quad G'_j = ρ G_j + β z_j r_j, \quad β ← β α / ρ.

    With α = 1 and β = 0 not a bit changes.
    """
    new = []
    for c, (z, y, r) in zip(G, triples):
        gain = beta * z
        rho = alpha + gain * y
        new.append(rho[:, None, ...] * c + gain[:, None, ...] * r)
        beta = beta * (alpha / rho)
    return tuple(new)


def compose(G: Sequence[Array]) -> tuple[Array, ...]:
    r"""The columns of :math:`S = G D^{−1} Gᵀ`."""
    units = [c / c[:, :1, ...] for c in G[:-1]]
    S = []
    for r, column in enumerate(G):
        for j, unit in enumerate(units[:r]):
            column = column + unit[:, r - j : r - j + 1, ...] * G[j][:, r - j :, ...]
        S.append(column)
    return tuple(S)


def variances(G: Sequence[Array]) -> Array:
    """The diagonal (k, p, *streams) of `compose`, p times as cheap."""
    xp = namespace(G[0])
    S = xp.stack([c[:, 0, ...] for c in G], axis=1)
    for j, c in enumerate(G[:-1]):
        low = c[:, 1:, ...]
        S = xp.concat([S[:, : j + 1, ...], S[:, j + 1 :, ...] + low / c[:, :1, ...] * low], axis=1)
    return S


def factor(S: Sequence[Array], floor: Array) -> tuple[Array, ...]:
    r"""The factors G of a symmetric matrix.

    In exact arithmetic a pivot is at least the smallest eigenvalue of S, which is at least `floor` (k, *streams), and
    at least :math:`c_i²/S_{ii}` for every element c below it. So this limit loses nothing, and rounding can neither
    make the result indefinite nor grow.
    """
    xp = namespace(floor)
    rounding = 4 * float(xp.finfo(floor.dtype).eps)
    diagonal = xp.stack([c[:, 0, ...] for c in S], axis=1)
    G: list[Array] = []
    roots: list[Array] = []
    for r, c in enumerate(S):
        least = xp.maximum(floor, rounding * diagonal[:, r, ...])
        for j, root in enumerate(roots):
            c = c - root[:, r - j : r - j + 1, ...] * root[:, r - j :, ...]
        if r + 1 < len(S):
            below = c[:, 1:, ...]
            least = xp.maximum(least, xp.max(below / diagonal[:, r + 1 :, ...] * below, axis=1))
        c = xp.maximum(c, least[:, None, ...] * along(c, 1.0, 0.0) + along(c, 0.0, -far(c.dtype, xp)))
        G.append(c)
        roots.append(c / xp.sqrt(c[:, :1, ...]))
    return tuple(G)


def covariance(rows: Array) -> tuple[Array, tuple[Array, ...]]:
    """Mean (p, *streams) and the columns of the covariance (ddof = 1) of the samples `rows` (n, p, *streams)."""
    xp = namespace(rows)
    mean = xp.mean(rows, axis=0)
    return mean, tuple(xp.sum(c, axis=0)[None, ...] / (rows.shape[0] - 1) for c in squared(rows - mean))


def ridge(S: Sequence[Array]) -> Array:
    """The number to add to the diagonal of a covariance, so that it can be inverted:      1e-6 trace/p + 1e-12."""
    xp = namespace(S[0])
    return 1e-6 * xp.mean(xp.stack([c[:, 0, ...] for c in S]), axis=0) + 1e-12


def fuzzy(F: Array, active: Array, e: float | Array) -> Array:
    r"""Memberships from squared distances:      u_i = F_i^{−e} / Σ_j F_j^{−e} over the active slots."""
    xp = namespace(F)
    F = xp.where(active, F, far(F.dtype, xp))
    power = xp.exp(e * xp.log(xp.min(F, axis=0) / F))  # relative to the nearest, so the sum is at least 1
    power = xp.where(active, power, 0.0)
    total = xp.sum(power, axis=0)
    return power / xp.where(total > 0, total, 1.0)


def shares(u: Array, member: Array) -> Array:
    """Memberships in the clusters `member` only, with the sum 1; those below 1e-12 are 0."""
    xp = namespace(u)
    w = xp.where(member, u, 0.0)
    total = xp.sum(w, axis=0)
    w = w / xp.where(total > 0, total, 1.0)
    return xp.where(w > 1e-12, w, 0.0)


def remembered(mass: Array, mass2: Array, memory: Array) -> tuple[Array, Array]:
    """Σw and Σw² after all weights of a cluster have faded by one factor, so that Σw is within the memory.

    The weighted covariance is the same under the faded weights.
    """
    kept = smaller(memory, mass)
    left = kept / mass  # 1 where there is room
    return kept, mass2 * (left * left)


def largest_eigenvalue_at_most(S: Sequence[Array], bound: Array) -> Array:
    r"""Whether the largest eigenvalue of S is at most `bound`.

    That needs no eigenvalue: it means that :math:`x I − S` is positive semidefinite, which the pivots of its
    elimination show: p³/6 multiplications, for all clusters and streams at once, and no iteration. The answer is right
    for a matrix within rounding (about p eps) of S.
    """
    xp = namespace(bound)
    tiny = float(xp.finfo(bound.dtype).smallest_normal)
    ok = bound == bound
    roots: list[Array] = []
    for r, c in enumerate(S):
        pivot, below = bound - c[:, 0, ...], -c[:, 1:, ...]
        for j, root in enumerate(roots):
            pivot = pivot - root[:, r - j - 1, ...] * root[:, r - j - 1, ...]
            below = below - root[:, r - j - 1 : r - j, ...] * root[:, r - j :, ...]
        if r + 1 == len(S):
            ok = ok & (pivot >= 0)
            break
        ok = ok & (pivot > tiny)
        # After a pivot that is not positive the answer is known; the rest must only not overflow.
        roots.append(below / xp.sqrt(xp.where(ok, pivot, xp.maximum(xp.abs(pivot), xp.ones_like(pivot))))[:, None, ...])
    return ok
