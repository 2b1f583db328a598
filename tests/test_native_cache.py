"""Native code that is kept between processes: found again, made again where damaged, and never too much of it."""

import os
import platform

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from icvi_jax.cli import compute  # noqa: E402
from icvi_jax.engine.native import build as cache  # noqa: E402
from icvi_jax.engine.native.program import compile_step  # noqa: E402


def built(folder, factor=3, lanes=None):
    """Compile z · factor with this cache; the entries there are then."""
    program = compile_step(
        lambda model, state, z: (state, z * factor), (), np.float32(0), 1, np.dtype("f4"), lanes=lanes, cache=folder
    )
    out = program.run(program.words(np.zeros(2, np.float32)), program.numbers(()), np.ones((2, 3, 1), np.float32))
    np.testing.assert_array_equal(out[0], np.full((2, 3, 1), factor, np.float32))
    return {file: file.read_bytes() for file in folder.iterdir()}


def test_code_is_cached_and_a_damaged_entry_is_made_again(tmp_path):
    (entry, code), *others = built(tmp_path).items()
    assert not others
    assert built(tmp_path) == {entry: code}
    for damaged in (code[:-100] + bytes(100), code[:10], b""):
        entry.write_bytes(damaged)
        assert built(tmp_path) == {entry: code}


def test_what_the_code_depends_on_is_in_its_key(tmp_path):
    assert len(built(tmp_path)) < len(built(tmp_path, factor=4)) < len(built(tmp_path, lanes=1))


def test_the_oldest_entries_make_room_and_nothing_else_is_touched(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "MOST", 2)
    foreign = tmp_path / "mine.o"
    foreign.write_bytes(b"somebody's work")
    os.utime(foreign, (0, 0))
    left = tmp_path / f"{cache.UNFINISHED}killed"
    left.write_bytes(b"half")
    os.utime(left, (0, 0))
    names = [letter * 64 + ".o" for letter in "abc"]
    for age, name in enumerate(names):
        cache.store(tmp_path / name, name.encode())
        os.utime(tmp_path / name, (age, age))
    assert sorted(file.name for file in tmp_path.iterdir()) == [*names[1:], "mine.o"]


def test_only_what_this_user_alone_could_write_is_executed(tmp_path, monkeypatch, capsys):
    place, entry = tmp_path / "open", tmp_path / ("e" * 64 + ".o")
    place.mkdir(mode=0o700)
    monkeypatch.setenv("ICVI_CACHE", str(place))
    assert cache.folder() == place
    for change, why in ((lambda: place.chmod(0o777), "others may write"), (lambda: place.chmod(0o700), "another user")):
        change()
        if why == "another user":
            monkeypatch.setattr(cache.os, "geteuid", lambda: 4242)
        cache._is_safe_folder.cache_clear()
        assert cache.folder() is None and cache.folder() is None
        assert capsys.readouterr().err.count(why) == 1  # said, and once
    monkeypatch.undo()
    cache.store(entry, b"code")
    assert cache.stored(entry) == b"code" and entry.stat().st_mode & 0o077 == 0
    entry.chmod(0o666)
    assert cache.stored(entry) is None
    entry.chmod(0o600)
    other = tmp_path / ("f" * 64 + ".o")
    other.write_bytes(entry.read_bytes())
    assert cache.stored(other) is None  # right digest of other code
    link = tmp_path / ("d" * 64 + ".o")
    link.symlink_to(entry)
    assert cache.stored(link) is None
    pipe = tmp_path / ("c" * 64 + ".o")
    os.mkfifo(pipe)
    assert cache.stored(pipe) is None  # and does not wait for a writer


def test_a_folder_that_cannot_be_written_is_no_problem(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    cache.store(blocked / ("a" * 64 + ".o"), b"code")
    assert cache.stored(blocked / ("a" * 64 + ".o")) is None


def test_the_command_keeps_native_code_unless_told_otherwise(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("ICVI_CACHE", "")
    monkeypatch.setattr(compute.jax.config, "update", lambda *_: None)  # JAX's own cache is none of this test
    compute.remember_programs()
    assert cache.folder() is None
    monkeypatch.delenv("ICVI_CACHE")
    compute.remember_programs()
    assert cache.folder() == tmp_path / "icvi-jax" / platform.node() / "native"


@pytest.mark.parametrize("asked", ["abc", "-1", "\u00b2", "9" * 5000])
def test_a_width_that_is_none_is_named(monkeypatch, asked):
    from icvi_jax.engine.native.build import lanes_of

    monkeypatch.setenv("ICVI_LANES", asked)
    with pytest.raises(ValueError, match="ICVI_LANES.*expected the bytes of a vector"):
        lanes_of(np.dtype("f4"))
