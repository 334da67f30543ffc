"""What runs have asked to be compiled, in a folder that all runs of one installation share.

A request is a file named by its key; the kind of a state, which many requests have in common, is a
file by itself.  One process works on them (``kernel.server``): a lock tells whether it lives, and
what it has made is simply there, so nobody waits for an answer.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.kernel import store
from nicscope.kernel.layout import digest_of_kind, kind_of_plain, plain_kind
from nicscope.kernel.mode import CHECKED, VARIABLE

if TYPE_CHECKING:
    from nicscope.kernel.entering import Version
    from nicscope.kernel.layout import StateKind

PACKAGE = Path(__file__).parent.parent
AT_MOST_S = 600  # that the process compiles, however much is asked for
_REQUEST, _KIND, _FAILED = ".ask", ".kind", ".failed"
_LOCK = "lock-"
WORKERS = 2  # processes that compile: the second comes where much is asked
START_S = 2.0  # until a process that was started holds its lock
_WATCH_S = 0.5  # between two looks whether the process lives
_STARTS = 2  # of the process: one that was killed is replaced once
_HEAVIER = 4  # times the time spent interpreting after which a request says so again
_LEAST_S = 0.05  # spent interpreting before that


class Request(NamedTuple):
    """A kernel, by module and name, for states of a kind; ``spent_s`` interpreting it so far."""

    key: str
    module: str
    name: str
    kind: str
    spent_s: float


@functools.cache
def folder() -> Path | None:
    """Where requests are; None if nothing can be written there."""
    entries = store.folder()
    if entries is None:
        return None
    home = hashlib.sha256(f"{PACKAGE} {sys.executable} {CHECKED}".encode()).hexdigest()[:12]
    place = entries.parent / f"queue-{home}"
    try:
        place.mkdir(exist_ok=True)
    except OSError:
        return None
    return place


class _Asking:
    """What this process has asked for, and whom it has started."""

    def __init__(self) -> None:
        self.open: dict[str, Version] = {}
        self.weights: dict[str, float] = {}
        self.starts = 0
        self.look_at = 0.0
        self.told = False
        self.given_up = False


_asking = _Asking()


def ask(version: Version) -> None:
    """Have the code of ``version`` made, once; or say how much it would save by now."""
    key = version.key
    if not version.asked:
        version.asked = True
        if _can_be_imported(version.function) and _put(version):
            _asking.open[key] = version
            _asking.weights[key] = max(version.spent_s, _LEAST_S)
    elif key in _asking.open and version.spent_s > _HEAVIER * _asking.weights[key]:
        _asking.weights[key] = version.spent_s
        if _path(key).exists():
            _put(version)
    if key in _asking.open:
        watch()


def _can_be_imported(function: Any) -> bool:
    """Whether another process finds ``function`` by its name: not where it is of a script's own."""
    module = sys.modules.get(function.__module__)
    if module is None or function.__module__ == "__main__":
        return False
    found = getattr(module, function.__qualname__, None)
    return getattr(found, "function", found) is function


def _path(key: str) -> Path:
    home = folder()
    assert home is not None
    return home / (key + _REQUEST)


def _put(version: Version) -> bool:
    """Write the request; whether it can be answered."""
    home = folder()
    if home is None:
        _tell("compiled code cannot be kept in the cache folder (NUMBA_CACHE_DIR names another)")
        return False
    if (home / (version.key + _FAILED)).exists():
        return False
    kind = digest_of_kind(version.kind)
    function = version.function
    asked = [function.__module__, function.__qualname__, kind, round(version.spent_s, 3)]
    try:
        if not (home / (kind + _KIND)).exists():
            _write(home / (kind + _KIND), plain_kind(version.kind))
        _write(_path(version.key), asked)
    except OSError:
        return False
    return True


def _write(path: Path, content: Any) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(json.dumps(content))
    part.replace(path)


def requests() -> list[Request]:
    """What is asked for and nobody works on; files that say nothing are removed."""
    home = folder()
    found = []
    for path in home.glob(f"*{_REQUEST}") if home else ():
        try:
            module, name, kind, spent_s = json.loads(store.read_own(path))
            found.append(Request(path.stem, str(module), str(name), str(kind), float(spent_s)))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, TypeError):
            store.remove(path)
    return found


def waiting() -> int:
    """How many entries are asked for and not made yet."""
    home = folder()
    return len([*home.glob(f"*{_REQUEST}*")]) if home else 0


