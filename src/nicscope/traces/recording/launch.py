"""Starting a program so that it is traced from its first instruction on, and to its end."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from nicscope.errors import RecordError
from nicscope.traces.recording.calls import install_filter
from nicscope.traces.recording.permission import tracer_of, why_refused
from nicscope.traces.recording.ptrace import CONTINUE, seize_to_the_end, wait_for_stop
from nicscope.traces.recording.signals import Forwarder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from nicscope.traces.recording.tracer import Tracer

_FILTERING = "filter"
_STARTING = "start"
# What Python ignores for its own sake; a program expects them as they were.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


class Launched:
    """A traced process that is to become a program, or to say why it did not."""

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
        seize_to_the_end(pid)
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
    """In the child: wait until it is traced, then turn into the program, or say why not."""
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
