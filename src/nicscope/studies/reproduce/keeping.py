"""What a reproduction found so far, in a log beside its folder, so that a killed run goes on.

A line for each item and, of studies, for each trace: what was found, before it is judged.  The
log's head says what all of it depends on; the log of other code or another catalog is begun anew.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicscope.config.toml_files import CATALOG
from nicscope.errors import OutputError
from nicscope.outputs.log import Log, open_log
from nicscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


ENDING = ".journal"
FORMAT = 1
_CALCULATING = ("numpy", "numba", "llvmlite", "pyarrow")


class Kept:
    """What was found, by its key; nothing outlives the process."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self.earlier = 0  # found by earlier runs

    def get(self, key: str) -> Any:
        """What was found under ``key``, as JSON has it; None: nothing yet."""
        return self.found.get(key)

    def put(self, key: str, value: Any) -> None:
        """Keep ``value``, which JSON can hold, under ``key``."""
        self.found[key] = value


class _Logged(Kept):
    """What was found, on disk before it counts."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log
        self.found = dict(json.loads(line) for line in log.lines[1:])
        self.earlier = len(self.found)

    def put(self, key: str, value: Any) -> None:
        self._log.append([json.dumps([key, value]).encode()])
        super().put(key, value)


def journal_path(out: Path) -> Path | None:
    """Where the log of a run into the folder ``out`` lies: beside it; None: there is no place."""
    folder = Path(os.path.realpath(out))
    is_place = folder.name and folder.parent.is_dir() and os.access(folder.parent, os.W_OK)
    return folder.with_name(folder.name + ENDING) if is_place else None


@contextlib.contextmanager
def kept_beside(out: Path | None) -> Iterator[Kept]:
    """What earlier runs into the folder ``out`` found, and this one will; None: this one alone.

    The log is removed when the block ends well.  Errors: ``OutputError`` if it cannot be read or
    written, ``StudyError`` if it is no such log, or another run writes it.
    """
    path = None if out is None else journal_path(out)
    if path is None:
        yield Kept()
        return
    with open_log(path, "reproduction") as log:
        head = json.dumps(_identity()).encode()
        if not log.lines:
            log.begin(head)
        elif log.lines[0] == head:
            log.resume()
        elif _is_ours(log.lines[0]):
            log.restart(head)
        else:
            raise OutputError(f"{path}: is no journal of a reproduction; move it away")
        yield _Logged(log)
        log.remove()


def key_of_traces(what: Sequence[Any], traces: Sequence[tuple[str, Path | None]]) -> str | None:
    """The key of what was found of ``traces``, by content; None if they cannot be read again."""
    told = []
    for name, path in traces:
        if path is None or not path.is_file():
            return None
        with path.open("rb") as file:
            told.append([name, hashlib.file_digest(file, "sha256").hexdigest()])
    return json.dumps(["traces", *what, told])


def _is_ours(head: bytes) -> bool:
    with contextlib.suppress(ValueError, TypeError):
        return "reproduction" in json.loads(head)
    return False


def _identity() -> dict[str, Any]:
    """All that what is found depends on, the traces of studies aside."""
    from nicscope.kernel.fingerprint import package_stamp

    return {
        "reproduction": FORMAT,
        "version": __version__,
        "source": package_stamp(),
        "printed": _catalog_stamp(),
        "with": {name: version(name) for name in _CALCULATING},
        "on": [platform.python_version(), platform.machine()],
    }


@functools.cache
def _catalog_stamp() -> str:
    """SHA-256 over every file of the catalog."""
    digest = hashlib.sha256()
    for path in sorted(CATALOG.rglob("*.toml")):
        digest.update(str(path.relative_to(CATALOG)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
