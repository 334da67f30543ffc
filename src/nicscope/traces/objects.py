"""Cache traces of objects: libCacheSim's CSV, read, and its oracleGeneral, read and written.

The CSV's description has libCacheSim's own spelling, ``time-col=1,obj-id-col=2,obj-size-col=3``,
with ``delimiter=`` and ``has-header=`` where they cannot be seen from the first line.

Source of oracleGeneral's record: libCacheSim, ``oracleGeneralBin.h`` (layout) and
``traceConvOracleGeneral.cpp`` (the next access is counted in records from 1; -1 if there is none).
One is written per lookup, its object the page: a process number (in order of appearance) above a
page number, all of a page's size.  When a page is met again, the record of its last lookup is
patched with the number of this one, so memory holds the last lookup of each page, not the trace.
"""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from nicscope.errors import TraceError, did_you_mean, one_line
from nicscope.kernel.decorators import kernel
from nicscope.outputs import scratch_file, whole_file
from nicscope.outputs.file import named_compression
from nicscope.traces.columns import first_null, only_requests
from nicscope.traces.files import ByteSource, Watch
from nicscope.traces.imported import Choices, Imported, filled, numbered, op_codes
from nicscope.traces.numbering import Numbering, lookups_of
from nicscope.traces.schema import REQUIRED_COLUMNS, Requests, TraceMetadata
from nicscope.traces.tables import (
    Layout,
    check_width,
    line_place,
    parsed_blocks,
)
from nicscope.traces.writer import AtomicWriter

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from nicscope.inputs import Input

    Place = Callable[[int], str]

RECORD = np.dtype(
    [
        ("time_s", "<u4"),
        ("object_id", "<u8"),
        ("byte_count", "<u4"),
        ("next_access", "<i8"),
    ]
)
NEVER = -1


def page_bits(page_size: int) -> int:
    """How many low bits of an object id number the page; the rest number the process."""
    return 64 - (page_size.bit_length() - 1)


MOST_PIDS = np.uint64(np.iinfo(np.int32).max)


