"""Seeding: the first samples of a stream become centres, later ones belong to the nearest centre."""

from __future__ import annotations

from icvi_jax.array_api import Array
from icvi_jax.numerics.arrays import first_equal, namespace


def seat(d: Array, active: Array, seen: Array, distinct: bool) -> Array:
    """The slot (*streams) of a sample: the first free one while there is one, then the nearest; k if not `seen`.

    Parameters
    ----------
    d : (k, *streams), squared distances from the centres.
    active : (k, *streams), slots in use; they fill in order.
    seen : (*streams), False where the sample is missing.
    distinct : a sample that equals a centre gets its slot instead of a free one.
    """
    xp = namespace(d)
    if distinct:
        d = xp.where(d == 0, xp.full_like(d, -2.0), d)
    d = xp.where(active, d, xp.full_like(d, -1.0))  # below all distances: the first free slot is the nearest
    nearest = xp.min(d, axis=0)
    return first_equal(d, xp.where(seen, nearest, xp.full_like(nearest, -3.0)))
