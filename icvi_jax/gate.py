"""Checks of the input of a panel: array libraries, shapes, and which samples are usable."""

from __future__ import annotations

from icvi_jax.anchor import Anchor
from icvi_jax.numerics.arrays import cast, library, namespace, usable
from icvi_jax.types import Array, Namespace, Prototypes


def punctual(elapsed: Array | None, x: Array) -> Array:
    """Whether the time since the last sample is valid, (*streams): finite and not negative."""
    xp = namespace(x)
    if elapsed is None:
        return xp.ones_like(x[0, ...], dtype=xp.bool)
    gap = cast(elapsed, x)
    return xp.isfinite(gap) & (gap >= 0) & xp.ones_like(x[0, ...], dtype=xp.bool)


def complete(x: Array, u: Array, centers: Array, active: Array) -> Array:
    """Whether sample, memberships and all centres in use are usable numbers."""
    xp = namespace(x)
    shown = xp.where(active[:, None, ...], centers, xp.zeros_like(centers))
    return xp.all(usable(x), axis=0) & xp.all(usable(u), axis=0) & xp.all(usable(shown), axis=(0, 1))


def check_shapes(anchor: Anchor, prototypes: Prototypes, x: Array, u: Array, centers: Array) -> None:
    """Raise a ValueError unless sample, memberships and centres have the shapes of a panel's state."""
    shape = anchor.high.shape
    expected = {"x": shape, "u": prototypes.active.shape, "centers": prototypes.centers.shape}
    for (field, shape), got in zip(expected.items(), (x, u, centers)):
        if tuple(got.shape) != tuple(shape):
            raise ValueError(f"Panel.step({field}=…): expected shape {tuple(shape)}, got {tuple(got.shape)}")


def renamed(names: Array | None, clusters: Array | None, seen: Array) -> Array | None:
    """The cluster names of the slots after a sample with `clusters`; None if they are not needed."""
    if names is None or clusters is None:
        return names
    xp = namespace(names)
    return xp.where(seen, xp.astype(xp.asarray(clusters), names.dtype), names)


def layout(xp: Namespace, dtype: object, streams: tuple[int, ...] | int) -> tuple[Namespace, object, tuple[int, ...]]:
    """The array-API form of `xp`, its default float if `dtype` is None, and `streams` as a tuple."""
    xp = library(xp)
    streams = (streams,) if isinstance(streams, int) else tuple(streams)
    dtype = xp.asarray(0.0).dtype if dtype is None else dtype
    if not xp.isdtype(xp.empty(0, dtype=dtype).dtype, "real floating"):
        raise ValueError(f"init(dtype={dtype}): expected a type of floats, float32 or float64")
    return xp, dtype, streams
