"""Readers and writers of people's files: delimited text, Parquet, NPY, NPZ, and tables in memory."""

from .fleet import read_fleet
from .frames import from_frame, is_frame
from .read import read
from .table import Fleet, Table, TableError
from .windows import resample
from .write import as_text, whole, write_table

__all__ = [
    "Fleet",
    "Table",
    "TableError",
    "as_text",
    "from_frame",
    "is_frame",
    "read",
    "read_fleet",
    "resample",
    "whole",
    "write_table",
]
