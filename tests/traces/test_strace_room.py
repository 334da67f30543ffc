"""A strace log takes bounded memory to read, whatever it has the reader remember."""

import itertools
import os
import threading
import tracemalloc

import pytest
from test_strace_importer import brief, rows_of

from nicscope.errors import TraceError
from nicscope.traces.files import open_bytes
from nicscope.traces.imported import Choices
from nicscope.traces.importers import strace
from nicscope.traces.importers.strace import read_strace
from nicscope.traces.schema import TraceMetadata
from refusals import refused

MIB = 1 << 20
LONG = "A" * 400_000


def interrupted_calls():
    for pid in itertools.count(1):
        yield f'{pid} sendto(3, "{LONG}" <unfinished ...>\n'


def calls_without_an_opening_bracket_nearby():
    for pid in itertools.count(1):
        yield f"{pid} {LONG}() <unfinished ...>\n"


def calls_of_a_task_whose_maker_does_not_return():
    yield "1 clone3({flags=0} <unfinished ...>\n"
    while True:
        yield f'2 getpid("{LONG}") = 1\n'


def errors_of_such_a_task():
    yield "1 clone3({flags=0} <unfinished ...>\n"
    while True:
        yield f"2 getpid() = -1 {LONG}\n"


def interrupted_makers():
    for pid in itertools.count(1):
        yield f"{pid} clone3({{{LONG}}} <unfinished ...>\n"


LONG_CALLS = [
    interrupted_calls,
    calls_without_an_opening_bracket_nearby,
    calls_of_a_task_whose_maker_does_not_return,
    errors_of_such_a_task,
    interrupted_makers,
]


def tasks():
    for pid in itertools.count(1):
        yield f"{pid} getpid() = 1\n"


def interrupted_tasks():
    for pid in itertools.count(1):
        yield f"{pid} getpid( <unfinished ...>\n"


def children():
    for pid in itertools.count(2):
        yield f"1 fork() = {pid}\n"


def children_of_a_maker_that_does_not_return():
    yield "1 clone3({flags=0} <unfinished ...>\n"
    for pid in itertools.count(2):
        yield f"{pid} getpid() = 1\n"


def little_calls_of_a_task_whose_maker_does_not_return():
    yield "1 clone3({flags=0} <unfinished ...>\n"
    while True:
        yield "2 getpid() = 1\n"


def descriptors():
    for number in itertools.count(3):
        yield f"1 socket(0x1, 0x1, 0) = {number}\n"


def descriptors_that_calls_show():
    for number in itertools.count(3):
        yield f"1 listen({number}, 1) = 0\n"


def descriptors_copied_by_forks():
    for number in range(3, 103):
        yield f"1 socket(0x1, 0x1, 0) = {number}\n"
    for pid in itertools.count(2):
        yield f"1 fork() = {pid}\n"


ENDLESS = {
    tasks: "tasks that have not ended",
    interrupted_tasks: "tasks that have not ended",
    children: "tasks that have not ended",
    children_of_a_maker_that_does_not_return: "tasks that have not ended",
    little_calls_of_a_task_whose_maker_does_not_return: "calls that have not ended take over",
    descriptors: "descriptors that are not closed",
    descriptors_that_calls_show: "descriptors that are not closed",
    descriptors_copied_by_forks: "descriptors that are not closed",
}


def read(lines, tmp_path):
    """Read a log that is never there as a whole."""
    path = tmp_path / "log"
    os.mkfifo(path)

    def feed():
        try:
            with path.open("w") as file:
                file.writelines(lines)
        except BrokenPipeError:
            pass

    writer = threading.Thread(target=feed)
    writer.start()
    try:
        with open_bytes(path) as source:
            list(read_strace(source, Choices(), TraceMetadata()))
    finally:
        writer.join()


@pytest.mark.parametrize("lines", LONG_CALLS)
def test_long_calls_that_have_not_ended_are_not_kept_whole(lines, tmp_path):
    tracemalloc.start()
    try:
        with refused(TraceError, "no socket call"):
            read(itertools.islice(lines(), 60), tmp_path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 16 * MIB


@pytest.mark.parametrize("lines", ENDLESS)
def test_a_log_that_makes_its_reader_remember_more_and_more_is_refused_in_one_line(
    lines, tmp_path, monkeypatch
):
    monkeypatch.setattr(strace, "MOST_TASKS", 300)
    monkeypatch.setattr(strace, "MOST_DESCRIPTORS", 1000)
    monkeypatch.setattr(strace, "MOST_CHARACTERS", 400 * strace.A_CALL)

    with refused(TraceError, "log: line ", "over ", ENDLESS[lines]):
        read(itertools.islice(lines(), 5000), tmp_path)


def test_what_has_ended_takes_no_room(tmp_path, monkeypatch):
    monkeypatch.setattr(strace, "MOST_TASKS", 3)
    monkeypatch.setattr(strace, "MOST_DESCRIPTORS", 8)
    monkeypatch.setattr(strace, "MOST_CHARACTERS", 4 * strace.A_CALL)
    text = ""
    for pid in range(2, 100):
        text += (
            "1 clone3({flags=CLONE_FILES} <unfinished ...>\n"
            f"{pid} socket(0x1, 0x1, 0 <unfinished ...>\n"
            f"{pid} <... socket resumed>) = 5\n"
            f"1 <... clone3 resumed>) = {pid}\n"
            f"{pid} read(0x5, 0x{pid}000, 0x10) = 0x10\n"
            f"{pid} close(0x5) = 0\n"
            f"{pid} getpid( <unfinished ...>\n"
            f"{pid} +++ exited with 0 +++\n"
        )

    assert [tid for _, tid, _ in brief(text, tmp_path)] == list(range(2, 100))


@pytest.mark.parametrize("length", [4096 * 4, 100_000])
def test_flags_after_a_long_path_are_seen(tmp_path, length):
    path = "/" + "x" * (length - 1)
    text = (
        f'1 openat(AT_FDCWD, "{path}", O_RDWR|O_CLOEXEC <unfinished ...>\n'
        "1 <... openat resumed>) = 3\n"
        "1 write(0x3, 0x1000, 0x1) = 0x1\n"
        '1 execve("/bin/server", ["server"], 0x7ffd0 /* 9 vars */) = 0\n'
        "1 socket(AF_INET, SOCK_STREAM, IPPROTO_TCP) = 4\n"
        "1 write(0x3, 0x2000, 0x1) = 0x1\n"
        "1 write(0x4, 0x3000, 0x1) = 0x1\n"
        "1 close(0x4) = 0\n"
    )

    rows, observed = rows_of(text, tmp_path)

    assert [address for *_, address, _ in rows] == [0x3000]
    assert observed["calls_on_other_files"] == 1  # the first; the second is of a closed one
