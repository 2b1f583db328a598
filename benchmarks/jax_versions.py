"""Speed by version of JAX: main rows of the README and `lax.scan(pipe.step)`, with the knob of XLA on and off.

    python benchmarks/jax_versions.py [0.8 0.9 0.10 0.12] [--folder DIR] [--write]

Each version gets an environment of its own, which is used again; JAX from 0.11 needs Python 3.12 or later. Needs the
network, for pip. Times are processor times, in units of a NumPy loop that runs in the same process between them, so
that versions compare although they ran one after the other. A smoke test comes first: fleets, ticks, scans and
gradients on both engines. `--write` puts the tables into docs/results/jax_versions.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parents[1]
PAGE = HERE / "docs" / "results" / "jax_versions.md"
KNOB = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=65536"
LENGTHS = (2_000, 8_000, 32_000)
FLEETS = ((1024, 500, 10, 2), (4096, 200, 4, 2), (1024, 500, 3, 8), (1, 100_000, 10, 2))
TOO_LONG = 20.0
"""Seconds: a longer scan is not measured at greater lengths."""


def best(call, yardstick, repeats: int = 5) -> tuple[float, float]:
    """Least processor time of a call and of the yardstick beside it; the first call, which compiles, does not count."""
    import time

    def timed(f):
        start = time.process_time()
        f()
        return time.process_time() - start

    call()
    first = timed(call)
    pairs = [(timed(call), timed(yardstick)) for _ in range(1 if first > TOO_LONG / 4 else repeats)]
    return min(first, *(pair[0] for pair in pairs)), min(pair[1] for pair in pairs)


def smoke() -> None:
    """Fleets, ticks, scans and gradients agree with each other."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    import icvi_jax as icvi

    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 120, 2)) + 5 * rng.integers(0, 3, (40, 120, 1))
    panel = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.9)
    for clusterer in (icvi.SequentialKMeans(k=3), icvi.OnlineEllipsoidal(capacity=4)):
        pipe = icvi.Pipeline(clusterer=clusterer, panel=panel, monitors={"xb": icvi.Distress()})
        fleet = icvi.run_fleet(pipe, X, keep=icvi.Reading._fields)
        live = icvi.Live(pipe, 2, 40)
        ticks = [live.tick(X[:, t]).values["xb"] for t in range(60)]
        exact = os.environ.get("ICVI_BACKEND") != "xla"  # XLA may fuse a tick and a scan in different ways
        np.testing.assert_allclose(np.stack(ticks, 1), fleet.readings.values["xb"][:, :60], rtol=0 if exact else 1e-5)
        one = jnp.asarray(X[0], jnp.float32)
        readings = jax.jit(lambda X: jax.lax.scan(pipe.step, pipe.init(2), X))(one)[1]
        np.testing.assert_allclose(readings.values["xb"], fleet.readings.values["xb"][0], rtol=1e-3)
        slope = jax.grad(lambda X: icvi.run(pipe, X).readings.values["xb"][-1])(one)
        assert np.isfinite(slope).all()
    values = icvi.validate(panel, X[0], labels=np.arange(120) % 3)
    assert np.isfinite(values["db"][-1])


def measure(fleets: bool) -> dict[str, object]:
    """The rows of one process."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    import icvi_jax as icvi

    unit = np.random.default_rng(0).normal(size=(500, 1000)).astype(np.float32)

    def yardstick():
        total = np.zeros(1000, np.float32)
        for _ in range(20):
            for row in unit:
                total = total * np.float32(0.9) + row
        return total

    def pipeline(k):
        panel = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.9)
        return icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=k), panel=panel)

    def blobs(N, T, k, p):
        rng = np.random.default_rng(0)
        return (rng.normal(size=(N, T, p)) + 8 * rng.integers(0, k, (N, T, 1))).astype(np.float32)

    rows, scans, keep = [], [], ("values", "label", "alarms")
    for N, T, k, p in FLEETS if fleets else ():
        X, pipe = blobs(N, T, k, p), pipeline(k)
        took, unit_took = best(lambda: icvi.run_fleet(pipe, X, keep=keep), yardstick)
        rows.append([f"{N:,} × {T:,}, k = {k}, p = {p}", N * T / took / 1e6, took / unit_took])
    pipe, after = pipeline(3), 0.0
    scan = jax.jit(lambda X: jax.lax.scan(pipe.step, pipe.init(2), X))
    for T in LENGTHS:
        if after > TOO_LONG:
            scans.append([T, None, None])
            continue
        X = jnp.asarray(blobs(1, T, 3, 2)[0])
        took, unit_took = best(lambda: jax.block_until_ready(scan(X)), yardstick, 3)
        scans.append([T, took / T * 1e6, took / unit_took])
        after = took * (LENGTHS[1] / LENGTHS[0]) ** 2
    return {"jax": jax.__version__, "python": sys.version.split()[0], "fleets": rows, "scans": scans}


def python_for(version: str) -> str:
    """A Python that this version of JAX can have."""
    if (minor := int(version.split(".")[1])) <= 10 or sys.version_info >= (3, 12):
        return sys.executable
    for name in ("python3.13", "python3.12", "python3.14"):
        if found := shutil.which(name):
            return found
    raise SystemExit(f"JAX 0.{minor} needs Python 3.12 or later, and there is none on the PATH")


def environment(version: str, folder: pathlib.Path) -> pathlib.Path:
    """The Python of an environment with this version of JAX and the project's own dependencies."""
    home = folder / f"jax-{version}"
    python = home / "bin" / "python"
    if not python.exists():
        subprocess.run([python_for(version), "-m", "venv", home], check=True)
        needed = [f"jax=={version}.*", "llvmlite", "array-api-compat", "numpy", "narwhals"]
        subprocess.run([python, "-m", "pip", "install", "-q", *needed], check=True)
    return python


