"""How near native code is to this processor's limit: cycles a sample beside the bound of LLVM's own model.

    python benchmarks/limit.py [--repeats 7] [--json FILE]

For the shapes of the README. "measured" is processor time of one core, all of a call counted, in cycles: the length of
a cycle is taken from a chain of multiplications that wait for each other, three cycles each. "bound" is what `llvm-mca`
(Debian: `apt-get install llvm`) says of the time loop as it was emitted, if nothing waits for memory, and if only the
busiest unit counted. A call of a function inside the loop (exp, log, pow) is not in its model; how many there are is
said. Beside it: the share of divisions, loads, stores and spills among the loop's instructions, and the rates of C by
hand (`rivals.c_programs`) in the same run. The model may be of an older processor than this one, which then is below
its bound: the heading names it.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import pathlib
import re
import shutil
import subprocess
import time
from collections.abc import Callable

import jax
import llvmlite.binding as llvm
import numpy as np
import rivals
import speed

from icvi_jax.engine import executor
from icvi_jax.engine.native import build

CHAIN = """
define i64 @chain(i64 %n, i64 %start) {
enter:
  br label %loop
loop:
  %i = phi i64 [0, %enter], [%next, %loop]
  %x = phi i64 [%start, %enter], [%y, %loop]
  %y = mul i64 %x, %x
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret i64 %y
}
"""


def hertz() -> float:
    """Cycles a second of this core, from a chain of multiplications: three cycles each on processors since 2010."""
    code = build.Native(CHAIN, 1)
    chain = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(code.address("chain"))
    n, best = 50_000_000, np.inf
    for _ in range(5):
        start = time.process_time()
        chain(n, 3)
        best = min(best, time.process_time() - start)
    return 3 * n / best


def loop_of(text: str, passes: int, in_order: bool) -> list[str]:
    """The instructions of the time loop: the longest stretch that a jump back repeats and that has no loop inside."""
    module = llvm.parse_assembly(text)
    module.triple = build.host().triple
    machine = build.target_machine(1 if text.count("\n") > build.LONG_TEXT else 2)
    build.improved(module, passes, machine)
    with build.kept_order() if in_order else contextlib.nullcontext():
        lines, labels, loops = machine.emit_assembly(module).splitlines(), {}, []
    for i, line in enumerate(lines):
        if found := re.match(r"(\.L\w+):", line):
            labels[found[1]] = i
        elif (found := re.match(r"\s+j\w+\s+(\.L\w+)", line)) and found[1] in labels:
            loops.append((labels[found[1]], i))
    inner = [(a, b) for a, b in loops if not any(a < c and d <= b for c, d in loops)]  # two ways back are one loop
    start, stop = max(inner, key=lambda loop: loop[1] - loop[0])
    body = lines[start : stop + 1]
    return [line for line in body if re.match(r"\s+[a-z]", line)]


def shares(body: list[str]) -> dict[str, float]:
    """Which share of the instructions divides, loads, stores or spills, and how many calls there are."""
    spill = re.compile(r"\(%r[sb]p\)")
    memory = re.compile(r"\(%\w+.*\)|\(,%")
    kinds = {"instructions": len(body), "divisions": 0, "loads": 0, "stores": 0, "spills": 0, "calls": 0}
    for line in body:
        name, _, operands = line.strip().partition("\t")
        kinds["calls"] += name.startswith("call")
        kinds["divisions"] += name.startswith(("vdiv", "div", "vsqrt", "sqrt"))
        if name.startswith("lea") or not memory.search(operands):
            continue
        writes = bool(memory.search(operands.rsplit(",", 1)[-1])) and operands.rstrip().endswith(")")
        kinds["spills" if spill.search(operands) else "stores" if writes else "loads"] += 1
    return kinds


def modelled(body: list[str]) -> dict[str, float] | None:
    """Cycles of one turn of the loop by llvm-mca: as it would run, and if only the busiest unit counted."""
    if shutil.which("llvm-mca") is None:
        return None
    text = "\n".join(line for line in body if not line.strip().startswith(("call", "j")))
    for name in (build.host().cpu, "znver4", "skylake-avx512"):
        command = ["llvm-mca", f"-mcpu={name}", "-iterations=20"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if not done.returncode and "not a recognized processor" not in done.stderr:
            found = {key: float(value) for key, value in re.findall(r"^(.+?):\s+([\d.]+)$", done.stdout, re.MULTILINE)}
            return {"model": name, "bound": found["Total Cycles"] / 20, "busiest": found["Block RThroughput"]}
    return None


def case(shape: speed.Shape, repeats: int, rate: float) -> dict[str, object]:
    """One shape: measured, by the model, and beside C."""
    X = rivals.blobs(shape.streams, shape.samples, shape.k, shape.features)
    calls: dict[str, Callable[[], object]] = {"ours": speed.fleet(speed.pipeline(shape.k, shape.clusterer), X)}
    calls |= rivals.c_programs(X, shape.k)
    each = speed.rates(calls, X.shape[0] * X.shape[1], repeats)
    code = next(code for code in reversed(executor._programs.values()) if code is not None)
    body = loop_of(code.text, code._passes, code.layout.flat.ordered)
    found: dict[str, object] = {"case": str(shape), "rates": each, "measured": rate / each["ours"] / 1e6}
    found |= {"lanes": code.layout.width, **shares(body)}
    if (model := modelled(body)) is not None:
        lanes = code.layout.width
        found |= {"model": model["model"], "bound": model["bound"] / lanes, "busiest": model["busiest"] / lanes}
    return found


COLUMNS = "shape;cycles a sample;bound;of it;busiest unit;instructions;divisions;loads;stores;spills;C;SIMD C"
HEAD = f"| {COLUMNS.replace(';', ' | ')} |\n{'|---' * 12}|"


def row(found: dict) -> str:
    """A line of the table."""
    n, ours = found["instructions"], found["rates"]["ours"]
    beside = [f"{ours / found['rates'][name]:.2g}×" if name in found["rates"] else "" for name in ("scalar", "simd")]
    bound = [f"{found['bound']:.3g}", f"{found['bound'] / found['measured']:.0%}", f"{found['busiest']:.3g}"]
    parts = [f"{found[name] / n:.1%}" for name in ("divisions", "loads", "stores", "spills")]
    calls = f" and {found['calls']} calls" if found["calls"] else ""
    start = [found["case"], f"{found['measured']:.3g}", *(bound if "bound" in found else ["", "", ""])]
    each = f"{n / found['lanes']:.3g}{calls}"
    return f"| {' | '.join([*start, each, *parts, *beside])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json")
    given = parser.parse_args()
    speed.use_one_core()
    jax.config.update("jax_platforms", "cpu")
    rate = hertz()
    print(f"{speed.machine()}, {rate / 1e9:.2f} GHz")
    if shutil.which("llvm-mca") is None:
        print("llvm-mca is not installed (Debian: apt-get install llvm): no bounds")
    print(f"{build.host().cpu}\n\n{HEAD}")
    found = []
    for shape in speed.SHAPES:
        if shape.listed:
            found.append(case(shape, given.repeats, rate))
            print(row(found[-1]), flush=True)
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
