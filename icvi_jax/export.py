"""Export a pipeline as portable programs, for machines and languages without this library."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax.export import Exported, register_namedtuple_serialization

from icvi_jax.engine.native.cuda import TARGET
from icvi_jax.engine.scan import scan as icvi_scan
from icvi_jax.pipeline import Pipeline
from icvi_jax.spec import whole

# `jax.export` may write states and readings: the pipeline above has imported all parts that have them.
for _kind in tuple.__subclasses__():
    if _kind.__module__.startswith("icvi_jax.") and "_fields" in vars(_kind):
        register_namedtuple_serialization(_kind, serialized_name=f"{_kind.__module__}.{_kind.__qualname__}")

Leaves: TypeAlias = list[jax.Array]
"""The arrays of a pytree, in order."""


NEEDS = (
    "on CUDA, `scan` is a kernel of icvi_jax, whose PTX is in the program as the attribute `ptx` of the custom call "
    f"{TARGET}. It needs a card of compute capability 6.0 or more, NVIDIA's driver for CUDA 11 or later, and, in the "
    "process that runs it, the handler of that call: icvi_jax.engine.native.cuda.register()"
)


class Export(NamedTuple):
    """A pipeline as two StableHLO programs, lowered for all given platforms.

    Attributes
    ----------
    step : (leaves of the pipeline, leaves of the state, x (p, N)) → leaves of the state, leaves of the reading.
    scan : (leaves of the pipeline, leaves of the state, X (T, p, N)) → the same, readings stacked over time.
    numbers : the leaves of the pipeline: forgetting and so on. Others of the same types may be given instead.
    start : the leaves of the state before any sample.
    needs : what the programs need to run besides JAX's or another runtime for StableHLO; "" where they need nothing.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    >>> out = icvi.export(pipe, features=2)
    >>> isinstance(out, icvi.Export)
    True
    """

    step: Exported
    scan: Exported
    numbers: list[jax.Array]
    start: list[jax.Array]
    needs: str = ""


def export(
    pipe: Pipeline,
    features: int,
    streams: int | None = None,
    platforms: tuple[str, ...] = ("cpu", "cuda", "tpu"),
    samples: int | None = 256,
    kernel: bool = True,
) -> Export:
    """Lower a pipeline with `jax.export`, also for platforms that this machine does not have.

    The programs take and return flat lists of arrays, in the order of `jax.tree.leaves`, so that no class of this
    library is needed to load them. `call` runs a program, alone or under `jax.jit`; `serialize()` makes bytes of it
    and `jax.export.deserialize` loads them (both need the package `flatbuffers`); `mlir_module_serialized` is the
    StableHLO alone, for runtimes other than JAX.

    On CUDA the scan of a known number of samples is one kernel, whose text is in the program; `needs` of the result
    says what runs it. On other platforms, and with `kernel=False`, it is plain StableHLO.

    Parameters
    ----------
    pipe : the pipeline.
    features : p, the number of features.
    streams : N, the size of the fleet; None for one stream, without the last axis.
    platforms : on which the programs will run.
    samples : T, how many samples a call of `scan` takes; None: any number, with a check in the program.
    kernel : whether the scan may be a kernel on CUDA.

    Examples
    --------
    >>> import jax, icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    >>> out = icvi.export(pipe, features=2, streams=8, samples=5)
    >>> out.step.platforms
    ('cpu', 'cuda', 'tpu')
    >>> state, readings = out.scan.call(out.numbers, out.start, jax.numpy.ones((5, 2, 8)))
    >>> readings[0].shape
    (5, 8)
    >>> blob = out.step.serialize()  # doctest: +SKIP
    >>> step = jax.export.deserialize(blob)  # doctest: +SKIP
    """
    whole("export", "features", features)
    if streams is not None:
        whole("export", "streams", streams)
    lanes = () if streams is None else (streams,)
    numbers, form = jax.tree.flatten(pipe)
    numbers = [jnp.asarray(a) for a in numbers]
    start, layout = jax.tree.flatten(pipe.init(features, lanes))

    def step(numbers: Leaves, state: Leaves, x: jax.Array) -> tuple[Leaves, Leaves]:
        state, reading = jax.tree.unflatten(form, numbers).step(jax.tree.unflatten(layout, state), x)
        return jax.tree.leaves(state), jax.tree.leaves(reading)

    def scan(numbers: Leaves, state: Leaves, X: jax.Array) -> tuple[Leaves, Leaves]:
        given = jax.tree.unflatten(form, numbers), jax.tree.unflatten(layout, state), X
        last, readings = icvi_scan(*given, implementation="portable" if kernel and samples is not None else "xla")
        return jax.tree.leaves(last), jax.tree.leaves(readings)

    shape = (features, *lanes)
    length = jax.export.symbolic_shape("T")[0] if samples is None else samples
    dtype = jnp.result_type(float)
    x, X = (jax.ShapeDtypeStruct(s, dtype) for s in (shape, (length, *shape)))
    allowed = [jax.export.DisabledSafetyCheck.custom_call(TARGET)]
    lower = [jax.export.export(jax.jit(f), platforms=platforms, disabled_checks=allowed) for f in (step, scan)]
    one, many = lower[0](numbers, start, x), lower[1](numbers, start, X)
    return Export(one, many, numbers, start, NEEDS if TARGET in many.mlir_module() else "")
