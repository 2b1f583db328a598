r"""Log-determinants and Mahalanobis distances of symmetric positive definite matrices, for many at once.

Matrices come as packed lower triangles `(m, p (p + 1)/2, *streams)`, see `icvi_jax.numerics.ellipsoid`. There are three
forms of the same elimination: for few features, column by column on packed triangles; for more, on full matrices, with
code that grows with p and not p²; and for more than `LARGE` features of one stream, the Cholesky of the array library,
one matrix per call. One call for several matrices would be faster, but in jaxlib 0.10 on a CPU two such calls at the
same time wait for each other for ever (fixed in 0.11); `jax.vmap` of the last form has the same problem.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import lru_cache, reduce

from icvi_jax.array_api import Array
from icvi_jax.numerics import ellipsoid
from icvi_jax.numerics.arrays import larger, namespace, reach

SMALL = 4
"""Up to this many features the elimination works on packed columns."""

LARGE = 24
"""With more features, matrices of one stream go to the array library."""


def raised(S: Array, p: int, floor: float) -> tuple[Array, Array]:
    """A packed S with what rounding may have taken from an eigenvalue added to the diagonal, and the smallest pivot.

    No eigenvalue of S is below `floor` in exact arithmetic; nothing is done while rounding is less. Sums of such
    matrices have the sums of their smallest pivots.
    """
    rounding = p * float(namespace(S).finfo(S.dtype).eps) * _trace(S, p)
    more = larger(rounding - floor, namespace(S).zeros_like(rounding))
    return ellipsoid.ridged(S, p, more[:, None, ...]), more + floor


def gaussian(S: Array, d: Array, least: Array) -> tuple[Array, Array]:
    r"""Squared Mahalanobis distances :math:`dᵀ S^{−1} d` and log-determinants of S: two arrays (m, *streams).

    S is packed and `raised`, d is (m, p, *streams), and in exact arithmetic no pivot of S is below `least` (m,
    *streams).
    """
    xp = namespace(S, d)
    p = d.shape[1]
    if p <= SMALL:
        return _packed(ellipsoid.columns(S, p), d, least[:, None, ...])
    spots = xp.asarray(_square(p))
    full = xp.reshape(xp.take(S, spots, axis=1), (S.shape[0], p, p, *S.shape[2:]))
    if p <= LARGE or d.ndim > 2:
        return _full(full, d, least)
    pairs = [_library(full[i, ...], d[i, ...], least[i, ...]) for i in range(d.shape[0])]
    return xp.stack([F for F, _ in pairs]), xp.stack([total for _, total in pairs])


def _trace(S: Array, p: int) -> Array:
    """Traces (m, *streams) of packed matrices."""
    if p <= SMALL:
        return reduce(operator.add, [c[:, 0, ...] for c in ellipsoid.columns(S, p)])
    xp = namespace(S)
    diagonal = xp.asarray([ellipsoid.packed(p) - ellipsoid.packed(p - j) for j in range(p)])
    return xp.sum(xp.take(S, diagonal, axis=1), axis=1)


def logdet(S: Array, p: int, least: Array) -> Array:
    """Log-determinants (m, *streams) of S; see `gaussian`."""
    return gaussian(S, namespace(S).zeros_like(S[:, :p, ...]), least)[1]


def outer(d: Array) -> Array:
    """d dᵀ, packed, for d (m, p, *streams), with code that does not grow with p."""
    xp, p = namespace(d), d.shape[1]
    if p <= SMALL:
        return xp.concat(ellipsoid.squared(d), axis=1)
    rows, columns = (xp.asarray(a) for a in _triangle(p))
    return xp.take(d, rows, axis=1) * xp.take(d, columns, axis=1)


def _packed(columns: Sequence[Array], d: Array, least: Array) -> tuple[Array, Array]:
    """Elimination of packed columns. Every exact pivot is at least `least`, so that this limit loses nothing."""
    terms: list[Array] = []
    pivots: list[Array] = []
    while columns:
        c, *columns = columns
        D = larger(c[:, :1, ...], least)
        inverse = 1 / D
        z = d[:, :1, ...]
        terms.append(z * z * inverse)
        pivots.append(D[:, 0, ...])
        low = c[:, 1:, ...]
        unit = low * inverse
        d = d[:, 1:, ...] - unit * z
        columns = [a - unit[:, i : i + 1, ...] * low[:, i:, ...] for i, a in enumerate(columns)]
    return reduce(operator.add, terms)[:, 0, ...], _log_product(pivots)


def _log_product(pivots: Sequence[Array]) -> Array:
    """log Π D, with one logarithm (the slowest operation) for two pivots; a large one is scaled first."""
    xp = namespace(pivots[0])
    scale = reach(pivots[0].dtype, xp) ** -2
    terms = [xp.log(pivots[-1])] if len(pivots) % 2 else []
    for a, b in zip(pivots[::2], pivots[1::2]):
        large = a > 1e5
        back = xp.where(large, xp.full_like(a, -math.log(scale)), xp.zeros_like(a))
        terms += [xp.log(xp.where(large, scale * a, a) * b), back]
    return reduce(operator.add, terms)


def _full(S: Array, d: Array, least: Array) -> tuple[Array, Array]:
    """The same on S (m, p, p, *streams)."""
    xp = namespace(d)
    terms: list[Array] = []
    logs: list[Array] = []
    while d.shape[1]:
        D = xp.maximum(S[:, 0, 0, ...], least)
        z = d[:, 0, ...]
        terms.append(z * z / D)
        logs.append(xp.log(D))
        low = S[:, 1:, 0, ...]
        unit = low / D[:, None, ...]
        d = d[:, 1:, ...] - unit * z[:, None, ...]
        S = S[:, 1:, 1:, ...] - unit[:, :, None, ...] * low[:, None, ...]
    return reduce(operator.add, terms), reduce(operator.add, logs)


def _library(S: Array, d: Array, least: Array) -> tuple[Array, Array]:
    """The same for one S (p, p), bordered by d: the last row of its Cholesky factor is L⁻¹d."""
    xp = namespace(d)
    p = d.shape[0]
    corner = 2 * xp.sum(d * d) / least + 1  # any number that is large enough
    low = xp.concat([d, xp.reshape(corner, (1,))])
    L = xp.linalg.cholesky(xp.concat([xp.concat([S, d[:, None]], axis=1), low[None, :]], axis=0))
    return xp.sum(L[p, :p] ** 2), 2 * xp.sum(xp.log(xp.linalg.diagonal(L)[:p]))


@lru_cache(maxsize=8)
def _triangle(p: int) -> tuple[list[int], list[int]]:
    """Row and column of each element of a packed matrix."""
    return [i for j in range(p) for i in range(j, p)], [j for j in range(p) for _ in range(j, p)]


@lru_cache(maxsize=8)
def _square(p: int) -> list[int]:
    """Where each element of a full matrix is in the packed one."""
    start = [ellipsoid.packed(p) - ellipsoid.packed(p - j) for j in range(p)]
    return [start[min(i, j)] + abs(i - j) for i in range(p) for j in range(p)]
