"""What became of `python -m icvi_jax.distributed`: fleets in several processes need no launcher of ours any more."""

import sys

MOVED = (
    "icvi_jax.distributed is gone since 0.3: jax.distributed.initialize() and icvi.scan on arrays of all processes do "
    "the same, and icvi.save keeps the streams of each process. docs/howto/several_processes.py is a whole program."
)

if __name__ == "__main__":
    sys.exit(MOVED)
