"""The table of a sweep, and the journal by which a killed one goes on."""

from __future__ import annotations

import contextlib
import hashlib
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nicscope.config.design import SETTINGS, Design, Kind
from nicscope.drivers.replay import ReplayResult
from nicscope.errors import StudyError
from nicscope.inputs import Input
from nicscope.nic.translate.book import COUNT_NAMES
from nicscope.outputs import check_output, scratch_file, whole_file
from nicscope.outputs.file import CSV, PARQUET, TABLES, CsvTable, format_to_write, named_compression
from nicscope.outputs.log import Log, open_log
from nicscope.studies.pricing import Denominator, denominator_of
from nicscope.studies.replaying import rates, with_price
from nicscope.studies.sweep.grid import SCHEME, Axis, Grid, Plain
from nicscope.traces.columns import DAMAGE
from nicscope.traces.files import first_line
from nicscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from nicscope.config.platform import Platform

FORMAT = 2


class TraceIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """A trace identified by content; it may move, but not change."""

    name: str
    requests: int
    sha256: str


class AxisIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """A key of the grid and its values, in order."""

    key: str
    values: list[int | bool | str | None]


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the rows of a sweep depend on."""

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
    """The counts of one design on one trace, in the order of ``TALLIED``."""

    trace: int
    design: int
    values: list[int | None]


def journal_path(out: Path) -> Path:
    """The path of the journal, beside ``out``."""
    return out.with_name(out.name + ENDING)


class Journal:
    """An open, exclusively locked journal, and the records that it held when opened."""

    def __init__(self, log: Log | None, path: Path, records: list[Record]) -> None:
        self.path = path
        self.records = records  # of earlier runs
        self._log = log  # None: nothing is kept

    @property
    def kept(self) -> int:
        """The number of its records, including those of this run."""
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
    """No journal: of a table written to a stream nobody knows how much was received."""
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
METADATA_KEY = b"nicscope_sweep"
GROUP_ROWS = 1 << 16
UNKNOWN = -1  # in the array of tallies, for None
# Rates per lookup, which only stand where they compare all rows of a trace.
PER_LOOKUP = {
    "miss_ratio": pa.float64(),
    "cost_us_per_lookup_low": pa.float64(),
    "cost_us_per_lookup_high": pa.float64(),
}


def write_table(
    file: Any,
    identity: Identity,
    grid: Grid,
    traces: Sequence[tuple[str, int]],
    tallies: NDArray[Any],
) -> None:
    """Write the table of ``traces`` (name and page size) to a binary file, as Parquet.

    ``tallies`` is int64 of shape (traces, designs, len(TALLIED)).
    """
    schema = _schema(grid, identity, traces)
    with pq.ParquetWriter(file, schema, write_page_checksum=True) as writer:
        group: list[dict[str, Any]] = []
        for row in _rows(grid, traces, tallies):
            group.append(row)
            if len(group) == GROUP_ROWS:
                writer.write_table(pa.Table.from_pylist(group, schema))
                group = []
        if group:
            writer.write_table(pa.Table.from_pylist(group, schema))


def difference_of_table(path: Path, identity: Identity) -> str | None:
    """How the sweep that wrote ``path`` differs from ``identity``, in words; None: not at all.

    Errors: ``StudyError`` if no sweep wrote it, or it is damaged.
    """
    metadata: dict[bytes, bytes] = {}
    if path.is_file():
        with contextlib.suppress(*DAMAGE), Input(path, StudyError) as source:
            metadata = pq.read_schema(source.at_rest()).metadata or {}
    if METADATA_KEY not in metadata:
        raise StudyError(f"{path}: exists and is no sweep's table; name another file with --out")
    difference = difference_from(metadata[METADATA_KEY], identity)
    if difference is None:
        _check_whole(path)
    return difference


def _check_whole(path: Path) -> None:
    try:
        with Input(path, StudyError) as source:
            file = pq.ParquetFile(source.at_rest(), page_checksum_verification=True)
            for _ in file.iter_batches():
                pass
    except DAMAGE as error:
        raise StudyError(
            f"{path}: damaged: {first_line(error)}; move it away, and sweep again"
        ) from error


def _schema(grid: Grid, identity: Identity, traces: Sequence[tuple[str, int]]) -> Any:
    fields = {"trace": pa.string(), "design": pa.string(), "scheme": pa.string()}
    fields |= {"platform": pa.string()}
    fields |= {axis.column: _type(axis) for axis in grid.axes}
    fields |= {"page_size_bytes": pa.int64(), "nodes": pa.int64(), BYTES: pa.int64()}
    fields |= dict.fromkeys(COUNT_NAMES, pa.int64())
    fields |= {"pinned_host_bytes": pa.int64(), "nic_memory_bytes": pa.int64()}
    fields |= dict.fromkeys(("misses_per_request", "misses_per_mib"), pa.float64())
    for cost in ("cost_us", "cost_us_per_request", "cost_ns_per_byte"):
        fields |= {f"{cost}_low": pa.float64(), f"{cost}_high": pa.float64()}
    sizes = [grid.page_sizes(page_size) for _, page_size in traces]
    if all(denominator_of(each) is Denominator.LOOKUP for each in sizes):
        fields |= PER_LOOKUP
    fields |= {
        "cost_bound": pa.string(),
        "cost_unpriced": pa.string(),
        "cost_evidence": pa.string(),
    }
    return pa.schema(list(fields.items()), metadata={METADATA_KEY: msgspec.json.encode(identity)})


def _type(axis: Axis) -> Any:
    if axis.cost is not None:
        return pa.float64()
    if axis.prices or axis.key == SCHEME or SETTINGS[axis.key].kind is Kind.POLICY:
        return pa.string()
    return pa.bool_() if SETTINGS[axis.key].kind is Kind.SWITCH else pa.int64()


def _rows(
    grid: Grid, traces: Sequence[tuple[str, int]], tallies: NDArray[Any]
) -> Iterator[dict[str, Any]]:
    platforms = _Platforms(grid)
    for place, (name, page_size) in enumerate(traces):
        for point in grid:
            design = grid.design(point.design).at_page_size(page_size)
            counted = dict(zip(TALLIED, tallies[place, point.design].tolist(), strict=True))
            of_axes = zip(grid.axes, point.places, strict=True)
            row: dict[str, Any] = {axis.column: axis.shown[where] for axis, where in of_axes}
            row |= {"trace": name, "design": design.name, "scheme": design.scheme.value}
            row |= {key: None if count == UNKNOWN else count for key, count in counted.items()}
            yield row | _derived(row, design, platforms.of(point.pricing))


class _Platforms:
    """The platforms of a grid, with the current one cached."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._kept: dict[int, Platform | None] = {}

    def of(self, pricing: int) -> Platform | None:
        if pricing not in self._kept:
            if len(self._kept) >= GROUP_ROWS:
                self._kept.clear()
            self._kept[pricing] = self._grid.platform(pricing)
        return self._kept[pricing]


