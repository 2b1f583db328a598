"""Readers of two published recordings: SensorScope's weather stations and UCI's gas sensors."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from icvi_jax.spec import one_of, whole
from icvi_jax.streams.base import Recording, read_table

# The sixteen channels in file order: the same eight twice.
TYPES = ("tgs2602", "tgs2602", "tgs2600", "tgs2600", "tgs2610", "tgs2610", "tgs2620", "tgs2620") * 2
SENSORS = tuple(f"{kind}_{TYPES[:i].count(kind) + 1}" for i, kind in enumerate(TYPES))
GAS_COLUMNS = ("time", "gas", "ethylene", *SENSORS)


def read_gas(
    path: str | PathLike[str],
    sensors: Sequence[int] = (1, 2, 3, 4, 5, 6, 7, 8),
    rows: int = 100,
    start: int = 0,
    length: int | None = None,
    lines: int = 20_000,
) -> Recording:
    """Read block means of ``ethylene_CO.txt`` or ``ethylene_methane.txt``.

    After one header line, a line has 19 fields: time [s], set points of CO or methane and of ethylene [ppm], and
    sixteen sensors at 100 Hz: two each of TGS2602, TGS2600, TGS2610 and TGS2620, in this order, and the same again.
    A file has some 600 MB: it is read in pieces, and only the means stay. A file without its header is read as well.

    Each pair of set points is a mode, numbered in order of appearance. A block has the mode of its last row: a change
    is the first block with the new set point; the sensors react seconds to minutes later.

    Parameters
    ----------
    path : the file.
    sensors : which of the sixteen, from 1; the default is the first two of each type.
    rows : rows of a block; 100 are a second. Rows that do not fill a block at the end of the file are left out.
    start, length : first block and how many; None is to the end.
    lines : lines read at a time.

    Returns
    -------
    ``x`` (blocks, len(sensors)); times are the time field of each block's first row, in seconds. A ValueError says
    where a line is malformed, or that the file ends before the blocks asked for.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> row = "{:.2f} 0.00 {:.2f} " + "{} " * 16 + "\\n"
    >>> text = "Time (seconds), CO conc (ppm), Ethylene conc (ppm), sensor readings (16 channels)\\n"
    >>> text += "".join(row.format(n / 100, 0 if n < 200 else 16.7, *range(n, n + 16)) for n in range(400))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "ethylene_CO.txt"
    ...     _ = file.write_text(text)
    ...     recording = read_gas(file, sensors=(1, 9))
    >>> recording.x.tolist(), recording.features, recording.changes
    ([[49.5, 57.5], [149.5, 157.5], [249.5, 257.5], [349.5, 357.5]], ('tgs2602_1', 'tgs2602_3'), [2])
    """
    if not len(sensors) or len(set(sensors)) < len(sensors):
        raise ValueError(f"sensors must be different numbers, at least one, got {tuple(sensors)!r}")
    for sensor in sensors:
        whole("read_gas", "sensors", sensor)
        if sensor > len(SENSORS):
            raise ValueError(f"sensors must be from 1 to {len(SENSORS)}, got {sensor}")
    whole("read_gas", "rows", rows)
    whole("read_gas", "start", start, 0)
    if length is not None:
        whole("read_gas", "length", length)
    chosen = [2 + sensor for sensor in sensors]
    means, times, points, pending = [], [], [], np.empty((0, len(GAS_COLUMNS)))
    blocks, stop = 0, None if length is None else start + length
    for piece in read_table(path, GAS_COLUMNS, lines, header=_header(path)):
        pending = np.concatenate([pending, piece])
        ready = len(pending) // rows
        low, high = max(start - blocks, 0), ready if stop is None else min(ready, stop - blocks)
        if low < high:
            block = pending[low * rows : high * rows].reshape(high - low, rows, len(GAS_COLUMNS))
            means.append(block[:, :, chosen].mean(axis=1))
            times.append(block[:, 0, 0].copy())  # a view would keep all of the piece in memory
            points.append(block[:, -1, 1:3].copy())
        blocks += ready
        pending = pending[ready * rows :]
        if stop is not None and blocks >= stop:
            break
    kept = sum(map(len, means))
    if not kept or (length is not None and kept < length):
        few = f"{blocks} blocks of {rows} rows, too few for start={start}, length={length}"
        raise ValueError(f"{path}: the file has {few}")
    _, first, which = np.unique(np.concatenate(points), axis=0, return_index=True, return_inverse=True)
    mode = np.argsort(np.argsort(first))[which.reshape(-1)]  # in order of appearance
    changes = (1 + np.flatnonzero(np.diff(mode))).tolist()
    names = tuple(SENSORS[sensor - 1] for sensor in sensors)
    return Recording(np.concatenate(means), mode, np.zeros(kept, bool), changes, "gas", names, np.concatenate(times))


def _header(path: str | PathLike[str]) -> int:
    """The number of header lines, 1 or 0: skipping a first line of numbers would shift every block by a row."""
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        fields = file.readline().split()
    try:
        return 0 if len([float(field) for field in fields]) == len(GAS_COLUMNS) else 1
    except ValueError:
        return 1


TIME = ("station", "year", "month", "day", "hour", "minute", "second", "epoch")
MEASURED = (
    "ambient_temperature",
    "surface_temperature",
    "solar_radiation",
    "relative_humidity",
    "soil_moisture",
    "watermark",
    "rain",
    "wind_speed",
    "wind_direction",
)
DAY = 86_400
LONGEST = 3660
"""Most days of a file; one wrong clock makes a file seem longer."""

PAPER = np.array([0] * 6 + [1] + [2] * 2 + [0] * 5)
"""The paper's mode of each of the fourteen days."""


