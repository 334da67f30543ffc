"""Compiled RDMA programs, as they are, on one machine between real processes."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import platform
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.errors import SimulationError, StudyError
from nicscope.interfaces.verbs_device.capture import Capture
from nicscope.live import layout
from nicscope.live.build import ENGINE, FILES, PACE, built
from nicscope.live.device import Engine, LiveDevice, LiveFabric
from nicscope.live.machine import Machine
from nicscope.outputs import check_output, whole_file
from nicscope.studies.verbs_programs import VerbsRuns, Wanted, report_of_runs, run_of
from nicscope.studies.verbs_recording import (
    check_recording,
    environment_of,
    nothing_recorded,
    origin_of,
    recording_folder,
    write_recording,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

FUNCTIONAL = (
    "functional: the programs run at their own pace, what they measure is this machine's time; "
    "virtual time is the device's own account"
)
PACED = (
    "paced: the programs' clocks show virtual time, so what they measure is the model's; their own "
    "computation takes none, and a sleep as much as it really takes"
)
DESIGN = "rnic"
PRIVATE = 0o700
_NO_RANDOMIZE = 0x0040000  # of personality(2)
_SET_PARENT_DEATH_SIGNAL = 1  # of prctl(2)
_GRACE_S = 5.0  # in which a program that is told to end does so
_LOOK_S = 0.02
_RESTING = 10  # looks, one after the other, at which a program waits for its peer
_MOST_S = 5.0  # after which the peer is begun in any case
_ENDED_BY_SIGNAL = 128


class LiveRuns(VerbsRuns, frozen=True, kw_only=True):
    """Programs that ran together, and what each of their NICs did."""

    mode: str = "functional"
    statuses: list[int]  # with which the programs left, in the order in which they were begun


def private_folder() -> Path:
    """The user's own folder for the socket.  Errors: ``StudyError`` for one of somebody else."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(base) / "nicscope" if base else Path(tempfile.gettempdir())
    folder /= "live" if base else f"nicscope-live-{os.geteuid()}"
    folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
    found = folder.lstat()
    if folder.is_symlink() or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise StudyError(f"{folder} is not this user's alone; remove it or set XDG_RUNTIME_DIR")
    return folder


@contextlib.contextmanager
def _orderly_end() -> Iterator[None]:
    """Have a signal to end be heard as an exit, so that programs end and nothing is left behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _frame: Any) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(_ENDED_BY_SIGNAL + number)

    before = {each: signal.signal(each, end) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[bool]:
    """Whether this process is the one that holds the machine, for as long as the block lasts."""
    with (folder / "machine.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True


def words_of(command: str | Sequence[str]) -> list[str]:
    """A command line's words.  Errors: ``StudyError`` for one that has none."""
    try:
        words = shlex.split(command) if isinstance(command, str) else [*command]
    except ValueError as wrong:
        raise StudyError(f"{command!r}: {str(wrong).lower()}") from None
    if not words:
        raise StudyError("there is no program to run; end the line in -- COMMAND")
    return words


# What programs read of a card past libibverbs, below /sys/class/infiniband/nicscope0.
_SHOWN = {
    "node_type": "1: CA",
    "device/net/lo/operstate": "up",  # programs ask what interface it is, and then its address
    "fw_ver": "1.0.0",
    "ports/1/state": "4: ACTIVE",
    "ports/1/phys_state": "5: LinkUp",
    "ports/1/link_layer": "Ethernet",
    "ports/1/rate": "100 Gb/sec (4X EDR)",
    "ports/1/gid_attrs/types/0": "RoCE v2",
    "ports/1/gid_attrs/types/1": "RoCE v2",
    "ports/1/pkeys/0": "0xffff",
}


def _show_files(folder: Path) -> None:
    """Have the files there that a kernel shows of a card, to which ``live/files.c`` leads."""
    device = folder / "sys" / "class" / "infiniband" / "nicscope0"
    for name, text in _SHOWN.items():
        path = device / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")


def _prepare_program() -> None:
    """In the process of a program: the same addresses each time, and an end with this process's."""
    library = ctypes.CDLL(None)
    library.personality(_NO_RANDOMIZE)
    library.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)


