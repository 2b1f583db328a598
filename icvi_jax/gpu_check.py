"""Check the CUDA kernels for real, on a machine with a card: `python -m icvi_jax.gpu_check > report.txt`.

Each pipeline runs on the card, on this machine's cores and as `lax.scan`: the bits of the first two are to be equal,
the values of the third close. Then what one does with them: `jit`, `vmap`, `grad`, several cards, donated states,
fleets of the host, `Live`, an exported program. Then rates; `benchmarks/gpu.py` says which ones the instructions allow.
"""

from __future__ import annotations

import platform
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import icvi_jax as icvi
from icvi_jax.engine.native.cuda import Kernel, kernel_for
from icvi_jax.engine.primitive import Scan, scan_p
from icvi_jax.types import State

KEEP = ("values", "label", "alarms")
TWO, SIX = ("xb", "db"), ("xb", "db", "ch", "pbm", "csil", "wb")


def make_pipeline(clusterer: State, names: Sequence[str] = TWO, **monitors: State) -> icvi.Pipeline:
    """A pipeline with the indices of these names; all those of one prototype a cluster if there are none."""
    every = {entry.name: entry.index for entry in icvi.indices.catalogue() if entry.name not in ("conn", "osil")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some of them are not defined for all streams
        panel = icvi.Panel(indices=tuple(every[name]() for name in names or every), forgetting=0.9)
        return icvi.Pipeline(clusterer=clusterer, panel=panel, monitors=monitors)


def list_pipelines() -> dict[str, tuple[icvi.Pipeline, int]]:
    """Pipelines and their features, by name."""
    kmeans, distress, change = icvi.SequentialKMeans, icvi.Distress(factor=3.0), icvi.Change()
    return {
        "k-means 2, p 1, XB": (make_pipeline(kmeans(k=2), ("xb",)), 1),
        "k-means 4, p 2, XB DB": (make_pipeline(kmeans(k=4)), 2),
        "k-means 4, p 2, six indices": (make_pipeline(kmeans(k=4), SIX), 2),
        "k-means 4, p 2, 21 indices": (make_pipeline(kmeans(k=4), ()), 2),
        "k-means 3, p 8, XB DB": (make_pipeline(kmeans(k=3)), 8),
        "k-means 10, p 2, XB DB": (make_pipeline(kmeans(k=10)), 2),
        "k-means 10, p 2, XB DB, Distress": (make_pipeline(kmeans(k=10), xb=distress), 2),
        "k-means 10, p 2, XB DB, Change": (make_pipeline(kmeans(k=10), change=change), 2),
        "k-means 16, p 2, XB DB": (make_pipeline(kmeans(k=16)), 2),
        "rebirth 4, p 2, XB DB": (make_pipeline(icvi.RebirthKMeans(k=4)), 2),
        "fuzzy 4, p 2, XB DB": (make_pipeline(icvi.FuzzyCMeans(k=4)), 2),
        "merge and split 4, p 2, XB DB": (make_pipeline(icvi.MergeSplit(slots=4)), 2),
        "merge and split 8, p 2, XB DB": (make_pipeline(icvi.MergeSplit(slots=8)), 2),
        "OEC 4, p 2, XB DB": (make_pipeline(icvi.OnlineEllipsoidal(capacity=4)), 2),
        "OEC 8, p 2, XB DB": (make_pipeline(icvi.OnlineEllipsoidal(capacity=8)), 2),
        "OEC 16, p 2, XB DB": (make_pipeline(icvi.OnlineEllipsoidal(capacity=16)), 2),
    }


def draw_samples(T: int, p: int, N: int, dtype: type = np.float32, seed: int = 0) -> np.ndarray:
    """Three clusters far from 0, (T, p, N), with missing samples."""
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(3, p, 1)) * 8)[rng.integers(0, 3, T)] + rng.normal(size=(T, p, N)) + 100
    X[np.broadcast_to(rng.random((T, 1, N)) < 0.05, X.shape)] = np.nan
    return X.astype(dtype)


def compare(a: State, b: State, tolerance: float) -> str:
    """ "" if the leaves of two pytrees agree, otherwise the worst of them in words; 0 is: the same bits."""
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        if x.shape != y.shape or x.dtype != y.dtype:
            return f"{x.dtype}{x.shape} instead of {y.dtype}{y.shape}"
        with np.errstate(all="ignore"):
            far = ~((x == y) | ((x != x) & (y != y)))
            if tolerance and x.dtype.kind == "f":
                far &= ~(np.abs(x - y) <= tolerance * (1 + np.abs(y)))
        if far.any():
            return f"{far.sum():,} of {far.size:,} values differ, such as {x[far][0]} instead of {y[far][0]}"
    return ""


