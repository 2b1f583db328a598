"""CUDA without a card: scans through JAX, XLA and the real handler, launched on a stand-in for the driver."""

import ctypes.util
import dataclasses
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import standin_cuda
from jax.interpreters import mlir

import icvi_jax as icvi
from icvi_jax import gpu_check
from icvi_jax.engine import primitive as operation
from icvi_jax.engine.native import cuda

SMALL = gpu_check.make_pipeline(icvi.SequentialKMeans(k=2), ("xb",))
CUDA = {"implementation": "cuda"}


def lower(f, *args):
    return jax.jit(f).trace(*args).lower(lowering_platforms=("cuda",)).as_text()


def scan(X, pipe=SMALL):
    return icvi.scan(pipe, pipe.init(X.shape[1], X.shape[2:]), X, **CUDA)


def test_lowered_for_cuda_it_is_one_call_and_no_loop():
    state, X = SMALL.init(2, (8,)), jnp.ones((50, 2, 8))
    text = lower(lambda state, X: icvi.scan(SMALL, state, X), state, X)
    assert text.count("stablehlo.custom_call") == 1 and "stablehlo.while" not in text
    assert "icvi_cuda_scan" in text and ".visible .entry" in text and "stablehlo.transpose" not in text
    grouped = lower(lambda X: jax.vmap(lambda x: scan(x)[1].values, 0)(X), jnp.ones((8, 50, 2)))
    assert grouped.count("stablehlo.custom_call") == 1 and "stablehlo.while" not in grouped


def test_asked_for_where_there_is_none_it_fails():
    with pytest.raises(ValueError, match='implementation="cuda"'):
        jax.jit(lambda X: scan(X))(jnp.ones((5, 2, 3)))


def test_the_check_says_that_there_is_no_card(capsys):
    assert gpu_check.main() == 2
    assert "no CUDA device" in capsys.readouterr().out


@pytest.fixture(scope="module", autouse=True)
def compiler(require):
    """The stand-in is written in C."""
    require("gcc")


@pytest.fixture(scope="module")
def driver(compiler, tmp_path_factory):
    """The stand-in, and `implementation="cuda"` launched on it although the platform is a CPU."""
    if ctypes.util.find_library("cuda"):
        pytest.skip("the real driver is here: python -m icvi_jax.gpu_check")
    lib, emulated = standin_cuda.driver(tmp_path_factory.mktemp("cuda")), {}
    launch, rules = cuda.launch_kernel, operation.RULES

    def noted(kernel, *given):
        if kernel.name not in emulated:
            emulated[kernel.name] = standin_cuda.Emulated(kernel)
            lib.standin_kernel(kernel.name.encode(), emulated[kernel.name].address)
        lib.kernel = kernel
        return launch(kernel, *given)

    def choose(*operands, **params):
        asked = params["implementation"] == "cuda" or (lib.always and params["implementation"] is None)
        return rules["cuda" if asked else "cpu"](*operands, **params)

    patch = pytest.MonkeyPatch()
    patch.setattr(cuda, "launch_kernel", noted)
    mlir.register_lowering(operation.scan_p, mlir.lower_fun(choose, multiple_results=True), platform="cpu")
    yield lib
    mlir.register_lowering(operation.scan_p, mlir.lower_fun(rules["cpu"], multiple_results=True), platform="cpu")
    patch.undo()


@pytest.fixture
def card(driver):
    driver.standin_reset()
    driver.always = False
    driver.standin_use(cuda.handler()[1], 0)
    yield driver
    assert driver.standin_depth() == 0  # each context that was entered was left


def launch_of(card):
    return standin_cuda.Launch.from_address(card.standin_last())


@pytest.mark.parametrize("name", ["k-means 4, p 2, XB DB", "k-means 3, p 8, XB DB", "OEC 4, p 2, XB DB"])
def test_a_pipeline_has_the_bits_of_the_cpu_and_the_values_of_lax_scan(card, name):
    pipe, p = gpu_check.list_pipelines()[name]
    assert gpu_check.Checks(jax.devices()).pipeline(pipe, p) == ""
    assert card.standin_launches() == 1 == card.standin_loads(0)


@pytest.mark.parametrize("way", ["elapsed_and_every", "vmap", "grad", "several", "donated"])
def test_what_one_does_with_a_scan(card, way):
    checks = gpu_check.Checks(jax.devices())
    assert getattr(checks, way)() == ""
    assert card.standin_launches() >= (way != "grad")  # slopes are those of lax.scan


def test_fleets_of_the_host_and_live_are_launched_in_pieces(card, monkeypatch):
    """`run_fleet` and `Live` on devices that are said to be GPUs."""
    card.always = True
    jax.clear_caches()
    monkeypatch.setattr("icvi_jax.engine.xla.BUDGET", 20_000)
    assert gpu_check.Checks(jax.devices()[:1]).host() == ""
    assert card.standin_launches() > 20 + 3  # ticks, and pieces of 70 samples
    jax.clear_caches()


