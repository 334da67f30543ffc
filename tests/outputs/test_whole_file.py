"""One file is whole or not there, wherever its name leads."""

import errno
import os
import socket
import stat
import tempfile
from pathlib import Path

import pytest
from targets import FILES, OLD, STREAMS, TARGETS, a_null_device, a_pipes_descriptor, tree

from nicscope.errors import OutputError
from nicscope.outputs import ReaderGone, scratch_file, whole_file
from nicscope.outputs.target import BUFFER_BYTES
from refusals import refused

BIG = bytes(range(256)) * (3 * BUFFER_BYTES // 256) + b"end"  # more than a pipe or buffer holds


@pytest.fixture(params=["nameless", "named"], autouse=True)
def growing(request, monkeypatch):
    """Files without names, and a file system that has none."""
    if request.param == "named":
        real = os.open

        def without(path, flags, *more, **keywords):
            if flags & os.O_TMPFILE == os.O_TMPFILE:
                raise OSError(errno.EOPNOTSUPP, "no such files here")
            return real(path, flags, *more, **keywords)

        monkeypatch.setattr(os, "open", without)
    return request.param


def break_off(target, error, meanwhile=lambda: None):
    with whole_file(target) as file:
        file.write(b"ha;")
        file.flush()
        meanwhile()
        raise error


def full(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("make", TARGETS)
@pytest.mark.parametrize("content", [b"", b"whole", BIG], ids=["nothing", "little", "much"])
def test_what_is_written_is_where_the_name_leads_and_nothing_else_changes(tmp_path, make, content):
    target, read = make(tmp_path, "result")
    before = set(tree(tmp_path))

    with whole_file(target) as file:
        file.write(content)

    assert read() == content
    after = set(tree(tmp_path))
    assert before <= after
    assert after - before <= {"result", "elsewhere/real-result"}


def test_a_character_device_is_written_to_and_stays(tmp_path):
    target, _ = a_null_device(tmp_path, "nul")
    before = tree(tmp_path)

    with whole_file(target) as file:
        file.write(b"gone")

    assert tree(tmp_path) == before


@pytest.mark.parametrize("make", FILES)
@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, MemoryError, SystemExit])
def test_a_failed_block_leaves_what_was_there_and_nothing_else(tmp_path, make, failure):
    target, _ = make(tmp_path, "result")
    before = tree(tmp_path)

    with pytest.raises(failure):
        break_off(target, failure())

    assert tree(tmp_path) == before


def calls_of(growing, make):
    """What an output asks the system for: a nameless file is linked, a named or old one renamed."""
    links = ["link"] if growing == "nameless" else []
    renames = ["rename"] if growing == "named" or make in OLD else []
    return ["write", "fsync", *links, *renames]


@pytest.mark.parametrize(
    ("growing", "make", "function"),
    [
        (growing, make, function)
        for growing in ("nameless", "named")
        for make in FILES
        for function in calls_of(growing, make)
    ],
    indirect=["growing"],
)
def test_a_full_disk_is_one_line_whenever_it_is_found(tmp_path, make, function, monkeypatch):
    target, _ = make(tmp_path, "result")
    before = tree(tmp_path)
    monkeypatch.setattr(os, function, full)

    with refused(OutputError, "result: ", "No space left on device"), whole_file(target) as file:
        file.write(b"whole")

    assert tree(tmp_path) == before


def test_a_stream_that_takes_no_more_is_one_line(tmp_path):
    path = tmp_path / "full"
    os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 7))

    with refused(OutputError, "full: ", "No space left on device"), whole_file(path) as file:
        file.write(b"whole")


def test_a_reader_that_goes_away_is_no_error_of_the_output():
    read, write = os.pipe()
    os.close(read)

    with pytest.raises(ReaderGone), whole_file(f"/dev/fd/{write}") as file:
        file.write(BIG)

    os.close(write)


def test_an_open_file_loses_what_a_failed_block_added_and_no_more(tmp_path):
    with (tmp_path / "log").open("ab", buffering=0) as log:
        log.write(b"theirs;")
        with pytest.raises(ValueError, match="on the way"):
            break_off(f"/dev/fd/{log.fileno()}", ValueError("on the way"))
        log.write(b"more")

    assert (tmp_path / "log").read_bytes() == b"theirs;more"


def test_an_open_file_to_which_others_write_as_well_is_not_cut(tmp_path):
    with (tmp_path / "log").open("ab", buffering=0) as log:
        path, error = f"/dev/fd/{log.fileno()}", ValueError("on the way")
        with pytest.raises(ValueError, match="on the way"):
            break_off(path, error, lambda: log.write(b"theirs;"))

    assert (tmp_path / "log").read_bytes() == b"ha;theirs;"


