"""CUDA without a card: kernels as functions of this machine, and a stand-in for the driver that runs them."""

import ctypes
import re
import subprocess
from functools import lru_cache
from pathlib import Path

import jax
import numpy as np

from icvi_jax.engine.native import cuda
from icvi_jax.engine.native.build import Native

THREADS = """@where = internal global [3 x i32] zeroinitializer
define internal i32 @thread.block() { %a = load i32, ptr @where
 ret i32 %a }
define internal i32 @thread.size() { %p = getelementptr i32, ptr @where, i64 1
 %a = load i32, ptr %p
 ret i32 %a }
define internal i32 @thread.lane() { %p = getelementptr i32, ptr @where, i64 2
 %a = load i32, ptr %p
 ret i32 %a }
"""
LAUNCH = """define void @launch(ptr %params, i32 %grid, i32 %block) {{
enter:
  %at1 = getelementptr i32, ptr @where, i64 1
  %at2 = getelementptr i32, ptr @where, i64 2
{loads}
  store i32 %block, ptr %at1
  br label %blocks
blocks:
  %b = phi i32 [0, %enter], [%b.next, %end]
  store i32 %b, ptr @where
  br label %threads
threads:
  %t = phi i32 [0, %blocks], [%t.next, %threads]
  store i32 %t, ptr %at2
  call void @{name}({args})
  %t.next = add i32 %t, 1
  %more = icmp ult i32 %t.next, %block
  br i1 %more, label %threads, label %end
end:
  %b.next = add i32 %b, 1
  %again = icmp ult i32 %b.next, %grid
  br i1 %again, label %blocks, label %done
done:
  ret void
}}
"""
TYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)


