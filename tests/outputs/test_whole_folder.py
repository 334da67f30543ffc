"""A set of results is in its folder, or what was there before is."""

import errno
import os
import signal
import stat
import threading
from pathlib import Path

import pytest
from targets import tree
from test_leftovers import kill, writer

from nicscope.errors import OutputError
from nicscope.outputs import folder as folders
from nicscope.outputs import whole_folder
from refusals import refused

NAMES = ["counts.parquet", "results.json", "figure.png", "inner/results.json", "inner/more"]
THREE = ["counts.parquet", "results.json", "table.png"]
FUNCTIONS = ("open", "write", "fsync", "link", "mkdir", "rename")


def write(path, content=b"new", names=NAMES):
    with whole_folder(path) as folder:
        for name in names:
            inner, _, last = name.rpartition("/")
            with (folder.within(inner) if inner else folder).file(last) as file:
                file.write(content)


def break_off(path, error):
    with whole_folder(path) as folder:
        with folder.file("results.json") as file:
            file.write(b"half")
        raise error


def contents(path):
    files = (each for each in path.rglob("*") if each.is_file() and not each.is_symlink())
    return {str(each.relative_to(path)): each.read_bytes() for each in files}


@pytest.fixture(params=["none", "empty", "old", "somebody's"])
def folder(request, tmp_path):
    """A folder in every state; the name of the state is that of the fixture."""
    path = tmp_path / "results"
    if request.param != "none":
        path.mkdir(mode=0o750)
    if request.param == "old":
        write(path, b"old")
    if request.param == "somebody's":
        (path / "inner").mkdir()
        for name in ("letter.txt", "counts.parquet", "inner/letter.txt"):
            (path / name).write_bytes(b"theirs")
        (path / "link").symlink_to("letter.txt")
    return path


def test_a_set_is_there_whole_and_whatever_else_was_there_still_is(folder):
    before = tree(folder.parent)

    write(folder)

    after = tree(folder.parent)
    new = {f"results/{name}" for name in NAMES}
    assert {after[name][1] for name in new} == {b"new"}
    assert set(after) - set(before) <= new | {"results", "results/inner"}
    kept = set(before) - new
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, MemoryError])
def test_a_failed_block_leaves_the_folder_as_it_was(folder, failure):
    before = tree(folder.parent)

    with pytest.raises(failure):
        break_off(folder, failure())

    assert tree(folder.parent) == before


def failing(monkeypatch, name, turn):
    """Let the call number ``turn`` of a function of ``os`` that writes fail; what has failed."""
    real, left, failed = getattr(os, name), [turn], []

    def called(*arguments, **keywords):
        if name != "open" or arguments[1] & (os.O_WRONLY | os.O_RDWR):
            left[0] -= 1
            if not left[0]:
                failed.append(name)
                raise OSError(errno.EIO, "Input/output error")
        return real(*arguments, **keywords)

    monkeypatch.setattr(os, name, called)
    return failed


@pytest.mark.parametrize("function", FUNCTIONS)
def test_whichever_call_fails_the_old_set_or_the_new_one_is_there(folder, function, monkeypatch):
    before = tree(folder.parent)
    turn = 0
    while True:
        turn += 1
        with monkeypatch.context() as patched:
            failed = failing(patched, function, turn)
            try:
                write(folder)
                break
            except OutputError as error:
                said = str(error)
        assert "Input/output error" in said
        assert tree(folder.parent) == before, f"{function} number {turn}"
    found = contents(folder)
    assert {found[name] for name in NAMES} == {b"new"}
    assert failed == [] or function == "mkdir"  # of a folder that is there already
    assert turn > 1


@pytest.mark.parametrize("function", ["link", "mkdir", "rename", "rmdir", "unlink"])
def test_killed_at_any_step_the_next_set_is_whole_and_nothing_is_left(tmp_path, function):
    """Results.json is missing while its set is not whole, and somebody else's files stay."""
    path = tmp_path / "results"
    said, count = "now", 0
    while said == "now":
        count += 1
        write(path, b"old", THREE)
        (path / "letter.txt").write_bytes(b"theirs")
        running, said = writer("folder", path, function, count, THREE)
        kill(running)
        found = contents(path)
        shown = {name: content for name, content in found.items() if not name.startswith(".")}
        assert shown.pop("letter.txt") == b"theirs"
        if "results.json" in shown:
            assert set(shown) == set(THREE)
            assert len({content.partition(b" ")[0] for content in shown.values()}) == 1, shown

        with pytest.raises(ValueError, match="too bad"), whole_folder(path):
            raise ValueError("too bad")  # even a run that fails finishes what was begun

        found = contents(path)
        assert found.pop("letter.txt") == b"theirs"
        assert len({content.partition(b" ")[0] for content in found.values()}) == 1, found
        assert set(found) == set(THREE)
        assert not [name for name in tree(tmp_path) if "nicscope" in name]
        for name in found:
            (path / name).unlink()
    assert count > 1


