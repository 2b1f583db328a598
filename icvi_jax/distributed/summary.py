"""Summary of the fleet at one tick, the same in every process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from icvi_jax.distributed import collectives
from icvi_jax.live import Live
from icvi_jax.types import Array, Reading


class Spread(NamedTuple):
    """How an index is distributed over the nodes that have a finite value."""

    nodes: int
    mean: float
    deviation: float
    least: float
    most: float


class Summary(NamedTuple):
    """The fleet at one tick.

    Attributes
    ----------
    nodes : number of nodes.
    seen : how many had a sample.
    values : `Spread` by index name.
    worst : by index name, the worst nodes as (name, value), worst first.
    alarms : by monitor name, how many nodes raised each code at this tick: {1: spikes, 2: recoveries, 3: distress}.
    standing : by monitor name, how many nodes are in distress.
    """

    nodes: int
    seen: int
    values: dict[str, Spread]
    worst: dict[str, list[tuple[str, float]]]
    alarms: dict[str, dict[int, int]]
    standing: dict[str, int]


def summarize(live: Live, reading: Reading, worst: int) -> Summary:
    """Reduce the readings of all processes; all must call it, with readings of equal pipelines."""
    n = len(live.names)
    lanes = len(collectives.mesh().local_devices)
    length = int(collectives.everywhere([n]).max())
    length = -(-max(length, 1) // lanes) * lanes
    goals = {index.name: index.goal for index in live.pipe.indices}
    signs = [1 if goals[name] == "min" else -1 for name in reading.values]
    codes = [(name, code) for name in reading.alarms for code in (1, 2, 3)]
    counts: list[Array] = [np.ones(n, np.int32), reading.seen]
    counts += [reading.alarms[name].code == code for name, code in codes]
    counts += [alarm.standing for alarm in reading.alarms.values()]
    values = collectives.padded(_whole(reading.values.values()), length, np.nan)
    out = collectives.fleet(
        collectives.spread_out(values),
        collectives.spread_out(values * np.array(signs, values.dtype)[:, None]),
        collectives.spread_out(collectives.padded(_whole(counts).astype(np.int32), length, 0)),
        worst,
        collectives.mesh(),
    )
    nodes, mean, deviation, least, most, top, places, sums = (np.asarray(a) for a in out)
    names = collectives.names_at(places.ravel(), live.names, length)
    rows = iter(zip(names, top.ravel(), strict=True))
    found, spreads = {}, {}
    for i, name in enumerate(reading.values):
        pairs = [next(rows) for _ in range(top.shape[1])]
        found[name] = [(node, float(score) * signs[i]) for node, score in pairs if node and score != -np.inf]
        spreads[name] = Spread(int(nodes[i]), *(float(a[i]) for a in (mean, deviation, least, most)))
    alarms: dict[str, dict[int, int]] = {name: {} for name in reading.alarms}
    for (name, code), total in zip(codes, sums[2:]):
        alarms[name][code] = int(total)
    standing = dict(zip(reading.alarms, (int(total) for total in sums[2 + len(codes) :])))
    return Summary(int(sums[0]), int(sums[1]), spreads, found, alarms, standing)


def _whole(rows: Iterable[Array]) -> np.ndarray:
    return np.stack([np.asarray(row) for row in rows])
