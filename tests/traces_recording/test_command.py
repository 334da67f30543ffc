"""``nicscope record`` as a user meets it: arguments, streams, signals, exit statuses, mistakes."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest

from nicscope.cli.app import main
from nicscope.traces.recording.ptrace import this_machine
from refusals import assert_named
from traces_recording.programs import has_ended
from traces_recording.running import UNPRIVILEGED, eventually, recorder

SENDS = "import socket, sys, os, signal, time; a, b = socket.socketpair(); a.send(b'x' * 10); "


class Done(NamedTuple):
    status: int
    stdout: str
    stderr: str


@pytest.fixture
def record(tmp_path, capfd):
    """Record a program in this process, and what it and the recorder said."""

    def recorded(command, *options, output="trace.parquet"):
        words = ["record", "-o", str(tmp_path / output), *options, "--", *command]
        return Done(main(words), *capfd.readouterr())

    return recorded


def python(program, *arguments):
    return [sys.executable, "-I", "-S", "-c", program, *arguments]


def rows_in(folder):
    return int(pq.read_metadata(folder / "trace.parquet").num_rows)


def assert_refused(done, folder, *facts):
    """Hold that it ended with one line that names the facts, and wrote nothing."""
    assert done.status == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("nicscope: ")
    assert_named(line, facts)
    assert not list(folder.glob("trace*"))


def test_input_output_and_exit_status_are_the_programs_own_and_no_privilege_is_asked_for(tmp_path):
    program = SENDS + (
        "print(sys.stdin.read(), sys.argv[1:])\n"
        "print([line for line in open('/proc/self/status') if 'CapEff' in line])\n"
        "sys.exit('said on stderr')"
    )
    command = python(program, "--help", "-o", "--", "x")
    inner = recorder("-o", str(tmp_path / "trace.parquet"), "--quiet", "--", *command)

    done = subprocess.run(
        python(UNPRIVILEGED, *inner), capture_output=True, text=True, input="given", check=False
    )

    assert done.stdout == ("given ['--help', '-o', '--', 'x']\n['CapEff:\\t0000000000000000\\n']\n")
    assert done.stderr == "said on stderr\n"
    assert done.returncode == 1
    assert rows_in(tmp_path) == 1


def test_the_summary_says_what_has_a_row_and_what_has_not(record):
    program = SENDS + (
        "b.recv(5); b.recv(5); a.setblocking(False)\n"
        "try: a.recv(1)\n"
        "except BlockingIOError: pass\n"
        "file = open(sys.executable, 'rb'); os.sendfile(a.fileno(), file.fileno(), 0, 100)\n"
        "a.close(); b.recv(100); b.recv(100)"
    )

    done = record(python(program))

    assert done.status == 0
    assert "4 rows, 10 bytes sent and 110 received, processes: 1, threads: 1" in done.stderr
    assert "without a row: 1 calls failed (EAGAIN 1), 1 moved nothing" in done.stderr
    assert "not seen: 100 bytes that have no user buffer (sendfile 1)" in done.stderr
    assert "recording:" not in done.stderr  # the live count is for terminals
    assert done.stdout == ""


def test_with_a_dash_the_trace_alone_is_on_standard_output(tmp_path):
    command = python(SENDS + "print('what the program prints')")

    done = subprocess.run(recorder("-o", "-", "--", *command), capture_output=True, check=True)

    (tmp_path / "piped.parquet").write_bytes(done.stdout)
    assert pq.read_table(tmp_path / "piped.parquet")["length"].to_pylist() == [10]
    assert b"what the program prints" in done.stderr
    assert b"nicscope: standard output: 1 rows, " in done.stderr


def test_what_a_recording_makes_no_use_of_is_not_loaded(tmp_path):
    command = recorder("-o", str(tmp_path / "t.parquet"), "--", *python(SENDS))
    told = [command[0], "-X", "importtime", *command[1:]]

    done = subprocess.run(told, capture_output=True, text=True, check=True)

    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "pyarrow" in loaded
    assert loaded & {"pandas.core", "nicscope.traces.formats"} == set()


def test_a_program_starts_with_the_signals_that_it_would_have_had(record):
    status = Path("/proc/self/status")
    show = ["grep", "-E", "^Sig(Blk|Ign|Cgt)", str(status)]
    program = SENDS + f"signal.signal(signal.SIGPIPE, signal.SIG_DFL); os.execvp('grep', {show})"

    plain = subprocess.run(python(program), capture_output=True, text=True, check=True)
    recorded = record(python(program), "--quiet")
    direct = record(show, "--quiet")

    assert recorded.stdout == plain.stdout
    plain = subprocess.run(show, capture_output=True, text=True, check=True)
    assert direct.stdout == plain.stdout


def test_a_program_killed_by_a_signal_leaves_its_rows_and_128_and_the_number(record, tmp_path):
    done = record(python(SENDS + "os.kill(os.getpid(), signal.SIGSEGV)"))

    assert done.status == 128 + 11
    assert "ended by signal 11" in done.stderr
    assert rows_in(tmp_path) == 1


COUNTING = (
    SENDS
    + """
