"""Which form of a fleet's scan is fast on CPUs: the experiment behind `icvi_jax.drive.kernel`.

    python benchmarks/forms.py [--blocks 128] [--repeats 5]

One block of streams on one device, samples already transposed, against the scalar C on one thread. CPU time, the best
of turns. The forms:

- *vmap*: the step of one stream under `jax.vmap`;
- *arrays*: arrays (k, p, n), XLA's own kernels; also with XLA's options for wide vectors and quick minima;
- *vectors*: every element of every array a vector (n,) of its own, each in the carry; also in one kernel;
- *kernel*: arrays, the scan as one kernel; *fenced*: as the library does it, with what is used often stored once.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"
import argparse  # noqa: E402
import time  # noqa: E402
from functools import reduce  # noqa: E402

import fleet  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import rivals  # noqa: E402
from jax import lax  # noqa: E402

from icvi_jax.drive import kernel  # noqa: E402
from icvi_jax.drive.engine import kept  # noqa: E402

OPTIONS = {"xla_cpu_prefer_vector_width": 512, "xla_cpu_enable_fast_min_max": True}


def step(pipe, state, x):
    state, reading = pipe.step(state, x)
    return state, kept(reading, fleet.KEEP)


def arrays(pipe, state, X, advance=step):
    return lax.scan(lambda state, x: advance(pipe, state, x), state, X)


def vmapped(pipe, state, X):
    return jax.vmap(lambda state, X: arrays(pipe, state, X), in_axes=-1, out_axes=-1)(state, X)


def in_kernel(pipe, state, X):
    return kernel.one_kernel(arrays, pipe, state, X)


def fenced(pipe, state, X):
    quick, _ = kernel.rewritten(step, pipe, state, X[0])
    return kernel.one_kernel(lambda *args: arrays(*args, quick), pipe, state, X)


def filled(shape, value_at):
    """A NumPy array of JAX vectors."""
    cells = np.empty(shape, object)
    for i in np.ndindex(cells.shape):
        cells[i] = value_at(i)
    return cells


def rows(a):
    """An array as a NumPy array of its rows along the last axis."""
    return filled(a.shape[:-1], lambda i: a[i])


def whole(cells):
    return jnp.stack(list(cells.ravel())).reshape(*cells.shape, -1) if isinstance(cells, np.ndarray) else cells


def by_element(jaxpr, consts, args):
    """Evaluate a program with every array given as `rows`; scalars and constants stay arrays."""
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args)))
    for eqn in jaxpr.eqns:
        inputs = [v.val if isinstance(v, kernel.Literal) else values[v] for v in eqn.invars]
        if eqn.primitive.name in kernel.CALLS:
            outputs = by_element(*kernel._callee(eqn), inputs)
        else:
            outputs = [one_by_one(eqn, inputs)]
        values |= zip(eqn.outvars, outputs)
    return [v.val if isinstance(v, kernel.Literal) else values[v] for v in jaxpr.outvars]


def one_by_one(eqn, inputs):
    name, params = eqn.primitive.name, eqn.params
    cells = [a if isinstance(a, np.ndarray) and a.dtype == object else None for a in inputs]
    if name in kernel.ELEMENTWISE or name == "convert_element_type":
        if all(c is None for c in cells):
            return eqn.primitive.bind(*inputs, **params)
        grids = [rows(a) if c is None and np.ndim(a) else c for a, c in zip(inputs, cells)]
        shape = np.broadcast_shapes(*(g.shape for g in grids if g is not None))
        grids = [g if g is None else np.broadcast_to(g, shape) for g in grids]
        pairs = list(zip(inputs, grids))
        return filled(shape, lambda i: eqn.primitive.bind(*(a if g is None else g[i] for a, g in pairs), **params))
    first = cells[0] if cells else None
    if name in kernel.REDUCTIONS and first is not None:
        front = np.moveaxis(first, params["axes"], range(len(params["axes"])))
        front = front.reshape(-1, *front.shape[len(params["axes"]) :])
        join = kernel.REDUCTIONS[name]
        return filled(front.shape[1:], lambda i: reduce(join, [front[j, *i] for j in range(len(front))]))
    if first is not None and name == "slice":
        return first[tuple(slice(a, b) for a, b in zip(params["start_indices"][:-1], params["limit_indices"][:-1]))]
    if first is not None and name == "squeeze":
        return np.squeeze(first, axis=tuple(params["dimensions"]))
    if first is not None and name == "broadcast_in_dim" and params["broadcast_dimensions"]:
        lead, at = params["shape"][:-1], params["broadcast_dimensions"][:-1]
        middle = [first.shape[at.index(d)] if d in at else 1 for d in range(len(lead))]
        return np.broadcast_to(first.reshape(middle), lead)
    out = eqn.primitive.bind(*(a if c is None else whole(c) for a, c in zip(inputs, cells)), **params)
    return out if all(c is None for c in cells) or not out.ndim else rows(out)


def vectors(pipe, state, X):
    closed, shapes = jax.make_jaxpr(step, return_shape=True)(pipe, state, X[0])
    leaves, tree = jax.tree.flatten(state)

    def body(carry, x):
        cells = [filled((len(c),), lambda i, c=c: c[i[0]]).reshape(a.shape[:-1]) for c, a in zip(carry, leaves)]
        out = by_element(closed.jaxpr, closed.consts, [*jax.tree.leaves(pipe), *cells, rows(x)])
        return [list(c.ravel()) for c in out[: len(leaves)]], [whole(c) for c in out[len(leaves) :]]

    carry, readings = lax.scan(body, [list(rows(a).ravel()) for a in leaves], X)
    state = [jnp.stack(c).reshape(a.shape) for c, a in zip(carry, leaves)]
    return jax.tree.unflatten(tree, state), jax.tree.unflatten(jax.tree.structure(shapes[1]), readings)


def vectors_in_kernel(pipe, state, X):
    return kernel.one_kernel(vectors, pipe, state, X)


FORMS = {
    "vmap": (vmapped, {}),
    "arrays": (arrays, {}),
    "arrays, options": (arrays, OPTIONS),
    "vectors": (vectors, {}),
    "vectors, options": (vectors, OPTIONS),
    "vectors, kernel": (vectors_in_kernel, {}),
    "kernel": (in_kernel, {}),
    "fenced": (fenced, {}),
    "fenced, options": (fenced, OPTIONS),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, nargs="*", default=[1, 128, 512])
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args()
    for k, p in ((10, 2), (4, 2), (3, 8)):
        for n in chosen.blocks:
            T = max(100, 50_000 // n)
            X = rivals.blobs(n, T, k, p)
            lanes, pipe = jnp.asarray(X.transpose(1, 2, 0)), fleet.pipeline(k)
            state = pipe.init(p, (n,))
            calls = {name: c for name, c in rivals.c_programs(X, k).items() if name.startswith("scalar")}
            seconds = {}
            for name, (form, options) in FORMS.items():
                begin = time.perf_counter()
                try:
                    run = jax.jit(form).lower(pipe, state, lanes).compile(compiler_options=options)
                except jax.errors.JaxRuntimeError as error:  # reductions that XLA leaves to a library
                    print(f"k={k:2} p={p} n={n:4} {name:18s} does not compile: {str(error).splitlines()[0][:60]}")
                    continue
                seconds[name] = time.perf_counter() - begin
                calls[name] = lambda run=run: jax.block_until_ready(run(pipe, state, lanes))
            times = fleet.best(calls, chosen.repeats, time.process_time)
            c = min(t for name, t in times.items() if name.startswith("scalar"))
            for name, compiling in seconds.items():
                text = f"{times[name] / n / T * 1e9:8.1f} ns a sample {c / times[name]:5.2f}× scalar C"
                print(f"k={k:2} p={p} n={n:4} {name:18s} {text}   compiled in {compiling:4.1f} s", flush=True)


if __name__ == "__main__":
    main()
