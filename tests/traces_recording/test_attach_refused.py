"""What cannot be attached to is refused in one line that says why, before anything is stopped."""

import os
import pwd
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nicscope.errors import RecordError
from nicscope.traces.recording import ptrace
from nicscope.traces.recording.record import Attached as Attachment
from refusals import assert_named, refused, refused_command
from traces_recording.running import (
    UNPRIVILEGED,
    Attached,
    eventually,
    recorder,
    running,
    tracer_of,
)

WAITS = """
import socket, sys, threading
a, b = socket.socketpair()
threading.Thread(target=lambda: a.recv(1), daemon=True).start()
print(threading.enumerate()[1].native_id, flush=True)
sys.stdin.readline()
"""
KERNELS_OWN = pytest.mark.skipif(
    not Path("/proc/2/comm").exists() or Path("/proc/2/comm").read_text() != "kthreadd\n",
    reason="this container has none",
)


@pytest.fixture
def assert_refused(tmp_path, capsys):
    """Hold that a process, or what else is asked, is refused in one line, which names facts."""

    def refuse(*facts, asked):
        folder = tmp_path / "empty"
        folder.mkdir()
        refused_command(capsys, ["record", "-o", folder / "t.parquet", *asked], *facts)
        assert list(folder.iterdir()) == []

    return refuse


def refusal(command, folder):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert line.startswith("nicscope: ")
    assert list(folder.iterdir()) == []
    return line


def recorder_of(pid, folder):
    return recorder("-o", str(folder / "t.parquet"), "--pid", str(pid))


@pytest.mark.parametrize(
    ("pid", "facts"),
    [
        *((pid, (f"no process {pid};", "'pgrep NAME'")) for pid in (0, -1, 4_194_303, 1 << 40)),
        (os.getpid(), ("is this recorder",)),
        pytest.param(2, ("process 2 ('kthreadd')", "thread of the kernel"), marks=KERNELS_OWN),
    ],
    ids=lambda value: str(value) if value != os.getpid() else "itself",
)
def test_what_is_no_process_of_somebodys(assert_refused, pid, facts):
    assert_refused(*facts, asked=["--pid", pid])


def test_a_thread_is_told_its_process(assert_refused):
    with running(WAITS) as target:
        assert_refused(
            f"{target.greeting} is a thread ('python",
            f"of process {target.pid}",
            f"--pid {target.pid}",
            asked=["--pid", target.greeting],
        )


def test_the_shell_that_has_started_the_recorder(tmp_path):
    command = shlex.join(recorder_of("PID", tmp_path)).replace("PID", "$$")

    line = refusal(["sh", "-c", f"{command}; exit $?"], tmp_path)

    assert_named(line, ("('sh') has started this recorder",))


def test_a_process_that_has_ended_unheard(assert_refused):
    with subprocess.Popen(["true"]) as ended:
        eventually(lambda: "State:\tZ" in Path(f"/proc/{ended.pid}/status").read_text())
        assert_refused(
            f"process {ended.pid} ('true') has ended",
            f"until process {os.getpid()} asks for its exit status",
            asked=["--pid", ended.pid],
        )


def test_a_process_that_is_traced_already_is_told_by_whom(assert_refused, tmp_path):
    with running(WAITS) as target:
        attached = Attached(target.pid, tmp_path / "t.parquet")
        assert_refused(
            f"process {target.pid} (",
            "is traced by '",
            f"(process {attached.process.pid}) already",
            asked=["--pid", target.pid],
        )
        attached.process.send_signal(signal.SIGINT)
        attached.process.communicate(timeout=60)


@pytest.mark.skipif(os.getuid() != 0, reason="root alone can start another user's process")
def test_a_process_of_another_user(tmp_path):
    nobody = pwd.getpwnam("nobody").pw_uid
    with subprocess.Popen(["sleep", "60"], user=nobody, group=nobody) as target:
        command = [sys.executable, "-I", "-S", "-c", UNPRIVILEGED]
        line = refusal([*command, *recorder_of(target.pid, tmp_path)], tmp_path)
        assert tracer_of(target.pid) == 0
        target.kill()

    assert_named(line, ("user 'nobody'", "user 'root'", "record as that user"))


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        (0, "the kernel refuses to trace it"),
        (1, "traced by its ancestors alone (kernel.yama.ptrace_scope is 1); record as root"),
        (2, "this machine forbids tracing (kernel.yama.ptrace_scope is 2); record as root"),
        (3, "reboot with it below 3"),
    ],
)
def test_a_machine_that_forbids_it(monkeypatch, scope, said):
    def refuse(_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(ptrace, "seize_detachable", refuse)
    monkeypatch.setattr(ptrace, "yama_scope", lambda: scope)
    with running(WAITS) as target, refused(RecordError, said):
        Attachment(target.pid).trace(_NoTracer(), lambda: None)


class _NoTracer:
    """Stands for a tracer that nothing comes to."""

    has_ended = True

    def let_go(self, heeding):
        assert not heeding


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        (["--pid", "1", "--", "true"], ("--pid 1", "'true'", "only one")),
        ([], ("-- COMMAND", "--pid")),
        (["--seconds", "1", "--", "true"], ("--seconds goes with --pid",)),
        (["--seconds", "0", "--pid", "1"], ("--seconds 0.0", "more than 0")),
        (["--seconds", "nan", "--pid", "1"], ("--seconds nan", "more than 0")),
    ],
)
def test_a_question_that_makes_no_sense(assert_refused, options, facts):
    assert_refused(*facts, asked=options)
