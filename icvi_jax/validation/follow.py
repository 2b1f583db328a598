"""Steps along a recorded clustering: what was recorded about a sample is one row of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, cast

import jax.numpy as jnp
import numpy as np

from icvi_jax.anchor import Anchor
from icvi_jax.numerics.arrays import usable
from icvi_jax.panel import Panel, PanelState
from icvi_jax.types import Array, Namespace

xp: Namespace = jnp


class Model(NamedTuple):
    """Values that are the same for all samples.

    Attributes
    ----------
    panel : the indices.
    centers : (k, p), relative to the origin, if they never move; otherwise None.
    active : (k,), slots in use if that never changes; otherwise None.
    names : (k,), the cluster of each slot if it is known and never changes; otherwise None.
    """

    panel: Panel
    centers: Array | None = None
    active: Array | None = None
    names: Array | None = None


class Now(NamedTuple):
    """Input of a panel for one sample: all (…, *streams)."""

    x: Array
    u: Array
    centers: Array
    active: Array
    names: Array | None = None


class Means(NamedTuple):
    """Running means (k, p, *streams) and numbers of members (k, *streams)."""

    means: Array
    counts: Array


@dataclass(frozen=True)
class Recorded:
    """A row holds the sample, its memberships, then centres, active slots and clusters where they change.

    `named` says that the clusters of slots change.
    """

    k: int
    features: int
    named: bool = False

    def start(self, streams: tuple[int, ...], dtype: np.dtype) -> None:
        """What is known before any sample: nothing."""

    def columns(self, model: Model) -> int:
        """Numbers in a row."""
        k, p = self.k, self.features
        return p + k + (k * p if model.centers is None else 0) + (k if model.active is None else 0) + k * self.named

    def feed(self, model: Model, known: Means | None, row: Array) -> tuple[Means | None, Now]:
        """The content of a row (columns, *streams)."""
        k, p, streams = self.k, self.features, row.shape[1:]
        x, u, rest = row[:p], row[p : p + k], row[p + k :]
        if model.centers is None:
            centers, rest = xp.reshape(rest[: k * p], (k, p, *streams)), rest[k * p :]
        else:
            centers = _wide(model.centers, streams)
        if model.active is None:
            active, rest = rest[:k] > 0, rest[k:]
        else:
            active = _wide(model.active, streams)
        names = (
            xp.astype(rest, xp.int32) if self.named else None if model.names is None else _wide(model.names, streams)
        )
        return None, Now(x, u, centers, active, names)


@dataclass(frozen=True)
class Labelled:
    """A row holds the sample and its slot, −1 for none; centres are the running means of the members."""

    k: int
    features: int

    def start(self, streams: tuple[int, ...], dtype: np.dtype) -> Means:
        """No members yet."""
        return Means(np.zeros((self.k, self.features, *streams), dtype), np.zeros((self.k, *streams), np.int32))

    def columns(self, model: Model) -> int:
        """Numbers in a row."""
        return self.features + 1

    def feed(self, model: Model, known: Means | None, row: Array) -> tuple[Means | None, Now]:
        """Sample, memberships, running means and the slots that have members."""
        if known is None:
            raise TypeError("Labelled.feed(known=None): expected the means of `start`")
        x, slot = row[: self.features], row[self.features]
        slots = xp.reshape(xp.arange(self.k, dtype=row.dtype), (self.k,) + (1,) * slot.ndim)
        u = xp.astype(slots == slot, row.dtype)
        seen = xp.all(usable(x), axis=0)
        counts = known.counts + xp.astype((u > 0) & seen, known.counts.dtype)
        e = xp.where(seen, x, 0) - known.means
        share = u / xp.astype(xp.maximum(counts, 1), row.dtype)
        means = known.means + xp.where(seen, share, 0)[:, None] * e
        return Means(means, counts), Now(x, u, means, counts > 0)


Source = Recorded | Labelled


class Place(NamedTuple):
    """State of `Follow`: that of the panel, and that of its source."""

    panel: PanelState
    known: Means | None


def unanchored(state: PanelState) -> PanelState:
    """A state without its anchor: rows are relative to the origin of the recording, so the anchor is not needed."""
    return state._replace(anchor=cast(Anchor, None))


@dataclass(frozen=True)
class Follow:
    """The step: one row gives the values of all indices."""

    source: Source

    def __call__(
        self, model: Model, state: Place, row: Array, elapsed: Array | None = None
    ) -> tuple[Place, dict[str, Array]]:
        """Process one row (columns, *streams)."""
        known, now = self.source.feed(model, state.known, row)
        panel, values = model.panel.advance(state.panel, *now[:4], elapsed, now.names)
        return Place(panel, known), values


def _wide(a: Array, streams: tuple[int, ...]) -> Array:
    return xp.broadcast_to(xp.reshape(a, a.shape + (1,) * len(streams)), (*a.shape, *streams))
