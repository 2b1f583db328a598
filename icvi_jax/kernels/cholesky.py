r"""Log-determinants and Mahalanobis distances of symmetric positive definite matrices, for many at once.

Matrices come as packed lower triangles `(m, p (p + 1)/2, *streams)`, see `icvi_jax.kernels.ellipsoid`. Up to `SMALL`
features the elimination is written out, so that it runs over matrices and streams and calls no library; beyond, the
program would grow with p², and the array library's Cholesky takes over.
"""

from __future__ import annotations

from functools import lru_cache

from icvi_jax.kernels import ellipsoid
from icvi_jax.kernels.arrays import namespace

SMALL = 12
"""Up to this many features the elimination is unrolled."""


def gaussian(S, d, floor):
    r"""Squared Mahalanobis distances :math:`dᵀ S^{−1} d` and log-determinants of S.

    Parameters
    ----------
    S : (m, p (p + 1)/2, *streams), packed.
    d : (m, p, *streams).
    floor : a number that no eigenvalue of S is below in exact arithmetic: rounding cannot make S indefinite then.

    Returns
    -------
    Two arrays (m, *streams).
    """
    xp = namespace(S, d)
    p = d.shape[1]
    if p <= SMALL:
        return _eliminate(ellipsoid.columns(S, p), d, floor)
    # One factorisation of S bordered by d has both: its last row is L⁻¹d. The corner only has to be large enough.
    S = _steady(S, p, floor)
    corner = 2 * xp.sum(d * d, axis=1, keepdims=True) / floor + 1
    spots = xp.reshape(xp.asarray(_bordered(p)), (-1,))
    full = xp.take(xp.concat([S, d, corner], axis=1), spots, axis=1)
    full = xp.reshape(xp.moveaxis(full, 1, -1), (full.shape[0], *full.shape[2:], p + 1, p + 1))
    L = xp.linalg.cholesky(full)
    z = L[..., p, :p]
    diagonal = xp.linalg.diagonal(L)[..., :p]
    return xp.sum(z * z, axis=-1), 2 * xp.sum(xp.log(diagonal), axis=-1)


def _eliminate(columns, d, floor):
    """Eliminate column by column. Every exact pivot is at least `floor`, so nothing is lost by holding it there."""
    xp = namespace(d)
    F, total = 0, 0
    while columns:
        c, *columns = columns
        D = xp.clip(c[:, :1, ...], floor)
        z = d[:, :1, ...]
        F, total = F + z * z / D, total + xp.log(D)
        low = c[:, 1:, ...]
        unit = low / D
        d = d[:, 1:, ...] - unit * z
        columns = [a - unit[:, i : i + 1, ...] * low[:, i:, ...] for i, a in enumerate(columns)]
    return F[:, 0, ...], total[:, 0, ...]


def logdet(S, p, floor):
    """Log-determinants (m, *streams) of S; see `gaussian`."""
    xp = namespace(S)
    return gaussian(S, xp.zeros_like(S[:, :p, ...]), floor)[1]


def _steady(S, p, floor):
    """S with as much more on its diagonal as rounding may have taken away; nothing where `floor` exceeds that."""
    xp = namespace(S)
    trace = sum(c[:, 0, ...] for c in ellipsoid.columns(S, p))
    rounding = p * float(xp.finfo(S.dtype).eps) * trace
    more = xp.where(rounding > floor, rounding - floor, xp.zeros_like(rounding))
    return S + more[:, None, ...] * ellipsoid.identity(p, S)


@lru_cache(maxsize=8)
def _bordered(p):
    """Where each element of the bordered matrix is in (packed S, d, corner)."""
    start = [ellipsoid.packed(p) - ellipsoid.packed(p - j) for j in range(p)]
    n = ellipsoid.packed(p)
    rows = [[start[min(i, j)] + abs(i - j) for j in range(p)] + [n + i] for i in range(p)]
    return [*rows, [n + j for j in range(p + 1)]]
