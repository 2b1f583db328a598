"""Read and write the files of users: delimited text, Parquet, NPY, NPZ, and tables in memory."""

from icvi_jax.tables.dataframes import from_frame as from_frame
from icvi_jax.tables.fleet import read_fleet as read_fleet
from icvi_jax.tables.read import read as read
from icvi_jax.tables.table import Fleet as Fleet
from icvi_jax.tables.table import Table as Table
from icvi_jax.tables.table import TableError as TableError
from icvi_jax.tables.window_means import resample as resample
from icvi_jax.tables.write import as_text as as_text
from icvi_jax.tables.write import whole as whole
from icvi_jax.tables.write import write_table as write_table
