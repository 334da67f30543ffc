"""Compile requests of runs, in a folder that all runs of one installation share.

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
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from nicscope.kernel import store
from nicscope.kernel.layout import digest_of_kind, kind_of_plain, plain_kind
from nicscope.kernel.settings import CHECKED, VARIABLE, numba_settings

if TYPE_CHECKING:
    from nicscope.kernel.layout import StateKind

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
FIRST_USE = "first use compiles in the background; later runs are faster."
_TRIES, _BETWEEN_TRIES_S = 5, 0.01  # to have a lock


class Request(NamedTuple):
    """A kernel to compile, by module and name, for a kind of state; ``spent_s`` interpreting."""

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
    told = (PACKAGE, sys.executable, CHECKED, sys.flags.optimize, numba_settings())
    home = hashlib.sha256(repr(told).encode()).hexdigest()[:12]
    try:
        return store.own_folder(entries.parent / f"queue-{home}")
    except OSError:
        return None


class Wanted(Protocol):
    """A kernel for states of one kind, as far as its code is asked for."""

    function: Any
    kind: StateKind
    spent_s: float  # interpreting
    asked: bool

    @property
    def key(self) -> str:
        """What the code is kept under."""


class _Asking:
    """What this process has asked for, and whom it has started."""

    def __init__(self) -> None:
        self.open: dict[str, Wanted] = {}
        self.weights: dict[str, float] = {}
        self.starts = 0
        self.look_at = 0.0
        self.told = False
        self.given_up = False
        self.lock = threading.RLock()  # threads enter kernels at once


_asking = _Asking()


def ask(version: Wanted) -> None:
    """Requests the code of ``version``, once; later calls update how much it would save."""
    with _asking.lock:
        _ask(version)


def _ask(version: Wanted) -> None:
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


def _put(version: Wanted) -> bool:
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
    except OSError as error:
        _tell(f"what is to be compiled cannot be asked for ({error.strerror or error})")
        return False
    return True


def _write(path: Path, content: Any) -> None:
    descriptor, part = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(descriptor, "w") as file:
            json.dump(content, file)
        Path(part).replace(path)
    except OSError:
        store.remove(Path(part))
        raise


def requests() -> list[Request]:
    """Requests that nobody works on; unreadable files are removed."""
    home = folder()
    found = []
    for path in home.glob(f"*{_REQUEST}") if home else ():
        try:
            found.append(_request_in(path, path.stem))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, TypeError):
            store.remove(path)
    return found


def _request_in(path: Path, key: str) -> Request:
    module, name, kind, spent_s, *_ = json.loads(store.read_own(path))
    return Request(key, str(module), str(name), str(kind), float(spent_s))


def waiting() -> int:
    """How many requests are not compiled yet."""
    home = folder()
    return len([*home.glob(f"*{_REQUEST}*")]) if home else 0


def is_open(key: str) -> bool:
    """Whether the entry of ``key`` is requested and not compiled yet."""
    return any(True for _ in _path(key).parent.glob(f"{key}{_REQUEST}*"))


def take(request: Request, worker: int) -> bool:
    """Claims ``request`` for ``worker``; False if another has it."""
    try:
        _path(request.key).rename(_taken(request.key, worker))
    except OSError:
        return False
    return True


def give_back() -> None:
    """Releases requests of killed workers; one that kills a second worker is marked failed.

    The caller holds its own lock, and has taken nothing yet.
    """
    home = folder()
    for path in home.glob(f"*{_REQUEST}.*") if home else ():
        worker = path.suffix.removeprefix(".")
        if worker.isdecimal() and not _is_at_work(int(worker)):
            key = path.name.partition(_REQUEST)[0]
            with suppress(OSError, ValueError, TypeError):
                request = _request_in(path, key)
                ended_before = len(json.loads(store.read_own(path))) > len(request) - 1
                if ended_before:
                    answer(request, int(worker), "two processes ended while they compiled it")
                    continue
                _write(_path(key), [*request[1:], "once"])
            store.remove(path)


def _is_at_work(worker: int) -> bool:
    """Whether another process holds the lock of ``worker``; this one has no request yet."""
    home = folder()
    assert home is not None
    try:
        with (home / f"{_LOCK}{worker}").open("rb") as file:
            if file.read().strip() == b"%d" % os.getpid():
                return False
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _taken(key: str, worker: int) -> Path:
    return _path(key).with_name(f"{key}{_REQUEST}.{worker}")


def kind_of(request: Request) -> StateKind:
    """The kind of state that is asked for.  Errors: ``OSError``."""
    home = folder()
    assert home is not None
    path = home / (request.kind + _KIND)
    try:
        kind: StateKind = kind_of_plain(json.loads(store.read_own(path)))
        if digest_of_kind(kind) != request.kind:
            raise ValueError(f"{path} does not describe what it is named after")
    except (ValueError, TypeError, KeyError, IndexError) as error:
        store.remove(path)  # whoever asks again writes it anew
        raise OSError(f"{path} is damaged") from error
    return kind


def answer(request: Request, worker: int, failure: str = "") -> None:
    """Removes ``request``; with ``failure``, records it so that nobody requests the same again."""
    if failure:
        with suppress(OSError):
            _write(_path(request.key).with_suffix(_FAILED), f"{request.name}: {failure}")
    store.remove(_taken(request.key, worker))


def failures() -> list[str]:
    """What could not be compiled, and why; entries whose sources have changed are left out."""
    home = folder()
    told = []
    for path in sorted(home.glob(f"*{_FAILED}")) if home else ():
        with suppress(OSError, ValueError):
            told.append(str(json.loads(store.read_own(path))).splitlines()[0])
    return told


def lock(worker: int) -> int | None:
    """A descriptor that locks ``worker`` for this process; None if another holds it."""
    home = folder()
    if home is None:
        return None
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(home / f"{_LOCK}{worker}", flags, 0o600)
    except OSError:
        return None
    for _ in range(_TRIES):  # who looks whether it is held, holds it for that moment
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError:
            time.sleep(_BETWEEN_TRIES_S)
    else:
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
    """Ends the compiling processes and drops their requests; returns the processes."""
    home = folder()
    found = workers()
    for process in found:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGTERM)
    for path in home.glob(f"*{_REQUEST}*") if home else ():
        store.remove(path)
    return found


def watch() -> None:
    """Starts the compiling process if there is none; replaces one that has died, once."""
    with _asking.lock:
        _watch()


def _watch() -> None:
    now = time.monotonic()
    if now < _asking.look_at or _asking.given_up:
        return
    _asking.look_at = now + _WATCH_S
    if workers():
        _tell_of_first_use()
        return
    for key in [key for key in _asking.open if not is_open(key)]:
        del _asking.open[key]
        if store.is_kept(key):
            _asking.starts = 0  # what was started did what it was for, and left
    if not _asking.open:
        return
    if _asking.starts == _STARTS:
        _asking.given_up = True
        return
    _asking.starts += 1
    try:
        start()
    except OSError as error:
        _asking.given_up = True
        _tell(f"no process can be started that compiles ({error.strerror})")
        return
    _asking.look_at = now + START_S
    _tell_of_first_use()


def start(worker: int = 0) -> int:
    """Start a process that compiles; its number.  Errors: ``OSError``."""
    home = folder()
    assert home is not None
    path = os.pathsep.join([str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    optimized = ["-" + "O" * sys.flags.optimize] * (sys.flags.optimize > 0)
    with (home / "log").open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, *optimized, "-m", f"{__package__}.server", str(worker)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env={
                **os.environ,
                VARIABLE: "wait",
                "PYTHONPATH": path,
                "NUMBA_CACHE_DIR": str(home.parent.parent),
            },
            start_new_session=True,
        )
    child.returncode = 0  # it outlives us: nobody waits for it, and nobody is to be warned
    return child.pid


def _tell_of_first_use() -> None:
    """Prints one line, once per installation, to people only."""
    home = folder()
    if home is None or not sys.stderr.isatty():
        return
    with suppress(OSError):  # also if it is there: it has been told
        os.close(os.open(home / "told", os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
        print(f"nicscope: {FIRST_USE}", file=sys.stderr, flush=True)


def _tell(what: str) -> None:
    """One line, once in a process."""
    if not _asking.told:
        _asking.told = True
        print(f"nicscope: this runs uncompiled; {what}", file=sys.stderr, flush=True)