def is_open(key: str) -> bool:
    """Whether the entry of ``key`` is asked for and not made yet."""
    return any(True for _ in _path(key).parent.glob(f"{key}{_REQUEST}*"))


def take(request: Request, worker: int) -> bool:
    """Have ``worker`` alone answer ``request``; whether it was still to be had."""
    try:
        _path(request.key).rename(_taken(request.key, worker))
    except OSError:
        return False
    return True


def give_back(worker: int) -> None:
    """Let others have what ``worker`` took and, as it was killed, did not answer."""
    home = folder()
    for path in home.glob(f"*{_REQUEST}.{worker}") if home else ():
        with suppress(OSError):
            path.rename(path.with_suffix(""))


def _taken(key: str, worker: int) -> Path:
    return _path(key).with_name(f"{key}{_REQUEST}.{worker}")


def kind_of(request: Request) -> StateKind:
    """The kind of state that is asked for.  Errors: ``OSError``, ``ValueError``."""
    home = folder()
    assert home is not None
    path = home / (request.kind + _KIND)
    kind: StateKind = kind_of_plain(json.loads(store.read_own(path)))
    if digest_of_kind(kind) != request.kind:
        store.remove(path)
        raise ValueError(f"{path} does not describe what it is named after")
    return kind


def answer(request: Request, worker: int, failure: str = "") -> None:
    """Take ``request`` away; with ``failure``, so that nobody asks for the same again."""
    if failure:
        with suppress(OSError):
            _path(request.key).with_suffix(_FAILED).write_text(f"{request.name}: {failure}\n")
    store.remove(_taken(request.key, worker))


def failures() -> list[str]:
    """What could not be compiled, and why; of sources that have changed since, nothing is told."""
    home = folder()
    told = []
    for path in sorted(home.glob(f"*{_FAILED}")) if home else ():
        with suppress(OSError, UnicodeDecodeError):
            told.append(store.read_own(path).decode().strip().splitlines()[0])
    return told


def lock(worker: int) -> int | None:
    """A descriptor that holds the lock of ``worker`` for this process; None if another has it."""
    home = folder()
    if home is None:
        return None
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(home / f"{_LOCK}{worker}", flags, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
    return descriptor


def workers() -> list[int]:
    """The processes that compile now."""
    home = folder()
    found = []
    for path in sorted(home.glob(f"{_LOCK}*")) if home else ():
        with suppress(OSError, ValueError), path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append(int(file.read()))
    return found


def stop() -> list[int]:
    """End the processes that compile, and drop what was asked; the processes."""
    home = folder()
    found = workers()
    for process in found:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGTERM)
    for path in home.glob(f"*{_REQUEST}*") if home else ():
        store.remove(path)
    return found


def watch() -> None:
    """Start the process if there is none; the one that has died is replaced once."""
    now = time.monotonic()
    if now < _asking.look_at or _asking.given_up:
        return
    _asking.look_at = now + _WATCH_S
    at_work = workers()
    if at_work:
        _tell_of(at_work[0])
        return
    for key in [key for key in _asking.open if not is_open(key)]:
        del _asking.open[key]
    if not _asking.open:
        return
    if _asking.starts == _STARTS:
        _asking.given_up = True
        return
    _asking.starts += 1
    try:
        process = start()
    except OSError as error:
        _asking.given_up = True
        _tell(f"no process can be started that compiles ({error.strerror})")
        return
    _asking.look_at = now + START_S
    _tell_of(process)


def start(worker: int = 0) -> int:
    """Start a process that compiles; its number.  Errors: ``OSError``."""
    home = folder()
    assert home is not None
    path = os.pathsep.join([str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    with (home / "log").open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.server", str(worker)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env={**os.environ, VARIABLE: "wait", "PYTHONPATH": path},
            start_new_session=True,
        )
    child.returncode = 0  # it outlives us: nobody waits for it, and nobody is to be warned
    return child.pid


def _tell_of(process: int) -> None:
    _tell(
        f"process {process} compiles what it uses, for the rest of it and for later; it goes on "
        f"when this ends, {AT_MOST_S // 60} minutes at most (nicscope compile --stop ends it)"
    )


def _tell(what: str) -> None:
    """One line, once in a process."""
    if not _asking.told:
        _asking.told = True
        print(f"nicscope: this runs uncompiled; {what}", file=sys.stderr, flush=True)
