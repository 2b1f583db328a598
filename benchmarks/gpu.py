"""The kernels of a dozen pipelines, compiled for NVIDIA's cards without one: registers, spills, predicted rates.

    pip install '.[gpu-code]'
    python benchmarks/gpu.py [--only WORD] [--write docs/howto/gpu.md]

prints a table, and with `--write` puts it into that page, between its marks. A prediction is the least of the bounds of
`machine_code.predict_rate`. Where there is a card, its column comes first, and `python -m icvi_jax.gpu_check` measures.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import jax
from machine_code import Card, assemble, count_bytes, describe_card, predict_rate

from icvi_jax.gpu_check import kernel_of, list_pipelines

CARDS = {
    "A100": Card("sm_80", 108, 1.41e9, 1555e9, fma=2, double=4),
    "H100": Card("sm_90", 132, 1.755e9, 3350e9, fma=1, double=2),
    "B200": Card("sm_100", 148, 1.965e9, 8000e9, fma=1, double=2),
}
if jax.devices()[0].platform in ("gpu", "cuda"):
    CARDS = {jax.devices()[0].device_kind: describe_card(jax.devices()[0])} | CARDS


def rows(only):
    heads = "operations × words | PTX, s | machine code, s | registers | spilled, bytes | instructions | bytes"
    yield f"| a sample, {' / '.join(CARDS)} | {heads} | predicted, million a second |"
    yield "|---" * 9 + "|"
    for name, (pipe, p) in list_pipelines().items():
        if only not in name:
            continue
        start = time.process_time()
        kernel = kernel_of(pipe, p)
        kernel.ptx  # noqa: B018
        ptx = time.process_time() - start
        made = {card: assemble(kernel.ptx, card.architecture) for card in CARDS.values()}
        seconds = max(code.seconds for code in made.values())
        size = count_bytes(kernel, p)
        words = sum(len(part.items) for part in kernel.unrolled.state)
        rates = (f"{min(predict_rate(code, card, size).values()):,.0f}" for card, code in made.items())
        cells = [name, f"{len(kernel.flat.lanes):,} × {words}", f"{ptx:.1f}", f"{seconds:.1f}"]
        cells += [
            " / ".join(f"{getattr(code, what):,}" for code in made.values())
            for what in ("registers", "spilled", "instructions")
        ]
        yield f"| {' | '.join([*cells, str(size), ' / '.join(rates)])} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="pipelines whose name has this in it")
    parser.add_argument("--write", type=Path, help="the page to put the table into")
    chosen = parser.parse_args()
    found = []
    for row in rows(chosen.only):
        found.append(row)
        print(row, flush=True)
    if chosen.write:
        text = chosen.write.read_text()
        before, after = text.split("<!-- gpu -->")[0], text.split("<!-- /gpu -->")[1]
        chosen.write.write_text(f"{before}<!-- gpu -->\n" + "\n".join(found) + f"\n<!-- /gpu -->{after}")


if __name__ == "__main__":
    main()
