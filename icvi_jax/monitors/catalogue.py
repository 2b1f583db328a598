"""Catalogue: every monitor of the package, and what it watches."""

from __future__ import annotations

import re
from typing import NamedTuple

from icvi_jax.monitors.base import Monitor, SampleMonitor


class Entry(NamedTuple):
    """One monitor.

    Attributes
    ----------
    name : its name on the command line: that of its class in lower case, such as "page-hinkley".
    monitor : its class.
    samples : whether it watches the samples; otherwise an index.
    purpose : what it is for, the first line of its docstring.
    """

    name: str
    monitor: type[Monitor] | type[SampleMonitor]
    samples: bool
    purpose: str


def catalogue() -> tuple[Entry, ...]:
    """All monitors of the package.

    Examples
    --------
    >>> [(entry.name, entry.samples) for entry in catalogue()][:2]
    [('distress', False), ('change', True)]
    """
    from icvi_jax.monitors import listing  # here, since a monitor in the listing may ask for the catalogue

    found = (part for part in vars(listing).values() if isinstance(part, type))
    return tuple(_entry(part) for part in found if issubclass(part, (Monitor, SampleMonitor)))


def _entry(monitor: type[Monitor] | type[SampleMonitor]) -> Entry:
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", monitor.__name__).lower()
    purpose = (monitor.__doc__ or "").strip().splitlines()[0]
    return Entry(name, monitor, issubclass(monitor, SampleMonitor), purpose)
