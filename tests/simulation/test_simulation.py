"""Worlds of many seeds, and faults planted on purpose: see `world`."""

from __future__ import annotations

import pytest

for needed in ("apsw", "confluent_kafka", "paho"):
    pytest.importorskip(needed)

from planted import FAULTS  # noqa: E402
from world import SOURCES, Failure, simulate  # noqa: E402

SEEDS, WITHIN = 70, 1000


@pytest.mark.parametrize("source", SOURCES)
def test_every_sample_counts_once_whatever_happens(source):
    crashes = alarms = 0
    for seed in range(SEEDS):
        world = simulate(seed, source)
        crashes, alarms = crashes + len(world.events), alarms + len(set(world.printed))
    assert crashes > SEEDS and alarms > SEEDS // 2  # otherwise nothing was tested


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found(fault):
    for seed in range(WITHIN):
        try:
            simulate(seed, FAULTS[fault], fault)
        except Failure:
            return
    pytest.fail(f"{fault.__name__}: not found by {WITHIN} seeds")
