"""The reader of the gas sensor array recordings, on small files written in their format."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from icvi_jax.streams import read_gas
from icvi_jax.streams.readers import GAS_COLUMNS, SENSORS

HEADER = "Time (seconds), CO conc (ppm), Ethylene conc (ppm), sensor readings (16 channels)\n"


def gas_file(rng, rows=1050, switch=(330, 700)):
    """Readings and set points that switch at two rows, the second time back to where they were."""
    table = np.concatenate([np.arange(rows)[:, None] / 100, np.zeros((rows, 2)), rng.normal(size=(rows, 16))], axis=1)
    table[switch[0] : switch[1], 1:3] = (533.33, 16.67)
    body = "\n".join("\t".join(f"{value:.6f}" for value in row) for row in table)
    return np.round(table, 6), HEADER + body + "\n"


@pytest.mark.parametrize("lines", [1, 37, 250, 20_000])
def test_gas_means_equal_a_direct_computation(write, lines):
    table, text = gas_file(np.random.default_rng(0))
    recording = read_gas(write(text), lines=lines)
    expected = table[:1000].reshape(10, 100, 19).mean(axis=1)[:, 3:11]
    np.testing.assert_allclose(recording.x, expected, atol=1e-12)
    np.testing.assert_allclose(recording.times, np.arange(10))
    assert recording.mode.tolist() == [0, 0, 0, 1, 1, 1, 1, 0, 0, 0] and recording.changes == [3, 7]
    assert recording.name == "gas" and not recording.noise.any()
    headless = write(text.split("\n", 1)[1], "headless.txt")
    np.testing.assert_array_equal(read_gas(headless, lines=lines).x, recording.x)


def test_gas_default_is_two_of_each_type(write):
    kinds = [name.split("_")[0] for name in read_gas(write(gas_file(np.random.default_rng(0))[1])).features]
    assert sorted(kinds) == sorted(["tgs2600", "tgs2602", "tgs2610", "tgs2620"] * 2)
    assert SENSORS[8:12] == ("tgs2602_3", "tgs2602_4", "tgs2600_3", "tgs2600_4")
    assert len(GAS_COLUMNS) == 19 and len(set(GAS_COLUMNS)) == 19


@pytest.mark.parametrize("lines", [37, 20_000])
def test_gas_options(write, lines):
    table, text = gas_file(np.random.default_rng(1))
    path = write(text)
    part = read_gas(path, sensors=(16, 9), rows=50, start=3, length=7, lines=lines)
    np.testing.assert_allclose(part.x, table[150:500].reshape(7, 50, 19).mean(axis=1)[:, [18, 11]], atol=1e-12)
    assert part.features == ("tgs2620_4", "tgs2602_3") and part.changes == [3]
    np.testing.assert_allclose(part.times, np.arange(1.5, 5, 0.5))
    np.testing.assert_array_equal(read_gas(path, start=8, lines=lines).x, read_gas(path).x[8:])


def test_gas_modes_are_numbered_as_they_appear(write):
    table, _ = gas_file(np.random.default_rng(2), rows=40)
    table[:, 1:3] = np.repeat([[9, 1], [0, 0], [9, 1], [5, 5]], 10, axis=0)
    path = write(HEADER + "\n".join(" ".join(map(str, row)) for row in table.tolist()))
    assert read_gas(path, rows=10).mode.tolist() == [0, 1, 0, 2]


def test_gas_stops_reading_after_the_blocks_asked_for(write):
    path = write(gas_file(np.random.default_rng(4))[1] + "rubbish\n")
    assert len(read_gas(path, length=3, lines=100).x) == 3
    with pytest.raises(ValueError, match=r"line 1052, column 1 \(time\): not a number: 'rubbish'"):
        read_gas(path, lines=100)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda rows: rows[:5] + [rows[5].replace("\t", "\tx", 1)] + rows[6:],
            r"file\.txt, line 6, column 2 \(gas\): not a number: 'x",
        ),
        # Python reads 1_000 as a number, NumPy and the format do not.
        (lambda rows: rows[:1] + [rows[1] + "_0"] + rows[2:], r"line 2, column 19 \(tgs2620_4\): not a number"),
        (
            lambda rows: rows[:7] + [rows[7].rsplit("\t", 1)[0]] + rows[8:],
            r"file\.txt, line 8, column 19 \(tgs2620_4\): missing, the line has 18 of 19 columns",
        ),
        (
            lambda rows: rows[:7] + [rows[7] + "\t1"] + rows[8:],
            r"file\.txt, line 8, column 20: one column too many, the line has 20, expected 19",
        ),
        (lambda rows: [row + "\t1" for row in rows], r"file\.txt, line 2, column 20: one column too many"),
        (lambda rows: rows[:50], r"file\.txt: the file has 0 blocks of 100 rows, too few for start=0, length=None"),
        (lambda rows: [], r"file\.txt: the file has 0 blocks"),
    ],
)
def test_gas_errors_name_file_line_and_column(write, change, message):
    rows = gas_file(np.random.default_rng(5))[1].splitlines()
    with pytest.raises(ValueError, match=message):
        read_gas(write("\n".join(change(rows))))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sensors": ()}, r"sensors must be different numbers, at least one, got \(\)"),
        ({"sensors": (1, 1)}, r"sensors must be different numbers, at least one, got \(1, 1\)"),
        ({"sensors": (0,)}, r"sensors=0\): expected an integer of at least"),
        ({"sensors": (17,)}, "sensors must be from 1 to 16, got 17"),
        ({"rows": 0}, r"rows=0\): expected an integer of at least"),
        ({"start": -1}, r"start=-1\): expected an integer of at least"),
        ({"length": 0}, r"length=0\): expected an integer of at least"),
        ({"start": 8, "length": 3}, "10 blocks of 100 rows, too few for start=8, length=3"),
        ({"start": 10}, "10 blocks of 100 rows, too few for start=10, length=None"),
    ],
)
def test_gas_bad_arguments_are_named(write, options, message):
    with pytest.raises(ValueError, match=message):
        read_gas(write(gas_file(np.random.default_rng(6))[1]), **options)


def test_gas_memory_does_not_grow_with_the_file(write):
    body = gas_file(np.random.default_rng(7), rows=1000)[1].split("\n", 1)[1]

    def peak(path):
        tracemalloc.start()
        read_gas(path, lines=500)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    small, large = write(HEADER + body * 2, "small.txt"), write(HEADER + body * 40, "large.txt")
    peak(small)  # what is allocated once; then the file grows by 6 MB, the means kept from it by 380 short rows
    assert peak(large) < peak(small) + 200_000
