"""Public names: what a package's `__init__` imports as itself is what the package offers."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType


def offered(names: Mapping[str, object]) -> list[str]:
    """The `__all__` of a package with the globals `names`: all but modules and names that begin with an underscore.

    A package says `from package.part import Part as Part`, in one line, which type checkers take for an export. It sets
    `__all__` by `globals()`, where they do not see it: they read only lists that are written out.
    """
    return [name for name, value in names.items() if not name.startswith("_") and not isinstance(value, ModuleType)]