def _derived(row: dict[str, Any], design: Design, platform: Platform | None) -> dict[str, Any]:
    """What follows from the counts of ``row``; rates that its table does not have are left there.

    A table of designs whose denominators differ leaves the rates per lookup out, by its schema.
    """
    total = {name: row[name] for name in COUNT_NAMES}
    return rates(with_price(ReplayResult(design, total, [], {}), platform), row[BYTES])


_SIZE = "nic_memory_bytes"
_MISSES, _HIGH, _LOW = "ni_misses", "cost_us_high", "cost_us_low"
_UNPRICED = "cost_unpriced"
_KEYS = ["trace", "rejected", _MISSES, _LOW, _HIGH, "cost_bound", _UNPRICED, _SIZE]


class Unpriced(NamedTuple):
    """Points of a trace with a step that happened and has no price."""

    points: int
    of: int  # points of the trace
    perhaps_cheaper: int  # of them: what is priced costs less than the cheapest point
    reasons: list[str]  # what is not stated; all that there are


class Table:
    """A sweep's table for comparing points; rows are read on demand."""

    def __init__(self, file: Path | io.BytesIO | io.BufferedRandom) -> None:
        if isinstance(file, io.BufferedRandom):  # whose owner closes it before this is read
            file = pa.OSFile(f"/proc/self/fd/{file.fileno()}")
        self._file = pq.ParquetFile(file)
        self._keys = self._file.read(columns=_KEYS)
        self.rows: int = self._file.metadata.num_rows
        self.columns: list[str] = list(self._file.schema_arrow.names)

    def whole(self) -> Any:
        """All rows and columns, as an Arrow table."""
        return self._file.read()

    @property
    def denominator(self) -> Denominator:
        """What its rates are per."""
        shared = all(name in self.columns for name in PER_LOOKUP)
        return Denominator.LOOKUP if shared else Denominator.REQUEST

    def fewest_misses(self, trace: str, count: int) -> list[dict[str, Any]]:
        """Up to ``count`` rows of ``trace`` with the fewest misses; ties by NIC memory."""
        return self._best(self._of(trace), [_MISSES, _SIZE, _HIGH, _LOW], count)

    def cheapest(self, trace: str, count: int) -> list[dict[str, Any]]:
        """Up to ``count`` rows of ``trace`` by the upper bound of total cost; no lower bounds."""
        rows = self._of(trace)
        whole = rows.filter(pc.is_valid(rows[_HIGH]))
        return self._best(whole, [_HIGH, _LOW, _MISSES, _SIZE], count)

    def unpriced(self, trace: str) -> Unpriced | None:
        """Points of ``trace`` with incomplete prices; None if there are none, or no platform."""
        rows = self._of(trace)
        without = rows.filter(pc.is_valid(rows[_UNPRICED]))
        if not len(without):
            return None
        cheapest = self.cheapest(trace, 1)
        least = cheapest[0][_HIGH] if cheapest else None
        lows = without[_LOW].to_pylist()
        perhaps = [low for low in lows if low is None or least is None or low < least]
        reasons = sorted(pc.unique(without[_UNPRICED]).to_pylist())
        return Unpriced(len(without), len(rows), len(perhaps), reasons)

    def _of(self, trace: str) -> Any:
        rows = self._keys.append_column("row", pa.array(range(self.rows)))
        return rows.filter(pc.equal(rows["trace"], trace))

    def _best(self, rows: Any, keys: list[str], count: int) -> list[dict[str, Any]]:
        order = [(key, "ascending") for key in ("rejected", *keys, "row")]
        best = rows.take(pc.sort_indices(rows, order)[:count])["row"].to_pylist()
        return [self._row(row) for row in best]

    def _row(self, row: int) -> dict[str, Any]:
        group = 0
        while row >= (length := self._file.metadata.row_group(group).num_rows):
            row -= length
            group += 1
        found: dict[str, Any] = self._file.read_row_group(group).slice(row, 1).to_pylist()[0]
        return found


