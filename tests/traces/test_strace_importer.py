"""The strace importer, on logs written by hand after the forms that strace 6.1 prints."""

import csv
import io
import os
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest

from nicscope.traces.files import open_bytes
from nicscope.traces.formats import convert
from nicscope.traces.imported import Choices
from nicscope.traces.importers.strace import HOW_TO_KNOW, read_strace
from nicscope.traces.reader import open_trace
from nicscope.traces.schema import OP_NAMES, TraceMetadata

SERVER = """\
100   1000.000100 execve("/bin/server", ["server"], 0x7ffd0 /* 9 vars */) = 0
100   1000.000200 read(0x3, 0x7fff0000, 0x340) = 0x340
100   1000.000300 socket(AF_INET, SOCK_STREAM, IPPROTO_TCP) = 3
100   1000.000400 accept4(3, {sa_family=AF_INET, sin_port=htons(5)}, [128 => 16], SOCK_CLOEXEC) = 4
100   1000.000500 read(0x4, 0x7f0000001000, 0x4000) = 0x4d
100   1000.000600 write(0x4, 0x7f0000002000, 0x5) = 0x5
100   1000.000700 writev(0x4, 0x7ffd1000, 0x2) = 0x1000
100   1000.000800 read(0x4, 0x7f0000001000, 0x4000) = -1 EAGAIN (Resource temporarily unavailable)
100   1000.000900 sendfile(4, 5, NULL, 4096) = 4096
100   1000.001000 read(0x4, 0x7f0000001000, 0x4000) = 0
100   1000.001100 close(4)        = 0
100   1000.001200 read(0x4, 0x7f0000001000, 0x4000) = 0x10
100   1000.001300 exit_group(0)   = ?
100   1000.001400 +++ exited with 0 +++
"""


def rows_of(text, tmp_path, **choices):
    """(seconds after the first row, pid, tid, syscall, address, length) of each request, notes."""
    path = tmp_path / "log.strace"
    path.write_text(text)
    metadata = TraceMetadata()
    rows = []
    for columns, _ in read_strace(open_bytes(path), Choices(**choices), metadata):
        listed = {
            name: c.to_pylist() if hasattr(c, "to_pylist") else c.tolist()
            for name, c in columns.items()
        }
        names = ("time_ns", "pid", "tid", "syscall", "address", "length")
        rows += zip(*(listed[name] for name in names), strict=True)
    return rows, metadata.observed


def brief(text, tmp_path, **choices):
    """(pid, tid, address) of each request."""
    return [(r[1], r[2], r[4]) for r in rows_of(text, tmp_path, **choices)[0]]


CLOSING = "1 close(99) = -1 EBADF (Bad file descriptor)"


def log(*lines, closing=True):
    """A log as ``strace -f -ttt -o`` writes it, from 'PID text'; one line per millisecond.

    The last line shows that closing is logged, if it is.
    """
    out = []
    for number, line in enumerate([*lines, CLOSING] if closing else lines):
        pid, _, text = line.partition(" ")
        out.append(f"{pid:5} 1000.{number:03}000 {text}\n")
    return "".join(out)


def test_socket_calls_with_one_buffer_become_requests(tmp_path):
    rows, observed = rows_of(SERVER, tmp_path)

    assert rows == [
        (0, 100, 100, "read", 0x7F0000001000, 77),
        (100_000, 100, 100, "write", 0x7F0000002000, 5),
    ]
    assert observed == {
        "requests": 2,
        "vector_calls_unseen": {"writev": 1},
        "calls_without_user_buffer": {"sendfile": 1},
        "calls_that_never_returned": 1,
        "lines_not_understood": 0,
        "calls_on_unknown_descriptors": 2,
        "of_unknown_descriptors": HOW_TO_KNOW,
        "socket_calls_that_failed": 1,
        "socket_calls_that_moved_nothing": 1,
    }


def test_a_log_becomes_a_trace_with_what_was_not_seen(tmp_path):
    path = tmp_path / "server.log"
    path.write_text(SERVER)

    convert(path, tmp_path / "t.parquet", choices=Choices(node=3))

    trace = open_trace(tmp_path / "t.parquet")
    requests = trace.read()
    assert [OP_NAMES[op] for op in requests.op] == ["recv", "send"]
    assert requests.node.tolist() == [3, 3]
    assert trace.column_names[-3:] == ["posted", "tid", "syscall"]
    assert trace.metadata.origin == {
        "file": "server.log", "importer": "strace", "started_at_ns": 1_000_000_500_000
    }  # fmt: skip
    assert trace.metadata.observed["vector_calls_unseen"] == {"writev": 1}


