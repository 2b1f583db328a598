"""What NVIDIA's assembler makes of a kernel, also without a card, and the rate that its instructions allow.

`ptxas` makes machine code and tells registers and spills; `nvdisasm` shows the instructions of the time loop, each with
the cycles until the next may be issued (bits 105 to 108 of its word). Both are in CUDA's toolkit and on PyPI (the extra
`gpu-code`).
"""

from __future__ import annotations

import ctypes
import math
import re
import resource
import shutil
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import jax

from icvi_jax.engine.native.cuda import Kernel

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


def count_bytes(kernel: Kernel, p: int) -> int:
    """Bytes in and out of memory for one sample."""
    written = sum(leaf.n * leaf.dtype.itemsize for i, leaf in enumerate(kernel.outputs) if i not in kernel.still)
    return 4 * p + written
