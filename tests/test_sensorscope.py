"""The reader of SensorScope meteo files, on small files written in their format."""

from __future__ import annotations

import numpy as np
import pytest

from icvi_jax.streams import Recording, read_sensorscope
from icvi_jax.streams.readers import MEASURED

START = 1191967200  # 2007-10-10 00:00 Swiss summer time, which is 2007-10-09 22:00 UTC


def meteo_line(second, station=18, sequence=None, **values):
    """One line of a meteo file, each measurement a different number unless given."""
    local = np.datetime64(int(float(second)) % 10**10 + 7200, "s").astype("datetime64[s]").item()
    names = ("ambient", "surface", "solar", "humidity", "soil", "watermark", "rain", "wind", "direction")
    measured = [str(values.get(name, 1000 + i)) for i, name in enumerate(names)]
    head = [str(station), local.strftime("%Y %m %d %H %M %S"), str(second)]
    return " ".join(head + ([] if sequence is None else [str(sequence)]) + measured) + "\n"


def two_weeks(rng, sequence):
    """Irregular readings every two minutes or so, shuffled, sensors missing, and neighbours in time and station."""
    seconds = np.sort(rng.choice(np.arange(START - 7200, START + 15 * 86400), size=9000, replace=False))
    seconds = seconds[(seconds < START + 86400) | (seconds >= START + 86400 + 3600)]  # an hour of silence
    surface, humidity = rng.normal(size=(2, len(seconds)))
    humidity[rng.random(len(seconds)) < 0.1] = np.nan
    lines = [
        meteo_line(t, surface=s, humidity="NaN" if np.isnan(h) else h, sequence=i if sequence else None)
        for i, (t, s, h) in enumerate(zip(seconds.tolist(), surface.tolist(), humidity.tolist()))
    ]
    lines += [meteo_line(START + i, station=17, sequence=i if sequence else None) for i in range(50)]
    rng.shuffle(lines)
    return seconds, surface, humidity, "".join(lines)


@pytest.mark.parametrize("sequence", [False, True], ids=["17 columns", "18 columns"])
@pytest.mark.parametrize("lines", [777, 20_000])
def test_sensorscope_means_equal_a_direct_computation(write, sequence, lines):
    seconds, surface, humidity, text = two_weeks(np.random.default_rng(0), sequence)
    recording = read_sensorscope(write(text), lines=lines)
    assert isinstance(recording, Recording) and recording.x.shape == (2016, 2)
    assert recording.features == ("surface_temperature", "relative_humidity")
    for n in range(2016):
        here = (seconds >= START + 600 * n) & (seconds < START + 600 * (n + 1))
        for column, values in enumerate((surface, humidity)):
            known = values[here][~np.isnan(values[here])]
            expected = known.mean() if len(known) else np.nan
            np.testing.assert_allclose(recording.x[n, column], expected, rtol=1e-12, atol=1e-12)
    assert np.isnan(recording.x[144:150]).all()
    assert str(recording.times[0]) == "2007-10-10T00:00:00" and str(recording.times[-1]) == "2007-10-23T23:50:00"
    assert (recording.mode == -1).all() and recording.changes == [] and not recording.noise.any()


def test_sensorscope_interval_is_closed_at_its_start_and_open_at_its_end(write):
    values = {-1: 5, 0: 1, 599: 3, 600: 7, 86399: 9, 86400: 11}
    text = "".join(meteo_line(START + t, surface=value) for t, value in values.items())
    recording = read_sensorscope(write(text), days=1, features=["surface_temperature"])
    assert recording.x.shape == (144, 1)
    assert recording.x[[0, 1, 143], 0].tolist() == [2, 7, 9] and np.isnan(recording.x[2:143]).all()


def test_sensorscope_every_feature_has_its_own_column(write):
    for sequence in (None, 4711):
        recording = read_sensorscope(write(meteo_line(START, sequence=sequence)), days=1, features=MEASURED)
        assert recording.x[0].tolist() == list(range(1000, 1009))


def test_sensorscope_options_and_labels(write):
    path = write("".join(meteo_line(START + 3600 * h, station=18 + h % 2, surface=h) for h in range(336)))
    recording = read_sensorscope(path, labels="paper")
    assert recording.changes == [6 * 144, 7 * 144, 9 * 144]
    days = recording.mode.reshape(14, 144)
    assert days[:, 0].tolist() == [0] * 6 + [1, 2, 2] + [0] * 5 and (days == days[:, :1]).all()
    hourly = read_sensorscope(path, station=None, minutes=60, utc_offset=1, start="2007-10-09", days=2)
    assert hourly.x.shape == (48, 2) and hourly.x[23:, 0].tolist() == list(range(25))
    only = read_sensorscope(path, station=19, minutes=60, days=1)
    assert np.nansum(only.x[:, 0]) == sum(range(1, 24, 2)) and np.isnan(only.x[::2, 0]).all()


