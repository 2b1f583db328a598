r"""The largest eigenvalue of small symmetric matrices, compared with a bound.

Whether :math:`λ_{max}(S) ≤ x` needs no eigenvalue: it means that :math:`x I − S` is positive semidefinite, which the
pivots of its elimination show: p³/6 multiplications, for all clusters and streams at once, and no iteration. For p = 2
the pivots are the closed form: :math:`x ≥ S_{11}` and :math:`(x − S_{11})(x − S_{22}) ≥ S_{12}²`. The answer is right
for a matrix within rounding (about p eps) of S.
"""

from __future__ import annotations

from collections.abc import Sequence

from icvi_jax.array_api import Array
from icvi_jax.numerics.arrays import namespace


def at_most(S: Sequence[Array], bound: Array) -> Array:
    """Whether the largest eigenvalue of S is at most `bound`.

    Parameters
    ----------
    S : the columns of the lower triangle: p arrays (k, p − j, *streams).
    bound : (k, *streams).

    Returns
    -------
    (k, *streams), boolean.
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
