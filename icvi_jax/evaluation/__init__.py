"""How good alarms and partitions are, given the truth; always compared with controls that see no data.

>>> trial = Trial.of("pump", samples=1000, changes=[500, 700], tolerance=50)
>>> row = judge([trial], [[510, 900]])
>>> print(f"F1 {row.outcome.f1:.2f}, metronome {row.metronome.f1:.2f}")
F1 0.50, metronome 0.00
"""

from icvi_jax.evaluation.alarm_scores import (
    Outcome,
    Row,
    Score,
    Tally,
    Trial,
    bootstrap,
    covering,
    judge,
    match,
    metronome,
    numenta,
    outcome,
    tally,
)
from icvi_jax.evaluation.partitions import adjusted_rand_index, prequential, temporal_silhouette

__all__ = [
    "Outcome",
    "Row",
    "Score",
    "Tally",
    "Trial",
    "adjusted_rand_index",
    "bootstrap",
    "covering",
    "judge",
    "match",
    "metronome",
    "numenta",
    "outcome",
    "prequential",
    "tally",
    "temporal_silhouette",
]