class _Programs:
    """The programs, begun one after the other as each has come to wait for its peer."""

    def __init__(
        self, commands: Sequence[Sequence[str]], environment: dict[str, str], aside: Any
    ) -> None:
        self._left = [*commands]
        self._environment, self._aside = environment, aside
        self.running: list[subprocess.Popen[bytes]] = []
        self._resting, self._looked, self._begun = 0, 0.0, 0.0

    def begin(self) -> None:
        """Begin the next.  Errors: ``StudyError`` for what is no program."""
        words = self._left.pop(0)
        try:
            made = subprocess.Popen(
                words,
                env=self._environment,
                stdout=self._aside,
                preexec_fn=_prepare_program,
            )
        except OSError as error:
            raise StudyError(f"{words[0]}: {error.strerror}") from None
        self.running.append(made)
        self._resting, self._begun = 0, time.monotonic()

    def are_over(self) -> bool:
        """Whether all have ended; begins the next when it is time."""
        now = time.monotonic()
        if now < self._looked + _LOOK_S:
            return False
        self._looked = now
        if self._left:
            self._resting = self._resting + 1 if self._rests() else 0
            if self._resting >= _RESTING or now > self._begun + _MOST_S:
                self.begin()
        return not self._left and all(each.poll() is not None for each in self.running)

    def _rests(self) -> bool:
        """Whether the program that was begun last sleeps, as one that waits for its peer does."""
        latest = self.running[-1]
        if latest.poll() is not None:
            return True
        try:
            text = Path(f"/proc/{latest.pid}/stat").read_text()
        except OSError:
            return True
        return text.rpartition(")")[2].split()[0] == "S"

    def end(self) -> list[int]:
        """Their exit statuses; what still runs is ended, also if it is stopped or does not heed."""
        for each in self.running:
            if each.poll() is None:
                each.terminate()
        until = time.monotonic() + _GRACE_S
        for each in self.running:
            try:
                each.wait(max(until - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                each.kill()
        statuses = [each.wait() for each in self.running]
        return [status if status >= 0 else _ENDED_BY_SIGNAL - status for status in statuses]


def run_live(
    commands: Sequence[str | Sequence[str]],
    wanted: Wanted,
    say: Callable[[str], None],
    aside: Any = None,
    record: Path | None = None,
    paced: bool = False,
    pcap: Path | None = None,
) -> LiveRuns | list[int]:
    """Run the programs on one machine; where another process holds it, on that one's.

    ``say``: told each line that comes before the programs' own; ``aside``: where their output
    goes, if not to standard output.  What is returned then are the exit statuses alone.
    ``record``: a trace of what these programs ask of libibverbs goes there.  ``paced``: their
    clocks show virtual time.  ``pcap``: the frames that leave the NICs go there.  Errors:
    ``NicscopeError`` without a compiler, for what is no program or a device that cannot be, or ask
    nothing to record; for a processor that cannot be paced; for frames on another's machine.
    """
    if paced and (sys.platform != "linux" or platform.machine() != "x86_64"):
        raise StudyError("--paced needs Linux on x86-64, whose time stamp counter can be trapped")
    programs = [words_of(each) for each in commands]
    libraries = built()
    folder = private_folder()
    environment = {**os.environ, "NICSCOPE_LIVE": str(folder / "machine")}
    before = os.environ.get("LD_LIBRARY_PATH")
    environment["LD_LIBRARY_PATH"] = f"{libraries}:{before}" if before else str(libraries)
    shown = folder / "files"
    _show_files(shown)
    before = os.environ.get("LD_PRELOAD")
    preloaded = str(libraries / FILES)
    environment["LD_PRELOAD"] = f"{preloaded}:{before}" if before else preloaded
    environment["NICSCOPE_LIVE_FILES"] = str(shown)
    with contextlib.ExitStack() as recording:
        if record is not None:
            check_recording(record)
            entries = recording.enter_context(recording_folder())
            environment = environment_of(libraries, entries, environment)
        capture = None
        if pcap is not None:
            if check_output(pcap).is_standard_output():
                raise StudyError(f"{pcap}: programs print there; name a file for --pcap")
            capture = Capture(recording.enter_context(whole_file(pcap)))
        found = _run(programs, wanted, environment, folder, libraries, say, aside, paced, capture)
        if capture is not None:
            say(f"{pcap}: {capture.summary()}")
        if record is not None:
            origin = origin_of(programs, "nicscope verbs exec --record")
            rows, observed = write_recording(entries, libraries, record, origin)
            if not rows:
                raise StudyError(nothing_recorded(observed))
            say(f"{record}: {rows:,} rows of what the programs asked of their devices")
    return found


def _run(
    programs: list[list[str]],
    wanted: Wanted,
    environment: dict[str, str],
    folder: Path,
    libraries: Path,
    say: Callable[[str], None],
    aside: Any,
    paced: bool,
    capture: Capture | None,
) -> LiveRuns | list[int]:
    from nicscope.drivers.simulate.ports.build import Faults

    path, clock = folder / "machine", folder / "pace"
    with _orderly_end(), _held(folder) as holds:
        if not holds:
            if capture is not None:
                raise StudyError(
                    "another process holds the machine, and sees its packets: give --pcap there"
                )
            _await(path)
            if clock.exists() != paced:
                mode, option = ("paced", "with") if clock.exists() else ("functional", "without")
                raise StudyError(
                    f"the machine of the other process is {mode}: join it {option} --paced"
                )
        if paced:
            environment |= {"NICSCOPE_PACE": str(clock)}
            environment["LD_PRELOAD"] = f"{libraries / PACE}:{environment['LD_PRELOAD']}"
        said = PACED if paced else FUNCTIONAL
        started = _Programs(programs, environment, aside)
        if not holds:
            say(said)
            say("on the machine of another process, which tells what the NICs did")
            return _run_as_guest(started)
        path.unlink(missing_ok=True)
        faults = Faults(seed=wanted.seed, **wanted.faults)
        [design] = wanted.designs
        # Where nobody is shown single packets, nor what each of them takes.
        bursts = capture is None and not paced and not any(wanted.faults.values())
        engine = Engine(libraries / ENGINE)
        fabric = LiveFabric(engine, design or DESIGN, wanted.platform, faults=faults, bursts=bursts)
        clock.unlink(missing_ok=True)
        machine = Machine(fabric, path, _new_pace(clock) if paced else None)
        if capture is not None:
            capture.begin(fabric)
        say(said)
        try:
            started.begin()
            machine.serve(lambda: started.are_over() and not machine.clients)
        finally:
            statuses = started.end()
            machine.close()
            path.unlink(missing_ok=True)
            clock.unlink(missing_ok=True)
    return _found(programs, fabric, machine, statuses, wanted, "paced" if paced else "functional")


def _new_pace(path: Path) -> Any:
    """The bytes of a file in which programs' clocks look: the time, and what each was shown."""
    head, clock = layout.DTYPES["pace"], layout.DTYPES["clock"]
    size = head.itemsize + layout.CONSTANTS["CLOCKS"] * clock.itemsize
    with path.open("w+b") as file:
        path.chmod(0o600)
        fcntl.flock(file, fcntl.LOCK_EX)  # as long as it is mapped here: so programs see who lives
        made: Any = np.memmap(file, np.uint8, "w+", shape=size)
    found = re.search(r"^cpu MHz\s*:\s*([0-9.]+)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    made[: head.itemsize].view(head)["khz"] = round(float(found[1]) * 1000) if found else 1_000_000
    return made


def _await(path: Path) -> None:
    """Wait until a machine listens.  Errors: ``SimulationError`` if none does."""
    for _ in range(100):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
            try:
                probe.connect(str(path))
            except OSError:
                time.sleep(0.1)
                continue
            return
    raise SimulationError(f"another process holds the machine of {path}, but does not listen")


def _run_as_guest(started: _Programs) -> list[int]:
    started.begin()
    try:
        while not started.are_over():
            time.sleep(_LOOK_S)
    finally:
        statuses = started.end()
    return statuses


def _found(
    programs: list[list[str]],
    fabric: LiveFabric,
    machine: Machine,
    statuses: list[int],
    wanted: Wanted,
    mode: str,
) -> LiveRuns:
    used: list[LiveDevice] = [each for each in machine.devices if each.has_served]
    first, *arguments = programs[0]
    return LiveRuns(
        program=first,
        arguments=arguments,
        mode=mode,
        seed=wanted.seed,
        runs=[run_of(each, 0, [], each.node) for each in used],
        seen=report_of_runs(first, [fabric], wanted) if used else None,
        statuses=statuses,
    )
