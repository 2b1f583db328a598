"""A recorded fleet on Spark: `spark-submit spark_fleet.py IN.parquet OUT`; rows are (node, time, x, y)."""

import sys

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

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


def main(source: str, target: str) -> None:
    """Read, group, validate and write, on as many machines as the cluster has."""
    spark = SparkSession.builder.getOrCreate()
    table = spark.read.parquet(source)
    group = F.pmod(F.hash("node"), F.lit(GROUPS))
    found = table.groupBy(group).applyInPandas(validated, "node string, time long, xb double, db double")
    found.write.mode("overwrite").parquet(target)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