def test_an_exported_program_carries_its_kernel(card):
    assert "custom call icvi_cuda_scan" in (out := icvi.export(SMALL, 2, 16, ("cuda",), samples=30)).needs
    text = out.scan.mlir_module()
    assert text.count("stablehlo.custom_call") == 1 and "stablehlo.while" not in text and ".visible .entry" in text
    more = *out.scan.disabled_safety_checks, jax.export.DisabledSafetyCheck.platform()
    anywhere = dataclasses.replace(out.scan, disabled_safety_checks=more)
    X = gpu_check.draw_samples(30, 2, 16)
    jax.jit(lambda X: scan(X))(X)  # the stand-in knows the kernel from here
    found = anywhere.call(out.numbers, out.start, X)
    before = card.standin_launches()
    expected = icvi.scan(SMALL, SMALL.init(2, (16,)), X, implementation="native")
    assert gpu_check.compare(found, tuple(map(jax.tree.leaves, expected)), 0.0) == "" and before == 2


def test_fewer_samples_than_a_row_takes_move_the_state(card):
    X, state = gpu_check.draw_samples(5, 2, 9), SMALL.init(2, (9,))
    found, expected = (icvi.scan(SMALL, state, X, every=7, implementation=name) for name in ("cuda", "xla"))
    assert found[1].label.shape == (0, 9) and card.standin_launches() == 1
    assert gpu_check.compare(found, expected, 1e-4) == ""


def test_a_check_that_fails_says_so(card):
    checks = gpu_check.Checks(jax.devices())
    checks.native = lambda pipe, state, X: icvi.scan(pipe, state, X + 1, implementation="native")
    assert "not the CPU's bits" in checks.pipeline(SMALL, 2)


def test_a_launch_has_the_sizes_and_arrays_of_the_call(card):
    X, pipe = gpu_check.draw_samples(30, 2, 70), gpu_check.make_pipeline(icvi.SequentialKMeans(k=2), ("ch",))
    run = jax.jit(lambda X: scan(X, pipe))
    run(X), run(X)
    launch, kernel = launch_of(card), card.kernel
    values = list(launch.values)[: launch.params]
    assert (launch.grid, launch.block, launch.device) == (3, 32, 0)
    assert values[-3:] == [70, 30, 1]
    arrays = values[:-3]
    assert len(arrays) == len(kernel.own) + kernel.carried + len(kernel.outputs) - len(kernel.still)
    assert all(address and address % 16 == 0 for address in arrays)
    assert card.standin_launches() == 2 and card.standin_loads(0) == 1


def test_a_module_is_loaded_once_for_each_device(card):
    run = jax.jit(lambda X: scan(X)[1].seen)
    X = gpu_check.draw_samples(7, 3, 4)
    for device in (0, 1, 1, 0):
        card.standin_use(cuda.handler()[1], device)
        run(X).block_until_ready()
        assert launch_of(card).device == device
    assert [card.standin_loads(device) for device in (0, 1)] == [1, 1]


def launch_arrays(card, N=6, T=5, **changed):
    """Arrays of NumPy for the kernel of a small scan, and the attributes of its call."""
    kernel = gpu_check.kernel_of(SMALL, 2)
    emulated = standin_cuda.Emulated(kernel)
    card.standin_kernel(kernel.name.encode(), emulated.address)
    X = gpu_check.draw_samples(T, 2, N)
    numbers = [np.asarray(a, part.dtype) for a, part in zip(jax.tree.leaves(SMALL), kernel.unrolled.numbers)]
    operands = [*numbers, *(np.array(a) for a in jax.tree.leaves(SMALL.init(2, (N,)))), X]
    state, outputs = emulated(operands, N, T)
    expected = [*state, *(a for i, a in enumerate(outputs) if i not in kernel.still)]
    attributes = {"name": kernel.name, "ptx": kernel.ptx, "sizes": np.array([N, T, 1, 32])} | changed
    return operands, [np.zeros_like(a) for a in expected], attributes, expected, emulated


