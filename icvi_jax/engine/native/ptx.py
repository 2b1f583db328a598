"""The scan of a step as a CUDA kernel: a thread is a stream, the time loop is inside, the state stays in registers.

The body is the list of operations that the CPU's code has (`lowering.ssa`), at one lane, ordered for few live values
(`lowering.schedule`), given to LLVM's NVPTX back end. Threads side by side read and write streams side by side:

    operands: numbers (n…[, N]), state (n…[, N]), samples (T, n…[, N])      an axis N where each stream has its own
    results:  state (n…, N), outputs (rows, n…, N)

    kernel(operands…, results…, streams, steps, every)

A row is written after every `every`-th step. Results that are the same at every step are not written. No instruction is
approximate and only the list's own "fma" are joined: the bits are those of the CPU's code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from icvi_jax.engine.lowering.schedule import ordered
from icvi_jax.engine.lowering.ssa import Flat, check, flatten
from icvi_jax.engine.lowering.unroll import CarryPart, Unrolled
from icvi_jax.engine.native.codegen import BOOL, Code, element, operation
from icvi_jax.engine.native.layout import stored
from icvi_jax.engine.native.maths import write_functions
from icvi_jax.engine.native.ring_buffers import Delays

TRIPLE, OLDEST, ISA = "nvptx64-nvidia-cuda", "sm_60", "+ptx70"
"""Pascal: the oldest cards that get code. The driver of any later card compiles it for that card."""

SIZES = ("streams", "steps", "every")


@dataclass(frozen=True)
class Kernel:
    """What a kernel computes and what lies where.

    Parameters
    ----------
    unrolled : the step of one stream.
    own : for each number, each leaf of the state and each of the sample, whether every stream has its own.
    sparse : whether only each n-th reading is written.
    """

    unrolled: Unrolled
    own: tuple[bool, ...]
    sparse: bool = False

    @cached_property
    def flat(self) -> Flat:
        """The operations in the order in which they are done."""
        flat = flatten(self.unrolled, contract=True)
        check(flat.lanes)
        return ordered(flat)

    @property
    def carried(self) -> int:
        """Leaves of the state that come back: all but numbers that each stream has of its own."""
        return len(self.unrolled.state) - self.unrolled.fixed

    @property
    def outputs(self) -> list[CarryPart]:
        """Leaves of what a step returns."""
        return self.unrolled.outputs

    @cached_property
    def still(self) -> dict[int, np.ndarray]:
        """Outputs that are the same at every step, by number: no code writes them."""
        return self.flat.constant_outputs(self.outputs)

    @cached_property
    def text(self) -> str:
        """The module: the function `icvi_…`, named by a hash of what it does."""
        body, declared = _Writer(self).write()
        functions, more = write_functions(self.flat.lanes, 1, True, 0)
        parts = [body, *functions]
        return "\n\n".join([*sorted(declared | more), *parts]).replace("@kernel", f"@{_hashed(parts)}")

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.text.split("define void @")[1].split("(")[0]

    @cached_property
    def ptx(self) -> str:
        """The kernel for NVIDIA's cards."""
        return compile_ptx(self.text, self.name)


def _hashed(parts: Sequence[str]) -> str:
    return "icvi_" + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


