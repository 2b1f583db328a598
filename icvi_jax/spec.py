"""Configuration as frozen dataclasses that JAX sees as pytrees: numbers are leaves, sizes and names are static."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, Literal, TypeVar, dataclass_transform

import jax
import numpy as np

T = TypeVar("T")
V = TypeVar("V")


def static(default: T = dataclasses.MISSING) -> T:  # type: ignore[assignment]  # see `required`
    """A configuration field that belongs to the structure: changing it recompiles.

    For a field without a default use `required`: then a type checker knows that it must be given.

    Examples
    --------
    >>> @spec
    ... class Settings:
    ...     rate: float = 0.5
    ...     name: str = static("settings")
    >>> jax.tree.leaves(Settings(rate=0.25))
    [0.25]
    """
    field: T = dataclasses.field(default=default, metadata={"static": True})
    return field


def required() -> Any:
    """A field like `static` that has no default, such as the number of slots."""
    return dataclasses.field(metadata={"static": True})


def derived(*, init: Literal[False] = False) -> Any:
    """A leaf that `__post_init__` computes from the others."""
    return dataclasses.field(init=init, repr=False, compare=False, default=None)


def _plain(value: object) -> object:
    """NumPy's and JAX's numbers as Python's, also arrays without axes, so that checks see them; tracers stay."""
    if isinstance(value, jax.Array) and (isinstance(value, jax.core.Tracer) or not value.is_fully_addressable):
        return value
    return value.item() if isinstance(value, (np.generic, np.ndarray, jax.Array)) and value.ndim == 0 else value


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(required, derived))
def spec(cls: type[T]) -> type[T]:
    """Make `cls` a frozen keyword-only dataclass and register it as a pytree.

    Fields made with `static` belong to the structure of the tree; all others are children, so that a new number does
    not recompile, and `vmap` and `grad` work over it. Checks in `__post_init__` run when a user makes the object, never
    when JAX makes it again from tracers.
    """
    cls = dataclasses.dataclass(frozen=True, kw_only=True)(cls)
    made: Any = cls.__init__
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]  # it is a dataclass since the line above
    kinds = {field.name: field.type for field in fields}

    @functools.wraps(made)
    def init(self: T, **values: object) -> None:
        for name, v in values.items():
            if isinstance(v, str) and kinds.get(name) == "float":
                raise ValueError(f"{cls.__name__}({name}={v!r}): expected a number")
        made(self, **{name: _plain(v) for name, v in values.items()})

    cls.__init__ = init  # type: ignore[method-assign, assignment]
    data = tuple(f.name for f in fields if not f.metadata.get("static"))
    meta = tuple(f.name for f in fields if f.metadata.get("static"))

    def flatten(obj: T) -> tuple[tuple[object, ...], tuple[object, ...]]:
        return tuple(getattr(obj, name) for name in data), tuple(getattr(obj, name) for name in meta)

    def flatten_with_keys(obj: T) -> tuple[Iterable[tuple[object, object]], tuple[object, ...]]:
        children, structure = flatten(obj)
        return zip(map(jax.tree_util.GetAttrKey, data), children), structure

    def unflatten(aux: tuple[object, ...], children: Iterable[object]) -> T:
        obj = object.__new__(cls)
        for name, value in (*zip(data, children), *zip(meta, aux)):
            object.__setattr__(obj, name, value)
        return obj

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


def changed(obj: T, **values: object) -> T:
    """A copy of a `spec` with other values in some fields, for an object of which only a base class is known."""
    copy: T = dataclasses.replace(obj, **values)  # type: ignore[type-var]  # a base class is not a dataclass itself
    return copy


def settle(obj: object, **values: object) -> None:
    """Set fields of a frozen object while it is being built."""
    for name, value in values.items():
        object.__setattr__(obj, name, value)


def one_of(owner: str, field: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise a ValueError unless `value` is one of `choices`."""
    if value not in choices:
        raise ValueError(f"{owner}({field}={value!r}): choose one of {', '.join(map(repr, choices))}")


LARGEST_SIZE = 2**31 - 1
"""The largest size: states count in 32 bits."""


def whole(owner: str, field: str, value: int, least: int = 1, most: int = LARGEST_SIZE) -> None:
    """Raise a ValueError unless `value` is an integer from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value <= most:
        end = f", at most {most}" if isinstance(value, int) and value > most else ""
        raise ValueError(f"{owner}({field}={value!r}): expected an integer of at least {least}{end}")


def number(owner: str, field: str, value: float, ok: bool, wanted: str) -> None:
    """Raise a ValueError unless `ok`; `wanted` says in words what is expected."""
    if not ok:
        raise ValueError(f"{owner}({field}={value!r}): expected {wanted}")


def above(owner: str, field: str, value: float, least: float, below: float = math.inf) -> None:
    """Raise a ValueError unless a plain number is above `least` and at most `below`; tracers pass."""
    if is_number(value):
        end = "" if below == math.inf else f", at most {below}"
        number(owner, field, value, least < value <= below, f"a number above {least}{end}")


def finite(owner: str, field: str, value: float, least: float) -> None:
    """Raise a ValueError unless a plain number is above `least` and finite; tracers pass."""
    if is_number(value):
        number(owner, field, value, least < value < math.inf, f"a finite number above {least}")


def made(owner: str, field: str, value: object, kind: type | tuple[type, ...], example: str) -> None:
    """Raise a ValueError unless `value` is an object of `kind`; a class without its brackets gets a hint."""
    if isinstance(value, type):
        raise ValueError(
            f"{owner}({field}={value.__name__}): this is a class; make an object of it: {value.__name__}(…)"
        )
    if not isinstance(value, kind):
        raise ValueError(f"{owner}({field}={value!r}): expected an object such as {example}")


def is_number(value: object) -> bool:
    """Whether `value` is a plain number; tracers and arrays are not checked."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@jax.tree_util.register_pytree_with_keys_class
class FrozenDict(Mapping[str, V]):
    """A mapping from names to parts that never changes: unlike a dictionary it can be hashed, as pipelines must be.

    Examples
    --------
    >>> FrozenDict({"b": 2, "a": 1})["a"], jax.tree.leaves(FrozenDict({"b": 2, "a": 1}))
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
        return isinstance(other, FrozenDict) and tuple(self._parts.items()) == tuple(other._parts.items())

    def __repr__(self) -> str:
        return repr(self._parts)

    def tree_flatten_with_keys(self) -> tuple[list[tuple[object, V]], tuple[str, ...]]:
        """The parts in the given order, each with its name as a key."""
        return [(jax.tree_util.DictKey(name), part) for name, part in self._parts.items()], tuple(self._parts)

    @classmethod
    def tree_unflatten(cls, names: tuple[str, ...], parts: Iterable[V]) -> FrozenDict[V]:
        """The mapping from the result of `tree_flatten_with_keys`."""
        return cls(dict(zip(names, parts)))


def public_names(names: Mapping[str, object]) -> list[str]:
    """The `__all__` of a package with the globals `names`: all except modules and names that begin with an underscore.

    A package has one line `from package.part import Part as Part`, which type checkers take as an export. It sets
    `__all__` with `globals()`, which they do not see: they only understand lists that are written out.
    """
    return [name for name, value in names.items() if not name.startswith("_") and not isinstance(value, ModuleType)]
