"""Devices: which of them a fleet runs on."""

from __future__ import annotations

import os
import sys

from jax.sharding import Mesh


def use_all_cores(cores: int | None = None) -> int:
    """How many cores a fleet uses; calling this has no effect and is no longer needed.

    In 0.1 this made each core a device of JAX. Native code uses all cores of the process by itself.

    Parameters
    ----------
    cores : what is returned; by default the number of cores that this process may use.

    Examples
    --------
    >>> icvi_jax.use_all_cores() >= 1
    True
    """
    if cores is not None:
        return cores
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def streams_mesh(mesh: Mesh | None) -> Mesh | None:
    """`mesh` if it has the one axis "streams"."""
    if mesh is not None and mesh.axis_names != ("streams",):
        raise ValueError(f"run_fleet(mesh=…): expected one axis named 'streams', got {mesh.axis_names}")
    return mesh
