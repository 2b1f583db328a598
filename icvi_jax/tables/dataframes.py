"""Tables in memory: pandas, polars, Arrow and all others that narwhals or the Arrow interface knows."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from icvi_jax.tables.column_kinds import is_time_name, may_be_time
from icvi_jax.tables.columns import from_epoch, sift
from icvi_jax.tables.table import Table, TableError, check_samples, truth_of

if TYPE_CHECKING:
    from narwhals import Series
    from narwhals.typing import IntoSeries

NAME = "table"  # of the stream, in messages


def from_frame(data: object) -> Table:
    """Read one stream from a pandas, polars, Arrow, … table; narwhals reads it, and must be installed.

    Columns are chosen as in `read`.

    Examples
    --------
    >>> import polars
    >>> from_frame(polars.DataFrame({"a": [1.0, None], "b": [2, 3], "note": ["x", "y"]})).x.tolist()
    [[1.0, 2.0], [nan, 3.0]]
    """
    import narwhals

    frame = narwhals.from_native(data)  # type: ignore[call-overload]  # it raises where it cannot
    if isinstance(frame, narwhals.LazyFrame):
        frame = frame.collect()
    if not all(isinstance(name, str) for name in frame.columns):  # pandas takes numbers as names
        frame = frame.rename({name: str(name) for name in frame.columns})
    schema = frame.schema
    dates = [key for key, kind in schema.items() if kind.is_temporal()]
    numeric = [key for key, kind in schema.items() if kind.is_numeric() or kind == narwhals.Boolean]
    likely = (key for key in numeric if may_be_time(key, _floats(frame[key])))
    time = next(chain(dates, filter(is_time_name, numeric), likely), "")
    label = next((key for key in schema if key.lower() == "label"), "")
    rest = [key for key in schema if key not in (time, label)]
    text = [key for key in rest if key not in numeric]
    notes = [f"left out: {', '.join(map(repr, text))}"] if text else []
    features = tuple(key for key in rest if key in numeric)
    if not features:
        raise TableError(NAME, "; ".join(["no column of numbers", *notes]))
    x = np.column_stack([_floats(frame[key]) for key in features])
    features, x = sift(NAME, features, x, notes, False, keep_codes=True)
    axis = None
    if time:
        values = frame[time]
        if isinstance(values.dtype, narwhals.Datetime) and values.dtype.time_zone:  # in UTC
            values = values.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        axis = from_epoch(values.cast(narwhals.Datetime("us")).to_numpy() if time in dates else _floats(values))
    truth, marks = truth_of(frame[label].to_numpy() if label else None)
    return Table(NAME, features, check_samples(NAME, x, features), axis, time, truth, tuple(notes), marks)


def _floats(values: Series[IntoSeries]) -> NDArray[np.float64]:
    import narwhals

    return np.asarray(values.cast(narwhals.Float64).to_numpy(), np.float64)
