"""Recording a program from its start to its end, or a running process for a while."""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import errno
import math
import os
import platform
import shlex
import shutil
import signal
import struct
import threading
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from nicscope.errors import RecordError
from nicscope.outputs.file import PARQUET, check_output, format_to_write
from nicscope.traces.recording import ptrace
from nicscope.traces.recording.connections import Connection, Observed
from nicscope.traces.recording.ptrace import filter_program, install_filter, this_machine
from nicscope.traces.schema import WRITTEN, TraceMetadata
from nicscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from nicscope.traces.recording.tracer import Tracer


HELD = frozenset(
    {
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
    }
)
TICK_S = 0.2

_libc = ctypes.CDLL(None)
_SIGNAL_INFO = struct.Struct("=iiixxxxi")  # siginfo_t: number, errno, code, sender
_SIGNAL_INFO_SIZE = 128
_TIME = struct.Struct("=qq")  # struct timespec


def _sigset(numbers: Iterable[int]) -> bytes:
    return sum(1 << (number - 1) for number in numbers).to_bytes(128, "little")


_HELD = _sigset(HELD)
_HELD_OR_STOP = _sigset(HELD | {signal.SIGCHLD})


class ReceivedSignal(NamedTuple):
    """A signal that was received."""

    number: int
    code: int  # above 0: from the kernel
    sender: int  # process, if it came from one


def wait_for_signal(seconds: float, or_stop: bool = False) -> ReceivedSignal | None:
    """The next held signal; None if none comes in time, or this process was stopped meanwhile.

    ``or_stop``: also None as soon as a traced thread stops or ends.  Python's
    ``signal.sigtimedwait`` makes up a signal when a stop outlasts the time.
    """
    info = ctypes.create_string_buffer(_SIGNAL_INFO_SIZE)
    time = _TIME.pack(int(seconds), int(seconds % 1 * 1e9))
    if _libc.sigtimedwait(_HELD_OR_STOP if or_stop else _HELD, info, time) < 0:
        return None
    number, _, code, sender = _SIGNAL_INFO.unpack_from(info)
    return None if number == signal.SIGCHLD else ReceivedSignal(number, code, sender)


