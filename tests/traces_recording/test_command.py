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
from typing import Any

import pyarrow.parquet as pq
import pytest

from nicscope.traces.recording.calls import this_machine
from traces_recording.programs import has_ended
from traces_recording.running import UNPRIVILEGED, eventually, recorder

SENDS = "import socket, sys, os, signal, time; a, b = socket.socketpair(); a.send(b'x' * 10); "


def python(program: str, *arguments: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", program, *arguments]


def record(
    folder: Path, command: list[str], *options: str, **keywords: Any
) -> subprocess.CompletedProcess[str]:
    arguments = recorder("-o", str(folder / "trace.parquet"), *options, "--", *command)
    return subprocess.run(
        arguments, capture_output=True, text=True, timeout=60, check=False, **keywords
    )


def rows_in(folder: Path) -> int:
    return int(pq.read_metadata(folder / "trace.parquet").num_rows)


def only_line(text: str) -> str:
    (line,) = text.splitlines()
    assert line.startswith("nicscope: ")
    return line


def test_input_output_and_exit_status_are_the_programs_own(tmp_path: Path) -> None:
    program = SENDS + "print(sys.stdin.read(), sys.argv[1:]); sys.exit('said on stderr')"

    done = record(tmp_path, python(program, "--help", "-o", "--", "x"), "--quiet", input="given")

    assert done.stdout == "given ['--help', '-o', '--', 'x']\n"
    assert done.stderr == "said on stderr\n"
    assert done.returncode == 1
    assert rows_in(tmp_path) == 1


def test_the_summary_says_what_has_a_row_and_what_has_not(tmp_path: Path) -> None:
    program = SENDS + (
        "b.recv(5); b.recv(5); a.setblocking(False)\n"
        "try: a.recv(1)\n"
        "except BlockingIOError: pass\n"
        "file = open(sys.executable, 'rb'); os.sendfile(a.fileno(), file.fileno(), 0, 100)\n"
        "a.close(); b.recv(100); b.recv(100)"
    )

    done = record(tmp_path, python(program))

    assert done.returncode == 0
    assert "4 rows, 10 bytes sent and 110 received, processes: 1, threads: 1" in done.stderr
    assert "without a row: 1 calls failed (EAGAIN 1), 1 moved nothing" in done.stderr
    assert "not seen: 100 bytes that have no user buffer (sendfile 1)" in done.stderr
    assert "recording:" not in done.stderr  # the live count is for terminals
    assert done.stdout == ""


def test_a_trace_on_standard_output_is_called_so(tmp_path: Path) -> None:
    with (tmp_path / "t.parquet").open("wb") as out:
        command = recorder("-o", "-", "--", *python(SENDS))
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, check=True)

    assert done.stderr.startswith("nicscope: standard output: 1 rows, ")


def test_what_a_recording_makes_no_use_of_is_not_loaded(tmp_path: Path) -> None:
    command = recorder("-o", str(tmp_path / "t.parquet"), "--", *python(SENDS))
    told = [command[0], "-X", "importtime", *command[1:]]

    done = subprocess.run(told, capture_output=True, text=True, check=True)

    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "pyarrow" in loaded
    assert loaded & {"pandas.core", "nicscope.traces.formats"} == set()


