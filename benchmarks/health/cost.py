"""What `icvi.Health` adds to XB and DB: CPU time a sample, a fleet of 1024 streams, k = 10, p = 2.

    python benchmarks/health/cost.py

Both pipelines take turns, and the least of the turns counts: what else runs on the machine hurts both alike.
"""

import time

import jax
import jax.numpy as jnp

import icvi_jax as icvi

STREAMS, SAMPLES, TURNS = 1024, 1000, 15
PAIR = (icvi.XieBeni(), icvi.DaviesBouldin())
PANELS = {"XB and DB": PAIR, "with health": (*PAIR, icvi.Health())}


def main() -> None:
    """Measure and print."""
    x = 3 * jax.random.normal(jax.random.key(0), (STREAMS, SAMPLES, 2), jnp.float32)
    pipes = {
        name: icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=10), panel=icvi.Panel(indices=indices, forgetting=0.9))
        for name, indices in PANELS.items()
    }
    least = dict.fromkeys(pipes, float("inf"))
    for turn in range(TURNS + 1):
        for name, pipe in pipes.items():
            start = time.process_time()
            jax.block_until_ready(icvi.run_fleet(pipe, x, keep=("values",)).readings.values)
            if turn:  # the first compiles
                least[name] = min(least[name], time.process_time() - start)
    each = {name: 1e6 * seconds / (STREAMS * SAMPLES) for name, seconds in least.items()}
    print(", ".join(f"{name}: {cost:.4f} µs" for name, cost in each.items()), end="; ")
    print(f"health adds {each['with health'] - each['XB and DB']:.4f} µs of CPU time a sample")


if __name__ == "__main__":
    main()
