"""XLA's way into a program: a typed FFI handler, as text of LLVM beside the program's own.

    XLA_FFI_Error* handler(XLA_FFI_CallFrame*)

operands: a description (the words of a job, without addresses; `describe` makes it), the numbers that all streams
share, the leaves of the state with the numbers that each stream has of its own, the leaves of the samples.
results: the leaves of the state that change, then the outputs that do.

A job is shared by the calling thread and the helpers that XLA's thread pool starts: they take groups of streams from an
atomic counter. The caller works too and waits only for groups that somebody is running, so there is no deadlock. A
helper that starts late finds nothing to do; the last one that lets go of the job frees it.
"""

from __future__ import annotations

import ctypes
import math
import pathlib
import re
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import jax
import numpy as np

from icvi_jax.engine.native.codegen import Code
from icvi_jax.engine.native.layout import Layout, stored
from icvi_jax.engine.native.transpose import (
    FIELDS,
    OPERAND,
    context_words,
    operand_at,
    scratch_bytes,
    write_bring,
    write_places,
)

FRAME = {"extension": 8, "api": 16, "context": 24, "arguments": 72, "results": 112}
"""Offsets in `XLA_FFI_CallFrame`; `arguments` and `results` are the arrays of buffers in it."""
BUFFER = {"data": 24}
"""Offsets in `XLA_FFI_Buffer`."""
METADATA = {"type": 8, "metadata": 24, "major": 24, "minor": 28, "traits": 32}
"""Offsets in `XLA_FFI_Metadata_Extension`, and in the metadata it points to."""
API = {"destroy": 64, "schedule": 136, "threads": 144}
"""Offsets in `XLA_FFI_Api`."""
MAJOR, MINOR = 0, 1
"""The version of the interface that is used: every jaxlib takes an older minor number than its own."""

JOB = ("next", "done", "holders", "groups", "chunk")
"""The first words of a job; its context follows, then the operands of the state, before and after, then numbers."""
SHARE = 64
"""A share of work is at least so many steps of one group."""


class Stride(NamedTuple):
    """How an array lies: bytes to its first element, between steps, elements, and streams on each of three axes."""

    start: int
    step: int
    element: int
    streams: tuple[int, int, int]


def _places(layout: Layout) -> tuple[int, int, int, int]:
    """Where in a job the state before, the state after and the numbers begin, and where it ends."""
    before = len(JOB) + context_words(layout)
    after = before + len(OPERAND) * len(layout.state)
    numbers = after + len(OPERAND) * layout.carried
    return before, after, numbers, numbers + sum(leaf.n for leaf in layout.numbers)


