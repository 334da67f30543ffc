"""Starts a program traced from its first instruction, or attaches to a running one."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import shutil
import signal
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from nicscope.errors import RecordError
from nicscope.traces.recording.calls import install_filter
from nicscope.traces.recording.ptrace import (
    CONTINUE,
    TO_NEXT_STOP,
    pending_stop,
    seize_detachable,
    seize_with_exitkill,
    status_of,
    tracer_of,
    wait_for_stop,
    why_refused,
    yama_scope,
)
from nicscope.traces.recording.signals import (
    TICK_S,
    Forwarder,
    Ticker,
    never_paused,
    wait_for_signal,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from nicscope.traces.recording.tracer import Tracer


_FILTERING = "filter"
_STARTING = "start"
# What Python ignores for its own sake; a program expects them as they were.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


class Launched:
    """A traced child process that is about to exec, or to report why it could not."""

    attached = False
    go_on = CONTINUE

    def __init__(self, pid: int, command: Sequence[str], complaints: int) -> None:
        self.pid = pid
        self.command = command
        self._complaints = os.fdopen(complaints)  # a pipe: what went wrong before it began

    def __enter__(self) -> Launched:
        return self

    def __exit__(self, *_: object) -> None:
        self._complaints.close()

    def trace(self, tracer: Tracer, tick: Callable[[], None]) -> int:
        """Trace until the last process has ended; the program's exit status.

        It gets the signals that come; ``tick`` is called now and then from another thread.
        Should tracing fail, all are killed: their calls would fail without a tracer.
        Errors: ``RecordError`` if it did not begin.
        """
        with Forwarder(self.pid, lambda: tracer.processes, tick):
            tracer.meet(self.pid)
            try:
                while True:
                    try:
                        stopped = wait_for_stop()
                    except ChildProcessError:
                        break
                    tracer.take(*stopped)
            except BaseException:
                _kill_all(tracer.processes | {self.pid})
                raise
        if not tracer.observed.programs:
            raise self._why_not()
        return tracer.statuses[self.pid]

    def _why_not(self) -> RecordError:
        name = self.command[0]
        stage, _, number = self._complaints.read().partition(" ")
        if stage == _FILTERING:
            return RecordError(
                f"{name!r} cannot be recorded: the kernel refuses a seccomp filter "
                f"({os.strerror(int(number))}); record outside this container or sandbox"
            )
        if stage == _STARTING and int(number) == errno.ENOEXEC:
            return RecordError(
                f"{name!r} is no program that this machine can run; if it is a script, "
                "start it through its interpreter, such as: sh SCRIPT"
            )
        if stage == _STARTING:
            return RecordError(f"{name!r} cannot be started: {os.strerror(int(number))}")
        return RecordError(f"{name!r} was killed before it began; nothing was recorded")


def find_program(name: str) -> str:
    """Path of the program that a shell would start for ``name``.

    Errors: ``RecordError`` if there is none, or it may not be executed.
    """
    path = shutil.which(name)
    if path is not None:
        return path
    if "/" not in name:
        raise RecordError(f"{name!r}: no such program on the PATH; give its path")
    if not Path(name).exists():
        raise RecordError(f"{name!r}: no such program")
    if Path(name).is_dir():
        raise RecordError(f"{name!r}: is a folder, not a program")
    raise RecordError(f"{name!r}: may not be executed; make it executable: chmod +x {name}")


def launch(
    command: Sequence[str], filter_code: bytes, mask: Collection[int], *, aside: bool = False
) -> Launched:
    """Start ``command`` under the filter, traced by this thread, with ``mask`` of signals.

    ``aside``: it prints on the error stream, as standard output gets the trace.
    Errors: ``RecordError`` if there is no such program or it may not be traced.
    """
    path = find_program(command[0])
    gate, opener = os.pipe()
    complaints, complain = os.pipe()
    with warnings.catch_warnings():
        # Python warns of threads that a forked child would miss; this one soon is another program.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        os.close(opener)
        if aside:
            os.dup2(2, 1)
        _become(path, command, filter_code, mask, gate, complain)
    os.close(gate)
    os.close(complain)
    try:
        seize_with_exitkill(pid)
        os.write(opener, b"!")
    except OSError as error:
        tracer = tracer_of(pid)
        os.close(opener)  # opens nothing: the child ends
        os.close(complaints)
        os.waitpid(pid, 0)
        raise RecordError(why_refused(repr(command[0]), error, tracer)) from error
    os.close(opener)
    return Launched(pid, command, complaints)


def _become(
    path: str,
    command: Sequence[str],
    filter_code: bytes,
    mask: Collection[int],
    gate: int,
    complain: int,
) -> NoReturn:
    """In the child: wait until it is traced, then exec, or report why that failed."""
    stage = _FILTERING
    try:
        if os.read(gate, 1):
            for number in _IGNORED_BY_PYTHON:
                signal.signal(number, signal.SIG_DFL)
            install_filter(filter_code)
            stage = _STARTING
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.execv(path, list(command))
    except OSError as error:
        os.write(complain, f"{stage} {error.errno}".encode())
    finally:
        os._exit(127)


def _kill_all(processes: Collection[int]) -> None:
    for process in processes:
        _kill(process)
    while True:
        try:
            tid, status = wait_for_stop()
        except ChildProcessError:
            return
        if os.WIFSTOPPED(status):  # started just now
            _kill(tid)


def _kill(tid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(tid, signal.SIGKILL)


_LOOK_S = 0.05  # at the clock and for signals, while stops come without a pause
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD, linux/sched.h
_FLAGS_AT = 6  # in /proc/PID/stat, counted from behind the name
_LARGEST = 1 << 22  # PID_MAX_LIMIT


class Attached:
    """A running process that may be traced, as far as can be checked without trying.

    ``seconds`` is how long to trace it at most.
    Errors: ``RecordError`` with the reason for which it may not.
    """

    attached = True
    go_on = TO_NEXT_STOP

    def __init__(self, pid: int, seconds: float | None = None) -> None:
        self.pid = pid
        self._name = f"process {pid}" + _checked_name(pid)
        self.command = _command_of(pid)
        self._seconds = math.inf if seconds is None else seconds

    def __enter__(self) -> Attached:
        return self

    def __exit__(self, *_: object) -> None:
        pass  # it goes on

    def trace(self, tracer: Tracer, tick: Callable[[], None]) -> int | None:
        """Trace until it and what it starts have ended, a held signal comes, or time is up.

        Its exit status, None if it runs on.  ``tick`` is called now and then from another thread,
        so that a terminal that takes no output does not halt the process.
        Errors: ``RecordError`` if it may not be traced after all.
        """
        with Ticker(tick), never_paused():
            try:
                self._seize(tracer)
                self._follow(tracer)
            except BaseException:
                _release(tracer, heeding=False)
                raise
            _release(tracer, heeding=True)
        return tracer.statuses.get(self.pid)

    def _seize(self, tracer: Tracer) -> None:
        """Seize each thread until a scan of all of them finds no new one."""
        tried: set[int] = set()
        while new := _threads_of(self.pid) - tried:
            for tid in new:
                tried.add(tid)
                try:
                    seize_detachable(tid)
                except OSError as error:
                    self._ignore_ended(tid, error)
                else:
                    tracer.meet(tid)
        if self.pid not in tracer.processes:
            raise RecordError(f"{self._name} has ended just now; nothing was recorded")

    def _ignore_ended(self, tid: int, error: OSError) -> None:
        """Ignore that a thread has ended, or is traced already because a traced one started it.

        Errors: ``RecordError`` for any other reason.
        """
        status = status_of(tid)
        ended = error.errno == errno.ESRCH or status.get("State", "Z")[0] in "ZX"
        if ended or int(status.get("TracerPid", 0)) == os.getpid():
            return
        raise RecordError(self._why_refused(status, error)) from error

    def _why_refused(self, status: dict[str, str], error: OSError) -> str:
        tracer = tracer_of(self.pid)
        owner, user = int(status["Uid"].split()[1]), os.geteuid()
        if tracer is None and owner != user:
            return (
                f"{self._name} cannot be recorded: it belongs to {_user(owner)} and you are "
                f"{_user(user)}; record as that user{', or as root' if user else ''}"
            )
        if tracer is None and yama_scope() == 1:
            return (
                f"{self._name} cannot be recorded: this machine lets a process be traced by its "
                "ancestors alone (kernel.yama.ptrace_scope is 1); record as root, or let root say "
                "sysctl kernel.yama.ptrace_scope=0"
            )
        return why_refused(self._name, error, tracer)

    def _follow(self, tracer: Tracer) -> None:
        end = time.monotonic() + self._seconds
        next_look = 0.0
        while not tracer.has_ended:
            now = time.monotonic()
            if now >= next_look:
                next_look = now + _LOOK_S
                if now >= end or wait_for_signal(0) is not None:
                    return
            stopped = pending_stop()
            if stopped is not None:
                tracer.take(*stopped)
            elif wait_for_signal(min(TICK_S, max(end - now, 0)), or_stop=True) is not None:
                return


def _release(tracer: Tracer, heeding: bool) -> None:
    """Detach all.  A thread that never stops, amid a broken disk's work, is let go as we end.

    That end a second signal calls for.
    """
    tracer.let_go(heeding)
    while not tracer.has_ended:
        stopped = pending_stop()
        if stopped is not None:
            tracer.take(*stopped)
        elif wait_for_signal(TICK_S, or_stop=True) is not None:
            return


def _threads_of(pid: int) -> set[int]:
    try:
        return {int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()}
    except OSError:  # it has ended
        return set()


def _checked_name(pid: int) -> str:
    """The name of a process for messages, besides its number.

    Errors: ``RecordError`` if it cannot or should not be traced, whoever asks.
    """
    status = status_of(pid) if 0 < pid <= _LARGEST else {}
    if not status:
        if 0 < pid <= _LARGEST and _exists(pid):
            return ""  # hidden; the kernel will say why it may not be traced
        raise RecordError(f"there is no process {pid}; 'pgrep NAME' tells the numbers of a program")
    name = f" ({status['Name']!r})"
    process = int(status["Tgid"])
    if process != pid:
        raise RecordError(f"{pid} is a thread{name} of process {process}; give --pid {process}")
    if pid == os.getpid():
        raise RecordError(f"process {pid}{name} is this recorder, which cannot stop itself")
    if pid in _ancestors():
        raise RecordError(
            f"process {pid}{name} has started this recorder, and each would wait for the other; "
            "record it from another terminal"
        )
    if _is_kernel_thread(pid):
        raise RecordError(f"process {pid}{name} is a thread of the kernel; it has no sockets")
    tracer = tracer_of(pid)
    if tracer is not None:
        raise RecordError(why_refused(f"process {pid}{name}", OSError(), tracer))
    if status["State"][0] in "ZX" and not _threads_of(pid) - {pid}:
        raise RecordError(
            f"process {pid}{name} has ended; only its number is left until process "
            f"{status['PPid']} asks for its exit status"
        )
    return name


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _ancestors() -> set[int]:
    found: set[int] = set()
    parent = os.getppid()
    while parent and parent not in found:
        found.add(parent)
        parent = int(status_of(parent).get("PPid", 0))
    return found


def _is_kernel_thread(pid: int) -> bool:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return False
    return bool(int(fields[_FLAGS_AT]) & _KERNEL_THREAD)


def _command_of(pid: int) -> list[str]:
    """The process's command line, or its name if it has cleared that."""
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="backslashreplace")
    except OSError:
        text = ""
    words = text.rstrip("\0").split("\0") if text else []
    return words or [status_of(pid).get("Name", "?")]


def _user(number: int) -> str:
    import pwd

    try:
        return f"user {pwd.getpwuid(number).pw_name!r}"
    except KeyError:
        return f"user {number}"
