"""The kernels of a dozen pipelines, compiled for A100 and H100 without a GPU: registers, instructions, predicted rates.

    pip install '.[gpu-code]'
    python benchmarks/gpu.py [code] [cpu] [gpu] [table] [--only WORD] [--results FILE] [--write FOLDER]

`code` compiles, `cpu` measures `run_fleet` by this machine's processor time, `gpu` the kernel where JAX sees a GPU, and
`table` prints all of it side by side; all but `gpu` unless named. What is found is kept in FILE, so that parts may run
at different times; what it has is not compiled again. `--write` puts tables of it into README.md and docs/howto/gpu.md
of that folder, between the marks `<!-- gpu -->`.

A prediction is the least of four rates. Issue: a scheduler issues one instruction a cycle. Pipes: the units that
instructions share. Latency: the cycles that the compiler put between the instructions of one warp, divided among the
warps that fit beside each other, and one wait for the memory. Bandwidth: samples in, readings out. Blocks come in whole
waves. Samples and readings are on the card; what the bus between host and card would allow is shown beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

import jax
import rivals
from gpu_cards import BUS, CARDS, STREAMS, bounds

import icvi_jax as icvi

CORES = 2  # of a CPU, beside which GPUs are put: by its processor time, so that others on the machine do not count
TWO, SIX = ("xb", "db"), ("xb", "db", "ch", "pbm", "csil", "wb")


def pipeline(clusterer, names=TWO, **monitors):
    every = {e.index().name: e.index for e in icvi.indices.catalogue()}
    names = [name for name in every if name not in ("conn", "osil")] if names == "all" else names
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some of them are not defined for all streams
        panel = icvi.Panel(indices=tuple(every[name]() for name in names), forgetting=rivals.FORGETTING)
        return icvi.Pipeline(clusterer=clusterer, panel=panel, monitors=monitors)


def kmeans(k):
    return icvi.SequentialKMeans(k=k)


PIPELINES = {  # pipeline, p
    "k-means 2, p 1, XB": lambda: (pipeline(kmeans(2), ("xb",)), 1),
    "k-means 4, p 2, XB": lambda: (pipeline(kmeans(4), ("xb",)), 2),
    "k-means 4, p 2, XB DB": lambda: (pipeline(kmeans(4)), 2),
    "k-means 4, p 2, six indices": lambda: (pipeline(kmeans(4), SIX), 2),
    "k-means 4, p 2, 21 indices": lambda: (pipeline(kmeans(4), "all"), 2),
    "k-means 3, p 8, XB DB": lambda: (pipeline(kmeans(3)), 8),
    "k-means 10, p 2, XB DB": lambda: (pipeline(kmeans(10)), 2),
    "k-means 10, p 2, XB DB, Distress": lambda: (pipeline(kmeans(10), xb=icvi.Distress(factor=3.0)), 2),
    "k-means 10, p 2, six indices": lambda: (pipeline(kmeans(10), SIX), 2),
    "k-means 10, p 2, 21 indices": lambda: (pipeline(kmeans(10), "all"), 2),
    "k-means 16, p 2, XB DB": lambda: (pipeline(kmeans(16)), 2),
    "k-means 10, p 8, XB DB": lambda: (pipeline(kmeans(10)), 8),
    "OEC 4, p 2, XB DB": lambda: (pipeline(icvi.OnlineEllipsoidal(capacity=4)), 2),
    "OEC 8, p 2, XB DB": lambda: (pipeline(icvi.OnlineEllipsoidal(capacity=8)), 2),
    "OEC 16, p 2, XB DB": lambda: (pipeline(icvi.OnlineEllipsoidal(capacity=16)), 2),
    "merge and split 4, p 2, XB DB": lambda: (pipeline(icvi.MergeSplit(slots=4)), 2),
    "merge and split 8, p 2, XB DB": lambda: (pipeline(icvi.MergeSplit(slots=8)), 2),
}


def code(name):
    """What the compiler makes of one pipeline, for each architecture; nothing but sizes where it is left to XLA."""
    import gpu_code

    pipe, p = PIPELINES[name]()
    kernel = gpu_code.kernel_of(pipe, p)
    words = sum(len(part.items) for part in kernel.unrolled.state)
    outputs = sum(len(part.items) for part in kernel.unrolled.outputs)
    found = {"operations": kernel.operations, "words": words, "bytes": 4 * (p + outputs)}
    if not kernel.fits("triton"):
        return found
    start = time.process_time()
    ptx = gpu_code.portable(gpu_code.lowered(kernel, pipe, p))
    found["seconds"] = time.process_time() - start
    return found | {name: asdict(gpu_code.compiled(ptx, name)) for name in gpu_code.ARCHITECTURES}


def measured(name, make, clock, repeats=3):
    """Million samples a second of `run_fleet`, by a clock; `make` puts the samples where they shall be."""
    pipe, p = PIPELINES[name]()
    X = make(rivals.blobs(STREAMS, 32, 4, p))
    run = lambda: icvi.run_fleet(pipe, X, keep=("values", "label", "alarms"))  # noqa: E731
    times = []
    for _ in range(repeats + 1):
        start = clock()
        for a in run().readings.values.values():
            getattr(a, "block_until_ready", lambda: None)()
        times.append(clock() - start)
    return X.shape[0] * X.shape[1] / min(times[1:]) / 1e6


def table(results):
    """Everything, a line a pipeline and card."""
    print(f"\nrates in million samples a second, {STREAMS} streams; occupancy: warps of 64 beside each other")
    head = "regs spill occ. instr.    issue    pipes  latency  memory   bus | predicted measured |    CPU  ratio"
    for card_name, card in CARDS.items():
        print(f"\n{card_name:33s} {head}")
        for name, found in results["code"].items():
            if "seconds" not in found:
                print(f"{name:33s} {found['operations']:,} operations, {found['words']} words: left to XLA's scan")
                continue
            made = found[card.architecture]
            rates, warps = bounds(found, card)
            predicted, cpu = min(rates.values()), results.get("cpu", {}).get(name)
            ran = results.get("gpu", {}).get(card_name, {}).get(name)
            beside = f"{cpu:6.1f} {predicted / cpu:6.0f}" if cpu else "     ?      ?"
            print(
                f"{name:33s} {made['registers']:4d} {made['spilled']:5d} {warps:4d} {made['instructions']:6d} "
                + " ".join(f"{rates[n]:8.0f}" for n in ("issue", "pipes", "latency"))
                + f" {rates['bandwidth']:7.0f} {BUS / found['bytes'] / 1e6:5.0f} | {predicted:9.0f} "
                + (f"{ran:8.0f}" if ran else "  no GPU")
                + f" | {beside}"
            )
    print("\ninstructions of the PTX a sample, sm_80")
    for name, found in results["code"].items():
        if "seconds" not in found:
            continue
        parts = ", ".join(f"{n} {what}" for what, n in found["sm_80"]["classes"].items())
        print(f"{name:33s} {found['operations']:5d} operations: {parts}; {found['bytes']} bytes")


def predicted(results, name, card):
    return min(bounds(results["code"][name], card)[0].values())


def short_table(results):
    """Of the README: predictions beside two cores."""
    names = ("k-means 4, p 2, XB DB", "k-means 10, p 2, XB DB, Distress", "OEC 8, p 2, XB DB")
    heads = " | ".join(f"{card}, predicted" for card in CARDS)
    yield f"| {STREAMS:,} streams, million samples a second | 2 CPU cores, measured | {heads} |"
    yield "|---|---|" + "---|" * len(CARDS)
    for name in names:
        cpu = results["cpu"][name]
        rates = [predicted(results, name, card) for card in CARDS.values()]
        yield f"| {name} | {cpu:,.0f} | " + " | ".join(f"{rate:,.0f} ({rate / cpu:,.0f}×)" for rate in rates) + " |"


def long_table(results):
    """Of the page on GPUs: what each pipeline costs; numbers of A100 / H100."""
    heads = "operations × words | compile, s | registers | spilled, bytes | warps of 64 | instructions | bytes"
    yield f"| a sample, A100 / H100 | {heads} | predicted, million a second | 2 CPU cores |"
    yield "|---" * 10 + "|"
    for name, found in results["code"].items():
        size, cpu = f"{found['operations']:,} × {found['words']}", f"{results['cpu'][name]:,.0f}"
        if "seconds" not in found:
            yield f"| {name} | {size} | too large: XLA's scan" + " |" * 7 + f" {cpu} |"
            continue
        made = [found[card.architecture] for card in CARDS.values()]
        both = [" / ".join(str(one[what]) for one in made) for what in ("registers", "spilled")]
        warps = " / ".join(str(bounds(found, card)[1]) for card in CARDS.values())
        rates = " / ".join(f"{predicted(results, name, card):,.0f}" for card in CARDS.values())
        instructions = " / ".join(f"{one['instructions']:,}" for one in made)
        cells = [name, size, f"{found['seconds']:.0f}", *both, warps, instructions]
        yield "| " + " | ".join([*cells, str(found["bytes"]), rates, cpu]) + " |"


def write(results, root):
    """The tables, between their marks."""
    for file, table in (("README.md", short_table), ("docs/howto/gpu.md", long_table)):
        path = Path(root, file)
        text = path.read_text()
        before, after = text.split("<!-- gpu -->")[0], text.split("<!-- /gpu -->")[1]
        path.write_text(f"{before}<!-- gpu -->\n" + "\n".join(table(results)) + f"\n<!-- /gpu -->{after}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=["code", "cpu", "gpu", "table", []])
    parser.add_argument("--only", default="", help="pipelines whose name has this in it")
    parser.add_argument("--results", default="gpu.json", help="file to go on from and to write")
    parser.add_argument("--write", help="the folder of README.md and docs, to write the tables there")
    parser.add_argument("--jobs", type=int, default=1)
    chosen = parser.parse_args()
    parts = chosen.parts or ["code", "cpu", "table"]
    file = Path(chosen.results)
    results = json.loads(file.read_text()) if file.exists() else {}
    names = [name for name in PIPELINES if chosen.only in name]

    def keep(part, name, value):
        results.setdefault(part, {})[name] = value
        results[part] = dict(sorted(results[part].items(), key=lambda item: [*PIPELINES, item[0]].index(item[0])))
        file.write_text(json.dumps(results, indent=1))

    if "gpu" not in parts:
        # the plugin is here, and would complain that there is no card: in this process, and in those that compile
        os.environ["JAX_PLATFORMS"] = "cpu"
        jax.config.update("jax_platforms", "cpu")
    if "code" in parts:
        with ProcessPoolExecutor(chosen.jobs, get_context("spawn")) as pool:
            new = [name for name in names if name not in results.get("code", {})]
            for name, future in [(name, pool.submit(code, name)) for name in new]:
                keep("code", name, future.result())
                print(f"{name}: {results['code'][name].get('seconds', 0):.0f} s", file=sys.stderr, flush=True)
    if "cpu" in parts:
        for name in names:
            keep("cpu", name, CORES * measured(name, lambda X: X, time.process_time))
    if "gpu" in parts:
        kind = jax.devices()[0].device_kind
        card = next((card for card in CARDS if card in kind), kind)
        if jax.default_backend() == "cpu":
            raise SystemExit("JAX sees no GPU here; without one there are only predictions")
        for name in names:
            keep(
                "gpu",
                card,
                results.get("gpu", {}).get(card, {}) | {name: measured(name, jax.device_put, time.perf_counter)},
            )
    if "table" in parts and "code" in results:
        table(results)
    if chosen.write:
        write(results, chosen.write)


if __name__ == "__main__":
    main()