@pytest.mark.parametrize("blocking", [True, False])
def test_a_slow_reader_is_waited_for(tmp_path, blocking):
    target, read = a_pipes_descriptor(tmp_path, "result")
    os.set_blocking(int(target.readlink().name), blocking)

    with whole_file(target) as file:
        file.write(BIG)

    assert read() == BIG


def test_a_new_file_has_the_permissions_that_the_umask_leaves(tmp_path):
    before = os.umask(0o027)
    try:
        with whole_file(tmp_path / "result"):
            pass
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "result").stat().st_mode) == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: nobody else gives files away")
def test_an_old_file_keeps_its_owners_and_its_permissions(tmp_path):
    target = tmp_path / "result"
    target.write_bytes(b"old")
    os.chown(target, 12345, 23456)
    target.chmod(0o4751)

    with whole_file(target) as file:
        file.write(b"new")

    status = target.stat()
    assert (status.st_uid, status.st_gid) == (12345, 23456)
    assert stat.S_IMODE(status.st_mode) == 0o4751


def test_another_name_of_the_file_keeps_what_it_held(tmp_path):
    (tmp_path / "kept").write_bytes(b"old")
    (tmp_path / "result").hardlink_to(tmp_path / "kept")

    with whole_file(tmp_path / "result") as file:
        file.write(b"new")

    assert (tmp_path / "kept").read_bytes() == b"old"
    assert (tmp_path / "result").read_bytes() == b"new"


def test_what_became_a_device_meanwhile_is_not_replaced(tmp_path):
    target = tmp_path / "result"

    with refused(OutputError, "no plain file any more"), whole_file(target):
        os.mkfifo(target)

    assert list(tree(tmp_path)) == ["result"]
    assert stat.S_ISFIFO(target.lstat().st_mode)


def test_a_file_that_came_meanwhile_is_replaced_whole(tmp_path):
    with whole_file(tmp_path / "result") as file:
        (tmp_path / "result").write_bytes(b"another's")
        file.write(b"ours")

    assert (tmp_path / "result").read_bytes() == b"ours"
    assert list(tree(tmp_path)) == ["result"]


def a_socket_that_nobody_listens_to(path):
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(path.name)


@pytest.mark.parametrize(
    ("make", "facts"),
    [
        (Path.mkdir, ["is a folder", "name a file"]),
        (lambda path: path.symlink_to("result"), ["Too many levels of symbolic links"]),
        (lambda path: path.symlink_to("nowhere/result"), ["No such file or directory"]),
        (lambda path: os.mknod(path, 0o666 | stat.S_IFBLK, os.makedev(7, 250)), ["is a disk"]),
        (a_socket_that_nobody_listens_to, ["Connection refused"]),
    ],
)
def test_what_cannot_be_written_is_refused_and_stays(tmp_path, make, facts, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "result")
    before = tree(tmp_path)

    with refused(OutputError, "result: ", *facts), whole_file("result"):
        pytest.fail("the block must not be entered")

    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("nowhere/result", "No such file or directory"),
        ("/dev/fd/999", "Bad file descriptor"),
        ("/dev/fd/99999999999999999999", "cannot be written"),
        ("file/result", "Not a directory"),
        ("a" * 256, "File name too long"),
    ],
)
def test_a_name_that_leads_nowhere_is_refused(tmp_path, path, why, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)

    with refused(OutputError, f"{path}: ", why), whole_file(path) as file:
        file.write(b"x")

    assert list(tree(tmp_path)) == ["file"]


@pytest.mark.parametrize("name", ["a" * 255, "\N{SNOWMAN}" * 85, "\udcff\udcfe", "new\nline"])
def test_any_name_that_a_file_can_have_will_do(tmp_path, name):
    for content in (b"first", b"second"):
        with whole_file(tmp_path / name) as file:
            file.write(content)

        assert (tmp_path / name).read_bytes() == content
        assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: nobody else can become somebody else")
def test_a_file_that_may_not_be_written_is_not_replaced_either(tmp_path):
    target = tmp_path / "result"
    target.write_bytes(b"old")
    target.chmod(0o444)
    for folder in (tmp_path, *tmp_path.parents[:3]):  # of which the tests' workers have one more
        if folder != Path(tempfile.gettempdir()):
            folder.chmod(0o777)
    os.chown(target, 12345, 12345)
    os.seteuid(12345)
    try:
        with refused(OutputError, "read-only"), whole_file(target):
            pytest.fail("the block must not be entered")
    finally:
        os.seteuid(0)

    assert target.read_bytes() == b"old"


@pytest.mark.parametrize("make", [*FILES[:3], *STREAMS[:1]])
def test_scratch_can_be_read_again_and_leaves_nothing(tmp_path, make):
    target, _ = make(tmp_path, "result")
    before = tree(tmp_path)

    with scratch_file(target) as scratch:
        scratch.write(BIG)
        scratch.seek(0)
        assert scratch.read() == BIG
        assert tree(tmp_path) == before

    if make in STREAMS:
        target.open("wb").close()  # lets its reader go
