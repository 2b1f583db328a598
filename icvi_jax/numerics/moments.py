r"""Weighted moments with forgetting: mass, mean and mean squared distance from the mean.

With weights :math:`w_j` and forgetting :math:`λ`, after n samples

.. math:: M = Σ_j λ^{n-j} w_j, \quad m = Σ_j λ^{n-j} w_j x_j / M, \quad s = Σ_j λ^{n-j} w_j ‖x_j − m‖² / M.

Dispersion about *any* centre v follows from these, whatever v was before:

.. math:: C = Σ_j λ^{n-j} w_j ‖x_j − v‖² = M (s + ‖m − v‖²), \quad G = Σ_j λ^{n-j} w_j (x_j − v) = M (m − v).

This is the recursion in C, G, M about a moving centre, written with quantities that do not depend on the centre.
Nothing is ever subtracted, so a centre that moves away and comes back costs no digits, and ratios to M stay right when
the mass of a cluster without new members underflows.
"""

from __future__ import annotations

from typing import NamedTuple

from icvi_jax.array_api import Array, DType, Namespace
from icvi_jax.numerics.arrays import larger, namespace, smaller, squares


class Moments(NamedTuple):
    """Mass (k, *streams), mean (k, p, *streams), mean squared distance from the mean (k, *streams)."""

    mass: Array
    mean: Array
    scatter: Array


def weights(u: Array, m: float | Array) -> Array:
    """u^m, with finite gradients at u = 0."""
    xp = namespace(u)
    some = u > 0
    return xp.where(some, xp.where(some, u, 1.0) ** m, 0.0)


def zeros(k: int, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> Moments:
    """Moments of nothing, for `k` clusters."""
    flat = xp.zeros((k, *streams), dtype=dtype)
    return Moments(flat, xp.zeros((k, features, *streams), dtype=dtype), flat)


def share(mass: Array, fade: float | Array, w: float | Array) -> tuple[Array, Array]:
    """The new mass, and the share `b = w / (λM + w)` of it that a sample of weight `w` gets.

    A positive mass stays positive: below the smallest normal number it stops fading. Before a division of small numbers
    both are multiplied by a power of two: the quotient is the same to the last bit, but its derivative, in which the
    total is squared, does not overflow.
    """
    xp = namespace(mass)
    floor = float(xp.finfo(mass.dtype).smallest_normal)
    total = larger(fade * mass, smaller(mass, floor)) + w
    near = xp.where(total * total > floor, xp.ones_like(total), 1 / floor)
    return total, (w * near) / xp.where(total > 0, total * near, 1.0)


def absorb(moments: Moments, x: Array, w: Array, fade: Array) -> Moments:
    """Fade the past by `fade` and add the sample `x` (p, *streams) with the weights `w` (k, *streams)."""
    xp = namespace(x)
    mass, b = share(moments.mass, fade, w)
    wide = b[:, None, ...]
    e = x - moments.mean
    mean = xp.where(wide == 1, x, moments.mean + wide * e)  # the first member exactly, without rounding
    scatter = moments.scatter + b * ((1 - b) * squares(e, 1) - moments.scatter)
    return Moments(mass, mean, scatter)


def combine(a: Moments, b: Moments) -> Moments:
    """Moments of two sets of samples taken together."""
    mass, share_b = share(a.mass, 1, b.mass)
    e = b.mean - a.mean
    spread = b.scatter + (1 - share_b) * squares(e, 1)
    return Moments(mass, a.mean + share_b[:, None, ...] * e, a.scatter + share_b * (spread - a.scatter))


def leftover(mass: Array, w: Array) -> tuple[Array, Array]:
    """For a mass without the weight `w`: the ratio w / (M − w), and whether only rounding is left (ratio 0)."""
    xp = namespace(mass)
    left = mass - w
    gone = left <= 8 * float(xp.finfo(left.dtype).eps) * mass
    return xp.where(gone, 0.0, w / xp.where(gone, 1.0, left)), gone


def remove(moments: Moments, x: Array, w: Array) -> Moments:
    """Moments without the sample `x` with the weights `w`: undoes `absorb` if nothing was forgotten since."""
    xp = namespace(x)
    r, gone = leftover(moments.mass, w)
    left = moments.mass - w
    e = x - moments.mean
    scatter = moments.scatter + r * (moments.scatter - (1 + r) * squares(e, 1))
    return Moments(
        xp.where(gone, 0.0, left),
        moments.mean - r[:, None, ...] * e,
        xp.where(gone | (scatter < 0), 0.0, scatter),
    )


def about(moments: Moments, v: Array) -> Array:
    """Mean squared distance of the members from the centres `v` (k, p, *streams): C/M; 0 for an empty cluster."""
    xp = namespace(v)
    return xp.where(moments.mass > 0, moments.scatter + squares(moments.mean - v, 1), 0.0)


def batch(X: Array, W: Array, fades: Array) -> Moments:
    """The definition: moments of the samples X (n, p) with the weights W (n, k), each faded by `fades` (n,)."""
    xp = namespace(X)
    weights = W * fades[:, None]
    mass = xp.sum(weights, axis=0)
    safe = xp.where(mass > 0, mass, 1.0)
    mean = (weights.T @ X) / safe[:, None]
    e = X[:, None, :] - mean
    return Moments(mass, mean, xp.sum(weights * squares(e, 2), axis=0) / safe)
