"""Reading a trace: a Parquet file in, checked batches of columns out, in bounded memory."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nicscope.errors import TraceError, did_you_mean
from nicscope.traces.check import Checker
from nicscope.traces.files import first_line, head_of
from nicscope.traces.schema import (
    FIRST_RECEIVE,
    METADATA_KEY,
    OP_CODES,
    OPTIONAL_COLUMNS,
    REQUIRED_COLUMNS,
    Requests,
    TraceMetadata,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

BATCH_ROWS = 1 << 17  # about 5 MB of columns: still in the cache when the consumer gets them
# A column chunk is read through a window of this many bytes, so that even one giant row group
# is never in memory as a whole.
WINDOW_BYTES = 1 << 22
UNKNOWN_OP = 255
MAGIC = b"PAR1"


class Trace:
    """A trace file whose columns are there and of the right type; rows are checked as they pass."""

    def __init__(self, path: Path, file: pq.ParquetFile, metadata: TraceMetadata) -> None:
        self.path = path
        self.metadata = metadata
        self.rows: int = file.metadata.num_rows
        self._file = file

    @property
    def column_names(self) -> list[str]:
        """Every column of the file, in its order, unknown ones among them."""
        return list(self._file.schema_arrow.names)

    def batches(self, max_rows: int = BATCH_ROWS) -> Iterator[Requests]:
        """All requests in their order, at most ``max_rows`` at a time.

        Errors: ``TraceError`` at the first row that the schema does not allow.
        """
        for requests, _ in self._checked(list(REQUIRED_COLUMNS), max_rows):
            yield requests

    def record_batches(self, max_rows: int = BATCH_ROWS) -> Iterator[tuple[Requests, Any]]:
        """As ``batches``, each with the Arrow record batch of every column that it came from."""
        yield from self._checked(self.column_names, max_rows)

    def read(self) -> Requests:
        """The whole trace at once; 34 bytes of memory per request."""
        parts = list(self.batches())
        return Requests(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def _checked(self, columns: list[str], max_rows: int) -> Iterator[tuple[Requests, Any]]:
        checker = Checker(str(self.path))
        for batch in _read_ahead(self._file.iter_batches(max_rows, columns=columns), checker):
            requests = requests_of(batch, checker)
            checker.check(requests)
            yield requests, batch


def _read_ahead(batches: Iterator[Any], checker: Checker) -> Iterator[Any]:
    """Decode the next batch while the consumer is busy with this one."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        ahead = pool.submit(next, batches, None)
        while True:
            try:
                batch = ahead.result()
            except (pa.ArrowException, OSError) as error:
                raise checker.error(0, f"damaged from here on: {first_line(error)}") from error
            if batch is None:
                return
            ahead = pool.submit(next, batches, None)
            yield batch


def open_trace(path: Path | str) -> Trace:
    """The trace in the Parquet file ``path``, its columns checked.

    Errors: ``TraceError`` if the file is missing, unreadable, not Parquet, truncated or empty,
    or if a column is missing or has the wrong type.
    """
    path = Path(path)
    _check_magic(path)
    try:
        footer = pq.read_metadata(path)
        _check_columns(path, footer.schema.to_arrow_schema())
        # ``op`` stays dictionary-encoded in memory: six strings and one code per row.
        file = pq.ParquetFile(
            path,
            metadata=footer,
            read_dictionary=["op"],
            buffer_size=WINDOW_BYTES,
            pre_buffer=False,
        )
    except (pa.ArrowException, OSError) as error:
        raise TraceError(
            f"{path}: damaged or truncated Parquet file: {first_line(error)}; "
            "record or copy it again"
        ) from error
    text = (footer.metadata or {}).get(METADATA_KEY)
    metadata = TraceMetadata() if text is None else TraceMetadata.from_json(text, str(path))
    if footer.num_rows == 0:
        raise TraceError(f"{path}: holds no requests; record or convert it again")
    return Trace(path, file, metadata)


def requests_of(batch: Any, checker: Checker) -> Requests:
    """The required columns of an Arrow record batch as NumPy arrays, without copies if possible.

    Errors: ``TraceError`` through ``checker`` for a null or an unknown operation.
    """
    for name in REQUIRED_COLUMNS:
        column = batch.column(name)
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise checker.error(row, f"{name} is null; only peer and buffer may be")
    codes = _op_codes(batch.column("op"), checker)
    return Requests(
        time_ns=_values(batch.column("time_ns")),
        node=_values(batch.column("node")),
        pid=_values(batch.column("pid")),
        receive=(codes >= FIRST_RECEIVE).view(np.uint8),
        op=codes,
        address=_values(batch.column("address")),
        length=_values(batch.column("length")),
    )


def _values(column: Any) -> NDArray[Any]:
    """An Arrow column's own memory; writable, as kernels compile anew for read-only arrays."""
    kind = column.type.to_pandas_dtype()
    memory = np.frombuffer(column.buffers()[1], kind)[column.offset : column.offset + len(column)]
    return memory if memory.flags.writeable else memory.copy()


def _op_codes(column: Any, checker: Checker) -> NDArray[np.uint8]:
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    names = column.dictionary.to_pylist()
    codes = np.array([OP_CODES.get(name, UNKNOWN_OP) for name in names], np.uint8)
    of_rows: NDArray[np.uint8] = codes[column.indices.to_numpy()]
    if UNKNOWN_OP in codes and (unknown := np.flatnonzero(of_rows == UNKNOWN_OP)).size:
        row = int(unknown[0])
        name = column[row].as_py()
        raise checker.error(row, f"unknown op {name!r}{did_you_mean(str(name), OP_CODES)}")
    return of_rows


def _check_magic(path: Path) -> None:
    """Refuse what cannot be Parquet in words that help more than the library's."""
    if head_of(path, len(MAGIC)) != MAGIC:
        raise TraceError(
            f"{path}: not a Parquet file; 'nicscope trace convert' reads strace, lackey, CSV and "
            "oracleGeneral files"
        )
    with path.open("rb") as file:
        file.seek(-len(MAGIC), os.SEEK_END)
        if file.read() != MAGIC:
            raise TraceError(f"{path}: truncated Parquet file; record or copy it again")


def _check_columns(path: Path, schema: Any) -> None:
    for name, expected in (REQUIRED_COLUMNS | OPTIONAL_COLUMNS).items():
        places = schema.get_all_field_indices(name)
        if len(places) > 1:
            raise TraceError(f"{path}: column {name!r} is there {len(places)} times")
        if not places:
            if name in OPTIONAL_COLUMNS:
                continue
            raise TraceError(
                f"{path}: column {name!r} is missing; a trace has {', '.join(REQUIRED_COLUMNS)}"
            )
        found = schema.field(places[0]).type
        if not _fits(found, expected):
            raise TraceError(f"{path}: column {name!r} is {found}; must be {expected}")


def _fits(found: Any, expected: str) -> bool:
    if expected != "string":
        return str(found) == expected
    if pa.types.is_dictionary(found):
        found = found.value_type
    return bool(
        pa.types.is_string(found)
        or pa.types.is_large_string(found)
        or pa.types.is_string_view(found)
    )