class Emulated:
    """A kernel's own module compiled for this machine: thread numbers come from a loop instead of registers."""

    def __init__(self, kernel):
        self.kernel = kernel
        head = kernel.text.split(f"define void @{kernel.name}(")[1].split(")")[0]
        kinds = [part.split()[0] for part in head.split(", ")]
        loads = [
            f"  %p{i}.at = getelementptr ptr, ptr %params, i64 {i}\n  %p{i}.to = load ptr, ptr %p{i}.at\n"
            f"  %p{i} = load {kind}, ptr %p{i}.to"
            for i, kind in enumerate(kinds)
        ]
        args = ", ".join(f"{kind} %p{i}" for i, kind in enumerate(kinds))
        launch = LAUNCH.format(loads="\n".join(loads), name=kernel.name, args=args)
        self.native = Native("\n".join([kernel.text, THREADS, launch]), 1)
        self.address = self.native.address("launch")

    def __call__(self, operands, N, T, every=1, threads=32):
        """Run it on NumPy arrays: the state (n…, N) and the outputs (rows, n…, N) that it writes."""
        k, rows = self.kernel, T // every
        operands = [np.ascontiguousarray(a) for a in operands]
        made = [np.zeros((*part.shape, N), part.dtype) for part in k.unrolled.state[: k.carried]]
        made += [np.zeros((rows, *leaf.shape, N), leaf.dtype) for i, leaf in enumerate(k.outputs) if i not in k.still]
        values = (ctypes.c_uint64 * (len(operands) + len(made) + 3))(
            *(a.ctypes.data for a in (*operands, *made)), N, T, every
        )
        params = (ctypes.c_void_p * len(values))(*(ctypes.addressof(values) + 8 * i for i in range(len(values))))
        TYPE(self.address)(ctypes.addressof(params), -(-N // threads), threads)
        states = k.carried
        written = iter(made[states:])
        outputs = [
            np.broadcast_to(k.still[i][..., None], (rows, *leaf.shape, N)) if i in k.still else next(written)
            for i, leaf in enumerate(k.outputs)
        ]
        return made[:states], outputs


AMD = """define internal i32 @thread.block() alwaysinline { %a = call i32 @llvm.amdgcn.workgroup.id.x()
 ret i32 %a }
define internal i32 @thread.lane() alwaysinline { %a = call i32 @llvm.amdgcn.workitem.id.x()
 ret i32 %a }
define internal i32 @thread.size() alwaysinline { ret i32 128 }
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workitem.id.x()
"""


def compile_for_amd(kernel, card):
    """The kernel's module for a card of AMD: a thread's memory is in its own address space, blocks have 128 threads."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("amdgcn-amd-amdhsa").create_target_machine(cpu=card, opt=3)
    text = re.sub(
        r"^  (%ring\d+) = (alloca .*)$",
        r"  \1.own = \2, addrspace(5)\n  \1 = addrspacecast ptr addrspace(5) \1.own to ptr",
        kernel.text,
        flags=re.M,
    )
    text = text.replace(f"define void @{kernel.name}", f"define amdgpu_kernel void @{kernel.name}")
    text = text.replace(") nounwind {\nenter", ') nounwind "amdgpu-flat-work-group-size"="1,128" {\nenter')
    head = f'target triple = "amdgcn-amd-amdhsa"\ntarget datalayout = "{machine.target_data}"\n'
    module = llvm.parse_assembly(head + text + AMD)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    builder.getModulePassManager().run(module, builder)
    return machine.emit_assembly(module)


@lru_cache(maxsize=1)
def driver(folder, name="libcuda.so.1"):
    """The stand-in, compiled and loaded under the driver's own name; the handler finds it there."""
    library = Path(folder, name)
    source = Path(__file__).with_name("libcuda.c")
    command = ["gcc", "-O1", "-shared", "-fPIC", f"-Wl,-soname,{name}", str(source), "-o", str(library), "-lpthread"]
    subprocess.run(command, check=True)
    lib = ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
    lib.standin_stream.restype = lib.standin_last.restype = ctypes.c_void_p
    lib.standin_kernel.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
    lib.standin_use.argtypes = [ctypes.c_void_p, ctypes.c_int]
    lib.standin_use(cuda.handler()[1], 0)
    address = ctypes.cast(lib.standin_handler, ctypes.c_void_p).value
    lib.before = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(address)
    jax.ffi.register_ffi_target(cuda.TARGET, jax.ffi.pycapsule(lib.before), platform="cpu")
    return lib


class Launch(ctypes.Structure):
    """The last launch that the stand-in saw."""

    _fields_ = [
        ("device", ctypes.c_int),
        ("grid", ctypes.c_uint32),
        ("block", ctypes.c_uint32),
        ("params", ctypes.c_int),
        ("values", ctypes.c_uint64 * 4096),
    ]


def call_handler(lib, operands, results, attributes, device=0):
    """Call the handler as XLA does, with arrays of NumPy; what it says of an error, or None."""
    said = []

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64))
    def create_error(ask):
        said.append(ctypes.string_at(ask[2]).decode())
        return 1

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64))
    def get_stream(ask):
        ask[3] = lib.standin_stream(device)
        return None

    kept = [create_error, get_stream]

    def words(*values):
        array = (ctypes.c_uint64 * max(len(values), 1))(*values)
        kept.append(array)
        return ctypes.addressof(array)

    def address(function):
        return ctypes.cast(function, ctypes.c_void_p).value

    def encoded(value):
        if isinstance(value, str):
            kept.append(ctypes.create_string_buffer(value.encode(), len(value)))
            return words(ctypes.addressof(kept[-1]), len(value))
        kept.append(value)
        return words(4, len(value), value.ctypes.data)

    buffers = [words(*(words(48, 0, 11, a.ctypes.data, a.ndim, 0) for a in part)) for part in (operands, results)]
    api = words(*[0] * 6, address(create_error), *[0] * 3, address(get_stream))
    items = words(*(encoded(value) for _, value in sorted(attributes.items())))
    frame = words(
        168, 0, api, 0, 3, 40, 0, len(operands), 0, buffers[0], 40, 0, len(results), 0, buffers[1],
        48, 0, len(attributes), 0, 0, items,
    )  # fmt: skip
    handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(cuda.handler()[1])
    return said[0] if handler(frame) else None