def read_sensorscope(
    path: str | PathLike[str],
    station: int | None = 18,
    start: str | None = "2007-10-10",
    days: int | None = 14,
    features: Sequence[str] = ("surface_temperature", "relative_humidity"),
    minutes: int = 10,
    utc_offset: float = 2.0,
    labels: Literal["none", "paper"] = "none",
    lines: int = 20_000,
) -> Recording:
    """Read means over fixed intervals from a meteo file: text separated by white space, without a header.

    A line has 17 fields: station, year, month, day, hour, minute, second, seconds since 1970 (UTC), then ambient and
    surface temperature [°C], solar radiation [W/m²], relative humidity [%], soil moisture [%], watermark [kPa], rain
    [mm], wind speed [m/s] and direction [°]. Some deployments have 18, with a sequence number after the time. The first
    line decides which of the two. ``NaN`` is a sensor that did not report. Lines may be in any order.

    The file is read in pieces, with only a sum and a count for each interval in memory. Intervals are by the seconds
    since 1970, because the calendar columns repeat an hour when summer time ends. Nothing is interpolated or cleaned:
    an interval without a reading is NaN, which the pipeline takes as a missing sample.

    Parameters
    ----------
    path : file such as ``stbernard-meteo-18.txt``.
    station : lines of other stations are left out; None: all stations.
    start, days, minutes : first local day, number of days and length of an interval, which must divide a day. None:
        from the first day with a reading, and to the last.
    features : which measurements, from ``icvi_jax.streams.readers.MEASURED``.
    utc_offset : hours by which local time is ahead; 2 is Swiss summer time.
    labels : ``"none"``: mode −1 everywhere, no changes. ``"paper"``: what the paper says about Le Genepi, station 18,
        from 2007-10-10: days 1–6 and 10–14 are mode 0, day 7 is mode 1, days 8–9 are mode 2. Only for this deployment.
    lines : lines read at a time.

    Returns
    -------
    ``x`` (days · 1440 / minutes, len(features)); times are local, datetime64[s], the start of each interval. A
    ValueError says where a line is malformed, or that nothing of the station is in the period.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> line = "18 2007 10 10 00 {m} 00 {t} 3.2 {s} 0 86 NaN NaN NaN 1.1 270\\n"
    >>> text = "".join(line.format(m=m, t=1191967200 + 60 * m, s=m) for m in (1, 3, 12))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "stbernard-meteo-18.txt"
    ...     _ = file.write_text(text)
    ...     recording = read_sensorscope(file, days=1)
    >>> recording.x.shape, recording.x[:2].tolist(), str(recording.times[1])
    ((144, 2), [[2.0, 86.0], [12.0, 86.0]], '2007-10-10T00:10:00')
    """
    columns = _columns(path)
    chosen = _check_sensorscope(station, start, days, features, minutes, labels, columns)
    step, offset = 60 * minutes, round(utc_offset * 3600)
    low = 0 if start is None else np.datetime64(start, "s").astype(np.int64) // step
    high = 2**40 if days is None or start is None else low + days * DAY // step
    sums: dict[int, NDArray[np.float64]] = {}  # of each interval since 1970, local time: sum and count of each feature
    stations: set[int] = set()
    for piece in read_table(path, columns, lines):
        mine = np.isfinite(piece[:, 7])  # lines without a time are left out
        if station is not None:
            stations.update(np.unique(piece[np.isfinite(piece[:, 0]), 0]).astype(int).tolist())
            mine &= piece[:, 0] == station
        piece = piece[mine]
        slot = (piece[:, 7] + offset) // step
        inside = (slot >= low) & (slot < high)
        reading = piece[inside][:, chosen]
        known = np.isfinite(reading)
        slots, which = np.unique(slot[inside][known.any(axis=1)].astype(np.int64), return_inverse=True)
        part = np.zeros((len(slots), 2, len(chosen)))
        np.add.at(part, which, np.stack([np.where(known, reading, 0.0), known], axis=1)[known.any(axis=1)])
        for each, values in zip(slots.tolist(), part):
            sums[each] = sums.get(each, 0) + values
    if not sums:
        whose = "any station" if station is None else f"station {station} (the file has {sorted(stations)})"
        when = "" if start is None else f" from {start}" if days is None else f" in the {days} days from {start}"
        raise ValueError(f"{path}: no reading of {whose}{when}")

    a_day = DAY // step
    first = min(sums) // a_day * a_day if start is None else int(low)
    bins = ((max(sums) - first) // a_day + 1 if days is None else days) * a_day
    if bins > LONGEST * a_day:
        raise ValueError(f"{path}: the times reach over {bins // a_day} days; give start and days")
    x = np.full((bins, len(chosen)), np.nan)
    for each, (total, count) in sums.items():
        if each - first < bins:
            x[each - first] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    mode = PAPER[np.arange(bins) // a_day] if labels == "paper" else np.full(bins, -1)
    changes = (1 + np.flatnonzero(np.diff(mode))).tolist()
    times = np.datetime64(0, "s") + (first + np.arange(bins)) * np.timedelta64(step, "s")
    return Recording(x, mode, np.zeros(bins, bool), changes, "sensorscope", tuple(features), times)


def _columns(path: str | PathLike[str]) -> tuple[str, ...]:
    """Find from the first line whether the file has the sequence number."""
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        number, line = next(((n, line) for n, line in enumerate(file, 1) if line.strip()), (1, ""))
    if not line:
        raise ValueError(f"{path}, line 1, column 1 (station): the file is empty")
    plain, sequenced = TIME + MEASURED, (*TIME, "sequence", *MEASURED)
    fields = len(line.split())
    if fields not in (len(plain), len(sequenced)):
        raise ValueError(
            f"{path}, line {number}, column {fields}: the line ends here; "
            f"a meteo file has {len(plain)} or {len(sequenced)} columns"
        )
    return plain if fields == len(plain) else sequenced


def _check_sensorscope(
    station: int | None,
    start: str | None,
    days: int | None,
    features: Sequence[str],
    minutes: int,
    labels: str,
    columns: Sequence[str],
) -> list[int]:
    """Check the arguments, and find the columns of the features."""
    if days is not None:
        whole("read_sensorscope", "days", days)
    whole("read_sensorscope", "minutes", minutes)
    one_of("read_sensorscope", "labels", labels, ("none", "paper"))
    try:
        day = np.datetime64(start or "NaT", "s")
    except ValueError:
        raise ValueError(f"start must be a date such as 2007-10-10, got {start!r}") from None
    if 1440 % minutes:
        raise ValueError(f"minutes must divide a day (1440), got {minutes}")
    if labels == "paper" and (station != 18 or day != np.datetime64("2007-10-10") or (days or 15) > 14):
        raise ValueError(
            "labels='paper' is for station=18, start='2007-10-10' and at most days=14, "
            f"got station={station}, start={start!r}, days={days}"
        )
    if isinstance(features, str) or not features:
        raise ValueError(f"features must be one or more names, got {features!r}")
    for feature in features:
        one_of("read_sensorscope", "features", feature, MEASURED)
    return [columns.index(feature) for feature in features]