def test_the_handler_does_not_wait(card):
    """The driver runs the kernel later: the call is over before, and nothing of it is needed any more."""
    operands, results, attributes, expected, _ = launch_arrays(card)
    card.standin_defer(1)
    assert standin_cuda.call_handler(card, operands, results, attributes) is None
    assert card.standin_launches() == 1 and not any(a.any() for a in results)
    card.standin_finish()
    for a, b in zip(results, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_call_of_another_form_is_refused(card):
    operands, results, attributes, *_ = launch_arrays(card, more=np.arange(3))
    assert "other attributes" in standin_cuda.call_handler(card, operands, results, attributes)
    assert not card.standin_launches()


@pytest.mark.parametrize(
    "function, code, words",
    [
        (0, 400, "cuStreamGetCtx: an unknown error (CUDA error 400)"),
        (1, 201, "cuCtxPushCurrent_v2: an unknown error (CUDA error 201)"),
        (3, 2, "cuModuleLoadDataEx: out of memory (CUDA error 2)"),
        (4, 500, "cuModuleGetFunction: named symbol not found (CUDA error 500)"),
        (5, 719, "cuLaunchKernel: unspecified launch failure (CUDA error 719)"),
    ],
)
def test_errors_of_the_driver_are_errors_of_xla(card, function, code, words):
    pipe = gpu_check.make_pipeline(icvi.SequentialKMeans(k=2 + function), ("wb",))  # no context has its kernel yet
    X, run = gpu_check.draw_samples(5, 2, 3), jax.jit(lambda X: scan(X, pipe)[1].values)
    card.standin_fail(function, code)
    with pytest.raises(Exception, match="icvi_jax: ") as caught:
        jax.block_until_ready(run(X))
    assert words in str(caught.value)
    card.standin_fail(-1, 0)
    jax.block_until_ready(run(X))  # and goes on as soon as the driver does


def test_a_module_that_does_not_compile_says_what_the_driver_said(card, monkeypatch):
    kernel = gpu_check.kernel_of(SMALL, 2)
    broken = type("Broken", (), {"name": "icvi_broken", "ptx": "nonsense\n", "own": (), "still": {}, "carried": 0})()
    broken.unrolled = kernel.unrolled._replace(numbers=[], state=[], sample=[])
    broken.outputs = kernel.outputs[:1]
    monkeypatch.setattr(standin_cuda, "Emulated", lambda kernel: type("E", (), {"address": 0})())
    with pytest.raises(Exception, match="a PTX JIT compilation failed") as caught:
        jax.block_until_ready(jax.jit(lambda: cuda.launch_kernel(broken, [], 4, 5, 1))())
    assert "Parsing error near 'nonsense" in str(caught.value)


MISSING = """
import sys
sys.path.insert(0, {tests!r})
import jax, standin_cuda
from icvi_jax.engine.native import cuda
lib = standin_cuda.driver({folder!r}, "other.so")
call = jax.ffi.ffi_call(cuda.TARGET, jax.ShapeDtypeStruct((2,), "f4"))
jax.jit(lambda: call(name="a", ptx="b", sizes=__import__("numpy").arange(4)))()
"""


def test_without_a_driver_the_error_says_so(tmp_path):
    script = MISSING.format(tests=str(Path(__file__).parent), folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode and "icvi_jax: the CUDA driver is not here: libcuda.so.1" in done.stderr


def test_the_handler_reads_xla_structures_where_they_are(tmp_path):
    """Offsets by the C compiler and XLA's own header, against those that LLVM gives the types of the handler."""
    import llvmlite.binding as llvm

    fields = {
        "XLA_FFI_CallFrame": ("Frame", {"extension_start": 1, "api": 2, "ctx": 3, "args": 5, "rets": 6, "attrs": 7}),
        "XLA_FFI_Args": ("List", {"size": 2, "args": 4}),
        "XLA_FFI_Attrs": ("Attributes", {"size": 2, "attrs": 5}),
        "XLA_FFI_Buffer": ("Buffer", {"data": 3}),
        "XLA_FFI_Api": ("Api", {"XLA_FFI_Error_Create": 4, "XLA_FFI_Stream_Get": 8}),
        "XLA_FFI_Stream_Get_Args": ("StreamGet", {"ctx": 2, "stream": 3}),
        "XLA_FFI_Error_Create_Args": ("ErrorCreate", {"message": 2, "errc": 3}),
        "XLA_FFI_Metadata_Extension": ("Query", {"metadata": 3}),
        "XLA_FFI_Metadata": ("Metadata", {"api_version": 1, "traits": 2}),
        "XLA_FFI_ByteSpan": ("Span", {"ptr": 0, "len": 1}),
        "XLA_FFI_Array": ("Array", {"size": 1, "data": 2}),
    }
    prints = [f'printf("%zu ", offsetof({c}, {name}));' for c, (_, some) in fields.items() for name in some]
    source, program = tmp_path / "offsets.c", tmp_path / "offsets"
    source.write_text(
        "#include <stddef.h>\n#include <stdio.h>\n#include <stdint.h>\n#include <stdbool.h>\n"
        '#include "xla/ffi/api/c_api.h"\nint main(void) {' + "".join(prints) + "}"
    )
    subprocess.run(["gcc", "-w", f"-I{jax.ffi.include_dir()}", str(source), "-o", str(program)], check=True)
    theirs = [int(n) for n in subprocess.run([str(program)], capture_output=True, text=True).stdout.split()]
    text = (Path(cuda.__file__).parent / "cuda_launch.ll").read_text()
    types = [line for line in text.splitlines() if line.startswith("%")]
    module = llvm.parse_assembly(
        "\n".join(types + [f"@{name} = global %{name} zeroinitializer" for name, _ in fields.values()])
    )
    sizes = llvm.create_target_data("e-m:e-i64:64-n8:16:32:64-S128")
    ours = [
        sizes.get_element_offset(module.get_global_variable(name).global_value_type, i)
        for name, some in fields.values()
        for i in some.values()
    ]
    assert ours == theirs
