"""Memo: what was computed at the step before and holds again, but for the few slots that a sample changed.

A sample of a crisp clusterer moves one centre, so that k of the k²/2 distances between centres are new. A clusterer
that is `local` says which slots moved (`Event.moved`), and a pipeline keeps what its indices name in `kept`. Nothing is
added up: what changes is computed anew from centres and statistics, so there is no drift.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from icvi_jax.numerics.arrays import far
from icvi_jax.types import Array, DType, Namespace


class Memo:
    """What is kept by name, and what it is after this step.

    Parameters
    ----------
    names : of what is to be kept; all else is computed in full.
    old : what was kept; empty: everything is computed in full, once.
    moved : one-hot masks (k, *streams) of the slots that changed.

    Attributes
    ----------
    new : what is to be kept for the next step.
    """

    def __init__(
        self, names: Sequence[str] = (), old: Mapping[str, Array] | None = None, moved: Sequence[Array] = ()
    ) -> None:
        self._names, self._old, self._moved = frozenset(names), old or {}, moved
        self.new: dict[str, Array] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def of(self, name: str, full: Callable[[], Array], renew: Callable[[Array, Sequence[Array]], Array]) -> Array:
        """What has this name: from what was kept, if it was, otherwise in full."""
        if name not in self._names:
            return full()
        if name not in self.new:
            old = self._old.get(name)
            self.new[name] = full() if old is None else renew(old, self._moved)
        return self.new[name]


def start(names: Sequence[str], k: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> dict[str, Array]:
    """What is kept before any sample, when no slot is in use: distances are larger than all real ones."""
    pairs = k * (k - 1) // 2
    sizes = {"logdet": k, "across": 2 * pairs}
    apart = 1.01 * far(dtype, xp)
    values = {"distances": apart, "across": apart, "inverse": 1 / apart, "inverse_root": apart**-0.5}
    return {
        name: xp.full((sizes.get(name, pairs), *streams), values.get(name, 0.0), dtype=dtype) for name in sorted(names)
    }
