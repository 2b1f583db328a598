"""Build: from text of LLVM to a function of this process."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from icvi_jax.engine.native.cache import store, stored

if TYPE_CHECKING:
    import llvmlite.binding as llvm

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
    """Compiled code and its memory. `cache` is a folder where the code is kept for other processes."""

    def __init__(self, text: str, passes: int, cache: pathlib.Path | None = None) -> None:
        import llvmlite.binding as llvm

        machine = target_machine(1 if text.count("\n") > LONG_TEXT else 2)
        entry = cache and cache / f"{_key(text, passes)}.o"
        made = entry and stored(entry)
        if made is None:
            made = _compiled(text, passes, machine)
            if entry:
                store(entry, made)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(made))
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Where a function is."""
        found = int(self._engine.get_function_address(name))
        if not found:
            raise RuntimeError(f"the compiled code has no function {name}: remove the folder of ICVI_CACHE")
        return found


def _compiled(text: str, passes: int, machine: llvm.TargetMachine) -> bytes:
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(text)
    module.triple = host().triple
    options = llvm.create_pipeline_tuning_options(speed_level=passes)
    options.slp_vectorization = passes > 1  # operations of one lane, side by side, become vectors
    options.loop_vectorization = options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))


def _key(text: str, passes: int) -> str:
    """All that the code depends on, as one number."""
    import llvmlite
    import llvmlite.binding as llvm

    parts = text, passes, dataclasses.astuple(host()), llvmlite.__version__, llvm.llvm_version_info, FORMAT
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def target_machine(level: int = 2) -> llvm.TargetMachine:
    """LLVM's description of this machine; `level`: how much it does for the code."""
    import llvmlite.binding as llvm

    here = host()
    target = llvm.Target.from_triple(here.triple)
    how = {"opt": level, "reloc": "pic", "codemodel": "jitdefault"}
    return target.create_target_machine(cpu=here.cpu, features=here.features, **how)
