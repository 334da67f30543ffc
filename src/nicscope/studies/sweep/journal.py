"""What is done so far, on disk: a line per counted design in a log (``nicscope.outputs.log``).

It begins with what identifies the sweep, so that another's is not continued.
"""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from nicscope import __version__
from nicscope.errors import StudyError
from nicscope.outputs.log import open_log

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from nicscope.config.platform import Platform
    from nicscope.outputs.log import Log
    from nicscope.studies.sweep.grid import Grid, Plain

FORMAT = 2


class TraceIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """A trace by its content; it may move, but not change."""

    name: str
    requests: int
    sha256: str


class AxisIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """A key of the grid and its values, in order."""

    key: str
    values: list[int | bool | str | None]


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """All that the rows of a sweep depend on."""

    format: int = FORMAT
    version: str
    source: str  # digest over the program's files
    traces: list[TraceIdentity]
    design: dict[str, Any]  # what all its points have in common
    grid: list[AxisIdentity]
    platforms: dict[str, str]  # digests of their costs
    kinds: bool

    def difference(self, other: Identity) -> str | None:
        """In words, how ``other`` ("there") differs from this ("here"); None if it does not."""
        return (
            _traces(self.traces, other.traces)
            or _grid(self.grid, other.grid)
            or _design(self.design, other.design)
            or _platforms(self.platforms, other.platforms)
            or _plain("--no-kinds", not self.kinds, not other.kinds)
            or _version(self, other)
        )


def identity_of(
    grid: Grid, traces: Iterable[TraceIdentity], platforms: Mapping[str, Platform], kinds: bool
) -> Identity:
    """Identity of the sweep of ``traces`` through ``grid``."""
    from nicscope.kernel.fingerprint import package_stamp

    return Identity(
        version=__version__,
        source=package_stamp(),
        traces=list(traces),
        design=grid.fixed,
        grid=[AxisIdentity(key=axis.key, values=list(axis.values)) for axis in grid.axes],
        platforms={name: _digest(platform) for name, platform in platforms.items()},
        kinds=kinds,
    )


def content_digest(path: Path) -> str:
    """SHA-256 of the file's bytes; errors: ``OSError``."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(platform: Platform) -> str:
    costs = {
        name: [cost.low_ps, cost.high_ps, *cost.points, cost.origin.evidence.value]
        for name, cost in platform.costs.items()
    }
    content = msgspec.json.encode([costs, sorted(platform.not_applicable)], order="sorted")
    return hashlib.sha256(content).hexdigest()


def _traces(here: list[TraceIdentity], there: list[TraceIdentity]) -> str | None:
    names = [[trace.name for trace in traces] for traces in (here, there)]
    if names[0] != names[1]:
        return f"its traces are {', '.join(names[1])}, here {', '.join(names[0])}"
    for one, other in zip(here, there, strict=True):
        if one != other:
            return f"its trace {other.name} had other content ({other.requests:,} requests)"
    return None


def _design(here: dict[str, Any], there: dict[str, Any]) -> str | None:
    for key in [*there, *here]:
        found = _plain(f"design's {key}", here.get(key), there.get(key))
        if found:
            return found
    return None


def _grid(here: list[AxisIdentity], there: list[AxisIdentity]) -> str | None:
    mine, its = ({axis.key: axis.values for axis in axes} for axes in (here, there))
    for key in its:
        if key not in mine:
            return f"its grid varies {key}, this one does not"
    for key in mine:
        if key not in its:
            return f"its grid does not vary {key}, this one does"
        if its[key] != mine[key]:
            return f"its {key} is {_listed(its[key])}, here {_listed(mine[key])}"
    if list(mine) != list(its):
        return f"its grid has the order {', '.join(its)}, this one {', '.join(mine)}"
    return None


def _platforms(here: dict[str, str], there: dict[str, str]) -> str | None:
    if list(here) != list(there):
        names = [", ".join(found) or "none" for found in (there, here)]
        return f"its platform is {names[0]}, here {names[1]}"
    for name, digest in here.items():
        if there[name] != digest:
            return f"its platform {name} had other costs"
    return None


def _version(here: Identity, there: Identity) -> str | None:
    if (here.version, here.source) == (there.version, there.source):
        return None
    names = [f"nicscope {one.version} (source {one.source[:12]})" for one in (there, here)]
    return f"it is by {names[0]}, this is {names[1]}"


def _plain(what: str, here: Any, there: Any) -> str | None:
    return None if here == there else f"its {what} is {_shown(there)}, here {_shown(here)}"


def _listed(values: list[Plain]) -> str:
    return ",".join(_shown(value) for value in values)


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


ENDING = ".journal"  # of about 150 bytes for each design and trace
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # JSON that is none


class Record(msgspec.Struct, frozen=True, array_like=True):
    """What was counted of one design of the grid on one trace, in the order of ``TALLIED``."""

    trace: int
    design: int
    values: list[int | None]


def journal_path(out: Path) -> Path:
    """Where the journal of a sweep into ``out`` lies: beside it."""
    return out.with_name(out.name + ENDING)


class Journal:
    """An open journal, ours alone, and what it held when it was opened."""

    def __init__(self, log: Log | None, path: Path, records: list[Record]) -> None:
        self.path = path
        self.records = records  # of earlier runs
        self._log = log  # None: nothing is kept

    @property
    def kept(self) -> int:
        """How many records it has, with those of this run."""
        return 0 if self._log is None else self._log.kept

    def append(self, records: Sequence[Record]) -> None:
        """Add ``records``: on disk when this returns.  Errors: ``OutputError``."""
        if self._log is not None:
            self._log.append([msgspec.json.encode(record) for record in records])

    def remove(self) -> None:
        """Remove the file: what it held is in the table."""
        if self._log is not None:
            self._log.remove()


def no_journal(path: Path) -> Journal:
    """For a table that a stream gets: where that was when it was cut off, nobody can tell."""
    return Journal(None, path, [])


@contextlib.contextmanager
def open_journal(path: Path, identity: Identity) -> Iterator[Journal]:
    """The journal of the sweep ``identity`` at ``path``, made if need be; empty ones are removed.

    Errors: ``StudyError`` if another sweep's is there, or no journal, or a sweep that writes it;
    ``OutputError`` if it cannot be read or written.
    """
    with open_log(path, "sweep") as log:
        yield Journal(log, path, _begun(log, identity))


def _begun(log: Log, identity: Identity) -> list[Record]:
    """Records of the journal, cut to its whole lines; begins it with ``identity`` if empty."""
    if not log.lines:
        log.begin(msgspec.json.encode(identity))
        return []
    difference = difference_from(log.lines[0], identity)
    if difference is not None:
        raise StudyError(
            f"{log.path}: was begun by another sweep: {difference}; finish that one, or remove the "
            "file to begin anew"
        )
    records = [_record(log.path, number, text) for number, text in enumerate(log.lines[1:], 2)]
    log.resume()
    return records


def _record(path: Path, number: int, text: bytes) -> Record:
    try:
        return msgspec.json.decode(text, type=Record)
    except UNREADABLE as error:
        raise StudyError(
            f"{path}: line {number}: is no record of a sweep ({error}); remove the file to begin "
            "anew"
        ) from error


def difference_from(stored: bytes, identity: Identity) -> str | None:
    """How the sweep whose identity is ``stored`` differs from ``identity``, in words."""
    try:
        return identity.difference(msgspec.json.decode(stored, type=Identity))
    except UNREADABLE:
        return f"its format is not {FORMAT}, that of this nicscope"
