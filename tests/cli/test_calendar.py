"""Times in several columns are one time, and the sentence says so."""

from __future__ import annotations

import numpy as np
import pytest

from icvi_jax.tables import read, read_fleet

V = np.random.default_rng(0).normal(size=60).round(3)
HOURS = [(1 + n // 24, n % 24) for n in range(60)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Date;Time;v\n" + "".join(f"{d:02d}/03/2004;{h:02d}.00.00;{v}\n" for (d, h), v in zip(HOURS, V)), "Date Time"),
        ("day,clock,v\n" + "".join(f"2004-03-{d:02d},{h:02d}:00,{v}\n" for (d, h), v in zip(HOURS, V)), "day clock"),
        (
            "No,year,month,day,hour,v\n"
            + "".join(f"{n},2004,3,{d},{h},{v}\n" for n, ((d, h), v) in enumerate(zip(HOURS, V))),
            "year month day hour",
        ),
    ],
    ids=["date and clock", "iso", "calendar"],
)
def test_several_columns_are_one_time(tmp_path, text, names):
    (tmp_path / "in.csv").write_text(text)
    table = read(tmp_path / "in.csv")
    assert table.features == ("v",) and table.time_name == names
    assert str(table.times[0]) == "2004-03-01T00:00:00.000000" and str(table.times[-1]).startswith("2004-03-03T11:00")
    assert "together are the time (--time chooses another)" in " ".join(table.notes)


def test_what_is_no_calendar_stays_apart(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("year,month,day,v\n" + "".join(f"2004,{13 + n % 3},{n % 28},{v}\n" for n, v in enumerate(V)))
    assert read(path).time_name == ""
    path.write_text(
        "date,start,v\n" + "".join(f"2004-03-01 {n % 24:02d}:30,{n % 24:02d}:00,{V[n]}\n" for n in range(24))
    )
    assert read(path).time_name == "date", "which has the time of day already"
    assert read(path, time="date").time_name == "date"


def test_a_fleet_has_the_same_times(tmp_path):
    rows = [f"2004-03-{d:02d},{h:02d}:00,{n},{v}\n" for (d, h), v in zip(HOURS, V) for n in "ab"]
    (tmp_path / "in.csv").write_text("date,time,node,v\n" + "".join(rows))
    fleet = read_fleet(tmp_path / "in.csv")
    assert fleet.x.shape == (2, 60, 1) and fleet.features == ("v",) and fleet.time_name == "date time"
