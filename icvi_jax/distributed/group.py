"""Group: the processes of one fleet, what they do together, and what happens when one of them dies."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import jax
import numpy as np

from icvi_jax import checkpoint
from icvi_jax.array_api import Stored
from icvi_jax.checkpoint import shards
from icvi_jax.distributed import collectives
from icvi_jax.distributed.rendezvous import meet
from icvi_jax.distributed.summary import Summary, summarize
from icvi_jax.engine.inputs import FIELDS
from icvi_jax.live import Live
from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.types import Reading

T = TypeVar("T")


class PeerLost(RuntimeError):
    """Another process of the fleet died or does not answer: end, and start all again from the checkpoint."""


def start(
    coordinator: str | None = None,
    processes: int | None = None,
    process: int | None = None,
    timeout: float = 60,
    bind: str | None = None,
) -> Group:
    """Join the processes of a fleet; call it once, before any other JAX work.

    With `python -m icvi_jax.distributed` no arguments are needed. Without them and without the launcher this is a fleet
    of one process.

    Parameters
    ----------
    coordinator : "host:port" of process 0, reachable by all.
    processes, process : how many processes there are, and which one this is.
    timeout : seconds without an answer after which the others count as lost.
    bind : the address process 0 listens on. Default: all addresses of the host, or loopback if the coordinator is
        on it.
    """
    coordinator = coordinator or os.environ.get("ICVI_COORDINATOR")
    processes = processes or int(os.environ.get("ICVI_PROCESSES", "1"))
    process = int(os.environ.get("ICVI_PROCESS", "0")) if process is None else process
    timeout = float(os.environ.get("ICVI_TIMEOUT", timeout))
    if processes > 1:
        if coordinator is None:
            raise ValueError("distributed.start: several processes need coordinator='host:port' of process 0")
        if bind is None and coordinator.startswith(("127.", "localhost:")):
            bind = coordinator  # a fleet on one machine need not be reachable from others
        meet(coordinator, processes, process, timeout, bind)
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(
            coordinator,
            processes,
            process,
            initialization_timeout=int(timeout),
            coordinator_bind_address=bind,
            heartbeat_timeout_seconds=max(int(timeout), 5),
            shutdown_timeout_seconds=max(int(timeout), 5),
            cluster_detection_method="deactivate",
        )
    return Group(process, processes, timeout)


class Group(NamedTuple):
    """The processes of one fleet. Methods marked "Together" must be called by all processes, in the same order.

    Attributes
    ----------
    process, processes : which one this is, of how many.
    timeout : seconds after which processes that do not answer count as lost.
    """

    process: int
    processes: int
    timeout: float

    def share(self, names: Sequence[str]) -> list[str]:
        """The nodes of this process: an equal, contiguous share of all names."""
        n = len(names)
        return list(names[n * self.process // self.processes : n * (self.process + 1) // self.processes])

    def live(
        self,
        path: str | os.PathLike[str],
        pipe: Pipeline,
        features: int,
        names: Sequence[str],
        keep: tuple[str, ...] = FIELDS,
        devices: Sequence[jax.Device] | None = None,
    ) -> Live:
        """Together: load the newest checkpoint below `path` that all processes have, or make a new fleet.

        Nodes that the checkpoint does not have are new. If another number of processes saved it, it is joined and
        divided again.
        """
        own = self._own(path)
        others = self._elsewhere(path)
        newest = max(checkpoint.numbered(own), default=0) if own.is_dir() else 0
        while newest and not _loads(own, newest, pipe):
            newest = max((n for n in checkpoint.numbered(own) if n < newest), default=0)
        numbers = self.together(lambda: collectives.everywhere([newest, len(others), features]))
        if (numbers[:, 2] != features).any():
            held = ", ".join(f"process {i} has {n}" for i, n in enumerate(numbers[:, 2]))
            raise ValueError(f"Group.live(features=…): {held} features; give all processes the same columns")
        least, most = numbers[:, 0].min(), numbers[:, 0].max()
        if most - least > 1:
            held = ", ".join(f"process {i} {n}" for i, n in enumerate(numbers[:, 0]))
            raise checkpoint.CheckpointError(f"{path}: the newest good checkpoints are too far apart: {held}")
        if own.is_dir():  # a checkpoint that not all have: with it this process would be ahead of the others
            for number, file in checkpoint.numbered(own).items():
                if number > least:
                    file.unlink()
        if least:
            live = Live.load(own, pipe, keep, devices)
        elif others:
            live = Live.load(path, pipe, keep, devices)
        else:
            return Live(pipe, features, names, keep=keep, devices=devices)
        live.retire([name for name in live.names if name not in set(names)])
        live.add([name for name in names if name not in set(live.names)])
        return live

    def save(
        self, live: Live, path: str | os.PathLike[str], extra: dict[str, Stored] | None = None, keep: int = 3
    ) -> Path:
        """Together: each process saves its nodes below `path`; none continues before all have saved."""
        file = live.save(self._own(path), extra, max(keep, 2))  # two: other processes may be one behind
        self.together(lambda: collectives.everywhere([0]))
        if self.process == 0:
            for old in self._elsewhere(path):  # from another number of processes, and no longer the newest
                old.rename(old.with_name(f"was-{old.name}"))
        return Path(file)

    def load_state(self, path: str | os.PathLike[str], pipe: Pipeline) -> PipelineState:
        """Load a state that `icvi_jax.save` wrote as shards, one per process, sharded over the mesh of all devices."""
        state: PipelineState = jax.tree.map(collectives.spread_out, checkpoint.load(self._own(path), pipe, xp=np))
        return state

    def summary(self, live: Live, reading: Reading, worst: int = 10) -> Summary:
        """Together: reduce the readings of all processes to one summary, the same in every process."""
        return self.together(lambda: summarize(live, reading, worst))

    def together(self, work: Callable[[], T]) -> T:
        """Do something collective; raises `PeerLost` if another process fails or does not answer in time."""
        done: list[T] = []
        failed: list[Exception] = []

        def attempt() -> None:
            try:
                done.append(work())
            except Exception as problem:  # raised in the thread that waits
                failed.append(problem)

        # In a thread, since a collective cannot be interrupted when another process hangs.
        thread = threading.Thread(target=attempt, daemon=True)
        thread.start()
        thread.join(self.timeout)
        if done:
            return done[0]
        if not failed:
            raise PeerLost(f"process {self.process}: no answer from the others within {self.timeout:g} seconds")
        (problem,) = failed
        if isinstance(problem, jax.errors.JaxRuntimeError) or "Gloo" in str(problem):
            raise PeerLost(f"process {self.process}: another process has died: {str(problem).splitlines()[0]}")
        raise problem

    def _own(self, path: str | os.PathLike[str]) -> Path:
        return Path(path) / shards.folder(self.process, self.processes)

    def _elsewhere(self, path: str | os.PathLike[str]) -> list[Path]:
        """Shards that another number of processes saved."""
        if not Path(path).is_dir():
            return []
        mine = {shards.folder(i, self.processes) for i in range(self.processes)}
        return [item for item in Path(path).iterdir() if shards.FOLDER.fullmatch(item.name) and item.name not in mine]


def _loads(folder: Path, number: int, pipe: Pipeline) -> bool:
    try:
        checkpoint.load(checkpoint.numbered(folder)[number], pipe, xp=np)
    except checkpoint.DamagedCheckpoint:
        return False
    return True