def test_interrupted_calls_are_paired_and_stand_where_they_began(tmp_path):
    text = log(
        "1 socket(AF_INET, SOCK_STREAM, 0) = 3",
        "1 clone3({flags=CLONE_VM|CLONE_FILES|CLONE_THREAD, stack=0x1}, 88 <unfinished ...>",
        "2 read(0x3, 0x2000, 0x10 <unfinished ...>",  # before its maker has returned
        "1 <... clone3 resumed> => {parent_tid=[2]}) = 2",
        "1 write(0x3, 0x1000, 0x10 <unfinished ...>",
        "2 <... read resumed>)      = 0x8",
        "1 <... write resumed>)     = 0x10",
    )

    rows, _ = rows_of(text, tmp_path)

    assert rows == [
        (0, 1, 2, "read", 0x2000, 8),
        (2_000_000, 1, 1, "write", 0x1000, 16),
    ]


def test_threads_share_descriptors_and_forked_children_copy_them(tmp_path):
    text = log(
        "1 socket(AF_INET, SOCK_STREAM, 0) = 3",
        "1 clone(child_stack=0x1, flags=CLONE_VM|CLONE_FILES|CLONE_THREAD) = 2",
        "1 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD, child_tidptr=0x1) = 5",
        "2 socket(AF_INET, SOCK_STREAM, 0) = 4",
        "1 read(0x4, 0x1000, 0x10) = 0x1",  # the thread's socket is ours
        "5 read(0x4, 0x5000, 0x10) = 0x1",  # but not the child's
        "5 read(0x3, 0x5100, 0x10) = 0x1",
        "5 close(3) = 0",
        "2 read(0x3, 0x2000, 0x10) = 0x1",  # what the child closes stays open here
        "5 read(0x3, 0x5200, 0x10) = 0x1",
    )

    assert brief(text, tmp_path) == [(1, 1, 0x1000), (5, 5, 0x5100), (1, 2, 0x2000)]


@pytest.mark.parametrize(
    ("call", "same_process", "same_sockets"),
    [
        ("fork()", False, False),
        ("vfork()", False, False),
        ("clone(0x1200011, 0, 0, 0x7f)", False, False),
        ("clone(0x3d0f00, 0x7f, 0x7f, 0x7f, 0x7f)", True, True),
        ("clone(0x400, 0)", False, True),
        ("clone3(0x7ffe0, 0x58)", True, True),
    ],
)
def test_flags_of_a_new_task_may_be_raw(tmp_path, call, same_process, same_sockets):
    text = log(
        f"1 {call} = 2",
        "1 socket(AF_INET, SOCK_STREAM, 0) = 3",
        "2 read(0x3, 0x2000, 0x10) = 0x1",
        "2 recvfrom(0x9, 0x3000, 0x10, 0, 0, 0) = 0x1",
    )

    pid = 1 if same_process else 2
    expected = [(pid, 2, 0x2000)] if same_sockets else []
    assert brief(text, tmp_path) == [*expected, (pid, 2, 0x3000)]


def test_descriptors_are_followed_through_every_way_to_make_one(tmp_path):
    text = log(
        "1 socketpair(AF_UNIX, SOCK_STREAM|SOCK_CLOEXEC, 0, [3, 4]) = 0",
        "1 write(0x4, 0x4000, 0x1) = 0x1",
        "1 dup(3) = 5",
        "1 read(0x5, 0x5000, 0x1) = 0x1",
        "1 dup2(3, 6) = 6",
        "1 read(0x6, 0x6000, 0x1) = 0x1",
        "1 dup3(3, 7, O_CLOEXEC) = 7",
        "1 read(0x7, 0x7000, 0x1) = 0x1",
        "1 fcntl(3, F_DUPFD, 0) = 8",
        "1 read(0x8, 0x8000, 0x1) = 0x1",
        "1 fcntl(3, F_DUPFD_CLOEXEC, 0) = 9",
        "1 read(0x9, 0x9000, 0x1) = 0x1",
        "1 fcntl(6, F_SETFD, FD_CLOEXEC) = 0",
        "1 dup2(1, 8) = 8",  # now it is the terminal
        "1 read(0x8, 0xbad, 0x1) = 0x1",
        '1 execve("/bin/x", ["x"], 0x1) = 0',
        "1 read(0x5, 0x5001, 0x1) = 0x1",
        "1 read(0x3, 0xbad, 0x1) = 0x1",
        "1 read(0x6, 0xbad, 0x1) = 0x1",
        "1 read(0x7, 0xbad, 0x1) = 0x1",
        "1 read(0x9, 0xbad, 0x1) = 0x1",
        "1 close_range(5, 4294967295, 0) = 0",
        "1 read(0x5, 0xbad, 0x1) = 0x1",
    )

    found = [address for _, _, address in brief(text, tmp_path)]

    assert found == [0x4000, 0x5000, 0x6000, 0x7000, 0x8000, 0x9000, 0x5001]


