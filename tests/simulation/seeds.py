"""Simulate a watch with many seeds, or repeat one.

    python tests/simulation/seeds.py --seeds 10000
    python tests/simulation/seeds.py --source mqtt --seed 4711
    python tests/simulation/seeds.py --planted

Prints for each source how many seeds there were, crashes in them, operations on the disk, and failures; with
`--planted`, the first seed that finds each planted fault.
"""

import argparse
import sys
import time

from planted import FAULTS
from world import SOURCES, Failure, simulate


def search(source, seeds):
    """Failures of these seeds, with counts."""
    start, failures, crashes, operations = time.process_time(), [], 0, 0
    for seed in seeds:
        try:
            world = simulate(seed, source)
            crashes, operations = crashes + len(world.events), operations + world.disk.count
        except Failure as failure:
            failures.append(str(failure))
            print(failure, flush=True)
    seconds = time.process_time() - start
    print(f"{source}: {len(seeds):,} seeds, {crashes:,} crashes, {operations:,} operations on the disk", end=", ")
    print(f"{len(failures)} failures, {seconds:.0f} s of CPU time", flush=True)
    return not failures


def main(argv=None):
    """The command."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seeds", type=int, default=10_000, help="in all, shared by the sources")
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--seed", type=int)
    options.add_argument("--source", choices=SOURCES)
    options.add_argument("--planted", action="store_true")
    given = options.parse_args(argv)
    if given.planted:
        for fault, source in FAULTS.items():
            found = None
            for seed in range(1000):
                try:
                    simulate(seed, source, fault)
                except Failure as failure:
                    found = seed, str(failure)
                    break
            print(f"{fault.__name__} ({source}): {'not found' if found is None else f'seed {found[0]}'}", flush=True)
        return 0
    sources = [given.source] if given.source else SOURCES
    each = -(-given.seeds // len(sources))
    seeds = [given.seed] if given.seed is not None else range(given.first, given.first + each)
    fine = [search(source, seeds) for source in sources]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