class TableOutput:
    """The output of a table, and the Parquet file that it can be read from once written."""

    def __init__(
        self, path: Path, is_stream: bool, scratch: io.BufferedRandom | io.BytesIO | None
    ) -> None:
        self.path = path
        self.is_stream = is_stream
        self.says_whose = scratch is None  # which sweep wrote it
        self.readable: Path | io.BufferedRandom | io.BytesIO = scratch or path
        self._scratch = scratch

    def is_there(self) -> bool:
        """Whether an existing file would be replaced."""
        return not self.is_stream and self.path.exists()

    def write(self, fill: Callable[[Any], None]) -> None:
        """Write what ``fill`` gives a binary file as Parquet; errors: ``OutputError``."""
        if self._scratch is None:
            with whole_file(self.path) as file:
                fill(file)
            return
        self._scratch.seek(0)
        self._scratch.truncate()
        fill(self._scratch)
        self._scratch.flush()
        if isinstance(self._scratch, io.BytesIO):  # which is all that is wanted
            return
        with whole_file(self.path) as file:
            if format_of(self.path) == CSV:
                _as_csv(self._scratch, file, named_compression(self.path))
            else:
                self._scratch.seek(0)
                while piece := self._scratch.read(1 << 20):
                    file.write(piece)


def format_of(path: Path) -> str:
    """The format of a table at ``path``; CSV for a stream without an ending.

    Errors: ``OutputError`` if the name of a file does not say.
    """
    return format_to_write(path, TABLES, of_stream=CSV)


@contextlib.contextmanager
def table_output(path: Path) -> Iterator[TableOutput]:
    """Yield the place of a table at ``path``; errors: ``OutputError`` if none could be written."""
    target = check_output(path)
    if format_of(path) == PARQUET and not target.is_stream:
        yield TableOutput(path, target.is_stream, None)
        return
    with scratch_file(path) as scratch:
        yield TableOutput(path, target.is_stream, scratch)


@contextlib.contextmanager
def in_memory() -> Iterator[TableOutput]:
    """Yield an output for a table that is not written to a file."""
    yield TableOutput(Path("memory"), True, io.BytesIO())


def _as_csv(parquet: Any, file: Any, compression: str | None) -> None:
    import pyarrow.parquet as pq

    groups = pq.ParquetFile(parquet)
    table = CsvTable(file, compression)
    try:
        for number in range(groups.num_row_groups):
            table.write(groups.read_row_group(number))
        table.finish()
    except BaseException:
        table.abandon()
        raise