class Checks:
    """What is checked, for these devices; `implementation` names the kernels and `beside` the code of the CPU."""

    def __init__(self, devices: Sequence[jax.Device], implementation: str = "cuda", beside: str = "native") -> None:
        self.devices, self.cpu = list(devices), jax.devices("cpu")[0]
        self.scan = partial(icvi.scan, implementation=implementation)
        self.native = partial(icvi.scan, implementation=beside)
        self.small = make_pipeline(icvi.SequentialKMeans(k=3))

    def put(self, tree: State, device: jax.Device | None = None) -> State:
        """Arrays on a device, by default the first of those checked."""
        return jax.device_put(tree, device or self.devices[0])

    def here(self, *given: State, scan: Callable[..., State] | None = None) -> State:
        """What the CPU makes of it, by native code or another scan."""
        return jax.jit(scan or self.native)(*self.put(given, self.cpu))

    def pipeline(self, pipe: icvi.Pipeline, p: int, dtype: type = np.float32, N: int = 97, T: int = 120) -> str:
        """The bits of the CPU's code, and the values of `lax.scan`."""
        with jax.enable_x64(dtype == np.float64):
            given = pipe, pipe.init(p, (N,)), draw_samples(T, p, N, dtype)
            found = jax.jit(self.scan)(*self.put(given))
            wrong = compare(found, self.here(*given), 0.0)
            values = self.here(*given, scan=partial(icvi.scan, implementation="xla"))[1].values
            far = compare(found[1].values, values, 2e-3 if dtype == np.float32 else 1e-9)
        said = wrong and f"not the CPU's bits: {wrong}", far and f"not lax.scan: {far}"
        return ", ".join(filter(None, said))

    def elapsed_and_every(self) -> str:
        """Elapsed times, and each seventh reading."""
        pipe, X = make_pipeline(icvi.SequentialKMeans(k=3, memory=20.0)), draw_samples(50, 2, 33)
        given = pipe, pipe.init(2, (33,)), X, np.linspace(0.5, 2.0, 50, dtype=np.float32)
        there, here = (partial(scan, every=7, keep=KEEP) for scan in (self.scan, self.native))
        return compare(jax.jit(there)(*self.put(given)), self.here(*given, scan=here), 0.0)

    def vmap(self) -> str:
        """More streams by `vmap`, and a number for each."""

        def run(scan: Callable[..., State], forgetting: State, X: State) -> State:
            panel = icvi.Panel(indices=(icvi.XieBeni(),), forgetting=forgetting)
            pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=3), panel=panel)
            return scan(pipe, pipe.init(2), X)[1].values

        given = np.linspace(0.8, 0.99, 3, dtype=np.float32), draw_samples(40, 2, 5).transpose(2, 0, 1)
        there, here = (
            jax.vmap(jax.vmap(partial(run, scan), in_axes=(None, 0)), in_axes=(0, None))
            for scan in (self.scan, self.native)
        )
        return compare(jax.jit(there)(*self.put(given)), self.here(*given, scan=here), 0.0)

    def grad(self) -> str:
        """The gradient, by `lax.scan`."""

        def loss(scan: Callable[..., State], X: State) -> State:
            values = scan(self.small, self.small.init(2, (4,)), X)[1].values["xb"]
            return jnp.sum(jnp.where(jnp.isfinite(values), jnp.tanh(values), 0.0))

        X = np.nan_to_num(draw_samples(30, 2, 4), nan=100.0)
        there, here = (jax.grad(partial(loss, scan)) for scan in (self.scan, icvi.scan))
        return compare(jax.jit(there)(self.put(X)), self.here(X, scan=here), 1e-2)

    def several(self) -> str:
        """All devices at once by `shard_map`, each its own streams."""
        n = len(self.devices)
        mesh, X = Mesh(np.array(self.devices), ("d",)), draw_samples(40, 2, 8 * n)

        def part(X: State) -> State:
            return self.scan(self.small, self.small.init(2, (8,)), X)[1].values

        over = jax.jit(jax.shard_map(part, mesh=mesh, in_specs=P(None, None, "d"), out_specs=P(None, "d")))
        return compare(over(X), self.here(self.small, self.small.init(2, (8 * n,)), X)[1].values, 0.0)

    def donated(self) -> str:
        """A donated state, again and again."""
        step = jax.jit(lambda state, X: self.scan(self.small, state, X)[0], donate_argnums=0)
        X = draw_samples(60, 2, 65)
        state = self.put(jax.tree.map(np.array, self.small.init(2, (65,))))  # each leaf a buffer of its own
        for start in range(0, 60, 20):
            state = step(state, self.put(X[start : start + 20]))
        return compare(state, self.here(self.small, self.small.init(2, (65,)), X)[0], 0.0)

    def host(self) -> str:
        """Fleets of the host's arrays in pieces, and `Live`, on these devices."""
        X = draw_samples(70, 2, 200).transpose(2, 0, 1)
        mesh = Mesh(np.array(self.devices), ("streams",))
        there = icvi.run_fleet(self.small, X, every=3, mesh=mesh)
        here = icvi.run_fleet(self.small, X, every=3)
        live = icvi.Live(self.small, features=2, streams=200, devices=self.devices)
        ticks = np.stack([live.tick(X[:, t]).values["xb"] for t in range(20)], 1)
        wrong = compare(there.readings.values, here.readings.values, 2e-3)
        return wrong or compare(ticks, icvi.run_fleet(self.small, X[:, :20]).readings.values["xb"], 2e-3)

    def exported(self) -> str:
        """A program that was lowered for CUDA, run."""
        out = icvi.export(self.small, features=2, streams=16, samples=30, platforms=("cuda",))
        X = draw_samples(30, 2, 16)
        found = out.scan.call(*self.put((out.numbers, out.start, X)))
        expected = self.here(self.small, self.small.init(2, (16,)), X)
        return compare(found, tuple(map(jax.tree.leaves, expected)), 0.0)

    def measure(self, pipe: icvi.Pipeline, p: int, N: int = 65_536, T: int = 200) -> float:
        """Million samples a second, samples and readings on the card."""
        X = self.put(jnp.tile(jnp.asarray(draw_samples(T, p, 64)), (1, 1, N // 64)))
        run = jax.jit(lambda state, X: self.scan(pipe, state, X, keep=KEEP))
        state, best = self.put(pipe.init(p, (N,))), np.inf
        for _ in range(4):
            begun = time.perf_counter()
            jax.block_until_ready(run(state, X))
            best = min(best, time.perf_counter() - begun)
        return N * T / best / 1e6


def kernel_of(pipe: icvi.Pipeline, p: int, keep: tuple[str, ...] = KEEP) -> Kernel:
    """The kernel of a pipeline, as `scan` asks for it."""
    X = jax.ShapeDtypeStruct((2, p, 2), jnp.float32)
    made = jax.make_jaxpr(partial(icvi.scan, keep=keep))(pipe, pipe.init(p, (2,)), X)
    return next(kernel_for(Scan(**eqn.params)) for eqn in made.jaxpr.eqns if eqn.primitive is scan_p)


def main() -> int:
    """Print the report; 0 if all is right."""
    cards = [device for device in jax.devices() if device.platform in ("gpu", "cuda")]
    if not cards:
        print(f"JAX sees no CUDA device here, only {jax.devices()[0].platform}: install jax[cuda12] or jax[cuda13].")
        return 2
    versions = f"icvi_jax {icvi.__version__}, jax {jax.__version__}"
    print(f"{versions}, {platform.platform()}, {cards[0].client.platform_version}")
    print(f"{len(cards)} × {cards[0].device_kind}")
    checks, wrong = Checks(cards), 0
    ways = "elapsed_and_every vmap grad several donated host exported".split()
    doubles = {"k-means": icvi.SequentialKMeans(k=4), "OEC": icvi.OnlineEllipsoidal(capacity=4)}
    todo: dict[str, Callable[[], str]] = {way: getattr(checks, way) for way in ways}
    for name, clusterer in doubles.items():
        todo[f"{name} float64"] = partial(checks.pipeline, make_pipeline(clusterer), 2, np.float64)
    for name, check in todo.items():
        wrong += bool(said := _say(check))
        print(f"{name:35s} {said or 'right'}", flush=True)
    for name, (pipe, p) in list_pipelines().items():
        wrong += bool(said := _say(partial(checks.pipeline, pipe, p)))
        rate = "" if said else f"{checks.measure(pipe, p):9,.0f} million samples a second"
        print(f"{name:35s} {said or 'right'} {rate}", flush=True)
    print("all right" if not wrong else f"{wrong} wrong: please send this report")
    return int(bool(wrong))


def _say(check: Callable[[], str]) -> str:
    """What is wrong, an exception included: the other checks go on."""
    try:
        return check()
    except Exception as problem:
        return f"{type(problem).__name__}: {str(problem)[:300]}"


if __name__ == "__main__":
    sys.exit(main())
