"""What cannot be attached to is refused in one line that says why, before anything is stopped."""

from __future__ import annotations

import os
import pwd
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nicscope.errors import RecordError
from nicscope.traces.recording import attach
from nicscope.traces.recording.attach import Attached as Attachment
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


def refusal(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert line.startswith("nicscope: ")
    assert list(folder.iterdir()) == []
    return line


def recorder_of(pid: int | str, folder: Path) -> list[str]:
    return recorder("-o", str(folder / "t.parquet"), "--pid", str(pid))


@pytest.mark.parametrize("pid", [0, -1, 4_194_303, 1 << 40])
def test_a_process_that_does_not_exist(tmp_path: Path, pid: int) -> None:
    assert f"there is no process {pid}; 'pgrep NAME'" in refusal(
        recorder_of(pid, tmp_path), tmp_path
    )


def test_a_thread_is_told_its_process(tmp_path: Path) -> None:
    with running(WAITS) as target:
        line = refusal(recorder_of(target.greeting, tmp_path), tmp_path)

    assert f"{target.greeting} is a thread ('python" in line
    assert f"of process {target.pid}; give --pid {target.pid}" in line


def test_the_recorder_itself(tmp_path: Path) -> None:
    command = shlex.join(recorder_of("PID", tmp_path)).replace("PID", "$$")

    assert "is this recorder" in refusal(["sh", "-c", f"exec {command}"], tmp_path)


def test_the_shell_that_has_started_the_recorder(tmp_path: Path) -> None:
    command = shlex.join(recorder_of("PID", tmp_path)).replace("PID", "$$")

    line = refusal(["sh", "-c", f"{command}; exit $?"], tmp_path)

    assert "('sh') has started this recorder, and each would wait for the other" in line


def test_a_process_that_has_ended_unheard(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        eventually(lambda: "State:\tZ" in Path(f"/proc/{ended.pid}/status").read_text())
        line = refusal(recorder_of(ended.pid, tmp_path), tmp_path)

    assert f"process {ended.pid} ('true') has ended; only its number is left until" in line
    assert f"process {os.getpid()} asks for its exit status" in line


@pytest.mark.skipif(
    not Path("/proc/2/comm").exists() or Path("/proc/2/comm").read_text() != "kthreadd\n",
    reason="this container has none",
)
def test_a_thread_of_the_kernel(tmp_path: Path) -> None:
    assert "process 2 ('kthreadd') is a thread of the kernel" in refusal(
        recorder_of(2, tmp_path), tmp_path
    )


def test_a_process_that_is_traced_already_is_told_by_whom(tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    with running(WAITS) as target:
        attached = Attached(target.pid, tmp_path / "t.parquet")
        line = refusal(recorder_of(target.pid, folder), folder)
        attached.process.send_signal(signal.SIGINT)
        attached.process.communicate(timeout=60)

    assert f"process {target.pid} (" in line
    assert "is traced by '" in line
    assert f"(process {attached.process.pid}) already" in line


@pytest.mark.skipif(os.getuid() != 0, reason="root alone can start another user's process")
def test_a_process_of_another_user(tmp_path: Path) -> None:
    nobody = pwd.getpwnam("nobody").pw_uid
    with subprocess.Popen(["sleep", "60"], user=nobody, group=nobody) as target:
        command = [sys.executable, "-I", "-S", "-c", UNPRIVILEGED]
        line = refusal([*command, *recorder_of(target.pid, tmp_path)], tmp_path)
        assert tracer_of(target.pid) == 0
        target.kill()

    assert "it belongs to user 'nobody' and you are user 'root'; record as that user" in line


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        (0, "the kernel refuses to trace it"),
        (1, "traced by its ancestors alone (kernel.yama.ptrace_scope is 1); record as root"),
        (2, "this machine forbids tracing (kernel.yama.ptrace_scope is 2); record as root"),
        (3, "reboot with it below 3"),
    ],
)
def test_a_machine_that_forbids_it(monkeypatch: pytest.MonkeyPatch, scope: int, said: str) -> None:
    from nicscope.traces.recording import permission

    def refuse(_: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(attach, "seize_for_a_while", refuse)
    monkeypatch.setattr(attach, "yama_scope", lambda: scope)
    monkeypatch.setattr(permission, "yama_scope", lambda: scope)
    with running(WAITS) as target, pytest.raises(RecordError) as refused:
        Attachment(target.pid).trace(_NoTracer(), lambda: None)  # type: ignore[arg-type]

    assert said in str(refused.value)


class _NoTracer:
    """Stands for a tracer that nothing comes to."""

    has_ended = True

    def let_go(self, heeding: bool) -> None:
        assert not heeding


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--pid", "1", "--", "true"], "--pid 1 and the command 'true': only one of them"),
        ([], "nothing to record; end the line in -- COMMAND, or name a --pid"),
        (["--seconds", "1", "--", "true"], "--seconds goes with --pid"),
        (["--seconds", "0", "--pid", "1"], "--seconds 0.0: must be more than 0"),
        (["--seconds", "nan", "--pid", "1"], "--seconds nan: must be more than 0"),
    ],
)
def test_a_question_that_makes_no_sense(tmp_path: Path, options: list[str], said: str) -> None:
    assert said in refusal(recorder("-o", str(tmp_path / "t.parquet"), *options), tmp_path)
