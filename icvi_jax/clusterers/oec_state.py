"""The state of online ellipsoidal clustering."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from icvi_jax.numerics import ellipsoid
from icvi_jax.numerics.arrays import namespace
from icvi_jax.types import Array

Columns: TypeAlias = tuple[Array, ...]
"""A symmetric matrix in each slot as the p columns of its lower half, (K, p − j, *streams)."""


class EllipsoidalState(NamedTuple):
    """The state of online ellipsoidal clustering.

    Unused slots have the mass, squared mass and number of members with which a new cluster starts.

    Attributes
    ----------
    centers, active : (K, p, *streams) and (K, *streams). Before there is a cluster, slot 0 is the mean so far.
    factors : p arrays (K, p − j, *streams), the factored covariances; see `icvi_jax.numerics.ellipsoid`.
    mass, mass2 : (K, *streams), Σw and Σw² of the members' weights.
    members : (K, *streams), integer: samples that joined.
    samples : (*streams), integer: samples seen.
    tracker_mean, tracker_cov : (p, *streams) and p arrays (1, p − j, *streams), mean and covariance of the recent
        past; of all samples before there is a cluster.
    ages : (p + 1, *streams), integer: how many samples ago the last anomalies were, the latest first.
    recent : (p + 1, p, *streams), the last samples; None unless new clusters are made of them.
    """

    centers: Array
    active: Array
    factors: Columns
    mass: Array
    mass2: Array
    members: Array
    samples: Array
    tracker_mean: Array
    tracker_cov: Columns
    ages: Array
    recent: Array | None

    @property
    def covariances(self) -> Array:
        """Covariances (K, p, p, *streams); identity in slots without a cluster."""
        xp, p = namespace(self.centers), self.centers.shape[1]
        S = ellipsoid.compose(self.factors)
        entry = [[S[min(i, j)][:, abs(i - j), ...] for j in range(p)] for i in range(p)]
        return xp.stack([xp.stack(row, axis=1) for row in entry], axis=1)
