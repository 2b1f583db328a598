"""The kernel of a pipeline as machine code for NVIDIA cards, made without one, and what can be read off it.

Triton, inside JAX's CUDA plugin, makes PTX; `ptxas` makes machine code and tells registers and spills; `nvdisasm` shows
the instructions of the time loop, each with the cycles until the next may be issued (bits 105 to 108 of its word).
"""

from __future__ import annotations

import importlib
import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
from jax._src.lib import triton

import icvi_jax as icvi
from icvi_jax.engine.engine import Advance
from icvi_jax.engine.pallas import Kernel

KEEP = ("values", "label", "alarms")
ARCHITECTURES = ("sm_80", "sm_90")
WARPS = 4

CLASSES = {  # by the first word of an instruction of the PTX
    "arithmetic": "add sub mul fma mad neg abs min max",
    "division, root, exp, log": "div rcp sqrt rsqrt ex2 lg2",
    "compare, choose": "setp selp and or xor not",
    "convert, move": "cvt mov shl shr bfe prmt cvta",
    "memory": "ld st",
    "branch": "bra call",
}
PIPES = {  # by the first word of a machine instruction; what is in none of these goes to the ALU
    "fma": "FADD FMUL FFMA IMAD",
    "special": "MUFU I2F F2I I2I F2F",
    "memory": "LDG STG LDS STS LDL STL",
    "none": "NOP BRA CALL EXIT ULDC UIADD3 UMOV",
}


@dataclass(frozen=True)
class Code:
    """What the compiler made of one kernel; instructions and cycles are those of one sample of one warp."""

    registers: int
    spilled: int
    classes: dict[str, int]
    pipes: dict[str, int]
    instructions: int
    stalls: int


def kernel_of(pipe: icvi.Pipeline, p: int) -> Kernel:
    """The kernel that `run_fleet` launches."""
    return Kernel(Advance(KEEP), pipe, pipe.init(p)._replace(anchor=None), p, False)


def lowered(kernel: Kernel, pipe: icvi.Pipeline, p: int, N: int = 65536, T: int = 10_000) -> bytes:
    """The kernel in the language of Triton."""
    words = jax.eval_shape(kernel.words, pipe.init(p, (N,))._replace(anchor=None))
    X = jax.ShapeDtypeStruct((T, p, N), jnp.float32)
    scan = jax.jit(partial(kernel.scan, "triton", elapsed=None, steps=T))
    module = scan.trace(pipe, words=words, X=X).lower(lowering_platforms=("cuda",)).compiler_ir()
    found = [op.attributes["mhlo.backend_config"]["ir"].value_bytes for op in _calls(module.operation)]
    assert len(found) == 1, f"{len(found)} kernels instead of one"
    return found[0]


def _calls(operation):
    for inner in (o.operation for region in operation.regions for block in region for o in block):
        if inner.name == "stablehlo.custom_call" and "triton" in inner.attributes["call_target_name"].value:
            yield inner
        yield from _calls(inner)


def portable(ir: bytes) -> str:
    """The PTX, made for sm_80: Triton takes long for it, and that for sm_90 differs in the line `.target` alone."""
    return triton.compile("cuda", ir, "8.0", num_warps=WARPS, num_ctas=1, num_stages=1).asm


def compiled(ptx: str, architecture: str) -> Code:
    """Machine code for one architecture."""
    ptx = re.sub(r"^\.target sm_\w+", f".target {architecture}", ptx, flags=re.M)
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        said = _run(_tool("ptxas"), "-v", "-O3", f"-arch={architecture}", str(source), "-o", str(binary)).stderr
        shown = _run(_tool("nvdisasm"), "-c", "-hex", str(binary)).stdout
    spilled = sum(int(n) for n in re.findall(r"(\d+) bytes spill", said))
    registers = int(re.search(r"Used (\d+) registers", said)[1])
    machine = _machine_loop(shown)
    names = Counter(name for name, _ in machine)
    pipes = {pipe: sum(names[name] for name in words.split()) for pipe, words in PIPES.items()}
    pipes["alu"] = len(machine) - sum(pipes.values())
    return Code(registers, spilled, _ptx_classes(ptx), pipes, len(machine), sum(stall for _, stall in machine))


def _tool(name: str) -> str:
    nvidia = importlib.import_module("nvidia")
    found = [path for root in nvidia.__path__ for path in Path(root).glob(f"*/bin/{name}")]
    if not found:
        raise SystemExit(f"{name} is not installed: pip install '.[gpu-code]'")
    found[0].chmod(0o755)
    return str(found[0])


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=True, capture_output=True, text=True)


def _loop(lines: list[str], label: str, branch: str) -> list[str]:
    """The lines of the longest loop: from a label to the last branch back to it."""
    where = {m[1]: n for n, line in enumerate(lines) if (m := re.match(label, line.strip()))}
    jumps = [(where[m[1]], n) for n, line in enumerate(lines) if (m := re.search(branch, line)) and m[1] in where]
    start, stop = max((pair for pair in jumps if pair[0] < pair[1]), key=lambda pair: pair[1] - pair[0])
    return lines[start : stop + 1]


def _ptx_classes(ptx: str) -> dict[str, int]:
    body = _loop(ptx.splitlines(), r"(\$L__BB\w+):", r"bra(?:\.uni)?\s+(\$L__BB\w+);")
    parts = [part for line in body for part in line.split(";")]
    words = Counter(m[1] for part in parts if (m := re.match(r"\s*(?:@!?%p\d+\s+)?([a-z]+\d?)\.", part)))
    return {name: sum(words[w] for w in some.split()) for name, some in CLASSES.items()}


def _machine_loop(shown: str) -> list[tuple[str, int]]:
    """Name and stall of each machine instruction of the time loop."""
    body = _loop(shown.splitlines(), r"(\.L_\w+):", r"BRA.* `\((\.L_\w+)\)")
    found = []
    for line, below in zip(body, body[1:]):
        if m := re.match(r"\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?(\w+)", line):
            high = int(re.search(r"/\* 0x([0-9a-f]{16}) \*/", below)[1], 16) if "/* 0x" in below else 0
            found.append((m[1], high >> 41 & 15))
    return found
