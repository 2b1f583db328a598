"""Parts by name in a configuration: a mapping that can be hashed, and that JAX sees as a pytree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import jax

V = TypeVar("V")


@jax.tree_util.register_pytree_with_keys_class
class Named(Mapping[str, V]):
    """A mapping from names to parts that never changes: unlike a dictionary it can be hashed, as pipelines must be.

    Examples
    --------
    >>> Named({"b": 2, "a": 1})["a"], jax.tree.leaves(Named({"b": 2, "a": 1}))
    (1, [2, 1])
    """

    def __init__(self, parts: Mapping[str, V]) -> None:
        self._parts = dict(parts)

    def __getitem__(self, name: str) -> V:
        return self._parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __hash__(self) -> int:
        return hash(tuple(self._parts.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and tuple(self._parts.items()) == tuple(other._parts.items())

    def __repr__(self) -> str:
        return repr(self._parts)

    def tree_flatten_with_keys(self) -> tuple[list[tuple[object, V]], tuple[str, ...]]:
        """The parts in the given order, each with its name as a key."""
        return [(jax.tree_util.DictKey(name), part) for name, part in self._parts.items()], tuple(self._parts)

    @classmethod
    def tree_unflatten(cls, names: tuple[str, ...], parts: Iterable[V]) -> Named[V]:
        """The mapping from the result of `tree_flatten_with_keys`."""
        return cls(dict(zip(names, parts)))
