"""Trust: `Health` in words, for the terminal, the report and the live page: how much, since when and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icvi_jax.indices.health import HIGH, LOW, Health, health_sentence, trust_of
from icvi_jax.panel_ops import explain
from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.terminal_text import counted

HEALTH = Health().name
WORDS = ("low", "medium", "high", "unknown")


class Trust(NamedTuple):
    """How far the clusters of a node can be trusted at its last sample."""

    value: float  # health, NaN while it is not known
    word: str  # low, medium, high or unknown
    text: str  # a sentence with the number, and since when and why where they do not fit


def trust_now(values: NDArray[np.floating], why: tuple[int, int], when: Callable[[int], str]) -> Trust:
    """The trust at the end of the values of `Health` (T,); `why` are the reason and the cluster to blame, −1 unknown.

    Since when: since the last sample at which it was more likely than not that the clusters fit.

    Examples
    --------
    >>> trust_now(np.array([0.9, 0.4, 0.1]), (1, 2), lambda t: f"sample {t}").text
    'since sample 1 the clusters do not fit (0.10): two states share cluster 2'
    >>> trust_now(np.array([0.84]), (0, -1), str)
    Trust(value=0.84, word='high', text='the clusters fit: 0.84')
    """
    known = np.flatnonzero(np.isfinite(values))
    value = float(values[known[-1]]) if known.size else float("nan")
    word, text = trust_of(value), health_sentence(value, *why)
    if word != "low":
        return Trust(value, word or "unknown", text)
    fitted = known[values[known] >= 0.5]
    since = known[0] if not fitted.size else known[known > fitted[-1]][0]
    return Trust(value, word, f"since {when(int(since))} {text}")


def trust_before(values: NDArray[np.floating], when: Callable[[int], str]) -> list[str]:
    """Sentences about the times that are over at which the clusters did not fit: from low trust to high trust."""
    told, begun = [], -1
    moved = np.flatnonzero((values < LOW) | (values >= HIGH))
    for t in moved:
        low = bool(values[t] < LOW)
        if low and begun < 0:
            begun = int(t)
        elif not low and begun >= 0:
            least = float(np.nanmin(values[begun:t]))
            told.append(f"from {when(begun)} to {when(int(t))} the clusters did not fit ({least:.2f} at the least)")
            begun = -1
    return told


def reasons_of(pipe: Pipeline, state: PipelineState) -> list[tuple[int, int]]:
    """Of each node: the likeliest reason, and the cluster to blame by the name that people see; −1 unknown."""
    why = None if pipe.panel is None else explain(pipe.panel, state.panel).health
    if why is None:
        return []
    reason, slot = (np.ravel(np.asarray(a)).astype(np.int64) for a in (why.reason, why.cluster))
    names = getattr(state.clusterer, "names", None)  # of the slots, where they are not their numbers
    if names is not None:
        called = np.reshape(np.asarray(names), (len(names), -1))[np.maximum(slot, 0), np.arange(len(slot))]
        slot = np.where(slot >= 0, called, slot)
    return list(zip(reason.tolist(), slot.tolist()))


def trust_counts(trusts: tuple[Trust, ...]) -> str:
    """How many nodes have which trust.

    Examples
    --------
    >>> trust_counts((Trust(0.9, "high", ""), Trust(0.1, "low", ""), Trust(0.8, "high", "")))
    'low in 1 node, high in 2 nodes'
    """
    words = [trust.word for trust in trusts]
    return ", ".join(f"{word} in {counted(words.count(word), 'node')}" for word in WORDS if word in words)