def test_a_failed_call_makes_no_descriptor(tmp_path):
    text = log(
        "1 socket(AF_INET, SOCK_STREAM, 0) = -1 EMFILE (Too many open files)",
        "1 accept(3, NULL, NULL) = 4",
        "1 read(0x4, 0x4000, 0x1) = 0x1",
        '1 execve("/bin/x", ["x"], 0x1) = -1 ENOENT (No such file or directory)',
        "1 read(0x3, 0x3000, 0x1) = 0x1",  # who accepts is a socket
    )

    assert [address for _, _, address in brief(text, tmp_path)] == [0x4000, 0x3000]


def test_a_number_closed_by_an_interrupted_call_may_be_in_use_before_it_returns(tmp_path):
    text = log(
        "1 socket(AF_INET, SOCK_STREAM, 0) = 3",
        "1 clone(child_stack=0x1, flags=CLONE_FILES|CLONE_THREAD) = 2",
        "1 close(3 <unfinished ...>",
        "2 socket(AF_INET, SOCK_STREAM, 0) = 3",
        "1 <... close resumed>) = 0",
        "2 read(0x3, 0x3000, 0x1) = 0x1",
    )

    assert [address for _, _, address in brief(text, tmp_path)] == [0x3000]


def test_notes_on_descriptors_are_believed(tmp_path):
    text = log(
        "1 read(3<TCP:[127.0.0.1:80->127.0.0.1:999]>, 0x3000, 16) = 1",
        "1 read(4</etc/passwd>, 0xbad, 16) = 1",
        "1 write(5<socket:[123]>, 0x5000, 16) = 16",
        "1 read(6<UNIX-STREAM:[1->2]>, 0x6000, 16) = 16",
        "1 read(7<pipe:[9]>, 0xbad, 16) = 16",
    )

    assert [address for _, _, address in brief(text, tmp_path)] == [0x3000, 0x5000, 0x6000]


def test_a_log_without_process_numbers_is_one_process(tmp_path):
    text = (
        "strace: Process 12 attached\n"
        "hello from the program\n"
        "12:00:00.000001 socket(AF_INET, SOCK_STREAM, 0) = 3\n"
        "12:00:00.000002 read(0x3, 0x1000, 0x10) = 0x10\n"
        "--- SIGCHLD {si_signo=SIGCHLD} ---\n"
        "12:00:01.5 read(0x3, 0x2000, 0x10) = 0x10\n"
        "12:00:02 close(3) = 0\n"
    )

    rows, observed = rows_of(text, tmp_path, pid=77)

    assert [(r[0], r[1], r[4]) for r in rows] == [(0, 77, 0x1000), (1_499_998_000, 77, 0x2000)]
    assert observed["lines_not_understood"] == 2


def test_the_first_process_gets_its_number_when_there_is_a_second(tmp_path):
    text = (
        "socket(AF_INET, SOCK_STREAM, 0) = 3\n"
        "read(0x3, 0x1000, 0x10) = 0x10\n"
        "clone(child_stack=NULL, flags=SIGCHLD <unfinished ...>\n"
        "[pid   201] read(0x3, 0x2000, 0x10) = 0x10\n"
        "[pid   200] <... clone resumed>, child_tidptr=0x1) = 201\n"
        "[pid   200] read(0x3, 0x3000, 0x10) = 0x10\n"
        "[pid   200] read(0x3, 0x4000, 0x10 <unfinished ...>\n"
        "[pid   201] +++ exited with 0 +++\n"
        "<... read resumed>) = 0x10\n"
        "read(0x3, 0x5000, 0x10) = 0x10\n"
        "close(3) = 0\n"
    )

    rows, _ = rows_of(text, tmp_path)

    assert sorted((r[1], r[4]) for r in rows) == [
        (200, 0x1000), (200, 0x3000), (200, 0x4000), (200, 0x5000), (201, 0x2000)
    ]  # fmt: skip
    assert {r[0] for r in rows} == {0}  # without times


