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
    from collections.abc import Iterator

    from nicscope.kernel.entering import Version
    from nicscope.kernel.layout import StateKind

PACKAGE = Path(__file__).parent.parent
AT_MOST_S = 600  # that the process compiles, however much is asked for
_REQUEST, _KIND, _FAILED = ".ask", ".kind", ".failed"
_LOCK = "lock"
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
        _watch()


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


def requests() -> Iterator[Request]:
    """What is asked for now; files that say nothing are removed."""
    home = folder()
    if home is None:
        return
    for path in home.glob(f"*{_REQUEST}"):
        try:
            module, name, kind, spent_s = json.loads(store.read_own(path))
            yield Request(path.stem, str(module), str(name), str(kind), float(spent_s))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, TypeError):
            store.remove(path)


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


def answer(request: Request, failure: str = "") -> None:
    """Take ``request`` away; with ``failure``, so that nobody asks for the same again."""
    if failure:
        with suppress(OSError):
            _path(request.key).with_suffix(_FAILED).write_text(f"{request.name}: {failure}\n")
    store.remove(_path(request.key))


def failures() -> list[Path]:
    """What could not be compiled: files that say why."""
    home = folder()
    return sorted(home.glob(f"*{_FAILED}")) if home else []


def lock() -> int | None:
    """A descriptor that holds the lock of this folder for this process; None if another has it."""
    home = folder()
    if home is None:
        return None
    try:
        descriptor = os.open(
            home / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
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


def is_worked_on() -> int:
    """The process that holds the lock, or 0."""
    home = folder()
    if home is None:
        return 0
    with suppress(OSError, ValueError), (home / _LOCK).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(file.read() or b"0") or -1
    return 0


def stop() -> int:
    """End the process that compiles, and drop what was asked; its number, 0 if there is none."""
    process = is_worked_on()
    for request in [*requests()]:
        answer(request)
    if process > 0:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGTERM)
    return max(process, 0)


def _watch() -> None:
    """Start the process if there is none; the one that has died is replaced once."""
    now = time.monotonic()
    if now < _asking.look_at or _asking.given_up:
        return
    _asking.look_at = now + _WATCH_S
    process = is_worked_on()
    if process:
        _tell_of(process)
        return
    for key in [key for key in _asking.open if not _path(key).exists()]:
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
    _asking.look_at = now + 4 * _WATCH_S  # until it holds the lock
    _tell_of(process)


def start() -> int:
    """Start the process that compiles; its number.  Errors: ``OSError``."""
    home = folder()
    assert home is not None
    path = os.pathsep.join([str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    with (home / "log").open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.server"],
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
