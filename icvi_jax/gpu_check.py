"""Check the CUDA kernels for real, on a machine with a card: `python -m icvi_jax.gpu_check > report.txt`.

Each pipeline runs on the card, on this machine's cores and as `lax.scan`: the bits of the first two are to be equal,
the values of the third close. Then what one does with them: `jit`, `vmap`, `grad`, several cards, donated states,
fleets of the host, `Live`, an exported program. Then rates, beside those that the instructions allow.

`ptxas` makes machine code, also without a card, and tells registers and spills; `nvdisasm` shows the instructions of
the time loop, each with the cycles until the next may be issued (bits 105 to 108 of its word). Both are in CUDA's
toolkit and on PyPI (the extra `gpu-code`).
"""

from __future__ import annotations

import ctypes
import math
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import icvi_jax as icvi
from icvi_jax.engine.native.cuda import Kernel, kernel_for
from icvi_jax.engine.primitive import Scan, scan_p
from icvi_jax.types import State

PIPES = {  # by the first word of an instruction; what is in none of these goes to the ALU
    "fma": "FADD FMUL FFMA IMAD",
    "double": "DADD DMUL DFMA DSETP",
    "special": "MUFU I2F F2I I2I F2F",
    "memory": "LDG STG LDS STS LDL STL",
    "none": "NOP BRA CALL EXIT BSSY BSYNC ULDC LDCU UIADD3 UMOV",
}


@dataclass(frozen=True)
class MachineCode:
    """What the compiler made of one kernel; instructions and cycles are those of one sample of one warp."""

    registers: int
    spilled: int
    stack: int
    pipes: dict[str, int]
    instructions: int
    stalls: int
    seconds: float  # of processor time for making it


@dataclass(frozen=True)
class Card:
    """A GPU: cycles and bytes a second; `fma`, `double`: cycles of a scheduler's unit for one instruction of a warp."""

    architecture: str
    processors: int
    clock: float
    bandwidth: float
    fma: int
    double: int
    wait: int = 600  # cycles until a sample is there from the card's memory


def find_tool(name: str) -> str | None:
    """Where a tool of CUDA is: among the commands, or where PyPI's packages put it."""
    if found := shutil.which(name):
        return found
    folders = getattr(find_spec("nvidia"), "submodule_search_locations", None) or []
    places = [path for folder in folders for path in Path(folder).glob(f"*/bin/{name}")]
    return str(places[0]) if places else None


def assemble(ptx: str, architecture: str) -> MachineCode:
    """Machine code for one architecture, such as sm_80, and what can be read off it."""
    ptxas, nvdisasm = find_tool("ptxas"), find_tool("nvdisasm")
    if ptxas is None or nvdisasm is None:
        raise FileNotFoundError("ptxas and nvdisasm are not here: pip install 'icvi-jax[gpu-code]'")
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        said = _run(ptxas, "-v", f"-arch={architecture}", str(source), "-o", str(binary)).stderr
        seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        shown = _run(nvdisasm, "-c", "-hex", str(binary)).stdout
    spilled = sum(int(n) for n in re.findall(r"(\d+) bytes spill", said))
    stack, registers = (int(re.findall(pattern, said)[0]) for pattern in (r"(\d+) bytes stack", r"Used (\d+) reg"))
    loop = _time_loop(shown)
    names = Counter(name for name, _ in loop)
    pipes = {pipe: sum(names[name] for name in words.split()) for pipe, words in PIPES.items()}
    pipes["alu"] = len(loop) - sum(pipes.values())
    return MachineCode(registers, spilled, stack, pipes, len(loop), sum(stall for _, stall in loop), seconds)


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=True, capture_output=True, text=True)


def _time_loop(shown: str) -> list[tuple[str, int]]:
    """Name and stall of each instruction of the longest loop, without the rare ways out of it that call a function.

    A division is a few instructions, a test, and a call for numbers near the ends of the range.
    """
    lines = shown.splitlines()
    where = {m[1]: n for n, line in enumerate(lines) if (m := re.match(r"(\.L_\w+):", line.strip()))}
    jumps = {n: where[m[1]] for n, line in enumerate(lines) if (m := re.search(r"BRA.* `\((\.L_\w+)\)", line))}
    start, stop = max(((to, n) for n, to in jumps.items() if to < n), key=lambda pair: pair[1] - pair[0])
    found, n = [], start
    while n <= stop:
        if m := re.match(r"\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?(\w+)", lines[n]):
            high = re.search(r"/\* 0x([0-9a-f]{16}) \*/", lines[n + 1])
            found.append((m[1], int(high[1], 16) >> 41 & 15 if high else 0))
            to = jumps.get(n, 0)
            if n < to <= stop and any(" CALL." in line for line in lines[n:to]):
                n = to
        n += 1
    return found