def test_times_of_day_go_on_past_midnight(tmp_path):
    text = (
        "1 23:59:59.9 recvfrom(0x3, 0x1000, 0x10, 0, 0, 0) = 0x10\n"
        "1 00:00:00.4 recvfrom(0x3, 0x2000, 0x10, 0, 0, 0) = 0x10\n"
    )

    assert [r[0] for r in rows_of(text, tmp_path)[0]] == [0, 500_000_000]


def test_a_datagram_cut_short_counts_what_its_buffer_took(tmp_path):
    text = log("1 recvfrom(0x3, 0x1000, 0x10, 0x20, 0, 0) = 0x40")

    assert rows_of(text, tmp_path)[0][0][5] == 16


@pytest.mark.parametrize("end", [["1 +++ killed by SIGKILL +++"], []])
def test_what_waits_for_a_maker_that_never_returns_is_not_lost(tmp_path, end):
    text = log(
        "1 socket(AF_INET, SOCK_STREAM, 0) = 3",
        "1 vfork( <unfinished ...>",
        "2 read(0x3, 0x2000, 0x1) = 0x1",
        *end,
        "2 read(0x3, 0x2001, 0x1) = 0x1",
    )

    assert brief(text, tmp_path) == [(2, 2, 0x2000), (2, 2, 0x2001)]


def test_a_process_that_was_there_before_the_log_began_has_its_own_descriptors(tmp_path):
    text = log(
        "1 socket(AF_INET, SOCK_STREAM, 0) = 3",
        "1 read(0x3, 0x1000, 0x1) = 0x1",
        "9 read(0x3, 0xbad, 0x1) = 0x1",
        "9 recvfrom(0x3, 0x9000, 0x1, 0, 0, 0) = 0x1",
    )

    assert brief(text, tmp_path) == [(1, 1, 0x1000), (9, 9, 0x9000)]


def test_text_of_files_and_failed_calls_does_not_matter(tmp_path):
    text = log(
        '1 read(3, "\\177ELF) = 5"..., 832) = 832',
        "1 recvfrom(4, 0x1000, 16, 0, NULL, NULL) = -1 EAGAIN (Resource temporarily unavailable)",
        "1 recvfrom(4, 0x1000, 16, 0, NULL, NULL) = 4",
    )

    assert [r[4:] for r in rows_of(text, tmp_path)[0]] == [(0x1000, 4)]


EXTRA = Path(os.environ.get("NICSCOPE_EXTRA_DATA", "nowhere")) / "fixtures"
SCALAR = ("read", "write", "recvfrom", "sendto")


@pytest.mark.skipif(
    not EXTRA.is_dir(), reason="needs data: NICSCOPE_EXTRA_DATA names no folder with fixtures"
)
@pytest.mark.parametrize("name", ["redis", "pgbench"])
def test_every_scalar_call_of_a_recorded_run_is_found_and_none_else(name):
    found = defaultdict(list)
    log = open_bytes(EXTRA / f"{name}.strace.zst")
    for columns, _ in read_strace(log, Choices(), TraceMetadata()):
        syscalls = columns["syscall"].to_pylist()
        names = ("pid", "tid", "address", "posted", "length")
        listed = (columns[name].tolist() for name in names)
        for syscall, pid, tid, *rest in zip(syscalls, *listed, strict=True):
            found[tid].append([syscall, pid, *rest])

    expected = defaultdict(list)
    with pa.input_stream(str(EXTRA / f"{name}.truth.csv.zst"), compression="zstd") as stream:
        for row in csv.DictReader(io.TextIOWrapper(stream)):
            if row["syscall"] in SCALAR and int(row["result"]) > 0:
                numbers = [int(row[key], 0) for key in ("pid", "address", "length", "result")]
                expected[int(row["tid"])].append([row["syscall"], *numbers])
    assert sum(map(len, expected.values())) > 9000
    assert found == expected