def asked(python: pathlib.Path, task: str, knob: bool = False, engine: str = "") -> str:
    """What this file prints for a task, in the environment of a version."""
    own = {"PYTHONPATH": str(HERE), "JAX_PLATFORMS": "cpu", "XLA_FLAGS": KNOB if knob else ""}
    own |= {"ICVI_BACKEND": engine} if engine else {}
    command = [python, __file__, "--task", task]
    return subprocess.run(command, env={**os.environ, **own}, check=True, stdout=subprocess.PIPE, text=True).stdout


def growth(scans: list[list[float | None]]) -> str:
    """How the cost of a sample grows with the length of the scan, as a power of it: 0 is linear, 1 quadratic."""
    known = [(T, cost) for T, cost, _ in scans if cost is not None]
    (t0, c0), (t1, c1) = known[0], known[-1]
    return f"{math.log(c1 / c0) / math.log(t1 / t0):.1f}"


def page(found: dict[tuple[str, bool], dict]) -> str:
    """The tables."""
    versions = list(dict.fromkeys(version for version, _ in found))
    labels = [row[0] for row in found[versions[0], False]["fleets"]]
    told = ", ".join(f"{found[v, False]['jax']} (Python {found[v, False]['python']})" for v in versions)
    lines = [
        "# Speed by version of JAX",
        "",
        f"`benchmarks/jax_versions.py` printed this, for JAX {told}. Processor time.",
        "",
    ]
    lines += [
        "`icvi.run_fleet`, native code: million samples per second of processor time (time in units of a NumPy loop)."
    ]
    lines += ["", f"| streams × samples | {' | '.join(versions)} |", f"|---|{'---|' * len(versions)}"]
    for i, label in enumerate(labels):
        cells = [found[v, False]["fleets"][i] for v in versions]
        lines.append(f"| {label} | {' | '.join(f'{rate:.3g} ({units:.2g})' for _, rate, units in cells)} |")
    lines += [
        "",
        "`jax.jit(lambda X: jax.lax.scan(pipe.step, pipe.init(2), X))`, one stream, k = 3: µs of processor time a",
    ]
    lines += [f"sample. Growth 0: linear in the length; 1: quadratic. The knob is `XLA_FLAGS={KNOB}`.", ""]
    lines += [
        f"| JAX | knob | {' | '.join(f'{T:,} samples' for T in LENGTHS)} | growth |",
        f"|---|---|{'---|' * len(LENGTHS)}---|",
    ]
    for (version, knob), result in found.items():
        costs = ["not run" if cost is None else f"{cost:.3g}" for _, cost, _ in result["scans"]]
        lines.append(f"| {version} | {'on' if knob else 'off'} | {' | '.join(costs)} | {growth(result['scans'])} |")
    return "\n".join([*lines, ""])


def main() -> int:
    """Try and measure the versions in turn."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("versions", nargs="*", default=["0.8", "0.9", "0.10", "0.12"])
    options.add_argument(
        "--folder", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir(), "icvi-jax-versions")
    )
    options.add_argument("--write", action="store_true", help=f"into {PAGE.relative_to(HERE)}")
    options.add_argument("--task", choices=("smoke", "all", "scan"), help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.task:
        print(smoke() if given.task == "smoke" else json.dumps(measure(given.task == "all")))
        return 0
    given.folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for version in given.versions:
        python = environment(version, given.folder)
        for engine in ("native", "xla"):
            asked(python, "smoke", engine=engine)
        for knob in (False, True):
            found[version, knob] = json.loads(asked(python, "scan" if knob else "all", knob))
            print(f"jax {version}: measured", file=sys.stderr)
    print(page(found))
    if given.write:
        PAGE.write_text(page(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
