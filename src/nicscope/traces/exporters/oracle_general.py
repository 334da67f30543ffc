"""libCacheSim's ``oracleGeneral``: one record per lookup, its object the page, with its future.

An object id is a process number (in order of appearance) above a page number; every object has
the size of a page.  When a page is met again, the record of its last lookup is patched with the
number of this one, so memory holds the last lookup of each page and not the trace.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nicscope.errors import TraceError
from nicscope.kernel.decorators import kernel
from nicscope.outputs import scratch_file, whole_file
from nicscope.outputs.file import named_compression
from nicscope.traces.atomic_writer import AtomicWriter
from nicscope.traces.importers.objects import NEVER, RECORD, page_bits
from nicscope.traces.numbering import Numbering, lookups_of
from nicscope.traces.registrations import only_requests
from nicscope.traces.schema import REQUIRED_COLUMNS

if TYPE_CHECKING:
    import contextlib
    from pathlib import Path

    from numpy.typing import NDArray

    from nicscope.traces.schema import Requests, TraceMetadata

NS_PER_S = 1_000_000_000
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
