"""A live fleet as a service: samples from a pipe or a broker, alarms out, nothing lost between two lives."""

from icvi_jax.watch.claims import Claim
from icvi_jax.watch.sample import Sample
from icvi_jax.watch.shard import Shard
