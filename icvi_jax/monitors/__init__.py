"""Monitors: one file each, a pure step that turns an index value, or a sample, into an `Alarm`."""

import re as _re
import warnings as _warnings
from typing import NamedTuple as _NamedTuple

from icvi_jax.monitors.base import IndexValue as IndexValue
from icvi_jax.monitors.base import Listener as Listener
from icvi_jax.monitors.base import Monitor as Monitor
from icvi_jax.monitors.base import SampleMonitor as SampleMonitor
from icvi_jax.monitors.budget import Budget as Budget
from icvi_jax.monitors.change import ChangeState as ChangeState
from icvi_jax.monitors.distress import DistressState as DistressState
from icvi_jax.monitors.listing import *  # noqa: F403
from icvi_jax.monitors.page_hinkley import PageHinkleyState as PageHinkleyState
from icvi_jax.spec import public_names as _public_names


class MonitorEntry(_NamedTuple):
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


def catalogue() -> tuple[MonitorEntry, ...]:
    """All monitors of the package.

    Examples
    --------
    >>> [(entry.name, entry.samples) for entry in catalogue()][:2]
    [('distress', False), ('change', True)]
    """
    from icvi_jax.monitors import listing  # here: a monitor in the listing may import from this package

    entries = []
    for part in vars(listing).values():
        if isinstance(part, type) and issubclass(part, (Monitor, SampleMonitor)):
            name = _re.sub(r"(?<=[a-z])(?=[A-Z])", "-", part.__name__).lower()
            purpose = (part.__doc__ or "").strip().splitlines()[0]
            entries.append(MonitorEntry(name, part, issubclass(part, SampleMonitor), purpose))
    return tuple(entries)


def __getattr__(name: str) -> type:
    if name == "Heard":
        _warnings.warn("icvi_jax.monitors.Heard is called IndexValue since 0.3", DeprecationWarning, stacklevel=2)
        return IndexValue
    raise AttributeError(name)


globals()["__all__"] = _public_names(globals())