def test_sensorscope_whole_file(write):
    late = START + 400 * 86400  # the deployment was another one
    text = "".join(meteo_line(late + 3600 * h, surface=h) for h in (5, 30, 2)) + meteo_line("1e300", surface=9)
    whole = read_sensorscope(write(text), start=None, days=None, minutes=60)
    assert whole.x.shape == (48, 2) and whole.x[[2, 5, 30], 0].tolist() == [2, 5, 30] and np.isnan(whole.x[0, 0])
    assert whole.times[0] == np.datetime64(late + 7200, "s")
    assert read_sensorscope(write(text), start=None, days=1, minutes=60).x.shape == (24, 2)
    since = str(whole.times[24].astype("datetime64[D]"))
    assert read_sensorscope(write(text), start=since, days=None, minutes=60).x[:, 0].tolist()[6] == 30
    with pytest.raises(ValueError, match=r"reach over \d+ days; give start and days"):
        read_sensorscope(write(text + meteo_line(0)), start=None, days=None)


def test_sensorscope_byte_order_mark_blank_lines_and_windows_endings(write):
    text = "\n" + meteo_line(START, surface=2).replace("\n", "\r\n") + "\n\n" + meteo_line(START + 1, surface=4)
    assert read_sensorscope(write(text, encoding="utf-8-sig"), days=1).x[0, 0] == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"file\.txt, line 1, column 1 \(station\): the file is empty"),
        ("18 2007 10\n", r"file\.txt, line 1, column 3: the line ends here; a meteo file has 17 or 18 columns"),
        (
            meteo_line(START) * 3 + meteo_line(START, surface="abc"),
            r"file\.txt, line 4, column 10 \(surface_temperature\): not a number: 'abc'",
        ),
        (
            meteo_line(START, sequence=1) + "\n" + meteo_line(START, sequence="x"),
            r"file\.txt, line 3, column 9 \(sequence\): not a number: 'x'",
        ),
        (
            meteo_line(START) + meteo_line(START)[:-6] + "\n",
            r"file\.txt, line 2, column 17 \(wind_direction\): missing, the line has 16 of 17 columns",
        ),
        (meteo_line(START) + meteo_line(START, sequence=1), r"file\.txt, line 2, column 18: one column too many"),
        (meteo_line(START, station=17), r"file\.txt: no reading of station 18 \(the file has \[17\]\) in the 14 days"),
        (meteo_line(START - 1), r"no reading of station 18 \(the file has \[18\]\) in the 14 days from 2007-10-10"),
        (meteo_line(START, surface="NaN", humidity="NaN"), "no reading of station 18"),
    ],
)
@pytest.mark.parametrize("lines", [2, 20_000])
def test_sensorscope_errors_name_file_line_and_column(write, text, message, lines):
    with pytest.raises(ValueError, match=message):
        read_sensorscope(write(text), lines=lines)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"days": 0}, r"days=0\): expected an integer of at least"),
        ({"minutes": 7}, r"minutes must divide a day \(1440\), got 7"),
        ({"start": "October"}, "start must be a date such as 2007-10-10, got 'October'"),
        ({"features": ("humidity",)}, r"features='humidity'\): choose one of 'ambient_temperature'"),
        ({"features": ()}, r"features must be one or more names, got \(\)"),
        ({"features": "rain"}, "features must be one or more names, got 'rain'"),
        ({"labels": "guess"}, r"labels='guess'\): choose one of "),
        ({"labels": "paper", "days": 15}, "labels='paper' is for .* got station=18, start='2007-10-10', days=15"),
        ({"labels": "paper", "station": 17}, "labels='paper' is for .* got station=17"),
        ({"labels": "paper", "start": "2007-10-11"}, "labels='paper' is for .* start='2007-10-11'"),
        ({"lines": 0}, r"lines=0\): expected an integer of at least"),
    ],
)
def test_sensorscope_bad_arguments_are_named(write, options, message):
    with pytest.raises(ValueError, match=message):
        read_sensorscope(write(meteo_line(START)), **options)
