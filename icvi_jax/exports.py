"""Public names of a package: those that its `__init__` imports under their own names."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType


def offered(names: Mapping[str, object]) -> list[str]:
    """The `__all__` of a package with the globals `names`: all except modules and names that begin with an underscore.

    A package has one line `from package.part import Part as Part`, which type checkers take as an export. It sets
    `__all__` with `globals()`, which they do not see: they only understand lists that are written out.
    """
    return [name for name, value in names.items() if not name.startswith("_") and not isinstance(value, ModuleType)]