class ObjectsAsPages:
    """Maps each access to a request of the one page that stands for its object.

    The low bits of an object's id are its page, the high ones its process, just as the exporter
    names them; renumbered, objects are the pages 0, 1, 2... of one process in their order of
    appearance.  A request covers the object's bytes up to one page; objects of no bytes are left
    out, as libCacheSim does, and counted.
    """

    def __init__(self, choices: Choices, metadata: TraceMetadata) -> None:
        self._choices = choices
        self._metadata = metadata
        self._numbering = Numbering()
        metadata.page_size = choices.page_size
        metadata.observed.update(objects_without_bytes=0, objects_beyond_a_page=0)

    def columns(
        self,
        time_ns: NDArray[np.int64],
        object_id: NDArray[np.uint64],
        byte_count: NDArray[np.uint32],
    ) -> tuple[dict[str, Any], NDArray[np.int64]]:
        """Columns of the requests, and the index of the access that each comes from."""
        page_size = self._choices.page_size
        kept = np.flatnonzero(byte_count)
        observed = self._metadata.observed
        observed["objects_without_bytes"] += int(byte_count.size - kept.size)
        observed["objects_beyond_a_page"] += int((byte_count > page_size).sum())
        page, pid = self._pages(object_id[kept])
        columns = {
            "time_ns": time_ns[kept],
            "node": filled(self._choices.node, kept.size, np.int32),
            "pid": pid,
            "op": op_codes(self._choices.op, kept.size),
            "address": page * np.uint64(page_size),
            "length": np.minimum(byte_count[kept], page_size).astype(np.uint32),
        }
        return columns, kept

    def _pages(self, object_id: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
        if self._choices.renumber:
            owner = np.zeros(object_id.size, np.int64)
            page = self._numbering.number(owner, object_id.view(np.int64)).astype(np.uint64)
            return page, filled(self._choices.pid, object_id.size, np.int32)
        bits = page_bits(self._choices.page_size)
        page = object_id & np.uint64((1 << bits) - 1)
        pid = (object_id >> np.uint64(bits)) + np.uint64(self._choices.pid)
        if pid.size and pid.max() > MOST_PIDS:
            raise TraceError(
                f"an object's process, from the high bits of its id and --pid, is {pid.max()}, "
                f"beyond {MOST_PIDS}; choose a smaller --pid, or --renumber"
            )
        return page, pid.astype(np.int32)


BATCH_RECORDS = 1 << 17
NS_PER_S = 1_000_000_000


def read_oracle_general(
    source: Input, choices: Choices, metadata: TraceMetadata, watch: Watch | None = None
) -> Iterator[Imported]:
    """One request per record that has bytes; see ``ObjectsAsPages`` for where it lies.

    Errors: ``TraceError`` if the file ends within a record.
    """
    objects = ObjectsAsPages(choices, metadata)
    metadata.origin["importer"] = "oracle-general"
    first = 0
    records_of = ByteSource(source, watch)
    while piece := records_of.read(BATCH_RECORDS * RECORD.itemsize):
        if len(piece) % RECORD.itemsize:
            raise TraceError(
                f"{source.name}: ends within record {first + len(piece) // RECORD.itemsize} (the "
                f"first is 0), whose size is {RECORD.itemsize} bytes; copy it again, or say "
                "what else it is with --from"
            )
        records = np.frombuffer(piece, RECORD)
        columns, kept = objects.columns(
            records["time_s"].astype(np.int64) * NS_PER_S,
            np.ascontiguousarray(records["object_id"]),
            np.ascontiguousarray(records["byte_count"]),
        )
        yield Imported(columns, numbered("record {} (the first is 0)", kept + first))
        first += records.size


COLUMNS = {"time-col": 1, "obj-id-col": 2, "obj-size-col": 3}  # libCacheSim counts from 1
NO_DELIMITERS = ('"', "\n", "\r", "\0")
DELIMITERS = ("\t", ",", "|", ":", ";", " ")
_COLUMN_NUMBER = re.compile(r"[1-9][0-9]{0,5}")
TRUE, FALSE = ("true", "1"), ("false", "0")


class Description(NamedTuple):
    """The layout of a CSV file: column numbers from 0, separator, header."""

    time: int
    object_id: int
    byte_count: int
    delimiter: str | None
    has_header: bool | None

    def wanted(self) -> dict[str, int]:
        """The numbers of the columns to read, by their meaning."""
        return {"time": self.time, "object": self.object_id, "size": self.byte_count}


def read_libcachesim_csv(
    source: Input, choices: Choices, metadata: TraceMetadata, watch: Watch | None = None
) -> Iterator[Imported]:
    """One request per line; see ``ObjectsAsPages`` for where it lies.

    Errors: ``TraceError`` naming the line that does not fit, or a description that makes no sense.
    """
    description = description_of(choices.parameters)
    objects = ObjectsAsPages(choices, metadata)
    metadata.origin["importer"] = "libcachesim-csv"

    def layout_of(called: str, head: bytes) -> tuple[Layout, bool]:
        layout, text = _layout_of(called, head, description), head.decode(errors="replace")
        is_header = description.has_header
        if is_header is None:  # if it has more letters than digits
            is_header = sum(map(str.isalpha, text)) > sum(map(str.isdecimal, text))
        if is_header:  # the names of what is taken, so that wrong ones are noticed
            names = text.strip().split(layout.delimiter)
            taken = description.wanted().items()
            said = ", ".join(f"{names[at].strip()} as {what}" for what, at in taken)
            metadata.observed["columns_taken"] = one_line(said)
        return layout, is_header

    for start, rows, table in parsed_blocks(source, watch, layout_of):
        place = line_place(start, rows)
        columns, kept = objects.columns(
            _time_ns(source.name, table, place),
            _numbers(source.name, table, "object", place).astype(np.uint64),
            _numbers(source.name, table, "size", place).astype(np.uint32),
        )
        yield Imported(columns, line_place(start, rows, kept))


def description_of(text: str) -> Description:
    """Parse a layout description; the rest is libCacheSim's default.

    Errors: ``TraceError`` for an unknown word or a value that makes no sense.
    """
    # The delimiter may be the comma that parts the words.
    text = text.replace("delimiter=,", "delimiter=comma")
    words = dict(word.strip().partition("=")[::2] for word in text.split(",") if word.strip())
    known = [*COLUMNS, "delimiter", "has-header"]
    for word in words:
        if word not in known:
            raise TraceError(f"unknown word {word!r} in --columns{did_you_mean(word, known)}")
    places = {}
    for word, default in COLUMNS.items():
        value = words.get(word, str(default))
        if not _COLUMN_NUMBER.fullmatch(value):
            raise TraceError(f"{word} in --columns is {value!r}; columns are numbered from 1")
        places[word] = int(value) - 1
    if len(set(places.values())) < len(places):
        raise TraceError("--columns names one column twice; time, object and size are three")
    header = words.get("has-header")
    if header is not None and header.lower() not in TRUE + FALSE:
        raise TraceError(f"has-header in --columns is {header!r}; must be true or false")
    delimiter = words.get("delimiter", "").strip("'\"")
    delimiter = {"comma": ",", "\\t": "\t"}.get(delimiter, delimiter)
    if len(delimiter) > 1 or not delimiter.isascii() or delimiter in NO_DELIMITERS:
        raise TraceError(
            f"delimiter in --columns is {delimiter!r}; must be one character of ASCII, but no "
            "quote or line end"
        )
    return Description(
        places["time-col"],
        places["obj-id-col"],
        places["obj-size-col"],
        delimiter or None,
        None if header is None else header.lower() in TRUE,
    )


def _layout_of(called: str, head: bytes, description: Description) -> Layout:
    line = head.decode(errors="replace")
    delimiter = description.delimiter or max(DELIMITERS, key=line.count)
    check_width(called, line.count(delimiter) + 1)
    names = [f"column {number}" for number, _ in enumerate(line.split(delimiter), 1)]
    types = dict.fromkeys(names, pa.string())
    for name, place in description.wanted().items():
        if place >= len(names):
            raise TraceError(
                f"{called}: line 1: {len(names)} columns, but the {name} should be in column "
                f"{place + 1}; say which with --columns time-col=1,obj-id-col=2,obj-size-col=3"
            )
        types.pop(names[place])
        names[place] = name
        types[name] = pa.float64() if name == "time" else pa.uint64()
    types["size"] = pa.uint32()
    return Layout(names, types, delimiter)


def _numbers(called: str, table: pa.Table, name: str, place: Place) -> NDArray[Any]:
    column = table.column(name).combine_chunks()
    if column.null_count:
        raise TraceError(f"{called}: {place(first_null(column))}: no {name} given")
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


def _time_ns(called: str, table: pa.Table, place: Place) -> NDArray[np.int64]:
    seconds = _numbers(called, table, "time", place)
    bad = np.flatnonzero(~(np.abs(seconds) < np.iinfo(np.int64).max / NS_PER_S))
    if bad.size:
        row = int(bad[0])
        raise TraceError(
            f"{called}: {place(row)}: time {seconds[row]} is out of range; must be seconds"
        )
    time_ns: NDArray[np.int64] = np.rint(seconds * NS_PER_S).astype(np.int64)
    return time_ns


LAST_SECOND = np.iinfo(np.uint32).max
# A record is three words of 8 bytes; the last one is its next access.
WORDS = RECORD.itemsize // 8
NEXT_ACCESS_WORD = RECORD.fields["next_access"][1] // 8  # type: ignore[index]
COPY_BYTES = 1 << 20
LOST = (
    "operations, first byte and length within a page, numbers of nodes and processes, and times "
    "but for whole seconds since the first"
)
LOST_REGISTRATIONS = "rows that register memory or give it back"


@kernel
def link(words, last, identities, start):
    """Link each page's last lookup to its next, ``start`` being the first of these lookups.

    Numbers in the file count from 1; ``last`` holds them from 0, ``NEVER`` before the first.
    """
    for i in range(identities.size):
        page = identities[i]
        if last[page] != NEVER:
            words[last[page] * WORDS + NEXT_ACCESS_WORD] = start + i + 1
        last[page] = start + i


class OracleGeneralWriter(AtomicWriter):
    """Appends lookups; compressed at the end if the name ends in ``.zst`` or ``.gz``."""

    def __init__(self, path: Path, metadata: TraceMetadata) -> None:
        super().__init__(path, metadata)
        self._processes = Numbering()
        self._pages = Numbering()
        self._last = np.full(1 << 12, NEVER, np.int64)
        self._lookups = 0
        self._start_ns: int | None = None
        self._sink: Any = None
        self._file: Any = None  # records are patched in place: the result itself, or beside it

    def _open(self, opening: contextlib.ExitStack) -> None:
        self._sink = opening.enter_context(whole_file(self.path))
        if self._is_patched:
            self._file = self._sink.raw
        else:
            self._file = opening.enter_context(scratch_file(self.path)).raw

    def _finish(self) -> None:
        if not self._is_patched:
            self._file.seek(0)
            compression = named_compression(self.path)
            with pa.output_stream(self._sink, compression=compression) as stream:
                shutil.copyfileobj(self._file, stream, COPY_BYTES)
        self.lost += self.metadata.without_defaults()

    @property
    def _is_patched(self) -> bool:
        """Whether the result can be changed in place; a compressed one and a stream cannot."""
        return named_compression(self.path) is None and self._sink.seekable()

    def append(self, requests: Requests, batch: Any) -> None:
        """Append the lookups of a batch of checked requests.

        Errors: ``TraceError`` if there are more processes or seconds than the format can number.
        """
        if not self.lost:
            self.lost = [LOST]
            further = [name for name in batch.schema.names if name not in REQUIRED_COLUMNS]
            self.lost.append(f"columns: {', '.join(further)}")
        kept = only_requests(requests)
        if len(kept.op) < len(requests.op) and LOST_REGISTRATIONS not in self.lost:
            self.lost.append(LOST_REGISTRATIONS)
        requests = kept
        if not len(requests.op):
            return
        process = self._processes.number(
            requests.node.astype(np.int64), requests.pid.astype(np.int64)
        )
        time_s = self._seconds(requests.time_ns)
        page_size = self.metadata.page_size
        bits = page_bits(page_size)
        if self._processes.count > 1 << (64 - bits):
            raise TraceError(
                f"{self.path}: more than {1 << (64 - bits)} processes, which is all that an object "
                f"id has room for beside pages of {page_size} bytes"
            )
        for rows, pages in lookups_of(requests, page_size):
            records = np.empty(rows.size, RECORD)
            records["time_s"] = time_s[rows]
            owner = process[rows].astype(np.uint64)
            high = owner << np.uint64(bits) if bits < 64 else np.uint64(0)
            records["object_id"] = pages.view(np.uint64) | high
            records["byte_count"] = page_size
            records["next_access"] = NEVER
            self._write(records, self._pages.number(process[rows], pages))
        self.rows += requests.length.size

    def _seconds(self, time_ns: NDArray[np.int64]) -> NDArray[np.uint32]:
        """Whole seconds since the first request, the resolution of the format."""
        if self._start_ns is None:
            self._start_ns = int(time_ns[0])
        seconds = (time_ns - self._start_ns) // NS_PER_S
        if seconds.max() > LAST_SECOND:
            raise TraceError(f"{self.path}: the trace spans more seconds than 32 bits can count")
        return np.maximum(seconds, 0).astype(np.uint32)  # nodes' clocks may lie apart

    def _write(self, records: NDArray[Any], identities: NDArray[np.int64]) -> None:
        view = memoryview(records.tobytes())
        while view:  # an unbuffered file may take a part
            view = view[self._file.write(view) :]
        if self._pages.count > self._last.size:
            grown = np.full(max(self._pages.count, 2 * self._last.size), NEVER, np.int64)
            grown[: self._last.size] = self._last
            self._last = grown
        total = self._lookups + records.size
        words = np.memmap(self._file, np.int64, "r+", shape=(total * WORDS,))
        link(np.asarray(words), self._last, identities, self._lookups)
        self._lookups = total