def predict_rate(made: MachineCode, card: Card, bytes_: int, streams: int = 65_536) -> dict[str, float]:
    """Million samples a second by each bound; the least of them is the prediction.

    Issue: one instruction a scheduler and cycle. Pipes: the units that instructions share. Latency: the waits that the
    compiler put between the instructions of one warp, and one for memory, divided among the warps that fit. Bandwidth:
    samples in, readings out (`bytes_` a sample).
    """
    registers, pipes = math.ceil(made.registers / 8) * 8, made.pipes
    blocks = min(16, 65536 // (registers * 128))  # of four warps: one for each scheduler
    waves = math.ceil(streams / 128 / (card.processors * blocks))
    fleet = streams * card.clock / 1e6 / waves
    busy = max(
        2 * pipes["alu"],
        card.fma * pipes["fma"],
        card.double * pipes["double"],
        8 * pipes["special"],
        4 * pipes["memory"],
    )
    cycles = {"issue": blocks * made.instructions, "pipes": blocks * busy, "latency": made.stalls + card.wait}
    return {name: fleet / n for name, n in cycles.items()} | {"bandwidth": card.bandwidth / bytes_ / 1e6}


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

    def pipeline(self, pipe: icvi.Pipeline, p: int, dtype: type = np.float32, N: int = 97, T: int = 120) -> str:
        """The bits of the CPU's code, and the values of `lax.scan`."""
        X, tolerance = draw_samples(T, p, N, dtype), 2e-3 if dtype == np.float32 else 1e-9
        with jax.enable_x64(dtype == np.float64):
            state = pipe.init(p, (N,))
            found = jax.jit(self.scan)(*self.put((pipe, state, X)))
            bits = jax.jit(self.native)(*self.put((pipe, state, X), self.cpu))
            values = jax.jit(partial(icvi.scan, implementation="xla"))(*self.put((pipe, state, X), self.cpu))
            wrong = compare(found, bits, 0.0)
            far = compare(found[1].values, values[1].values, tolerance)
        return ", ".join(
            part for part in (wrong and f"not the CPU's bits: {wrong}", far and f"not lax.scan: {far}") if part
        )

    def elapsed_and_every(self) -> str:
        """Elapsed times, and each seventh reading."""
        pipe, X = make_pipeline(icvi.SequentialKMeans(k=3, memory=20.0)), draw_samples(50, 2, 33)
        given = pipe, pipe.init(2, (33,)), X, np.linspace(0.5, 2.0, 50, dtype=np.float32)
        both = [jax.jit(partial(f, every=7, keep=KEEP)) for f in (self.scan, self.native)]
        return compare(both[0](*self.put(given)), both[1](*self.put(given, self.cpu)), 0.0)

    def vmap(self) -> str:
        """More streams by `vmap`, and a number for each."""
        X = draw_samples(40, 2, 5).transpose(2, 0, 1)

        def run(scan: Callable[..., State], forgetting: State, X: State) -> State:
            panel = icvi.Panel(indices=(icvi.XieBeni(),), forgetting=forgetting)
            pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=3), panel=panel)
            return scan(pipe, pipe.init(2), X)[1].values

        given = np.linspace(0.8, 0.99, 3, dtype=np.float32), X
        both = [
            jax.jit(jax.vmap(jax.vmap(partial(run, f), in_axes=(None, 0)), in_axes=(0, None)))
            for f in (self.scan, self.native)
        ]
        return compare(both[0](*self.put(given)), both[1](*self.put(given, self.cpu)), 0.0)

    def grad(self) -> str:
        """The gradient, by `lax.scan`."""

        def loss(scan: Callable[..., State], X: State) -> State:
            values = scan(self.small, self.small.init(2, (4,)), X)[1].values["xb"]
            return jnp.sum(jnp.where(jnp.isfinite(values), jnp.tanh(values), 0.0))

        X = np.nan_to_num(draw_samples(30, 2, 4), nan=100.0)
        found, expected = (jax.jit(jax.grad(partial(loss, f))) for f in (self.scan, icvi.scan))
        return compare(found(self.put(X)), expected(self.put(X, self.cpu)), 1e-2)

    def several(self) -> str:
        """All devices at once by `shard_map`, each its own streams."""
        n = len(self.devices)
        mesh, X = Mesh(np.array(self.devices), ("d",)), draw_samples(40, 2, 8 * n)

        def part(X: State) -> State:
            return self.scan(self.small, self.small.init(2, (8,)), X)[1].values

        over = jax.jit(jax.shard_map(part, mesh=mesh, in_specs=P(None, None, "d"), out_specs=P(None, "d")))
        expected = jax.jit(self.native)(*self.put((self.small, self.small.init(2, (8 * n,)), X), self.cpu))
        return compare(over(X), expected[1].values, 0.0)

    def donated(self) -> str:
        """A donated state, again and again."""
        step = jax.jit(lambda state, X: self.scan(self.small, state, X)[0], donate_argnums=0)
        X = draw_samples(60, 2, 65)
        state = self.put(jax.tree.map(np.array, self.small.init(2, (65,))))  # each leaf a buffer of its own
        for start in range(0, 60, 20):
            state = step(state, self.put(X[start : start + 20]))
        expected = jax.jit(self.native)(*self.put((self.small, self.small.init(2, (65,)), X), self.cpu))
        return compare(state, expected[0], 0.0)

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
        expected = jax.jit(self.native)(*self.put((self.small, self.small.init(2, (16,)), X), self.cpu))
        return compare(found, jax.tree.map(list, tuple(map(jax.tree.leaves, expected))), 0.0)

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


