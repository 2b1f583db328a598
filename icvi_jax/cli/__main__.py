"""`python -m icvi_jax.cli` is the command `icvi`."""

import sys

from icvi_jax.cli import main

sys.exit(main())
