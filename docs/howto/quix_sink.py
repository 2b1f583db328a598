"""A sink for Quix Streams that holds a shard for each partition it gets: `python quix_sink.py BROKER TOPIC FOLDER`."""

import json
import sys
from pathlib import Path

from quixstreams.sinks.base import BatchingSink, SinkBatch

import icvi_jax as icvi
from icvi_jax.watch import Claim, Shard

PIPE = icvi.Pipeline(
    clusterer=icvi.SequentialKMeans(k=2),
    panel=icvi.Panel(indices=(icvi.XieBeni(),), forgetting=0.9),
    monitors={"xb": icvi.Distress()},
)


class Validity(BatchingSink):
    """Counts each reading once: offsets are in the checkpoints, beside the states that they belong to."""

    def __init__(self, pipe: icvi.Pipeline, features: list[str], folder: Path):
        super().__init__()
        self.pipe, self.features, self.folder = pipe, features, folder
        self.held: dict[str, tuple[Claim, Shard]] = {}

    def write(self, batch: SinkBatch) -> None:
        """Called before Quix Streams commits its offsets: what is not saved comes again."""
        name = f"{batch.topic}-{batch.partition}"
        if name not in self.held or self.held[name][1].positions.get("offset", 0) < batch.start_offset:
            claim = Claim(self.folder / name)  # a new partition, or one that somebody else had meanwhile
            self.held[name] = claim, claim.load(self.pipe) or Shard(self.pipe, self.features, id=name)
        claim, shard = self.held[name]
        done = shard.positions.get("offset", 0)
        new = [item for item in batch if item.offset >= done]
        alarms = shard.take([(r["node"], r["time"], [r[f] for f in self.features]) for r in (i.value for i in new)])
        for alarm in alarms:
            print(json.dumps(alarm), flush=True)
        if new:
            claim.save(shard, {"offset": new[-1].offset + 1})


def main(broker: str, topic: str, folder: str, **options: object) -> None:
    """Read until somebody ends it; start it on as many machines as there are partitions at most."""
    from quixstreams import Application

    app = Application(broker, consumer_group="icvi", auto_offset_reset="earliest", loglevel="WARNING", **options)
    readings = app.dataframe(app.topic(topic, value_deserializer="json"))
    readings = readings[readings["celsius"] < 1000]  # whatever Quix Streams can do comes before
    readings.sink(Validity(PIPE, ["celsius"], Path(folder)))
    app.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
