"""Nothing is used of a file in the cache that its digest does not cover; what does not hold goes.

Damage is done to files that a real run has left, and the run is repeated in a process of its own:
it must end as before, with the file whole again.
"""

import os
import random

import pytest
from numba.core import config

from nicscope.kernel import store
from tiny_package import make_tiny, run_tiny


def made_for(key):
    return store.Made(f"enter_{key}", "call", ("memcpy",), b"\x7fELF code\nwith a line")


MADE = made_for("key")

MODULE = """
from tiny.kernel.decorators import kernel

@kernel
def double(x):
    return 2 * x
"""
SCRIPT = """
from tiny.kernel.entry import on_compilation
compiled = []
on_compilation(compiled.append)
from tiny.whole import double
print(double(21), *compiled)
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A store of its own."""
    monkeypatch.setattr(store, "folder", lambda: tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """A package, what runs it, and the one file that a run has left."""
    root = tmp_path_factory.mktemp("left")
    (make_tiny(root) / "whole.py").write_text(MODULE)

    def run():
        return run_tiny(root, SCRIPT, root / "cache")

    if not config.DISABLE_JIT:
        assert run() == ["42", "double"]
    return run, next((root / "cache").rglob("*.o"), None)


def test_what_is_kept_is_read_as_it_was(home):
    store.write("key", MADE)

    assert store.read("key") == MADE
    assert store.read("another") is None
    assert [path.name for path in home.iterdir()] == ["key.o"]


def test_every_cut_and_every_changed_byte_is_seen_and_the_file_removed(home):
    whole = store.packed(MADE)
    damaged = [whole[:length] for length in range(len(whole))]
    for place in range(len(whole)):
        other = (whole[place] ^ 1, whole[place] ^ 128)
        damaged += [whole[:place] + bytes([each]) + whole[place + 1 :] for each in other]
    for content in (*damaged, whole + b"\0", b"\0" * len(whole)):
        (home / "key.o").write_bytes(content)

        assert store.is_kept("key")
        assert store.read("key") is None
        assert not store.is_kept("key")


def test_what_is_not_a_file_of_ours_is_not_opened(home, monkeypatch):
    (home / "elsewhere").write_bytes(store.packed(MADE))
    (home / "link.o").symlink_to(home / "elsewhere")
    os.mkfifo(home / "pipe.o")
    (home / "folder.o").mkdir()

    assert [store.read(key) for key in ("link", "pipe", "folder")] == [None] * 3
    assert [store.is_kept(key) for key in ("link", "pipe", "folder")] == [False] * 3
    assert (home / "elsewhere").exists()

    store.write("key", MADE)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert store.read("key") is None


def test_a_file_that_cannot_be_written_is_no_error_and_leaves_nothing(home, monkeypatch):
    def full(_path, _target):
        raise OSError("no space")

    monkeypatch.setattr("pathlib.Path.replace", full)
    store.write("key", MADE)

    assert [*home.iterdir()] == []


@pytest.mark.usefixtures("home")
def test_what_is_kept_under_the_name_of_another_is_removed():
    store.write("another", MADE)

    assert store.read("another") is None
    assert not store.is_kept("another")


@pytest.mark.usefixtures("home")
def test_what_cannot_be_read_at_the_moment_is_kept(monkeypatch):
    def too_many(*_):
        raise OSError(24, "Too many open files")

    store.write("key", MADE)
    monkeypatch.setattr(os, "open", too_many)

    assert store.read("key") is None
    assert store.is_kept("key")


def test_a_folder_that_others_may_write_in_is_closed_to_them_and_anothers_not_used(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "mine")

    assert store.own_folder(tmp_path / "mine").stat().st_mode & 0o777 == 0o700
    with pytest.raises(OSError, match="no folder of this user's"):
        store.own_folder(tmp_path / "link")


def test_what_was_read_longest_ago_goes_first(home):
    for number in range(4):
        store.write(f"key{number}", made_for(f"key{number}"))
        os.utime(home / f"key{number}.o", (number, number))
    store.read("key0")  # touches it
    store.keep_within(2 * len(store.packed(made_for("key0"))))

    assert sorted(path.name for path in home.iterdir()) == ["key0.o", "key3.o"]


def test_what_a_killed_process_left_half_written_goes_after_an_hour(home):
    for name, age in (("old", 1), ("new", None)):
        path = home / f".{name}.part"
        path.touch()
        if age is not None:
            os.utime(path, (age, age))
    store.keep_within()

    assert [path.name for path in home.iterdir()] == [".new.part"]


@pytest.mark.compiled
@pytest.mark.parametrize(
    "damage", ["cut", "empty", "header", "digest", "names", "code", "foreign", "link", "folder"]
)
def test_a_run_over_a_damaged_cache_ends_as_before_and_mends_it(left, damage, tmp_path):
    run, path = left
    whole = path.read_bytes()
    begins = {"header": 0, "digest": len(store.MAGIC), "names": len(store.MAGIC) + 33}
    path.unlink()
    if damage == "link":
        (tmp_path / "code").write_bytes(whole)
        path.symlink_to(tmp_path / "code")
    elif damage == "folder":
        path.mkdir()
    elif damage in begins or damage == "code":
        changed = bytearray(whole)
        changed[begins.get(damage, len(whole) * 3 // 4)] ^= 4
        path.write_bytes(changed)
    else:
        path.write_bytes({"cut": whole[: len(whole) // 2], "empty": b""}.get(damage, b"foreign"))

    assert run() == ["42", "double"]
    assert path.is_file()
    assert not path.is_symlink()
    assert run() == ["42"]


@pytest.mark.compiled
def test_no_flipped_bit_of_any_region_reaches_the_processor(left):
    run, path = left
    whole = path.read_bytes()
    for place in random.Random(7).sample(range(len(whole)), 5):
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)

        assert run() == ["42", "double"]
