"""Split column names of the form ``node_variable``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from icvi_jax.tables.table import TableError

SEPARATORS = "_.:/ "
SINGLE = ("value",)
"""Name of the variable if there is only one."""


def split_names(
    shown: str, names: Sequence[str], wanted: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...], NDArray[np.int64]]:
    """Find nodes and variables from column names, so that every node has every variable.

    If no name has a separator, each column is a node with a single variable.

    Returns
    -------
    tuple
        Nodes, variables, and the positions ``(nodes, variables)`` of their columns.

    Examples
    --------
    >>> nodes, variables, place = split_names("a.csv", ["n_1_temp", "n_1_hum", "n_2_temp", "n_2_hum"], ())
    >>> nodes, variables, place.tolist()
    (('n_1', 'n_2'), ('temp', 'hum'), [[0, 1], [2, 3]])
    """
    for pairs in _splittings(names):
        nodes, variables = (tuple(dict.fromkeys(part)) for part in zip(*pairs))
        if len(nodes) > 1 and len(nodes) * len(variables) == len(names) == len(set(pairs)):
            absent = next((name for name in wanted if name not in variables), None)
            if absent is not None:
                raise TableError(
                    shown, f"there is no such variable; the columns have {', '.join(variables[:20])}", 1, None, absent
                )
            variables = tuple(wanted) or variables
            return nodes, variables, np.array([[pairs.index((node, v)) for v in variables] for node in nodes])
    if any(separator in name for name in names for separator in "_.:/"):
        raise TableError(
            shown,
            "column names are not node_variable for every node and variable, and no column is called node "
            "(name the node column with --node)",
            1,
            1,
            names[0],
        )
    if wanted:
        names = [name for name in names if name in wanted] or list(names)
    return tuple(names), SINGLE, np.arange(len(names))[:, None]


def _splittings(names: Sequence[str]) -> Iterable[list[tuple[str, str]]]:
    """Split all names at one separator, from the right and from the left, then with the variable first."""
    for separator in SEPARATORS:
        if not all(separator in name.strip(separator) for name in names):
            continue
        for split in (str.rsplit, str.split):
            for count in (1, 2):
                parts = [split(name, separator, count) for name in names]
                if all(len(part) == count + 1 for part in parts):
                    if split is str.rsplit:
                        yield [(part[0], separator.join(part[1:])) for part in parts]
                    else:
                        yield [(separator.join(part[:count]), part[count]) for part in parts]
