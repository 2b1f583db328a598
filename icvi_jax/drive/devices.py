"""Devices: which of them a fleet runs on."""

from __future__ import annotations

import os
import sys

import jax
import numpy as np
from jax.sharding import Mesh

WORTHWHILE = 16
"""Fewer streams than this a device are not worth another device."""


def use_all_cores(cores: int | None = None) -> int:
    """Make each CPU core a JAX device, so that `run_fleet` uses all of them; returns how many there are.

    JAX decides on its devices at its first computation, so this must come before any. It is never done on import:
    programs of your own that take JAX's only CPU device for granted would see another one.

    Parameters
    ----------
    cores : how many; by default all that this process may use.

    Examples
    --------
    >>> icvi_jax.use_all_cores()  # doctest: +SKIP
    2
    """
    if cores is None:
        cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    try:
        jax.config.update("jax_num_cpu_devices", cores)
    except RuntimeError:
        if len(jax.local_devices(backend="cpu")) != cores:
            raise RuntimeError(
                "use_all_cores() comes too late: JAX has already decided on its devices. Call it before anything that "
                "computes with JAX, pipe.init included"
            ) from None
    return cores


def streams_mesh(mesh: Mesh | None, streams: int) -> Mesh:
    """`mesh` if it has the one axis "streams"; by default as many local devices as so many streams are worth."""
    if mesh is None:
        devices = jax.local_devices()
        return Mesh(np.array(devices[: max(1, min(len(devices), streams // WORTHWHILE))]), ("streams",))
    if mesh.axis_names != ("streams",):
        raise ValueError(f"run_fleet(mesh=…): needs one axis named 'streams', got {mesh.axis_names}")
    return mesh
