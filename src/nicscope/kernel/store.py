"""Cache of compiled code on disk: one file per entry, used only if its digest matches.

A file is ``MAGIC``, the SHA-256 of the rest, and the rest: a line of JSON and the object code.  Its
name is the key, which tells all that the code was made from; so there is no index that could be
stale or half written.  What is damaged, cut, or not our own is removed, as if it had never been.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

MAGIC = b"nicscope object 1\n"
SUFFIX = ".o"
ROOM_BYTES = 256 << 20  # of one folder; an entry takes some tens of kB
_STALE_S = 3600  # after which what has no entry's name is nobody's
_DIGEST = hashlib.sha256().digest_size


class ForeignFileError(OSError):
    """A cache path that is not a regular file of this user."""


class Made(NamedTuple):
    """Machine code of one entry: the names in it by which it is entered, and what it needs."""

    enter: str
    call: str  # "" where it cannot be called from a distance
    needs: tuple[str, ...]
    code: bytes


@functools.cache
def folder() -> Path | None:
    """Where compiled code is kept; None if nothing can be written there."""
    base = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        home = (Path(base).expanduser() / "nicscope").absolute()  # a run may change folders
        home.mkdir(parents=True, exist_ok=True)
        place = own_folder(home / "entries")
        with tempfile.TemporaryFile(dir=place):
            return place
    except (OSError, RuntimeError):
        return None


def own_folder(place: Path) -> Path:
    """``place``, made if it is not there, this user's and nobody else's to write in.

    Errors: ``OSError``.
    """
    place.mkdir(mode=0o700, exist_ok=True)
    found = place.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise OSError(f"{place} is no folder of this user's")
    if found.st_mode & 0o022:
        place.chmod(0o700)
    return place


def is_kept(key: str) -> bool:
    """Whether there is a file for ``key``, sound or not."""
    home = folder()
    return home is not None and os.path.lexists(home / (key + SUFFIX))


def read(key: str) -> Made | None:
    """The entry under ``key``, or None; a file that is damaged is removed."""
    home = folder()
    if home is None:
        return None
    path = home / (key + SUFFIX)
    try:
        made = unpacked(read_own(path))
    except ForeignFileError:
        made = None
    except OSError:  # it is not there, or cannot be read now
        return None
    if made is None or not made.enter.endswith(key):  # a name is no proof of what is in a file
        remove(path)
        return None
    with suppress(OSError):
        os.utime(path)  # read last, dropped last
    return made


def read_own(path: Path) -> bytes:
    """The bytes of a regular file of this user's; no link is followed, nothing else opened.

    Errors: ``ForeignFileError`` for anything else, ``OSError`` where it cannot be read.
    """
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        raise ForeignFileError(f"{path} is not a file of this user's")
    if found.st_size > ROOM_BYTES:
        raise ForeignFileError(f"{path} is longer than all entries together may be")
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(ROOM_BYTES)


def remove(path: Path) -> None:
    """Removes what is at ``path``, of whatever kind, if possible."""
    with suppress(OSError):
        try:
            path.unlink()
        except (IsADirectoryError, PermissionError):
            path.rename(path.with_name(f"{path.name}.{os.getpid()}.foreign"))


def write(key: str, made: Made) -> str:
    """Writes ``made`` under ``key``, whole or not at all; returns why not, instead of raising."""
    home = folder()
    if home is None:
        return "nothing can be written in the cache folder"
    part: str | None = None
    try:
        descriptor, part = tempfile.mkstemp(dir=home, prefix=".", suffix=".part")
        with os.fdopen(descriptor, "wb") as file:
            file.write(packed(made))
        Path(part).replace(home / (key + SUFFIX))
    except OSError as error:
        if part is not None:
            with suppress(OSError):
                Path(part).unlink()
        return error.strerror or str(error)
    return ""


def packed(made: Made) -> bytes:
    """``made`` as a file has it."""
    head = json.dumps([made.enter, made.call, list(made.needs)]).encode()
    rest = head + b"\n" + made.code
    return MAGIC + hashlib.sha256(rest).digest() + rest


def unpacked(whole: bytes) -> Made | None:
    """What ``packed`` made ``whole`` of; None for anything else."""
    begin = len(MAGIC) + _DIGEST
    rest = whole[begin:]
    if whole[: len(MAGIC)] != MAGIC or len(whole) < begin:
        return None
    if hashlib.sha256(rest).digest() != whole[len(MAGIC) : begin]:
        return None
    head, _, code = rest.partition(b"\n")
    enter, call, needs = json.loads(head)
    return Made(enter, call, tuple(needs), code)


def size() -> tuple[int, int]:
    """How many entries are kept, and their bytes."""
    home = folder()
    sizes = [path.stat().st_size for path in home.glob(f"*{SUFFIX}")] if home else []
    return len(sizes), sum(sizes)


def keep_within(room_bytes: int = ROOM_BYTES) -> None:
    """Removes the entries read longest ago until the rest take ``room_bytes`` at most."""
    home = folder()
    if home is None:
        return
    files = []
    for entry in os.scandir(home):
        with suppress(OSError):
            about: Any = entry.stat(follow_symlinks=False)
            if not entry.name.endswith(SUFFIX) and about.st_mtime < time.time() - _STALE_S:
                remove(Path(entry.path))  # half-written, by a process that was killed
                continue
            files.append((about.st_mtime, about.st_size, entry.path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= room_bytes:
            break
        remove(Path(path))
        total -= size
