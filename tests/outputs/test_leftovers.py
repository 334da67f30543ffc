"""What a killed writer leaves, and that nobody removes anything else."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from targets import tree

from nicscope.outputs import scratch_file, whole_file, whole_folder
from nicscope.outputs.temporary import remove_abandoned, temporary_path

# Writes what it is told to and stops in the middle, with a line to say so.  The file system of
# the second sort knows no files without names; the third stops where a name is about to be taken.
WRITER = """
import errno, os, sys, time
from pathlib import Path
from nicscope.outputs import whole_file, whole_folder

kind, path, moment, count = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
names = sys.argv[5:]
real = os.open

def without(path, flags, *more, **keywords):
    if flags & os.O_TMPFILE == os.O_TMPFILE:
        raise OSError(errno.EOPNOTSUPP, "no such files here")
    return real(path, flags, *more, **keywords)

def stop():
    print("now", flush=True)
    time.sleep(600)

def stopping(name):
    before = getattr(os, name)
    left = [count]
    def called(*arguments, **keywords):
        left[0] -= 1
        if not left[0]:
            stop()
        return before(*arguments, **keywords)
    setattr(os, name, called)

if kind.startswith("named"):
    os.open = without
if moment != "block":
    stopping(moment)
if kind.endswith("file"):
    with whole_file(path) as file:
        file.write(b"new")
        file.flush()
        if moment == "block":
            stop()
else:
    with whole_folder(path) as folder:
        for name in names:
            with folder.file(name) as file:
                file.write(b"new " + name.encode())
        if moment == "block":
            stop()
print("done", flush=True)
"""


def writer(kind, path, moment="block", count=1, names=()):
    """A process that is writing, and what it said: ``now`` if it has stopped, or ``done``."""
    command = [sys.executable, "-c", WRITER, kind, str(path), moment, str(count), *names]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    return running, running.stdout.readline().strip()


def kill(running, number=signal.SIGKILL):
    running.send_signal(number)
    running.communicate(timeout=60)


def write(path, content=b"next"):
    with whole_file(path) as file:
        file.write(content)


def test_a_file_without_a_name_leaves_nothing_when_its_writer_is_killed(tmp_path):
    running, _ = writer("file", tmp_path / "result")
    kill(running)

    assert tree(tmp_path) == {}


@pytest.mark.parametrize(
    ("kind", "moment", "old"), [("named file", "block", False), ("file", "rename", True)]
)
def test_what_a_killed_writer_left_is_removed_by_the_next_writer_of_that_output(
    tmp_path, kind, moment, old
):
    target = tmp_path / "result"
    if old:
        target.write_bytes(b"old")
    running, said = writer(kind, target, moment)
    kill(running)
    assert said == "now"
    assert len(list(tmp_path.iterdir())) == 1 + old
    write(tmp_path / "another")
    assert len(list(tmp_path.iterdir())) == 2 + old

    write(target)

    assert sorted(tree(tmp_path)) == ["another", "result"]
    assert target.read_bytes() == b"next"


def test_scratch_that_a_killed_run_left_is_removed_by_the_next(tmp_path, monkeypatch):
    running, said = writer("named folder", tmp_path / "results", "unlink")
    kill(running)
    assert said == "now"
    [left] = tree(tmp_path)
    assert "scratch" in left
    monkeypatch.setattr("nicscope.outputs.temporary._unnamed", lambda _: None)

    with scratch_file(tmp_path / "another"):
        pass

    assert tree(tmp_path) == {}


def test_scratch_that_another_run_removes_before_its_owner_does_is_still_that(
    tmp_path, monkeypatch
):
    real, removed = os.open, []

    def removing(path, flags, *more, **keywords):
        number = real(path, flags, *more, **keywords)
        if flags & os.O_EXCL:
            removed.append(path)
            remove_abandoned(path)
        return number

    monkeypatch.setattr(os, "open", removing)
    monkeypatch.setattr("nicscope.outputs.temporary._unnamed", lambda _: None)

    with scratch_file(tmp_path / "result") as scratch:
        scratch.write(b"kept")
        scratch.seek(0)
        assert scratch.read() == b"kept"

    assert len(removed) == 1
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("number", [signal.SIGSTOP, None])
def test_what_a_living_writer_has_is_left_alone(tmp_path, number):
    target = tmp_path / "result"
    running, _ = writer("named file", target)
    if number is not None:
        running.send_signal(number)
    before = set(tree(tmp_path))

    write(target)

    assert set(tree(tmp_path)) == before | {"result"}
    kill(running)


def test_what_is_not_nicscopes_is_left_alone(tmp_path):
    target = tmp_path / "result"
    for name in (
        ".result.part",
        ".result.nicscope-0123456789abcdef",
        ".result.nicscope-0123456789abcdeg.part",
        ".result.nicscope-0123456789ABCDEF.part",
        ".result.0123456789abcdef.part",
        "result.nicscope-0123456789abcdef.part",
        ".results.nicscope-0123456789abcdef.part",
        "other",
    ):
        (tmp_path / name).write_text("theirs")
    os.mkfifo(tmp_path / ".result.nicscope-0000000000000000.part")
    (tmp_path / ".result.nicscope-1111111111111111.part").symlink_to("other")
    before = tree(tmp_path)

    write(target)
    with whole_folder(tmp_path / "set") as folder, folder.file("result") as file:
        file.write(b"x")

    after = tree(tmp_path)
    assert {name: after[name] for name in before} == before


@pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root: nobody else can make files for somebody else"
)
def test_what_is_somebody_elses_is_left_alone(tmp_path):
    left = temporary_path(tmp_path / "result")
    left.write_text("theirs")
    os.chown(left, 12345, 12345)

    write(tmp_path / "result")

    assert left.read_text() == "theirs"


@pytest.mark.parametrize("removed", [True, False])
def test_a_new_file_that_somebody_locks_before_its_writer_does_is_given_up(
    tmp_path, monkeypatch, removed
):
    """As the next writer would, that takes it for abandoned in that very moment."""
    real, taken = fcntl.flock, []

    def first_to_another(number, how):
        if not taken:
            taken.append(Path(f"/proc/self/fd/{number}").readlink())
            if removed:
                taken[0].unlink()
            raise BlockingIOError
        return real(number, how)

    monkeypatch.setattr(fcntl, "flock", first_to_another)
    monkeypatch.setattr("nicscope.outputs.temporary._unnamed", lambda _: None)

    write(tmp_path / "result")

    taken[0].unlink(missing_ok=removed)  # which the other one is about to do
    assert list(tree(tmp_path)) == ["result"]
    assert (tmp_path / "result").read_bytes() == b"next"
