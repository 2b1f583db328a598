"""Cards, and the rates that the machine code of a kernel cannot exceed on them."""

from __future__ import annotations

import math
from dataclasses import dataclass

STREAMS, BUS = 65536, 25e9  # streams of a fleet; bytes a second over PCIe 4, 16 lanes, as measured by many


@dataclass(frozen=True)
class Card:
    """A GPU; rates in units a second, pipes in cycles that a warp's instruction takes of a scheduler's unit."""

    architecture: str
    processors: int
    clock: float
    bandwidth: float
    fma: int
    wait: int = 600  # cycles until a sample is there from the card's memory


CARDS = {
    "A100": Card("sm_80", 108, 1.41e9, 1555e9, 2),
    "H100": Card("sm_90", 132, 1.755e9, 3350e9, 1),
}


def bounds(found, card):
    """Million samples a second for a whole fleet by each bound, and the warps that a processor holds."""
    made = found[card.architecture]
    registers, pipes = math.ceil(made["registers"] / 8) * 8, made["pipes"]
    blocks = min(16, 65536 // (registers * 128))  # of four warps: one for each scheduler
    waves = math.ceil(STREAMS / 128 / (card.processors * blocks))
    fleet = STREAMS * card.clock / 1e6 / waves
    cycles = {
        "issue": blocks * made["instructions"],
        "pipes": blocks * max(2 * pipes["alu"], card.fma * pipes["fma"], 8 * pipes["special"], 4 * pipes["memory"]),
        "latency": made["stalls"] + card.wait,
    }
    rates = {name: fleet / n for name, n in cycles.items()}
    return rates | {"bandwidth": card.bandwidth / found["bytes"] / 1e6}, 4 * blocks