came = []
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: came.append(number))
open(sys.argv[1], "w").write(str(os.getpid()))
while not came:
    time.sleep(0.05)
time.sleep(0.3)
print(sorted(int(number) for number in came))
sys.exit(9)
"""
)


def started(folder, program, **keywords):
    """A recorder, and the number of its program once it says that it is ready."""
    ready = folder / "ready"
    arguments = recorder("-o", str(folder / "trace.parquet"), "--", *python(program, str(ready)))
    running = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **keywords
    )
    eventually(lambda: ready.exists() and ready.read_text())
    return running, int(ready.read_text())


def test_signals_to_the_recorder_reach_the_program_once_each(tmp_path):
    running, _ = started(tmp_path, COUNTING)

    running.send_signal(signal.SIGINT)
    running.send_signal(signal.SIGTERM)
    output, _ = running.communicate(timeout=30)

    assert output == f"[{int(signal.SIGINT)}, {int(signal.SIGTERM)}]\n"
    assert running.returncode == 9
    assert rows_in(tmp_path) == 1


def test_a_terminal_gets_a_live_count_and_its_ctrl_c_reaches_the_program_once(tmp_path):
    child, terminal = pty.fork()
    if not child:  # with a terminal of its own
        trace = str(tmp_path / "trace.parquet")
        command = recorder("-o", trace, "--", *python(COUNTING, str(tmp_path / "ready")))
        os.execv(command[0], command)
    eventually((tmp_path / "ready").exists)
    said = b""
    while b"recording: 1 rows, 1 processes alive, " not in said:
        said += os.read(terminal, 4096)

    os.write(terminal, b"\x03")
    with contextlib.suppress(OSError):  # how a terminal says that the other end has gone
        while chunk := os.read(terminal, 4096):
            said += chunk
    _, status = os.waitpid(child, 0)
    os.close(terminal)

    assert b"[2]\r\n" in said
    assert os.waitstatus_to_exitcode(status) == 9
    assert rows_in(tmp_path) == 1


def test_a_signal_to_the_whole_group_reaches_the_program_once_from_each(tmp_path):
    program = COUNTING.replace(
        "while not came", "os.kill(0, signal.SIGTERM)\nwhile not came"
    )  # as scripts do to end what they have started

    running, _ = started(tmp_path, program, start_new_session=True)
    output, _ = running.communicate(timeout=30)

    assert output == f"[{int(signal.SIGTERM)}]\n"
    assert running.returncode == 9
    assert rows_in(tmp_path) == 1


def test_what_outlives_the_program_is_named_and_ends_with_a_signal(tmp_path):
    program = SENDS + (
        "child = os.fork()\n"
        "if child: os._exit(4)\n"
        "os.setsid(); open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(60)"
    )
    running, survivor = started(tmp_path, program)
    assert running.stderr is not None

    assert "has ended but 1 processes that it started run on" in running.stderr.readline()
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=30)

    assert running.returncode == 4
    assert rows_in(tmp_path) == 1
    eventually(lambda: has_ended(survivor))


def test_a_killed_recorder_takes_the_program_along_and_leaves_no_file(tmp_path):
    running, program = started(
        tmp_path,
        SENDS + "open(sys.argv[1], 'w').write(str(os.getpid()))\n"
        "while True: a.send(b'x'); b.recv(1)",
    )

    running.kill()
    running.communicate(timeout=30)

    eventually(lambda: has_ended(program))
    assert [path.name for path in tmp_path.iterdir()] == ["ready"]


@pytest.mark.parametrize("status", [0, 7])
def test_a_program_without_sockets_gives_no_file_and_a_reason(record, tmp_path, status):
    done = record(["sh", "-c", f"echo hello; exit {status}"])

    assert done.stdout == "hello\n"
    assert done.status == (status or 2)
    assert_refused(done._replace(status=2), tmp_path, "nothing was recorded, no file written")


@pytest.mark.parametrize(
    ("mode", "name", "facts"),
    [
        (None, "no-such-program-here", ("'no-such-program-here'", "no such program on the PATH")),
        (0o644, "./script", ("'./script'", "may not be executed", "make it executable")),
        (0o755, "./script", ("start it through its interpreter",)),
    ],
)
def test_what_cannot_be_started_is_named(record, tmp_path, monkeypatch, mode, name, facts):
    monkeypatch.chdir(tmp_path)
    if mode is not None:
        Path("script").write_text("echo")
        Path("script").chmod(mode)

    assert_refused(record([name]), tmp_path, *facts)


@pytest.mark.parametrize(
    ("place", "why"), [("no/t.parquet", "there is no folder"), (".", "is a folder")]
)
def test_an_output_that_cannot_be_written_is_refused_before_the_program_starts(
    record, tmp_path, place, why
):
    mark = tmp_path / "started"

    assert_refused(record(["touch", str(mark)], output=place), tmp_path, why)

    assert not mark.exists()


def test_a_program_that_is_traced_already_is_told_by_whom(record, tmp_path):
    done = record(recorder("-o", str(tmp_path / "inner.parquet"), "--", "true"))

    assert "'true' cannot be recorded: it is traced by " in done.stderr.splitlines()[0]
    assert done.status == 2
    assert list(tmp_path.iterdir()) == []


# Puts itself under a filter that fails one system call with EPERM, then becomes its arguments.
FORBIDDING = """
import ctypes, os, struct, sys
number = int(sys.argv[1])
code = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7FFF0000)]
text = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in code))
header = ctypes.create_string_buffer(struct.pack("=H6xQ", len(code), ctypes.addressof(text)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, *map(ctypes.c_ulong, (1, 0, 0, 0))) == 0
assert libc.prctl(22, *map(ctypes.c_ulong, (2, ctypes.addressof(header), 0, 0))) == 0
os.execv(sys.argv[2], sys.argv[2:])
"""
NUMBERS = {"x86_64": {"ptrace": 101, "prctl": 157}, "aarch64": {"ptrace": 117, "prctl": 167}}


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("ptrace", "the kernel refuses to trace it (Operation not permitted); in a container"),
        ("prctl", "the kernel refuses a seccomp filter (Operation not permitted)"),
    ],
)
def test_a_sandbox_that_forbids_tracing_is_explained(tmp_path, call, why):
    this_machine()
    number = NUMBERS[os.uname().machine][call]
    mark = tmp_path / "started"
    inner = recorder("-o", str(tmp_path / "trace.parquet"), "--", "touch", str(mark))

    done = subprocess.run(
        python(FORBIDDING, str(number), *inner), capture_output=True, text=True, check=False
    )

    assert_refused(Done(done.returncode, done.stdout, done.stderr), tmp_path, why)
    assert not mark.exists()


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="32-bit calls of x86")
def test_calls_of_32_bit_code_are_counted(record):
    # getpid by the 32-bit way in: mov eax, 20; int 0x80; ret
    machine_code = struct.pack("=BI3B", 0xB8, 20, 0xCD, 0x80, 0xC3)
    program = SENDS + (
        "import ctypes, mmap\n"
        "page = mmap.mmap(-1, 4096, prot=7)\n"
        f"page.write({machine_code!r})\n"
        "address = ctypes.addressof(ctypes.c_char.from_buffer(page))\n"
        "print(ctypes.CFUNCTYPE(ctypes.c_int)(address)() == os.getpid())"
    )

    done = record(python(program))

    if done.status == 128 + 11:
        pytest.skip("this kernel runs no 32-bit code")
    assert done.stdout == "True\n"
    assert "not seen: 1 calls of 32-bit programs" in done.stderr


def test_help_has_examples_of_a_program_and_of_a_running_process(capsys):
    assert main(["record", "--help"]) == 0

    said = " ".join(capsys.readouterr().out.split())
    assert "nicscope record -o redis.parquet -- redis-server" in said
    assert "record -o busy.parquet --pid 4711 --seconds 10" in said


def test_the_metadata_holds_the_command_as_it_was_given(record, tmp_path):
    record(python(SENDS, "an argument"), "--quiet")

    metadata = json.loads(
        (pq.read_metadata(tmp_path / "trace.parquet").metadata or {})[b"nicscope"]
    )
    assert metadata["origin"]["command"].endswith("'an argument'")
    assert metadata["observed"]["exit_status"] == 0
    assert metadata["page_size"] == os.sysconf("SC_PAGE_SIZE")
