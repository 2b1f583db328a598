"""One recorded fleet in several processes or machines: `several_processes.py COORDINATOR PROCESSES ID FOLDER`.

Start it once per process, with numbers 0, 1, … and the address of process 0. Each process reads the rows of its nodes
only. A process that dies takes the others with it; start all of them again, and they go on from the last checkpoint.
"""

import sys
from pathlib import Path

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import icvi_jax as icvi

NODES, ROWS, CHUNK = 20, 400, 100


def rows(nodes: range, start: int) -> np.ndarray:
    """The rows of some nodes from `start` on, (T, p, nodes): in your program, from files or a database."""
    return np.stack([np.random.default_rng((node, start)).normal(size=(CHUNK, 2)) for node in nodes], axis=-1)


def main(coordinator: str, processes: int, me: int, folder: Path) -> None:
    """Scan the fleet chunk by chunk; each process keeps a checkpoint of its own streams."""
    jax.distributed.initialize(coordinator, processes, me)
    mesh = Mesh(np.asarray(jax.devices()), ("streams",))

    def spread(local: np.ndarray) -> jax.Array:
        """An array of all processes, streams last, of which this one has `local`."""
        layout = NamedSharding(mesh, P(*[None] * (np.ndim(local) - 1), "streams"))
        return jax.make_array_from_process_local_data(layout, np.asarray(local))

    def own(array: jax.Array) -> np.ndarray:
        """The streams of this process."""
        parts = sorted(array.addressable_shards, key=lambda part: part.index[-1].start or 0)
        return np.concatenate([np.asarray(part.data) for part in parts], axis=-1)

    pipe = icvi.Pipeline(
        clusterer=icvi.SequentialKMeans(k=3, memory=50),
        panel=icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.9),
    )
    nodes = range(me * NODES // processes, (me + 1) * NODES // processes)
    state, mine = pipe.init(features=2, streams=(len(nodes),), xp=np, dtype=np.float32), f"streams-{me}-of-{processes}"
    saved = [int(file.stem.rpartition("-")[2]) for file in folder.glob(f"{mine}-*.icvi")]
    start = int(multihost_utils.process_allgather(np.asarray(max(saved, default=0))).min())  # one may be a chunk ahead
    if start:
        state = icvi.load(folder / f"{mine}-{start}.icvi", pipe)
    state = jax.tree.map(spread, state)

    layout = jax.tree.map(lambda leaf: leaf.sharding, state)

    @jax.jit
    def advance(state, X):
        state, readings = icvi.scan(pipe, state, X, keep=("values",))
        xb = jax.lax.with_sharding_constraint(readings.values["xb"][-1], NamedSharding(mesh, P("streams")))
        state = jax.lax.with_sharding_constraint(state, layout)  # the streams stay where they are
        return state, xb, jax.numpy.argmax(xb)  # which node is worst: the only thing the processes tell each other

    for at in range(start, ROWS, CHUNK):
        state, xb, worst = advance(state, spread(rows(nodes, at).astype(np.float32)))
        np.save(folder / f"xb-{me}-{at}.npy", own(xb))  # before the checkpoint, which says that this chunk is done
        icvi.save(folder / f"{mine}-{at + CHUNK}.icvi", pipe, jax.tree.map(own, state))
        (folder / f"{mine}-{at - CHUNK}.icvi").unlink(missing_ok=True)  # the last two are kept
        print(f"process {me}: rows {at}–{at + CHUNK}, worst node {int(worst)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