def test_a_terminal_gets_a_live_count(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = recorder("-o", str(tmp_path / "t.parquet"), "--", *python(SENDS + "time.sleep(1)"))
    with subprocess.Popen(command, stderr=theirs, stdin=subprocess.DEVNULL) as running:
        os.close(theirs)
        said = b""
        with contextlib.suppress(OSError):  # how a terminal says that the other end has gone
            while chunk := os.read(ours, 4096):
                said += chunk
    os.close(ours)

    assert running.returncode == 0
    assert b"recording: 1 rows, 1 processes alive, " in said


def test_a_program_starts_with_the_signals_that_it_would_have_had(tmp_path: Path) -> None:
    status = Path("/proc/self/status")
    show = ["grep", "-E", "^Sig(Blk|Ign|Cgt)", str(status)]
    program = SENDS + f"signal.signal(signal.SIGPIPE, signal.SIG_DFL); os.execvp('grep', {show})"

    plain = subprocess.run(python(program), capture_output=True, text=True, check=True)
    recorded = record(tmp_path, python(program), "--quiet")
    direct = record(tmp_path, show, "--quiet")

    assert recorded.stdout == plain.stdout
    plain = subprocess.run(show, capture_output=True, text=True, check=True)
    assert direct.stdout == plain.stdout


def test_a_program_killed_by_a_signal_leaves_its_rows_and_128_and_the_number(
    tmp_path: Path,
) -> None:
    done = record(tmp_path, python(SENDS + "os.kill(os.getpid(), signal.SIGSEGV)"))

    assert done.returncode == 128 + 11
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
print([int(number) for number in came])
sys.exit(9)
"""
)


def started(folder: Path, program: str, **keywords: Any) -> tuple[subprocess.Popen[str], int]:
    """A recorder, and the number of its program once it says that it is ready."""
    ready = folder / "ready"
    arguments = recorder("-o", str(folder / "trace.parquet"), "--", *python(program, str(ready)))
    running = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **keywords
    )
    eventually(lambda: ready.exists() and ready.read_text())
    return running, int(ready.read_text())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_recorder_reaches_the_program_once(
    tmp_path: Path, number: signal.Signals
) -> None:
    running, _ = started(tmp_path, COUNTING)

    running.send_signal(number)
    output, _ = running.communicate(timeout=30)

    assert output == f"[{int(number)}]\n"
    assert running.returncode == 9
    assert rows_in(tmp_path) == 1


def test_ctrl_c_reaches_the_program_once_and_what_was_recorded_is_kept(tmp_path: Path) -> None:
    child, terminal = pty.fork()
    ready = tmp_path / "ready"
    if not child:  # with a terminal of its own
        trace = str(tmp_path / "trace.parquet")
        command = recorder("-o", trace, "--", *python(COUNTING, str(ready)))
        os.execv(command[0], command)
    eventually(lambda: ready.exists() and ready.read_text())

    os.write(terminal, b"\x03")
    said = b""
    with contextlib.suppress(OSError):
        while chunk := os.read(terminal, 4096):
            said += chunk
    _, status = os.waitpid(child, 0)
    os.close(terminal)

    assert b"[2]\r\n" in said
    assert os.waitstatus_to_exitcode(status) == 9
    assert rows_in(tmp_path) == 1


def test_a_signal_to_the_whole_group_reaches_the_program_once_from_each(tmp_path: Path) -> None:
    program = COUNTING.replace(
        "while not came", "os.kill(0, signal.SIGTERM)\nwhile not came"
    )  # as scripts do to end what they have started

    running, _ = started(tmp_path, program, start_new_session=True)
    output, _ = running.communicate(timeout=30)

    assert output == f"[{int(signal.SIGTERM)}]\n"
    assert running.returncode == 9
    assert rows_in(tmp_path) == 1


def test_what_outlives_the_program_is_named_and_ends_with_a_signal(tmp_path: Path) -> None:
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


def test_a_killed_recorder_takes_the_program_along_and_leaves_no_file(tmp_path: Path) -> None:
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
def test_a_program_without_sockets_gives_no_file_and_a_reason(tmp_path: Path, status: int) -> None:
    done = record(tmp_path, ["sh", "-c", f"echo hello; exit {status}"])

    assert done.stdout == "hello\n"
    assert "nothing was recorded, no file written" in only_line(done.stderr)
    assert done.returncode == (status or 2)
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_does_not_exist_is_named(tmp_path: Path) -> None:
    done = record(tmp_path, ["no-such-program-here"])

    assert "'no-such-program-here': no such program on the PATH" in only_line(done.stderr)
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_may_not_be_executed_is_named(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("echo")

    done = record(tmp_path, [str(script)])

    assert f"{str(script)!r}: may not be executed; make it executable" in only_line(done.stderr)
    assert done.returncode == 2


def test_a_script_without_an_interpreter_is_explained(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("echo")
    script.chmod(0o755)

    done = record(tmp_path, [str(script)])

    assert "start it through its interpreter" in only_line(done.stderr)
    assert done.returncode == 2


@pytest.mark.parametrize(
    ("place", "why"), [("no/t.parquet", "there is no folder"), (".", "is a folder")]
)
def test_an_output_that_cannot_be_written_is_refused_before_the_program_starts(
    tmp_path: Path, place: str, why: str
) -> None:
    mark = tmp_path / "started"
    command = recorder("-o", str(tmp_path / place), "--", "touch", str(mark))

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert why in only_line(done.stderr)
    assert done.returncode == 2
    assert not mark.exists()


def test_a_program_that_is_traced_already_is_told_by_whom(tmp_path: Path) -> None:
    inner = recorder("-o", str(tmp_path / "inner.parquet"), "--", "true")

    done = record(tmp_path, inner)

    assert "'true' cannot be recorded: it is traced by " in done.stderr.splitlines()[0]
    assert done.returncode == 2
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
def test_a_sandbox_that_forbids_tracing_is_explained(tmp_path: Path, call: str, why: str) -> None:
    this_machine()
    number = NUMBERS[os.uname().machine][call]
    mark = tmp_path / "started"
    inner = recorder("-o", str(tmp_path / "trace.parquet"), "--", "touch", str(mark))

    done = subprocess.run(
        python(FORBIDDING, str(number), *inner), capture_output=True, text=True, check=False
    )

    assert why in only_line(done.stderr)
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="32-bit calls of x86")
def test_calls_of_32_bit_code_are_counted(tmp_path: Path) -> None:
    # getpid by the 32-bit way in: mov eax, 20; int 0x80; ret
    machine_code = struct.pack("=BI3B", 0xB8, 20, 0xCD, 0x80, 0xC3)
    program = SENDS + (
        "import ctypes, mmap\n"
        "page = mmap.mmap(-1, 4096, prot=7)\n"
        f"page.write({machine_code!r})\n"
        "address = ctypes.addressof(ctypes.c_char.from_buffer(page))\n"
        "print(ctypes.CFUNCTYPE(ctypes.c_int)(address)() == os.getpid())"
    )

    done = record(tmp_path, python(program))

    if done.returncode == 128 + 11:
        pytest.skip("this kernel runs no 32-bit code")
    assert done.stdout == "True\n"
    assert "not seen: 1 calls of 32-bit programs" in done.stderr


def test_recording_asks_for_no_privilege(tmp_path: Path) -> None:
    program = SENDS + "print([line for line in open('/proc/self/status') if 'CapEff' in line])"
    inner = recorder("-o", str(tmp_path / "trace.parquet"), "--quiet", "--", *python(program))

    done = subprocess.run(python(UNPRIVILEGED, *inner), capture_output=True, text=True, check=False)

    assert done.stdout == "['CapEff:\\t0000000000000000\\n']\n"
    assert (done.returncode, done.stderr) == (0, "")
    assert rows_in(tmp_path) == 1


def test_help_has_an_example() -> None:
    done = subprocess.run(recorder("--help"), capture_output=True, text=True, check=True)

    assert "nicscope record -o redis.parquet -- redis-server" in " ".join(done.stdout.split())


def test_the_metadata_holds_the_command_as_it_was_given(tmp_path: Path) -> None:
    record(tmp_path, python(SENDS, "an argument"), "--quiet")

    raw = pq.read_schema(tmp_path / "trace.parquet").metadata or {}
    raw |= pq.read_metadata(tmp_path / "trace.parquet").metadata
    metadata = json.loads(raw[b"nicscope"])
    assert metadata["origin"]["command"].endswith("'an argument'")
    assert metadata["observed"]["exit_status"] == 0
    assert metadata["page_size"] == os.sysconf("SC_PAGE_SIZE")
