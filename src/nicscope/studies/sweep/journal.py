"""The journal of a sweep: points that are done, with their counts, so that it can go on."""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from nicscope import __version__
from nicscope.drivers.replay.columns import ROWS
from nicscope.drivers.replay.engine import Replayer, grains_for
from nicscope.drivers.replay.rnic import follows_registrations, lowest_addresses, registers_ahead
from nicscope.errors import StudyError
from nicscope.nic.translate.book import COUNT_NAMES
from nicscope.outputs.log import open_log
from nicscope.room import check_room
from nicscope.studies.threads import Stopped, threaded
from nicscope.traces.registrations import requests_in
from nicscope.traces.schema import FIRST_REGISTRATION, Requests, Rows, kinds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from nicscope.config.design import Design
    from nicscope.config.platform import Platform
    from nicscope.outputs.log import Log
    from nicscope.studies.sweep.grid import Grid, Plain
    from nicscope.traces.reader import Trace


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


# What is kept of each design and trace: totals over the nodes.
BYTES = "requested_bytes"  # of all requests, the same for every design
TALLIED = (*COUNT_NAMES, "nodes", "nic_memory_bytes", BYTES)
Tally = list[int | None]


class Columns(NamedTuple):
    """A trace's columns as replay wants them, 21 bytes a request, node after node.

    Nodes are independent, so their order is free; one node's rows together make long pieces,
    however many nodes there are, and little work between them for the interpreter.
    """

    node: NDArray[np.int32]
    pid: NDArray[np.int32]
    receive: NDArray[np.uint8]
    address: NDArray[np.uint64]
    length: NDArray[np.uint32]

    def rows(self, begin: int, end: int) -> Columns:
        """Those rows, as views."""
        rows = slice(begin, end)
        return Columns(
            self.node[rows],
            self.pid[rows],
            self.receive[rows],
            self.address[rows],
            self.length[rows],
        )


class RowColumns(NamedTuple):
    """The same of a trace that says what is registered, 51 bytes a row; see ``schema.Rows``."""

    time_ns: NDArray[np.int64]
    node: NDArray[np.int32]
    pid: NDArray[np.int32]
    receive: NDArray[np.uint8]
    op: NDArray[np.uint8]
    address: NDArray[np.uint64]
    length: NDArray[np.uint32]
    region_bytes: NDArray[np.uint64]
    page_size: NDArray[np.int64]
    rights: NDArray[np.uint8]

    @property
    def kind(self) -> NDArray[np.uint8]:
        """As of ``schema.Rows``."""
        return kinds_of(self.op)

    def rows(self, begin: int, end: int) -> RowColumns:
        """Those rows, as views."""
        return RowColumns._make(column[begin:end] for column in self)


_TYPES: dict[type[Columns | RowColumns], tuple[str, ...]] = {
    Columns: ("i4", "i4", "u1", "u8", "u4"),
    RowColumns: ("i8", "i4", "i4", "u1", "u1", "u8", "u4", "u8", "i8", "u1"),
}


def load(trace: Trace, instead: str = "sweep a part of the trace") -> Columns:
    """All requests of ``trace``, checked; errors: ``TraceError`` at the first that is wrong.

    ``instead`` is advised where there is no room for them.
    """
    found = _loaded(Columns, trace.batches(), trace.rows, instead)
    assert isinstance(found, Columns)
    return found


def load_rows(trace: Trace) -> Columns | RowColumns:
    """As ``load``, with what is registered if the trace says so."""
    if not trace.registrations:
        return load(trace)
    batches = trace.batches_of_rows()
    return _loaded(RowColumns, batches, trace.all_rows, "sweep a part of the trace")


def _loaded(
    kind: type[Columns | RowColumns], batches: Iterable[Requests | Rows], rows: int, instead: str
) -> Columns | RowColumns:
    types = _TYPES[kind]
    size = sum(int(one[1]) for one in types)
    check_room(2 * size * rows, f"keeping {rows:,} requests in memory", instead)
    columns = kind._make(np.empty(rows, one) for one in types)
    begin = 0
    for batch in batches:
        end = begin + len(batch.length)
        for name in kind._fields:
            getattr(columns, name)[begin:end] = getattr(batch, name)
        begin = end
    if np.all(columns.node[1:] >= columns.node[:-1]):
        return columns
    order = np.argsort(columns.node, kind="stable")
    for column in columns:
        column[:] = column[order]
    return columns


def tally(
    columns: Columns | RowColumns,
    designs: Sequence[Design],
    page_size: int,
    kinds: bool,
    stopped: Callable[[], bool] = lambda: False,
) -> list[Tally]:
    """What each of ``designs`` counts, as ``nicscope replay`` would; see ``TALLIED``.

    ``page_size`` is the trace's.  Errors: ``Stopped`` soon after ``stopped()``.
    """
    registrations = _registrations(columns)
    by_region = follows_registrations(designs, registrations)
    lowest = lowest_addresses(_requests(columns, stopped)) if registers_ahead(designs) else None
    grains = grains_for(_requests(columns, stopped), designs, page_size)
    replayer = Replayer(designs, kinds, page_size, grains, lowest, by_region)
    for piece in _pieces(columns, stopped) if by_region else _requests(columns, stopped):
        replayer.feed(piece)
    requested = sum(int(one.length.sum(dtype=np.int64)) for one in _requests(columns, stopped))
    return [
        [
            *(result.total[name] for name in COUNT_NAMES),
            len(result.nodes),
            sum(result.nic_memory_bytes.values()),
            requested,
        ]
        for result in replayer.results()
    ]


def _registrations(columns: Columns | RowColumns) -> int:
    """How many rows are no requests."""
    if isinstance(columns, Columns):
        return 0
    return int(np.count_nonzero(columns.op >= FIRST_REGISTRATION))


def _pieces(
    columns: Columns | RowColumns, stopped: Callable[[], bool]
) -> Iterator[Columns | RowColumns]:
    """All rows, in parts that replay does at once; ``Stopped`` soon after ``stopped()``."""
    for begin in range(0, len(columns.node), ROWS):
        if stopped():
            raise Stopped
        yield columns.rows(begin, begin + ROWS)


def _requests(
    columns: Columns | RowColumns, stopped: Callable[[], bool]
) -> Iterator[Columns | Requests]:
    """The requests among them, likewise."""
    for piece in _pieces(columns, stopped):
        yield piece if isinstance(piece, Columns) else requests_in(piece)


def on_threads(
    columns: Columns | RowColumns,
    page_size: int,
    kinds: bool,
    chunks: Sequence[Sequence[int]],
    design: Callable[[int], Design],
    workers: int,
) -> Iterator[tuple[Sequence[int], list[Tally]]]:
    """Each of ``chunks`` (numbers of designs) with its tallies, in the order of finishing.

    Errors: whatever a thread met; ``StudyError`` if memory does not do.
    """

    def work(chunk: Sequence[int], stopped: Callable[[], bool]) -> list[Tally]:
        designs = [design(number) for number in chunk]
        return tally(columns, designs, page_size, kinds, stopped)

    try:
        yield from threaded(chunks, work, workers)
    except MemoryError as error:
        raise StudyError(
            f"designs do not fit in memory, {workers} times some at once; use fewer --workers, or "
            "smaller sizes"
        ) from error
