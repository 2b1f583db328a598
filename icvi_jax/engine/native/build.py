"""Build: from text of LLVM to a function of this process, kept in a folder for the next one.

What is in the folder is executed. So only a folder and files of this user that nobody else may write are used; anything
else is said once and left alone. Damaged entries are ignored.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import pathlib
import re
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from icvi_jax.terminal_text import say

if TYPE_CHECKING:
    import llvmlite.binding as llvm


FOLDER = "ICVI_CACHE"
"""An environment variable: the folder for compiled code; unset or empty: none."""

MOST = 256
"""Most entries in a folder; the oldest are removed."""
LARGEST = 1 << 28
ENTRY, UNFINISHED = re.compile(r"[0-9a-f]{64}\.o"), ".icvi-"
ABANDONED_SECONDS = 3600.0
POSIX = os.name == "posix"


def folder() -> pathlib.Path | None:
    """The folder that the environment names, if it is safe to use."""
    name = os.environ.get(FOLDER, "")
    place = pathlib.Path(name).expanduser() if name else None
    return place if place is not None and _is_safe_folder(str(place)) else None


@lru_cache(maxsize=64)
def _is_safe_folder(name: str) -> bool:
    """Whether a folder belongs to this user alone; it is made if it is not there. What is wrong is said once."""
    try:
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700)
        found = os.stat(name)
    except OSError:
        return False  # nothing can be stored there: as without a cache
    why = "it is not a folder" if not stat.S_ISDIR(found.st_mode) else _whose(found)
    if why:
        say(f"{FOLDER}={name}: not used, since {why}: what is in it would be executed")
    return not why


def _whose(found: os.stat_result) -> str:
    """Why a file or folder may be the work of somebody else; empty if it is ours alone."""
    if not POSIX:
        return ""
    if found.st_uid != os.geteuid():
        return f"it belongs to another user ({found.st_uid})"
    return "others may write to it (chmod go-w)" if found.st_mode & 0o022 else ""


def stored(entry: pathlib.Path) -> bytes | None:
    """What was stored, or None if nothing was, or it is damaged or not ours."""
    try:
        # A FIFO must not block, a symbolic link may point anywhere.
        handle = os.open(entry, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    with open(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or _whose(found) or found.st_size > LARGEST:
            return None
        data = file.read()
    digest, code = data[:32], data[32:]
    return code if _digest(entry, code) == digest else None


def store(entry: pathlib.Path, code: bytes) -> None:
    """Store code, atomically; if the folder cannot be written, nothing is stored."""
    with contextlib.suppress(OSError):
        handle, name = tempfile.mkstemp(dir=entry.parent, prefix=UNFINISHED)
        try:
            with open(handle, "wb") as file:
                file.write(_digest(entry, code) + code)
            os.replace(name, entry)
        except BaseException:
            os.unlink(name)
            raise
        _remove_old(entry.parent)


def _remove_old(place: pathlib.Path) -> None:
    """Remove the oldest entries beyond `MOST`, and files that a killed process left; only names that are ours."""
    ours = [path for path in place.iterdir() if ENTRY.fullmatch(path.name)]
    for old in sorted(ours, key=lambda path: path.lstat().st_mtime)[:-MOST]:
        old.unlink(missing_ok=True)
    for path in place.glob(f"{UNFINISHED}*"):
        if path.lstat().st_mtime < time.time() - ABANDONED_SECONDS:
            path.unlink(missing_ok=True)


def _digest(entry: pathlib.Path, code: bytes) -> bytes:
    """Of the code and its name: code of another program under this name is refused."""
    return hashlib.sha256(entry.name.encode() + code).digest()


LANES = "ICVI_LANES"
"""An environment variable: bytes of a vector, for tests of other widths than the processor's."""

LONG_TEXT = 12_000
"""Lines of a program from which on its instructions are not put in order once more after registers are given out: that
takes longer than all the rest, and changes nothing."""

FORMAT = 4
"""Part of the key of cached code: to be raised when the same text is to be compiled otherwise."""


