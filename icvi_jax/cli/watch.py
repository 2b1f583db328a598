"""`icvi watch`: live samples from standard input or a broker, alarms on standard output."""

from __future__ import annotations

import io
import sys
from pathlib import Path

from icvi_jax.cli.model import pipeline_of
from icvi_jax.cli.options import Model
from icvi_jax.cli.programs import remember_programs
from icvi_jax.watch.fleet import Watch
from icvi_jax.watch.lines import Reader
from icvi_jax.watch.service import Service, serve


def watch_command(reader: Reader, checkpoint: Path | None, keep_old: bool, service: Service, model: Model) -> int:
    """Watch until the input ends or somebody ends it."""
    if checkpoint is not None and checkpoint.exists() and not checkpoint.is_dir():
        raise ValueError(f"--checkpoint {checkpoint}: is a file, expected a folder")
    remember_programs()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # JSON is, whatever the terminal speaks
    serve(Watch(pipeline_of(model), reader, checkpoint, keep_old=keep_old), service)
    return 0