class _Writer:
    """Writes the kernel's function."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.code, self.names = kernel, Code(1), dict[int, str]()
        unrolled, flat = kernel.unrolled, kernel.flat
        self.groups, self.carried = (unrolled.numbers, unrolled.state, unrolled.sample), kernel.carried
        self.inputs = {lane.element: i for i, lane in enumerate(flat.lanes) if lane.name == "input"}
        self.kinds = [part.dtype for part in unrolled.state for _ in part.items]
        first = min((int(i) for part in unrolled.state for i in part.items), default=0)
        self.delays = Delays(self.code, flat, first, self.kinds)

    def write(self) -> tuple[str, set[str]]:
        """The text of the function, and the declarations it needs."""
        code, kernel = self.code, self.kernel
        count = sum(map(len, self.groups))
        results = self.carried + len(kernel.outputs) - len(kernel.still)
        pointers = [f"%in{i}" for i in range(count)] + [f"%out{i}" for i in range(results)]
        head = ", ".join([f"ptr {a}" for a in pointers] + [f"i64 %{size}" for size in SIZES])
        block, size, lane = (code.call(f"thread.{what}", "i32") for what in ("block", "size", "lane"))
        base = code.mul(code.let(f"zext i32 {block} to i64"), code.let(f"zext i32 {size} to i64"))
        code.do(f"%stream = add i64 {base}, {code.let(f'zext i32 {lane} to i64')}")
        code.do("%inside = icmp slt i64 %stream, %streams")
        code.do("%some = icmp sgt i64 %steps, 0")
        code.do("%go = and i1 %inside, %some")
        code.do("br i1 %go, label %load, label %end")
        code.label("load")
        self.load_numbers()
        start = self.load_state()
        self.delays.enter(start)
        self.loop(start)
        code.label("end")
        code.do("ret void")
        return code.function(f"define void @kernel({head})", "nounwind"), code.declared

    def place(self, number: int, j: int, n: int, kind: str, row: str | None = None) -> str:
        """The address of element j (of n) of an operand for this stream, in a row of time where there are rows."""
        code = self.code
        own = self.kernel.own[number]
        index: str | int = j if row is None else code.add(code.mul(row, n), j)
        if own:
            index = code.add(code.mul(index, "%streams"), "%stream")
        return code.offset(f"%in{number}", index, kind)

    def read(self, number: int, j: int, part: CarryPart, row: str | None = None) -> str:
        """One element of an operand."""
        kind = stored(part.dtype)
        value = self.code.load(kind, self.place(number, j, len(part.items), kind, row), part.dtype.itemsize)
        return self.code.let(f"icmp ne i8 {value}, 0") if part.dtype == BOOL else value

    def keep(self, pointer: str, j: int, n: int, dtype: np.dtype, value: str, row: str | None = None) -> None:
        """Write one element of a result."""
        code, kind = self.code, stored(dtype)
        if dtype == BOOL:
            value = code.let(f"zext i1 {value} to i8")
        index: str | int = j if row is None else code.add(code.mul(row, n), j)
        address = code.offset(pointer, code.add(code.mul(index, "%streams"), "%stream"), kind)
        code.store(kind, value, address, dtype.itemsize)

    def load_numbers(self) -> None:
        """Numbers, and what is computed of those that all streams share."""
        for number, part in enumerate(self.groups[0]):
            for j, item in enumerate(part.items.tolist()):
                if item in self.inputs:
                    self.names[self.inputs[item]] = self.read(number, j, part)
        for i, lane in enumerate(self.kernel.flat.lanes):
            if lane.uniform and lane.name != "input":
                self.apply(i)

    def load_state(self) -> list[str]:
        """The words of the state before the first step."""
        first = len(self.groups[0])
        return [self.read(first + i, j, part) for i, part in enumerate(self.groups[1]) for j in range(len(part.items))]

    def apply(self, i: int) -> None:
        """One operation of the list."""
        lanes, lane = self.kernel.flat.lanes, self.kernel.flat.lanes[i]
        if lane.name == "constant":
            self.names[i] = self.code.splat(lane.value, lane.dtype)
            return
        ins = [lanes[a] for a in lane.args]
        known = tuple(a.name == "constant" and a.attribute == a.attribute for a in ins)
        args = [self.names[a] for a in lane.args]
        self.names[i] = operation(self.code, lane.name, lane.dtype, args, [a.dtype for a in ins], lane.attribute, known)

    def loop(self, start: Sequence[str]) -> None:
        """The time loop, and the state written after it."""
        code, flat, delays = self.code, self.kernel.flat, self.delays
        words = [int(i) for part in self.groups[1] for i in part.items]
        unchanged = {i for i, item in enumerate(words) if flat.after[i] == self.inputs.get(item, -1)}
        carries = [i for i in range(len(start)) if i not in delays.words and i not in unchanged]
        before = code.block
        code.do("br label %step")
        code.label("step")
        code.do(f"%t = phi i64 [0, %{before}], [%t.next, %next]")
        if self.kernel.sparse:
            code.do(f"%since = phi i64 [0, %{before}], [%since.next, %next]")
            code.do(f"%row = phi i64 [0, %{before}], [%row.next, %next]")
        for i in carries:
            kind = element(self.kinds[i])
            code.do(f"%s{i} = phi {kind} [{start[i]}, %{before}], [%s{i}.next, %next]")
        delays.begin(before)
        for i, item in enumerate(words):
            if (place := self.inputs.get(item)) is not None and (i not in delays.words or place in delays.used):
                self.names[place] = delays.read(i) if i in delays.words else start[i] if i in unchanged else f"%s{i}"
        first = len(self.groups[0]) + len(self.groups[1])
        for number, part in enumerate(self.groups[2], first):
            for j, item in enumerate(part.items.tolist()):
                if item in self.inputs:
                    self.names[self.inputs[item]] = self.read(number, j, part, "%t")
        wanted = self.wanted()
        for i, lane in enumerate(flat.lanes):
            if not lane.uniform and lane.name != "input" and i not in delays.unused:
                self.apply(i)
                if not self.kernel.sparse:
                    self.write_row(wanted.pop(i, ()), "%t", i)
        delays.move(self.names)
        self.write_rows(wanted)
        code.label("next")
        if self.kernel.sparse:
            code.do("%row.next = phi i64 [%row, %stepped], [%row.more, %reading]")
            code.do("%since.next = phi i64 [%since.more, %stepped], [0, %reading]")
        for i in carries:
            kind = element(self.kinds[i])
            code.do(f"%s{i}.next = bitcast {kind} {self.names[flat.after[i]]} to {kind}")
        code.do("%t.next = add i64 %t, 1")
        code.do("%more = icmp slt i64 %t.next, %steps")
        code.do("br i1 %more, label %step, label %leave")
        code.label("leave")
        at = 0
        for number, part in enumerate(self.groups[1][: self.carried]):
            for j in range(len(part.items)):
                value = delays.read(at, ".next") if at in delays.words else self.names[flat.after[at]]
                self.keep(f"%out{number}", j, len(part.items), part.dtype, value)
                at += 1
        code.do("br label %end")

    def wanted(self) -> dict[int, list[tuple[str, int, CarryPart]]]:
        """Where the values of the list are to be written: pointer, element, leaf."""
        found: dict[int, list[tuple[str, int, CarryPart]]] = {}
        at, number = 0, self.carried
        for i, leaf in enumerate(self.kernel.outputs):
            if i not in self.kernel.still:
                for j in range(leaf.n):
                    found.setdefault(self.kernel.flat.outputs[at + j], []).append((f"%out{number}", j, leaf))
                number += 1
            at += leaf.n
        return found

    def write_row(self, targets: Sequence[tuple[str, int, CarryPart]], row: str, i: int) -> None:
        """One value where it is wanted."""
        for pointer, j, leaf in targets:
            self.keep(pointer, j, leaf.n, leaf.dtype, self.names[i], row)

    def write_rows(self, wanted: dict[int, list[tuple[str, int, CarryPart]]]) -> None:
        """What is not written yet, at the end of a step that is to be seen."""
        code = self.code
        if not self.kernel.sparse:
            for i, targets in wanted.items():
                self.write_row(targets, "%t", i)
            code.do("br label %next")
            return
        code.do("br label %stepped")
        code.label("stepped")
        code.do("%since.more = add i64 %since, 1")
        code.do("%show = icmp eq i64 %since.more, %every")
        code.do("br i1 %show, label %reading, label %next")
        code.label("reading")
        for i, targets in wanted.items():
            self.write_row(targets, "%row", i)
        code.do("%row.more = add i64 %row, 1")
        code.do("br label %next")


THREADS = """define internal i32 @thread.block() alwaysinline {
  %a = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  ret i32 %a
}
define internal i32 @thread.size() alwaysinline {
  %a = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  ret i32 %a
}
define internal i32 @thread.lane() alwaysinline {
  %a = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  ret i32 %a
}
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
"""


def compile_ptx(text: str, name: str) -> str:
    """PTX of a module whose function `name` is the kernel."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=OLDEST, features=ISA, opt=3)
    mark = f'!nvvm.annotations = !{{!0}}\n!0 = !{{ptr @{name}, !"kernel", i32 1}}\n'
    module = llvm.parse_assembly(f'target triple = "{TRIPLE}"\n{text}\n{THREADS}\n{mark}')
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.loop_unrolling = options.loop_vectorization = options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return str(machine.emit_assembly(module))
