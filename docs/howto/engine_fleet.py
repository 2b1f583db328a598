"""A recorded fleet on Ray or on Spark; rows are (node, time, x, y).

python engine_fleet.py ray IN.parquet OUT
python engine_fleet.py spark IN.parquet OUT          or spark-submit
"""

import sys
import zlib

import numpy as np
import pandas as pd

import icvi_jax as icvi

COLUMNS, GROUPS = ["x", "y"], 8


def validated(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of some nodes with their indices; a node's result does not depend on the others in its group."""
    pipe = icvi.Pipeline(
        clusterer=icvi.SequentialKMeans(k=3),
        panel=icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.9),
    )
    rows = rows.sort_values(["node", "time"], ignore_index=True)
    nodes, place = np.unique(rows["node"].to_numpy(str), return_inverse=True)
    tick = rows.groupby("node").cumcount().to_numpy()
    X = np.full((len(nodes), tick.max() + 1, len(COLUMNS)), np.nan)  # nodes that end early are padded
    X[place, tick] = rows[COLUMNS]
    values = icvi.run_fleet(pipe, X, keep=("values",), backend="numpy").readings.values
    return rows[["node", "time"]].assign(**{name: found[place, tick] for name, found in values.items()})


def group_of(nodes: pd.Series) -> np.ndarray:
    """The group of each node, the same on every machine."""
    return np.array([zlib.crc32(str(node).encode()) % GROUPS for node in nodes])


def on_ray(source: str, target: str) -> None:
    """Read, group, validate and write, on as many machines as the cluster has."""
    import ray

    table = ray.data.read_parquet(source)
    table = table.map_batches(lambda rows: rows.assign(group=group_of(rows["node"])), batch_format="pandas")
    table.groupby("group").map_groups(validated, batch_format="pandas").write_parquet(target)


def on_spark(source: str, target: str) -> None:
    """The same on Spark, whose own hash makes the groups."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    spark = SparkSession.builder.getOrCreate()
    table = spark.read.parquet(source)
    group = F.pmod(F.hash("node"), F.lit(GROUPS))
    found = table.groupBy(group).applyInPandas(validated, "node string, time long, xb double, db double")
    found.write.mode("overwrite").parquet(target)
    spark.stop()


if __name__ == "__main__":
    {"ray": on_ray, "spark": on_spark}[sys.argv[1]](*sys.argv[2:])
