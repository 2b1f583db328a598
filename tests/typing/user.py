"""A user's file in which a strict type checker must find nothing: `mypy --strict tests/typing/user.py`."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import icvi_jax as icvi
from icvi_jax.indices.base import divide
from icvi_jax.monitors.base import alarm
from icvi_jax.spec import required, spec, static
from icvi_jax.statistics import Dispersion, Separation, Stats
from icvi_jax.types import Array, Diagnostics, DType, Event, Namespace, Prototypes

# The pipeline of the README, and what one does with it.
pipe = icvi.Pipeline(
    clusterer=icvi.OnlineEllipsoidal(capacity=16),
    panel=icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.9),
    monitors={"xb": icvi.Distress(), "change": icvi.Change(false_alarms=1e-3)},
)
stream = icvi.streams.s2(seed=0)
run = icvi.run(pipe, stream.x)
last: float = float(run.readings.values["xb"][-1])
clusters: int = int(run.readings.k[-1])
worst = run.readings.values["db"].max()
final, readings = jax.lax.scan(pipe.step, pipe.init(2), jnp.asarray(stream.x))
state = pipe.init(features=2, xp=np)
state, reading = pipe.step(state, np.ones(2))
fleet = icvi.run_fleet(pipe, np.zeros((4, 100, 2)), keep=("values", "alarms"))
raised = fleet.readings.alarms["change"].code > 0
live = icvi.Live(pipe, features=2, streams=8)
tick = live.tick(np.zeros((8, 2)))
values = icvi.validate(icvi.Panel(indices=(icvi.PBM(),)), [[0.0], [4.0], [1.0]], labels=[0, 1, 0])
doubled: Array = 2 * values["pbm"] + 1
goals = {entry.name: entry.goal for entry in icvi.indices.catalogue()}
names = [entry.name for entry in icvi.clusterers.catalogue()]


@spec
class Widest(icvi.Index):
    """The widest cluster over the smallest distance between two; small is good."""

    name: str = static("widest")
    goal: ClassVar = "min"
    needs: ClassVar = (Dispersion, Separation)

    def value(self, stats: Stats, forgetting: Array) -> Array:
        return divide(stats[Dispersion].widest, stats[Separation].smallest, stats.xp.inf)


class OneState(NamedTuple):
    """The mean so far."""

    centers: Array
    active: Array
    samples: Array


@spec
class One(icvi.Clusterer):
    """One cluster, the mean of all samples."""

    k: int = required()
    rate: float = 0.1
    crisp: ClassVar = True

    @property
    def slots(self) -> int:
        return self.k

    def init(self, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> OneState:
        centers = xp.zeros((self.k, features, *streams), dtype=dtype)
        return OneState(centers, xp.zeros((self.k, *streams), dtype=xp.bool), xp.zeros(streams, dtype=xp.int32))

    def step(self, state: OneState, x: Array, seen: Array) -> tuple[OneState, Event]:
        centers = state.centers + self.rate * (x - state.centers)
        new = OneState(centers, state.active | seen, state.samples + 1)
        zero = state.samples * 0
        shown = Diagnostics(zero, zero + 1, ~seen, ~seen, zero, x[0] * 0)
        u = state.centers[:, 0] * 0 + 1
        before, after = Prototypes(state.centers, state.active), Prototypes(new.centers, new.active)
        return new, Event(x, u, before, after, seen, seen, shown)


class ValleyState(NamedTuple):
    """The lowest value so far."""

    lowest: Array


@spec
class Valley(icvi.Monitor):
    """Raises a spike where an index is twice its lowest value."""

    name: str | None = static(None)
    index: str | None = static(None)
    factor: float = 2.0

    def init(self, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> ValleyState:
        return ValleyState(xp.full(streams, xp.inf, dtype=dtype))

    def step(
        self, state: ValleyState, value: Array, seen: Array, goal: str, positive: bool
    ) -> tuple[ValleyState, icvi.Alarm]:
        high = seen & (value > self.factor * state.lowest)
        return ValleyState(state.lowest), alarm(high * 1, value / state.lowest, high & ~high)


mine = icvi.Pipeline(
    clusterer=One(k=2), panel=icvi.Panel(indices=(Widest(), icvi.XieBeni(name="xb2"))), monitors={"widest": Valley()}
)
