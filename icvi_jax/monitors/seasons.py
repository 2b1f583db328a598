"""Seasons: the usual value of a feature at this hour of the day, subtracted before anything is compared.

The profile has one value for each row of a season. It is the mean over the seasons at first and later forgets, keeping
nine tenths a season. A step enters it season by season, so its echo is small; a step in the first few seasons may raise
another alarm a season later.
"""

from __future__ import annotations

from typing import NamedTuple

from icvi_jax.numerics.arrays import advance, larger, namespace
from icvi_jax.types import Array, Namespace

SLOWEST = 0.1
"""Gain of the profile from the tenth season on."""


class SeasonState(NamedTuple):
    """The profile, (season, p, *streams), the phase that comes next first and NaN where unknown; and rows so far."""

    profile: Array
    rows: Array


def start(season: int, features: int, streams: tuple[int, ...], xp: Namespace, dtype: object) -> SeasonState:
    """The state before any sample."""
    profile = xp.full((season, features, *streams), xp.nan, dtype=dtype)
    return SeasonState(profile, xp.zeros(streams, dtype=xp.int32))


def take(state: SeasonState, x: Array, there: Array) -> tuple[SeasonState, Array, Array]:
    """The state after a row, its values minus the profile, and where they exist: nowhere in the first season.

    x and `there` are (p, *streams), `there` is False for missing values; a row without any value changes nothing.
    """
    xp = namespace(x)
    profile, row = state.profile, xp.any(there, axis=0)
    usual = profile[0, ...]
    known = there & ~xp.isnan(usual)
    left = xp.where(known, x - usual, xp.zeros_like(x))
    seasons = xp.astype(state.rows // profile.shape[0] + 1, x.dtype)
    gain = larger(1 / seasons, xp.full_like(seasons, SLOWEST))
    new = xp.where(known, usual + gain * left, xp.where(there, x, usual))
    pushed = xp.concat([profile[1:, ...], new[None, ...]], axis=0)
    return SeasonState(xp.where(row, pushed, profile), advance(state.rows, row)), left, known
