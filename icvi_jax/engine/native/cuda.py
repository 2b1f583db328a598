"""CUDA: a scan as one launch of a kernel inside XLA. A thread is a stream, the time loop is inside.

The body is the list of operations that the CPU's code has (`lowering.ssa`), at one lane, ordered for few live values
(`lowering.schedule`), given to LLVM's NVPTX back end. Threads side by side read and write streams side by side:

    operands: numbers (n…[, N]), state (n…[, N]), samples (T, n…[, N])      an axis N where each stream has its own
    results:  state (n…, N), outputs (rows, n…, N)

    kernel(operands…, results…, streams, steps, every)

A row is written after every `every`-th step. Results that are the same at every step are not written. No instruction is
approximate and only the list's own "fma" are joined: the bits are those of the CPU's code.

All kernels have one FFI handler, `cuda_launch.ll`. A lowered program carries the PTX of its kernels as an attribute of
the custom call, so that the handler is all it needs where it runs.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.extend.core import ClosedJaxpr

from icvi_jax.engine.lowering.graph import Unsupported
from icvi_jax.engine.lowering.schedule import ordered
from icvi_jax.engine.lowering.ssa import Flat, check, flatten
from icvi_jax.engine.lowering.unroll import CarryPart, Unrolled, unroll_jaxpr
from icvi_jax.engine.native.build import Native
from icvi_jax.engine.native.codegen import BOOL, Code, element, operation
from icvi_jax.engine.native.layout import stored
from icvi_jax.engine.native.maths import write_functions
from icvi_jax.engine.native.ring_buffers import Delays

if TYPE_CHECKING:
    from icvi_jax.engine.primitive import Scan


TRIPLE, OLDEST, ISA = "nvptx64-nvidia-cuda", "sm_60", "+ptx70"
"""Pascal: the oldest cards that get code. The driver of any later card compiles it for that card."""

SIZES = ("streams", "steps", "every")

LARGE = 20_000
"""Operations on numbers of a kernel, at most."""


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


TARGET = "icvi_cuda_scan"
"""The name of the handler, and so of the custom call in lowered programs."""

FEW = 32_768
"""Streams up to which a block has one warp, so that all processors of a card get some; beyond, it has four."""


@lru_cache(maxsize=1)
def handler() -> tuple[Native, int]:
    """The handler's code and its address; made once, never freed."""
    text = resources.files("icvi_jax.engine.native").joinpath("cuda_launch.ll").read_text()
    native = Native(text, 1)
    return native, native.address("handler")


@lru_cache(maxsize=1)
def register() -> None:
    """Make the handler known to XLA for CUDA, once; needs no card."""
    function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(handler()[1])
    jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(function), platform="CUDA")


def call_cuda(how: Scan, operands: Sequence[Array]) -> list[Array]:
    """The scan as one launch: XLA moves the axes of streams to the end where they are not there yet."""
    s, N = how.carry, math.prod(how.streams)
    kernel, order = kernel_for(how), _order(how)
    given = [_line(operands[i], how.axes[i], how.streams) for i in order]
    timed = len(given) - len(kernel.unrolled.sample)
    if how.reverse:
        given[timed:] = [jnp.flip(a, 0) for a in given[timed:]]
    made = launch_kernel(kernel, given, N, how.length, how.every)
    if how.reverse:
        made[s:] = [jnp.flip(a, 0) for a in made[s:]]
    results = []
    for i, a in enumerate(made):
        wide = a.reshape(*a.shape[:-1], *how.streams)
        where = tuple(range(wide.ndim - len(how.streams), wide.ndim))
        results.append(jnp.moveaxis(wide, where, how.result_axes(i)))
    return results


def _order(how: Scan) -> list[int]:
    """The operands as a kernel has them: numbers of all streams, the carry, numbers of each stream, samples."""
    n, s, own = how.numbers, how.carry, how.by_stream
    numbers, rest = range(n), range(n + s, len(how.axes))
    return [*(i for i in numbers if not own[i]), *range(n, n + s), *(i for i in numbers if own[i]), *rest]


def kernel_for(how: Scan) -> Kernel:
    """The kernel of a scan; scans of other lengths and numbers of streams have the same."""
    own = tuple(any(at is not None for at in how.axes[i]) for i in _order(how))
    return _kernel(how.body, how.numbers, how.carry, how.by_stream, own, how.every > 1)


@lru_cache(maxsize=256)
def _kernel(
    body: ClosedJaxpr, numbers: int, carry: int, by_stream: tuple[bool, ...], own: tuple[bool, ...], sparse: bool
) -> Kernel:
    unrolled = unroll_jaxpr(body, numbers, carry, by_stream)
    if (weight := unrolled.graph.weight) > LARGE:
        raise Unsupported("step", f"it has {weight:,} operations on numbers, and a kernel {LARGE:,} at most")
    return Kernel(unrolled, own, sparse)


def _line(a: Array, axes: tuple[int | None, ...], streams: tuple[int, ...]) -> Array:
    """An operand with all axes of streams as one, the last; as it is where all streams share it."""
    there = [at for at in axes if at is not None]
    if not there:
        return a
    rest = [d for d in range(a.ndim) if d not in there]
    a = jnp.permute_dims(a, (*rest, *there))
    lead, sizes = a.shape[: len(rest)], [1 if at is None else size for at, size in zip(axes, streams)]
    return jnp.broadcast_to(a.reshape(*lead, *sizes), (*lead, *streams)).reshape(*lead, -1)


def launch_kernel(kernel: Kernel, operands: Sequence[Array], streams: int, steps: int, every: int = 1) -> list[Array]:
    """The kernel as a traced call: the state (n…, N), in place where it may be, and the outputs (rows, n…, N)."""
    register()
    first, carried = len(kernel.unrolled.numbers), kernel.carried
    states = [jax.ShapeDtypeStruct((*part.shape, streams), part.dtype) for part in kernel.unrolled.state[:carried]]
    shapes = [jax.ShapeDtypeStruct((steps // every, *leaf.shape, streams), leaf.dtype) for leaf in kernel.outputs]
    moving = [shape for i, shape in enumerate(shapes) if i not in kernel.still]
    aliases = {first + i: i for i in range(carried) if kernel.own[first + i]}
    sizes = np.array([streams, steps, every, 32 if streams <= FEW else 128], np.int64)
    call = jax.ffi.ffi_call(TARGET, [*states, *moving], input_output_aliases=aliases)
    made = iter(call(*operands, name=kernel.name, ptx=kernel.ptx, sizes=sizes))
    still = {i: np.asarray(value)[..., None] for i, value in kernel.still.items()}
    results = [next(made) for _ in states]
    return results + [
        jnp.broadcast_to(still[i], shape.shape) if i in still else next(made) for i, shape in enumerate(shapes)
    ]
