"""A live fleet as a service: samples come from a pipe or a broker, alarms go out, a restart loses nothing."""

from icvi_jax.watch.fencing import Claim
from icvi_jax.watch.sample import Sample
from icvi_jax.watch.shard import Shard