def describe(
    layout: Layout,
    streams: tuple[int, int, int],
    steps: int,
    every: int,
    samples: Sequence[Stride],
    outputs: Sequence[Stride],
    before: Sequence[Stride],
    after: Sequence[Stride],
) -> np.ndarray:
    """The words of a job as XLA passes them on, each as two of 32 bits."""
    N, (_, middle, inner) = math.prod(streams), streams
    groups = -(-N // layout.width)
    job = dict.fromkeys(JOB, 0) | {"groups": groups, "chunk": SHARE // max(steps, 1) + 1}
    field = dict.fromkeys(FIELDS, 0) | {"streams": N, "middle": middle, "inner": inner, "steps": steps, "every": every}
    field |= {"word_bytes": layout.width * layout.word}  # group_bytes is 0: the words of one group, always in one place
    if layout.samples:
        field["double"] = int(layout.samples[0].dtype == np.float64)
    words = [*job.values(), *field.values()]
    for start, step, element, axes in (*samples, *outputs, *before, *after):
        words += [start, step, element, *axes]
    words += [0] * (_places(layout)[-1] - len(words))
    return np.array(words, np.int64).view(np.uint32)


def write_handler(layout: Layout) -> str:
    """The functions of the handler, which call the program's `run`."""
    kinds = {(stored(leaf.dtype), leaf.dtype.kind): leaf.dtype for leaf in layout.state if leaf.n}
    bring = [write_bring(layout, dtype, False) for _, dtype in sorted(kinds.items())]
    kinds = {(stored(leaf.dtype), leaf.dtype.kind): leaf.dtype for leaf in layout.state[: layout.carried] if leaf.n}
    leave = [write_bring(layout, dtype, True) for _, dtype in sorted(kinds.items())]
    return "\n\n".join([DECLARED, write_places(layout.width), *bring, *leave, _work(layout), HELP, _handler(layout)])


DECLARED = """@run = internal global ptr null
define void @found(ptr %run) {
  store ptr %run, ptr @run
  ret void
}
declare ptr @malloc(i64)
declare void @free(ptr)
declare i32 @sched_yield()"""

HELP = f"""define internal void @let_go(ptr %job) {{
  %at = getelementptr i64, ptr %job, i64 {JOB.index("holders")}
  %held = atomicrmw sub ptr %at, i64 1 acq_rel
  %last = icmp eq i64 %held, 1
  br i1 %last, label %free, label %end
free:
  call void @free(ptr %job)
  br label %end
end:
  ret void
}}
define internal void @help(ptr %job) {{
  call void @work(ptr %job)
  call void @let_go(ptr %job)
  ret void
}}"""


def _work(layout: Layout) -> str:
    """Take groups until there are none: state to words, `run`, words to state."""
    code, W = Code(layout.width), layout.width
    size = context_words(layout)
    room, states = -(-8 * size // 64) * 64, -(-layout.words * W * layout.word // 64) * 64
    before, after, *_ = _places(layout)

    def at(base: str, i: str | int) -> str:
        return code.offset(base, i, "i64")

    def word(name: str) -> str:
        return code.load("i64", at("%job", JOB.index(name)), 8)

    raw = code.let(f"call ptr @malloc(i64 {room + states + 64 + scratch_bytes(layout)[-1] + 64})")
    start = code.let(f"ptrtoint ptr {raw} to i64")
    mine = code.let(f"inttoptr i64 {code.let(f'and i64 {code.add(start, 63)}, -64')} to ptr")
    words, scratch = code.offset(mine, room), code.offset(mine, room + states + 64)
    with code.loop(0, size) as i:
        code.store("i64", code.load("i64", at(at("%job", len(JOB)), i), 8), at(mine, i), 8)
    for name, value in (("words", words), ("scratch", scratch)):
        code.store("i64", code.let(f"ptrtoint ptr {value} to i64"), at(mine, FIELDS.index(name)), 8)
    N = code.load("i64", at(mine, FIELDS.index("streams")), 8)
    groups, chunk, run = word("groups"), word("chunk"), code.load("ptr", "@run", 8)
    code.do("br label %take")
    code.label("take")
    first = code.let(f"atomicrmw add ptr {at('%job', JOB.index('next'))}, i64 {chunk} monotonic")
    code.do(f"br i1 {code.let(f'icmp slt i64 {first}, {groups}')}, label %taken, label %over")
    code.label("taken")
    last = code.least(code.add(first, chunk), groups)
    with code.loop(first, last) as group:
        stream = code.mul(group, W)
        valid = code.least(code.let(f"sub i64 {N}, {stream}"), W)
        whole = code.call("places", "i1", ("ptr", scratch), ("ptr", mine), ("i64", stream))
        for base, leaves, what in ((before, layout.state, "bring"), (after, layout.state[: layout.carried], "leave")):
            row = 0
            for number, leaf in enumerate(leaves):
                ours = code.offset(words, row * W * layout.word)
                operand = at("%job", base + len(OPERAND) * number)
                row += leaf.n
                if leaf.n:
                    given = ("ptr", ours), ("ptr", operand), ("ptr", scratch), ("i1", whole)
                    kind = f"{what}_{stored(leaf.dtype)}_{leaf.dtype.kind}"
                    code.call(kind, "void", *given, ("i64", str(leaf.n)), ("i64", valid))
            if what == "bring":
                code.store("i64", group, at(mine, FIELDS.index("first")), 8)
                code.store("i64", code.add(group, 1), at(mine, FIELDS.index("last")), 8)
                code.do(f"call void {run}(ptr {mine})")
    code.let(f"atomicrmw add ptr {at('%job', JOB.index('done'))}, i64 {code.let(f'sub i64 {last}, {first}')} release")
    code.do("br label %take")
    code.label("over")
    code.do(f"call void @free(ptr {raw})")
    code.do("ret void")
    return code.function("define internal void @work(ptr %job)")


def _handler(layout: Layout) -> str:
    code = Code(1)
    before, after, numbers, size = _places(layout)
    moving = [i for i, leaf in enumerate(layout.outputs) if i not in layout.still]

    def at(base: str, i: str | int) -> str:
        return code.offset(base, i, "i64")

    def field(base: str, byte: int, kind: str = "ptr") -> str:
        return code.load(kind, code.offset(base, byte), 8)

    def data(array: str, i: int) -> str:
        return field(code.load("ptr", code.offset(array, i, "ptr"), 8), BUFFER["data"])

    def put(place: int, address: str) -> None:
        """An array begins where its buffer does, and as many bytes further on as the description says."""
        to = at(job, place)
        start = code.let(f"ptrtoint ptr {address} to i64")
        code.store("i64", code.add(start, code.load("i64", to, 8)), to, 8)

    ask, count = code.let("alloca [5 x i64], align 16"), code.let("alloca i64, align 16")
    # XLA's question which version this is, asked when the name is registered; `api` may be null then (jaxlib 0.8)
    extension, api = field("%frame", FRAME["extension"]), field("%frame", FRAME["api"])
    with (
        code.when(code.let(f"icmp ne ptr {extension}, null")),
        code.when(code.let(f"icmp eq i32 {field(extension, METADATA['type'], 'i32')}, 1")),
    ):
        told = field(extension, METADATA["metadata"])
        for name, value in (("major", MAJOR), ("minor", MINOR), ("traits", 0)):
            code.store("i32", str(value), code.offset(told, METADATA[name]), 4)
        code.do("ret ptr null")
        code.label(code.name("never"))
    given, made, context = (field("%frame", FRAME[name]) for name in ("arguments", "results", "context"))
    job = code.let(f"call ptr @malloc(i64 {8 * size})")
    description = data(given, 0)
    with code.loop(0, size) as i:
        code.store("i64", code.load("i64", at(description, i), 4), at(job, i), 8)
    place, first = numbers, 1 + len(layout.numbers)
    for number, leaf in enumerate(layout.numbers, start=1):
        kind, values = stored(leaf.dtype), data(given, number)
        with code.loop(0, leaf.n) as j:
            one = code.load(kind, code.offset(values, j, kind), leaf.dtype.itemsize)
            code.store(kind, one, at(job, code.add(j, place)), 8)
        place += leaf.n
    code.store("ptr", at(job, numbers), at(job, len(JOB) + FIELDS.index("numbers")), 8)
    for n in range(len(layout.state)):
        put(before + len(OPERAND) * n, data(given, first + n))
    for n in range(len(layout.samples)):
        put(len(JOB) + operand_at(layout, n), data(given, first + len(layout.state) + n))
    for n in range(layout.carried):
        put(after + len(OPERAND) * n, data(made, n))
    for order, n in enumerate(moving):
        put(len(JOB) + operand_at(layout, n, True), data(made, layout.carried + order))
    groups, chunk = (code.load("i64", at(job, JOB.index(name)), 8) for name in ("groups", "chunk"))
    # helpers: as many as XLA has threads besides this one, at most one for each other share of the work
    code.store("i64", "1", count, 8)
    code.store("i64", "32", at(ask, 0), 8)
    code.store("i64", "0", at(ask, 1), 8)
    code.store("ptr", context, at(ask, 2), 8)
    code.store("ptr", count, at(ask, 3), 8)
    _ignored(code, api, code.let(f"call ptr {field(api, API['threads'])}(ptr {ask})"))
    parts = code.let(f"sdiv i64 {code.add(code.add(groups, chunk), -1)}, {chunk}")
    threads = code.least(code.load("i64", count, 8), parts)
    holders = code.let(f"select i1 {code.let(f'icmp slt i64 {threads}, 1')}, i64 1, i64 {threads}")
    code.store("i64", holders, at(job, JOB.index("holders")), 8)
    code.store("i64", "40", at(ask, 0), 8)
    code.store("ptr", "@help", at(ask, 3), 8)
    code.store("ptr", job, at(ask, 4), 8)
    with code.loop(1, threads):
        failed = code.let(f"call ptr {field(api, API['schedule'])}(ptr {ask})")
        with code.when(code.let(f"icmp ne ptr {failed}, null")):
            code.call("let_go", "void", ("ptr", job))
        _ignored(code, api, failed)
    code.call("work", "void", ("ptr", job))
    code.do("br label %wait")
    code.label("wait")
    done = code.let(f"load atomic i64, ptr {at(job, JOB.index('done'))} acquire, align 8")
    code.do(f"br i1 {code.let(f'icmp slt i64 {done}, {groups}')}, label %yield, label %end")
    code.label("yield")
    code.let("call i32 @sched_yield()")
    code.do("br label %wait")
    code.label("end")
    code.call("let_go", "void", ("ptr", job))
    code.do("ret ptr null")
    return code.function("define ptr @handler(ptr %frame)")


def _ignored(code: Code, api: str, error: str) -> None:
    """Errors of the thread pool are let go: the caller does the work itself then."""
    with code.when(code.let(f"icmp ne ptr {error}, null")):
        ask = code.let("alloca [3 x i64], align 16")
        code.store("i64", "24", ask, 8)
        code.store("i64", "0", code.offset(ask, 8), 8)
        code.store("ptr", error, code.offset(ask, 16), 8)
        destroy = code.load("ptr", code.offset(api, API["destroy"]), 8)
        code.do(f"call void {destroy}(ptr {ask})")


class Unavailable(RuntimeError):
    """Native code cannot be an operation of JAX here; the message says why."""


_registered: dict[str, object] = {}
_lock = threading.Lock()


def register(name: str, address: int, code: object) -> str:
    """Make a handler known to XLA, which never forgets it: so its code is kept."""
    with _lock:
        if name not in _registered:
            if (why := unavailable()) is not None:
                raise Unavailable(why)
            function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(address)
            try:
                jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(function), platform="cpu")
            except Exception as refused:
                raise Unavailable(f"jaxlib refuses it: {refused}") from refused
            _registered[name] = function, code
    return name


@lru_cache(maxsize=1)
def unavailable() -> str | None:
    """Why no handler can be registered here, or None: jaxlib's interface must be one whose offsets are known."""
    import platform

    if ctypes.sizeof(ctypes.c_void_p) != 8:
        return "it needs a processor of 64 bits"
    if (platform.system(), platform.machine()) not in TRIED:
        return f"it was not tried on {platform.system()} {platform.machine()}"
    header = pathlib.Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h"
    try:
        text = header.read_text()
    except OSError:
        return None
    found = {name: int(value) for name, value in re.findall(r"#define XLA_FFI_API_(MAJOR|MINOR) (\d+)", text)}
    if found.get("MAJOR") != MAJOR or found.get("MINOR", -1) < MINOR:
        return (
            f"jaxlib's FFI has the version {found.get('MAJOR')}.{found.get('MINOR')}, expected {MAJOR}.{MINOR} or later"
        )
    return None


TRIED = {("Linux", "x86_64")}
"""Systems on which handlers were tested."""
