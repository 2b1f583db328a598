"""How good alarms and partitions are, given the truth; always compared with controls that see no data.

>>> trial = Trial.of("pump", samples=1000, changes=[500, 700], tolerance=50)
>>> row = judge([trial], [[510, 900]])
>>> print(f"F1 {row.outcome.f1:.2f}, metronome {row.metronome.f1:.2f}")
F1 0.50, metronome 0.00
"""

from icvi_jax.evaluation.alarm_scores import Outcome as Outcome
from icvi_jax.evaluation.alarm_scores import Row as Row
from icvi_jax.evaluation.alarm_scores import Score as Score
from icvi_jax.evaluation.alarm_scores import Tally as Tally
from icvi_jax.evaluation.alarm_scores import Trial as Trial
from icvi_jax.evaluation.alarm_scores import bootstrap as bootstrap
from icvi_jax.evaluation.alarm_scores import covering as covering
from icvi_jax.evaluation.alarm_scores import judge as judge
from icvi_jax.evaluation.alarm_scores import match as match
from icvi_jax.evaluation.alarm_scores import metronome as metronome
from icvi_jax.evaluation.alarm_scores import numenta as numenta
from icvi_jax.evaluation.alarm_scores import outcome as outcome
from icvi_jax.evaluation.alarm_scores import tally as tally
from icvi_jax.evaluation.partitions import adjusted_rand_index as adjusted_rand_index
from icvi_jax.evaluation.partitions import prequential as prequential
from icvi_jax.evaluation.partitions import temporal_silhouette as temporal_silhouette
from icvi_jax.spec import public_names as _public_names

globals()["__all__"] = _public_names(globals())
