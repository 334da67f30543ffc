"""Starting a program so that it is traced from its first instruction on."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from nicscope.errors import RecordError
from nicscope.traces.recording.calls import install_filter
from nicscope.traces.recording.ptrace import seize

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_FILTERING = "filter"
_STARTING = "start"
# What Python ignores for its own sake; a program expects them as they were.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


class Launched:
    """A traced process that is to become a program, or to say why it did not."""

    def __init__(self, pid: int, name: str, complaints: int) -> None:
        self.pid = pid
        self.name = name
        self._complaints = os.fdopen(complaints)  # a pipe: what went wrong before it began

    def __enter__(self) -> Launched:
        return self

    def __exit__(self, *_: object) -> None:
        self._complaints.close()

    def check_begun(self, programs: int) -> None:
        """Make sure, when the process is gone, that it began any ``programs`` at all.

        Errors: ``RecordError`` with the reason for which it did not.
        """
        if not programs:
            raise self._why_not()

    def _why_not(self) -> RecordError:
        stage, _, number = self._complaints.read().partition(" ")
        if stage == _FILTERING:
            return RecordError(
                f"{self.name!r} cannot be recorded: the kernel refuses a seccomp filter "
                f"({os.strerror(int(number))}); record outside this container or sandbox"
            )
        if stage == _STARTING and int(number) == errno.ENOEXEC:
            return RecordError(
                f"{self.name!r} is no program that this machine can run; if it is a script, "
                "start it through its interpreter, such as: sh SCRIPT"
            )
        if stage == _STARTING:
            return RecordError(f"{self.name!r} cannot be started: {os.strerror(int(number))}")
        return RecordError(f"{self.name!r} was killed before it began; nothing was recorded")


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
        seize(pid)
        os.write(opener, b"!")
    except OSError as error:
        tracer = _tracer_of(pid)
        os.close(opener)  # opens nothing: the child ends
        os.close(complaints)
        os.waitpid(pid, 0)
        raise _may_not_trace(command[0], error, tracer) from error
    os.close(opener)
    return Launched(pid, command[0], complaints)


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


def _may_not_trace(name: str, error: OSError, tracer: str | None) -> RecordError:
    if tracer is not None:
        return RecordError(
            f"{name!r} cannot be recorded: it is traced by {tracer} already, and Linux allows one "
            "tracer only; start 'nicscope record' outside of it"
        )
    scope = _yama_scope()
    if scope >= 2:
        return RecordError(
            f"{name!r} cannot be recorded: this machine forbids tracing "
            f"(kernel.yama.ptrace_scope is {scope}); "
            + ("reboot with it below 3" if scope > 2 else "record as root")
        )
    return RecordError(
        f"{name!r} cannot be recorded: the kernel refuses to trace it ({error.strerror}); in a "
        "container, start that with --cap-add=SYS_PTRACE"
    )


def _tracer_of(pid: int) -> str | None:
    """Name and number of the process that traces ``pid``."""
    try:
        fields = Path(f"/proc/{pid}/status").read_text().splitlines()
        tracer = next(int(line.split()[1]) for line in fields if line.startswith("TracerPid:"))
        if not tracer:
            return None
        name = Path(f"/proc/{tracer}/comm").read_text().strip()
    except (OSError, StopIteration):
        return None
    return f"{name!r} (process {tracer})"


def _yama_scope() -> int:
    try:
        return int(Path("/proc/sys/kernel/yama/ptrace_scope").read_text())
    except (OSError, ValueError):
        return 0
