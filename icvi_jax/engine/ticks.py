"""Ticks: one sample of every stream a call, on native code, with as little Python around it as possible.

A reading has about twenty arrays. Making new ones would take ten times as long as the step itself. So there are a few
sets of arrays, and a set without references (Python counts them, with views) is used again. If you keep all readings,
new arrays are made.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from icvi_jax.engine.native.tick import Ticker
from icvi_jax.engine.native_engine import Native
from icvi_jax.types import Alarm, Reading

SETS = 2 if sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)() else 0
"""Sets of arrays that are handed out: one is being read while the next is written. Without exact counts, none."""


class Ticks:
    """Readings of one tick after the other; the words are changed where they are.

    Parameters
    ----------
    native : the code.
    model : the pipeline.
    words : the states of N streams.
    origin : (N, p), float64; it does not change any more.
    taken : type of the samples that will come, float32 or float64.
    dtype : type in which they are handed to the code.
    """

    def __init__(
        self, native: Native, model: object, words: np.ndarray, origin: np.ndarray, taken: np.dtype, dtype: np.dtype
    ) -> None:
        code = native.code
        form = code.tree(range(len(code.layout.outputs)))
        numbers, shown = code.numbers(model), np.dtype(np.float64) if taken == np.float64 else code.layout.dtype
        back = None
        if form.centers is not None:  # written out for every slot: a sum of long rows is quicker than many short ones
            back = np.repeat(origin[:, None, :], code.layout.outputs[form.centers].shape[0], axis=1)

        def new() -> _Set:
            raw = [a[:, 0] for a in code.outputs(len(origin), 1)]
            for i in code.layout.still:
                raw[i].flags.writeable = False  # no code would write it again, should a reader have changed it
            ticker = code.ticker(words, numbers, len(origin), dtype, origin, [a[:, None] for a in raw])
            return _Set(raw, form.centers, back, shown, ticker)

        self._new, self._assemble = new, _assembler(form)
        self._sets: list[_Set] = []
        self._spare: _Set | None = None

    def __call__(self, x: np.ndarray) -> Reading:
        """The reading of x (N, p), in arrays of its own that lead with (N,)."""
        for one in self._sets:
            if list(map(sys.getrefcount, one.arrays)) == one.free:
                one.tick(x)
                return self._assemble(one.arrays)
        if len(self._sets) < SETS:
            self._sets.append(self._new())
            return self(x)
        self._spare = self._spare or self._new()
        self._spare.tick(x)
        return self._assemble([a.copy() for a in self._spare.arrays])


class _Set:
    """The arrays of a reading, and the call that fills them; `free` are the references when nobody else has any."""

    def __init__(
        self, raw: list[np.ndarray], centers: int | None, back: np.ndarray | None, shown: np.dtype, ticker: Ticker
    ) -> None:
        self._x, self._call, self._held = ticker.x, ticker.tick, (ticker, raw)
        self.arrays, self._about, self._back = list(raw), None, back
        if centers is not None:
            self._about = raw[centers]
            self.arrays[centers] = np.zeros(raw[centers].shape, shown)
            self._centers = self.arrays[centers]
        del raw, ticker
        self.free = list(map(sys.getrefcount, self.arrays))

    def tick(self, x: np.ndarray) -> None:
        """Take in x (N, p)."""
        self._x[...] = x
        self._call()
        if self._about is not None and self._back is not None:
            np.add(self._about, self._back, out=self._centers, casting="same_kind")


def _assembler(form: Reading) -> Callable[[list[np.ndarray]], Reading]:
    """A function from a list of arrays to the reading: its text says which goes where, so that nothing is looked up."""

    def text(part: object) -> str:
        if isinstance(part, (Reading, Alarm)):
            return f"{type(part).__name__}({', '.join(text(item) for item in part)})"
        if isinstance(part, dict):
            return "{" + ", ".join(f"{name!r}: {text(item)}" for name, item in part.items()) + "}"
        return "None" if part is None else f"a[{part}]"

    made: Callable[[list[np.ndarray]], Reading] = eval(f"lambda a: {text(form)}", {"Reading": Reading, "Alarm": Alarm})
    return made
