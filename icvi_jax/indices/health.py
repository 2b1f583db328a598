r"""Health: can these clusters be trusted now? A small network on scale-free statistics of the last samples."""

from __future__ import annotations

import hashlib
import json
import math
from functools import cache
from importlib.resources import files
from typing import ClassVar, TypedDict

from icvi_jax.indices.base import Index, given
from icvi_jax.numerics.arrays import cast, larger, namespace, smaller
from icvi_jax.spec import spec, static
from icvi_jax.statistics import Count, Stats, Vitals
from icvi_jax.statistics.health_features import SIGNS
from icvi_jax.types import Array

REASONS = ("right", "merged", "cut", "not learned", "nothing to find")
"""What health can blame: clusters that are right; several true clusters in one; one in several; neither; one blob."""

RIGHT, MERGED, CUT, UNLEARNED, NOTHING = range(5)
"""Places in `REASONS`."""

LOW, HIGH = 0.3, 0.7
"""Below the first, trust is low; from the second on it is high."""


class Coefficients(TypedDict):
    """The network: signs → a / (1 + |a|) → one logit for health and five for the reasons."""

    version: str
    checksum: str
    signs: list[str]
    hidden: list[list[float]]
    hidden_bias: list[float]
    output: list[list[float]]
    output_bias: list[float]


@cache
def coefficients() -> Coefficients:
    """The coefficients that `benchmarks/health/train.py` made; a ValueError if the file is not what it wrote."""
    body: Coefficients = json.loads(files("icvi_jax.indices").joinpath("health.json").read_text())
    rest = {name: value for name, value in body.items() if name != "checksum"}
    if hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest() != body["checksum"]:
        raise ValueError("health.json: the checksum does not fit the coefficients; install the package again")
    if tuple(body["signs"]) != SIGNS:
        raise ValueError("health.json: these coefficients are for other statistics; run benchmarks/health/train.py")
    return body


@spec
class Health(Index):
    r"""The chance that the clusters of the last 300 samples are right; large is good.

    Right means: the adjusted Rand index between `Reading.cluster` and the true classes over the last 300 samples is at
    least ½. Nobody knows the true classes; a small network has learned from simulated streams, whose classes are known,
    what the statistics of a panel look like where clusters are right, merged, cut, or not learned. It has its own
    memory of about 150 samples: the panel's forgetting has no effect. NaN for the first 60 samples.

    Where it fails is on its model card: :doc:`/concepts/health`.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> x = icvi.streams.s2(seed=0).x  # ten modes, one after the other
    >>> panel = icvi.Panel(indices=(icvi.Health(),))
    >>> pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=panel)
    >>> bool(icvi.run(pipe, x).readings.values["health"][-1] < 0.3)
    True
    """

    name: str = static("health")
    goal: ClassVar = "max"
    needs: ClassVar = (Count, Vitals)
    range: ClassVar = (0.0, 1.0)
    positive: ClassVar = False
    scattered: ClassVar = False

    def value(self, stats: Stats, forgetting: Array) -> Array:
        """The chance (*streams), strictly between 0 and 1."""
        view = stats[Vitals]
        xp, logit = stats.xp, logits(view.signs, 1)[0]
        limit = xp.full_like(logit, 8.0)
        chance = 1 / (1 + xp.exp(-smaller(larger(logit, -limit), limit)))
        return given(view.ready & xp.any(stats.active, axis=0), chance)


def logits(signs: list[Array], count: int) -> list[Array]:
    """The first `count` outputs of the network: health, then the reasons; each (*streams)."""
    model = coefficients()
    sums = _layer(signs, model["hidden"], model["hidden_bias"])
    hidden = [a / (1 + namespace(a).abs(a)) for a in sums]  # bounded like tanh, and cheaper
    return _layer(hidden, [row[:count] for row in model["output"]], model["output_bias"][:count])


def _layer(inputs: list[Array], weights: list[list[float]], bias: list[float]) -> list[Array]:
    """Σ w a + bias for each output, in the arrays' own type.

    All sums grow by one input before the next: their multiplications do not wait for each other.
    """
    sums = [cast(b, inputs[0]) + 0 * inputs[0] for b in bias]
    for a, row in zip(inputs, weights):
        if any(row):  # a sign that training left out is not computed
            sums = [total + cast(w, a) * a if w else total for total, w in zip(sums, row)]
    return sums


def trust_of(value: float) -> str:
    """Health in a word: "low", "medium" or "high"; empty where it is not known.

    Examples
    --------
    >>> trust_of(0.84), trust_of(0.5), trust_of(0.1), trust_of(float("nan"))
    ('high', 'medium', 'low', '')
    """
    if math.isnan(value):
        return ""
    return "low" if value < LOW else "high" if value >= HIGH else "medium"


def health_sentence(value: float, reason: int = 0, cluster: int = -1) -> str:
    """Health in a sentence; `reason` is a place in `REASONS`, `cluster` the one to blame or −1.

    Examples
    --------
    >>> health_sentence(0.84)
    'the clusters fit: 0.84'
    >>> health_sentence(0.12, reason=1, cluster=2)
    'the clusters do not fit (0.12): two states share cluster 2'
    """
    if math.isnan(value):
        return "too few samples yet to say whether the clusters fit"
    if value >= HIGH:
        return f"the clusters fit: {value:.2f}"
    words = {
        MERGED: "several states share a cluster" if cluster < 0 else f"two states share cluster {cluster}",
        CUT: "a state is cut into several clusters" if cluster < 0 else f"cluster {cluster} is a part of a larger one",
        UNLEARNED: "the clusters are not where the samples are",
        NOTHING: "there is nothing to find, the samples are one cloud",
    }
    start = "the clusters do not fit" if value < LOW else "the clusters may not fit"
    return f"{start} ({value:.2f})" + (f": {words[reason]}" if reason in words else "")