@contextlib.contextmanager
def held_signals() -> Iterator[Collection[int]]:
    """Block the signals of ``wait_for_signal``; yields the previous mask.

    Threads inherit the block: enter this before a library starts any.  Not to be nested.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, HELD | {signal.SIGCHLD})
    try:
        yield mask
    finally:
        # Whoever pressed Ctrl-C while the result was being written wanted the program to end,
        # and it has.
        while wait_for_signal(0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextlib.contextmanager
def never_paused() -> Iterator[None]:
    """Ignore stop signals: a waiting parent would wait for ever."""
    pauses = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
    taken = {number: signal.signal(number, signal.SIG_IGN) for number in pauses}
    # Whoever ignores this one does not hear that a thread has stopped.
    taken[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield
    finally:
        for number, before in taken.items():
            signal.signal(number, before)


def stop_if_interrupted() -> None:
    """Raise ``KeyboardInterrupt`` if a held signal is pending: no program runs yet to get it."""
    if wait_for_signal(0) is not None:
        raise KeyboardInterrupt


class Ticker(threading.Thread):
    """Calls ``tick`` periodically while a ``with`` block runs."""

    def __init__(self, tick: Callable[[], None]) -> None:
        super().__init__(name=type(self).__name__, daemon=True)
        self._tick = tick
        self._over = threading.Event()

    def __enter__(self) -> Ticker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        """Tick until the ``with`` block ends."""
        while not self._over.wait(TICK_S):
            self._tick()


class Forwarder(Ticker):
    """Forwards held signals to a program while it runs; calls ``tick`` periodically.

    ``processes`` gives the recorded processes that are alive.
    """

    def __init__(
        self, root: int, processes: Callable[[], Collection[int]], tick: Callable[[], None]
    ) -> None:
        super().__init__(tick)
        self._root = root
        self._processes = processes
        self._asked_to_end = False

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self.ident is not None and self.is_alive():
            signal.pthread_kill(self.ident, signal.SIGUSR2)  # wakes it
        self.join()

    def run(self) -> None:
        """Wait for signals until the ``with`` block ends."""
        while not self._over.is_set():
            came = wait_for_signal(TICK_S)
            if self._over.is_set():
                return
            if came is not None:
                self._pass_on(came)
            self._tick()

    def _pass_on(self, came: ReceivedSignal) -> None:
        alive = self._processes()
        if self._root not in alive:
            self._end(alive)
        # From the kernel (the terminal), or from one of its own to the whole process group: the
        # program has got it too.
        elif came.code <= 0 and came.sender not in alive:
            _send(self._root, came.number)

    def _end(self, alive: Collection[int]) -> None:
        """Terminate processes that outlive the program; kill them the second time."""
        for process in alive:
            _send(process, signal.SIGKILL if self._asked_to_end else signal.SIGTERM)
        self._asked_to_end = True


def _send(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)


_FILTERING = "filter"
_STARTING = "start"
# What Python ignores for its own sake; a program expects them as they were.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


class Launched:
    """A traced child process that is about to exec, or to report why it could not."""

    attached = False
    go_on = ptrace.CONTINUE

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
                        stopped = ptrace.wait_for_stop()
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
        ptrace.seize_with_exitkill(pid)
        os.write(opener, b"!")
    except OSError as error:
        tracer = ptrace.tracer_of(pid)
        os.close(opener)  # opens nothing: the child ends
        os.close(complaints)
        os.waitpid(pid, 0)
        raise RecordError(ptrace.why_refused(repr(command[0]), error, tracer)) from error
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
            tid, status = ptrace.wait_for_stop()
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
    go_on = ptrace.TO_NEXT_STOP

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
                    ptrace.seize_detachable(tid)
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
        status = ptrace.status_of(tid)
        ended = error.errno == errno.ESRCH or status.get("State", "Z")[0] in "ZX"
        if ended or int(status.get("TracerPid", 0)) == os.getpid():
            return
        raise RecordError(self._why_refused(status, error)) from error

    def _why_refused(self, status: dict[str, str], error: OSError) -> str:
        tracer = ptrace.tracer_of(self.pid)
        owner, user = int(status["Uid"].split()[1]), os.geteuid()
        if tracer is None and owner != user:
            return (
                f"{self._name} cannot be recorded: it belongs to {_user(owner)} and you are "
                f"{_user(user)}; record as that user{', or as root' if user else ''}"
            )
        if tracer is None and ptrace.yama_scope() == 1:
            return (
                f"{self._name} cannot be recorded: this machine lets a process be traced by its "
                "ancestors alone (kernel.yama.ptrace_scope is 1); record as root, or let root say "
                "sysctl kernel.yama.ptrace_scope=0"
            )
        return ptrace.why_refused(self._name, error, tracer)

    def _follow(self, tracer: Tracer) -> None:
        end = time.monotonic() + self._seconds
        next_look = 0.0
        while not tracer.has_ended:
            now = time.monotonic()
            if now >= next_look:
                next_look = now + _LOOK_S
                if now >= end or wait_for_signal(0) is not None:
                    return
            stopped = ptrace.pending_stop()
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
        stopped = ptrace.pending_stop()
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
    status = ptrace.status_of(pid) if 0 < pid <= _LARGEST else {}
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
    tracer = ptrace.tracer_of(pid)
    if tracer is not None:
        raise RecordError(ptrace.why_refused(f"process {pid}{name}", OSError(), tracer))
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
        parent = int(ptrace.status_of(parent).get("PPid", 0))
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
    return words or [ptrace.status_of(pid).get("Name", "?")]


def _user(number: int) -> str:
    import pwd

    try:
        return f"user {pwd.getpwuid(number).pw_name!r}"
    except KeyError:
        return f"user {number}"


MOST_LISTED = 10_000  # connections whose addresses the metadata tells


class Progress(NamedTuple):
    """The progress of a recording."""

    rows: int
    processes: int  # that are alive
    program_ended: bool  # and only what it started runs on


class Recording(NamedTuple):
    """The result of a recording."""

    status: int | None  # of the program, 128 + number if a signal killed it; None if it runs on
    seconds: float
    observed: Observed
    path: Path | None  # None if nothing was recorded, and so no file written


def record(
    command: Sequence[str], path: Path, watch: Callable[[Progress], None] | None = None
) -> Recording:
    """Run ``command`` and write every socket send and receive of it and its children to ``path``.

    The format is that of the path's ending; a stream without one gets Parquet.

    The program has this process's input, output and signals for itself; if ``path`` is standard
    output, it prints on the error stream.  Call it from the main
    thread of a process that has no other children; ``watch`` is called a few times a second from
    another thread.  A trace without a row is not written: ``path`` of the result says so.
    Errors: ``RecordError`` if the program cannot be started or traced, ``OutputError`` if
    ``path`` cannot be written.
    """

    def begin(mask: Collection[int]) -> Launched:
        aside = check_output(path).is_standard_output()
        return launch(command, filter_program(this_machine()), mask, aside=aside)

    return _record(begin, path, watch)


def record_running(
    pid: int,
    path: Path,
    watch: Callable[[Progress], None] | None = None,
    seconds: float | None = None,
) -> Recording:
    """Write every socket send and receive of process ``pid``, and of what it starts, to ``path``.

    That is until they end, a signal such as Ctrl-C comes, or ``seconds`` have passed; then the
    process runs on as if nothing had been.  All else is as ``record`` has it.
    Errors: ``RecordError`` if the process may not be traced, ``OutputError`` if ``path`` cannot
    be written.
    """
    return _record(lambda _: Attached(pid, seconds), path, watch)


def _record(
    begin: Callable[[Collection[int]], Launched | Attached],
    path: Path,
    watch: Callable[[Progress], None] | None,
) -> Recording:
    written = format_to_write(path, WRITTEN, of_stream=PARQUET)
    check_output(path)
    machine = this_machine()
    observed = Observed()
    with held_signals() as mask:
        # Within this, as they load NumPy with the first rows that are written out: its threads must
        # not take the signals.
        from nicscope.traces.recording.tracer import IssueOrder, Tracer

        with IssueOrder(path) as rows:
            stop_if_interrupted()
            started = datetime.datetime.now(datetime.UTC)
            clock = time.monotonic()
            program = begin(mask)
            tracer = Tracer(machine, rows, observed, program.go_on)

            def tick() -> None:
                alive = tracer.processes
                if watch is not None:
                    watch(Progress(observed.rows, len(alive), program.pid not in alive))

            with program, contextlib.closing(tracer):
                status = program.trace(tracer, tick)
            seconds = time.monotonic() - clock
            if not observed.rows:
                return Recording(status, seconds, observed, None)
            counts = observed.as_json() | {"seconds": round(seconds, 6), "exit_status": status}
            met = tracer.connections.met
            metadata = _metadata(program, started, counts, met)
            from nicscope.traces.recording.result import write_result

            write_result(path, written, rows, metadata, met)
            return Recording(status, seconds, observed, path)


def _metadata(
    program: Launched | Attached,
    started: datetime.datetime,
    counts: dict[str, Any],
    connections: Sequence[Connection],
) -> TraceMetadata:
    origin = {
        "program": Path(program.command[0]).name,
        "command": shlex.join(program.command),
        "recorder": f"nicscope record {__version__}",
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "started": started.isoformat(timespec="seconds"),
    }
    if program.attached:
        origin["attached"] = "yes"  # so that it neither begins nor ends with the program
    return TraceMetadata(
        page_size=os.sysconf("SC_PAGE_SIZE"),
        origin=origin,
        observed=counts | {"connections": len(connections)},
        connections=[each._asdict() for each in connections[:MOST_LISTED]],
    )