@pytest.mark.parametrize("function", ["link", "mkdir", "rename"])
def test_killed_at_any_step_a_new_folder_is_whole_or_not_there(tmp_path, function):
    path = tmp_path / "parent" / "results"
    said, count = "now", 0
    while said == "now":
        count += 1
        running, said = writer("folder", path, function, count, ["a", "results.json"])
        kill(running)
        assert said == "done" or not path.exists()

        write(path, b"next", ["a", "results.json"])

        assert contents(path) == {"a": b"next", "results.json": b"next"}
        assert set(tree(tmp_path)) == {
            "parent", "parent/results", "parent/results/a", "parent/results/results.json"
        }  # fmt: skip
        (path / "a").unlink()
        (path / "results.json").unlink()
        path.rmdir()
        path.parent.rmdir()
    assert count > 1


def test_two_sets_at_once_do_not_mix(tmp_path):
    path = tmp_path / "results"
    names = [f"file{number}" for number in range(30)]
    path.mkdir()
    writers = [
        threading.Thread(target=write, args=(path, content, names)) for content in (b"one", b"two")
    ]
    for each in writers:
        each.start()
    for each in writers:
        each.join()

    assert len(set(contents(path).values())) == 1


def test_a_folder_that_came_meanwhile_gets_the_set_as_well(tmp_path):
    path = tmp_path / "results"

    with whole_folder(path) as folder:
        with folder.file("results.json") as file:
            file.write(b"new")
        path.mkdir()
        (path / "theirs").write_bytes(b"theirs")

    assert contents(path) == {"results.json": b"new", "theirs": b"theirs"}
    assert len(tree(tmp_path)) == 3


def test_another_set_that_does_not_come_to_an_end_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "PATIENCE_S", 0.1)
    path = tmp_path / "results"
    write(path, b"old")
    before = tree(path)
    running, said = writer("folder", path, "rename", 2, ["results.json"])
    assert said == "now"

    with refused(OutputError, "results", "another run"):
        write(path)

    kill(running, signal.SIGKILL)
    write(path, b"old")
    assert tree(path) == before


def a_link(path):
    path.symlink_to("elsewhere")


@pytest.mark.parametrize("make", [a_link, os.mkfifo, Path.mkdir])
def test_what_is_no_plain_file_is_not_replaced_by_one_of_a_set(tmp_path, make):
    path = tmp_path / "results"
    write(path, b"old")
    (path / "figure.png").unlink()
    make(path / "figure.png")
    before = tree(tmp_path)

    with refused(OutputError, "figure.png", "no plain file", "move it away"):
        write(path)

    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("make", "name"), [*zip([a_link, os.mkfifo, Path.mkdir], THREE, strict=True)]
)
def test_what_came_into_the_way_of_a_killed_set_is_told_and_stays(tmp_path, make, name):
    path = tmp_path / "results"
    path.mkdir()
    running, said = writer("folder", path, "rename", 2, THREE)  # the first says that it is whole
    assert said == "now"
    kill(running)
    make(path / name)
    before = tree(tmp_path)

    for _ in range(2):
        with refused(OutputError, name, "no plain file", "move it away"):
            write(path, b"next", THREE)
        assert tree(tmp_path) == before

    (path / name).rename(tmp_path / "moved")
    with pytest.raises(ValueError, match="too bad"):
        break_off(path, ValueError("too bad"))
    assert contents(path) == {each: b"new " + each.encode() for each in THREE}


def test_a_file_in_the_way_of_an_inner_folder_is_told(tmp_path):
    path = tmp_path / "results"
    path.mkdir()
    (path / "inner").write_bytes(b"theirs")
    before = tree(tmp_path)

    with refused(OutputError, "inner", "a folder", "move it away"):
        write(path)

    assert tree(tmp_path) == before


def test_files_keep_the_permissions_that_they_had_and_new_ones_get_the_umasks(tmp_path):
    path = tmp_path / "a" / "results"
    before = os.umask(0o027)
    try:
        write(path, b"old", ["kept"])
        (path / "kept").chmod(0o604)
        write(path, b"new", ["kept", "new"])
    finally:
        os.umask(before)

    modes = {
        str(each.relative_to(tmp_path)): stat.S_IMODE(each.stat().st_mode)
        for each in (path.parent, path, path / "kept", path / "new")
    }
    assert modes == {
        "a": 0o750,
        "a/results": 0o750,
        "a/results/kept": 0o604,
        "a/results/new": 0o640,
    }


def test_a_link_to_a_folder_is_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "results").symlink_to("real")

    write(tmp_path / "results")

    assert (tmp_path / "results").is_symlink()
    assert set(contents(tmp_path / "real")) == set(NAMES)


@pytest.mark.parametrize(
    ("make", "name", "why"),
    [
        (Path.touch, "", "not a folder"),
        (os.mkfifo, "", "not a folder"),
        (lambda path: path.symlink_to("nothing"), "", "not a folder"),
        (lambda path: path.symlink_to(path.name), "", "not a folder"),
        (Path.touch, "below", "Not a directory"),
    ],
)
def test_what_is_no_folder_is_refused(tmp_path, make, name, why):
    make(tmp_path / "results")
    before = tree(tmp_path)
    place = tmp_path / "results" / name

    with refused(OutputError, f"{place}: ", why), whole_folder(place):
        pytest.fail("the block must not be entered")

    assert tree(tmp_path) == before


def test_a_set_of_nothing_makes_no_folder(tmp_path):
    with whole_folder(tmp_path / "results"):
        pass

    assert tree(tmp_path) == {}