@dataclass(frozen=True)
class Host:
    """What code is made for."""

    triple: str
    cpu: str
    features: str
    vector: int
    fused: bool


@lru_cache(maxsize=1)
def host() -> Host:
    """This machine: vectors as wide as its registers, products joined with sums where it can."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    triple, features = llvm.get_process_triple(), llvm.get_host_cpu_features()
    wide = features.get("avx512f", False) and features.get("avx512vl", False) and features.get("avx512dq", False)
    vector = 64 if wide else 32 if features.get("avx2") else 16
    fused = bool(features.get("fma")) or triple.startswith(("aarch64", "arm64"))
    text = features.flatten() + (",-prefer-256-bit" if wide else "")
    return Host(triple, llvm.get_host_cpu_name(), text, vector, fused)


def lanes_of(dtype: np.dtype) -> int:
    """Lanes of a vector: the machine's, or what the environment asks for."""
    asked = os.environ.get(LANES, "") or str(host().vector)
    if not (asked.isascii() and asked.isdigit() and 1 <= int(asked[:9]) <= 4096):
        raise ValueError(f"{LANES}={asked}: expected the bytes of a vector, such as 32")
    return max(1, int(asked) // dtype.itemsize)


class Native:
    """Compiled code and its memory. `cache` is a folder where the code is kept for other processes; `in_order`: the
    text has its operations in the order in which they are best done."""

    def __init__(self, text: str, passes: int, cache: pathlib.Path | None = None, in_order: bool = False) -> None:
        import llvmlite.binding as llvm

        machine = target_machine(1 if text.count("\n") > LONG_TEXT else 2)
        entry = cache and cache / f"{_key(text, passes, in_order)}.o"
        made = entry and stored(entry)
        if made is None:
            with kept_order() if in_order else contextlib.nullcontext():
                made = _compiled(text, passes, machine)
            if entry:
                store(entry, made)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(made))
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        found = int(self._engine.get_function_address(name))
        if not found:
            raise RuntimeError(f"the compiled code has no function {name}: remove the folder of ICVI_CACHE")
        return found


def _compiled(text: str, passes: int, machine: llvm.TargetMachine) -> bytes:
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(text)
    module.triple = host().triple
    improved(module, passes, machine)
    return bytes(machine.emit_object(module))


@contextlib.contextmanager
def kept_order() -> Iterator[None]:
    """Within, LLVM leaves instructions in the order of the text.

    It would start everything early that does not wait, which is better for a few values and fills the memory with
    thousands. The switch is one for all of LLVM in this process; what another thread compiles meanwhile is as right.
    LLVM ends the process where it does not know a switch, so only versions are asked that have it.
    """
    import llvmlite.binding as llvm

    known = 20 <= llvm.llvm_version_info[0] <= 22
    if known:
        llvm.set_option("icvi_jax", "--enable-misched=false")
    try:
        yield
    finally:
        if known:
            llvm.set_option("icvi_jax", "--enable-misched=true")


def improved(module: llvm.ModuleRef, passes: int, machine: llvm.TargetMachine) -> None:
    """Let LLVM improve a module where it is."""
    import llvmlite.binding as llvm

    options = llvm.create_pipeline_tuning_options(speed_level=passes)
    options.slp_vectorization = passes > 1  # operations of one lane, side by side, become vectors
    options.loop_vectorization = options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)


def _key(text: str, passes: int, in_order: bool) -> str:
    """All that the code depends on, as one number."""
    import llvmlite
    import llvmlite.binding as llvm

    parts = text, passes, in_order, dataclasses.astuple(host()), llvmlite.__version__, llvm.llvm_version_info, FORMAT
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def target_machine(level: int = 2) -> llvm.TargetMachine:
    """LLVM's description of this machine; `level`: how much it does for the code."""
    import llvmlite.binding as llvm

    here = host()
    target = llvm.Target.from_triple(here.triple)
    how = {"opt": level, "reloc": "pic", "codemodel": "jitdefault"}
    return target.create_target_machine(cpu=here.cpu, features=here.features, **how)