def describe_card(device: jax.Device) -> Card:
    """What the driver says about a card."""
    driver = ctypes.CDLL("libcuda.so.1")

    def ask(attribute: int) -> int:
        value = ctypes.c_int()
        if driver.cuInit(0) or driver.cuDeviceGetAttribute(
            ctypes.byref(value), attribute, device.local_hardware_id or 0
        ):
            raise OSError(f"the driver does not tell attribute {attribute} of {device}")
        return value.value

    processors, kilohertz, memory, bits, major, minor = map(ask, (16, 13, 36, 37, 75, 76))
    wide = (major, minor) not in ((6, 0), (7, 0), (7, 2), (7, 5), (8, 0))  # 128 units for floats a processor, else 64
    double = {(6, 0): 4, (7, 0): 4, (8, 0): 4, (9, 0): 2, (10, 0): 2}.get((major, minor), 64)
    return Card(f"sm_{major}{minor}", processors, kilohertz * 1e3, 2e3 * memory * bits / 8, 2 - wide, double)


def kernel_of(pipe: icvi.Pipeline, p: int, keep: tuple[str, ...] = KEEP) -> Kernel:
    """The kernel of a pipeline, as `scan` asks for it."""
    X = jax.ShapeDtypeStruct((2, p, 2), jnp.float32)
    made = jax.make_jaxpr(partial(icvi.scan, keep=keep))(pipe, pipe.init(p, (2,)), X)
    return next(kernel_for(Scan(**eqn.params)) for eqn in made.jaxpr.eqns if eqn.primitive is scan_p)


def count_bytes(kernel: Kernel, p: int) -> int:
    """Bytes in and out of memory for one sample."""
    written = sum(leaf.n * leaf.dtype.itemsize for i, leaf in enumerate(kernel.outputs) if i not in kernel.still)
    return 4 * p + written


def main() -> int:
    """Print the report; 0 if all is right."""
    cards = [device for device in jax.devices() if device.platform in ("gpu", "cuda")]
    if not cards:
        print(f"JAX sees no CUDA device here, only {jax.devices()[0].platform}: install jax[cuda12] or jax[cuda13].")
        return 2
    print(
        f"icvi_jax {icvi.__version__}, jax {jax.__version__}, {platform.platform()}, {cards[0].client.platform_version}"
    )
    print(f"{len(cards)} × {cards[0].device_kind}")
    checks, wrong = Checks(cards), 0
    card = describe_card(cards[0])
    tools = find_tool("ptxas") and find_tool("nvdisasm")
    if not tools:
        print("no predictions: pip install 'icvi-jax[gpu-code]'")
    ways = (
        checks.elapsed_and_every,
        checks.vmap,
        checks.grad,
        checks.several,
        checks.donated,
        checks.host,
        checks.exported,
    )
    kmeans, oec = make_pipeline(icvi.SequentialKMeans(k=4)), make_pipeline(icvi.OnlineEllipsoidal(capacity=4))
    doubles = (partial(checks.pipeline, pipe, 2, np.float64) for pipe in (kmeans, oec))
    for name, check in [(way.__name__, way) for way in ways] + list(zip(("k-means float64", "OEC float64"), doubles)):
        wrong += bool(said := _say(check))
        print(f"{name:35s} {said or 'right'}", flush=True)
    for name, (pipe, p) in list_pipelines().items():
        wrong += bool(said := _say(partial(checks.pipeline, pipe, p)))
        rate = "" if said else f"{checks.measure(pipe, p):9,.0f} million samples a second"
        if tools and not said:
            kernel = kernel_of(pipe, p)
            made = assemble(kernel.ptx, card.architecture)
            bounds = predict_rate(made, card, count_bytes(kernel, p))
            least = min(bounds, key=lambda bound: bounds[bound])
            rate += (
                f", predicted {bounds[least]:9,.0f} ({least}); {made.registers} registers, {made.spilled} bytes spilled"
            )
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
