"""Example streams: three synthetic ones with known truth, and readers for two published recordings."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from icvi_jax.streams.base import Recording, Stream
from icvi_jax.streams.readers import read_gas, read_sensorscope
from icvi_jax.streams.synthetic import s1, s2, s3

__all__ = ["Entry", "Recording", "Stream", "StreamEntry", "catalogue", "read_gas", "read_sensorscope", "s1", "s2", "s3"]


class StreamEntry(NamedTuple):
    """One synthetic stream of the catalogue."""

    function: Callable[..., Stream]  # draws the stream; takes at least `seed`
    meaning: str  # what it shows, in one line
    k: int  # true number of modes, the number of clusters to start with
    p: int  # number of features


def catalogue() -> dict[str, StreamEntry]:
    """The synthetic streams by name.

    >>> for name, entry in catalogue().items():
    ...     print(name, entry.k, entry.p, entry.function(seed=1).x.shape[1])
    s1 2 2 2
    s2 11 2 2
    s3 10 2 2
    """
    return {
        "s1": StreamEntry(s1, "two autoregressive modes that take turns, with gradual transitions", 2, 2),
        "s2": StreamEntry(s2, "a Gaussian that moves in ten equal steps, 1 % of the samples perturbed", 11, 2),
        "s3": StreamEntry(s3, "ten Gaussians around a circle, with noise from its centre", 10, 2),
    }


Entry = StreamEntry  # its name before 0.3
