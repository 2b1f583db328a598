"""Read and write the files of users: delimited text, Parquet, NPY, NPZ, and tables in memory."""

from icvi_jax.tables.dataframes import from_frame
from icvi_jax.tables.fleet import read_fleet
from icvi_jax.tables.read import read
from icvi_jax.tables.table import Fleet, Table, TableError
from icvi_jax.tables.window_means import resample
from icvi_jax.tables.write import as_text, whole, write_table

__all__ = [
    "Fleet",
    "Table",
    "TableError",
    "as_text",
    "from_frame",
    "read",
    "read_fleet",
    "resample",
    "whole",
    "write_table",
]
