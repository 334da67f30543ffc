"""The rows of a Parquet file that may be damaged, and a file of them that is whole or not there."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from nicscope.errors import TraceError
from nicscope.outputs import whole_file
from nicscope.traces.columns import DAMAGE
from nicscope.traces.files import SignedFile, check_footer, first_line
from nicscope.traces.schema import METADATA_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from nicscope.inputs import Input
    from nicscope.outputs import OutputFolder

# A larger column chunk is read through a window, so that even one giant row group is never in
# memory as a whole.  A smaller one is read at once: through a window the library believes a damaged
# page that says that it has 2 GiB, and makes room for it.
CHUNK_BYTES = 1 << 24
WINDOW_BYTES = 1 << 22
ROW_GROUP_ROWS = 1 << 20


class ParquetRows:
    """A Parquet file, open for as long as its trace is in use."""

    def __init__(
        self,
        source: Input,
        check_columns: Callable[[str, Any], None],
        dictionaries: Sequence[str],
    ) -> None:
        """``check_columns`` is given the file's name and schema before any row is read.

        Columns in ``dictionaries`` stay dictionary-encoded in memory: a code for each row.
        Errors: ``TraceError`` for a file that is damaged, or as ``check_columns`` says.
        """
        self._source = source
        self.path: Path | None = source.at_rest()
        self.byte_count = source.byte_count or 0
        try:
            check_footer(self.path, source.name)
            footer = pq.read_metadata(self.path)
            self.schema = footer.schema.to_arrow_schema()
            check_columns(source.name, self.schema)
            self._file = pq.ParquetFile(
                self.path,
                metadata=footer,
                read_dictionary=[*dictionaries],
                buffer_size=_window(footer),
                pre_buffer=False,
                page_checksum_verification=True,  # where there are checksums
            )
        except DAMAGE as error:
            raise TraceError(
                f"{source.name}: damaged or truncated Parquet file: {first_line(error)}; "
                "record or copy it again"
            ) from error
        groups = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
        if min(groups, default=0) < 0 or sum(groups) != footer.num_rows:
            raise TraceError(
                f"{source.name}: damaged: its row groups have {sum(groups)} rows, not "
                f"{footer.num_rows}; record or copy it again"
            )
        self.rows = footer.num_rows
        self.metadata: bytes | None = (footer.metadata or {}).get(METADATA_KEY)

    def record_batches(self, columns: list[str], max_rows: int) -> Iterator[Any]:
        """Arrow record batches of ``columns``, at most ``max_rows`` rows each."""
        batches: Iterator[Any] = self._file.iter_batches(max_rows, columns=columns)
        return batches


def _window(footer: Any) -> int:
    """Bytes of a column chunk to read at a time; 0: all of it.

    By what row groups say of themselves: asked of a damaged column, the library ends the process.
    """
    groups = [footer.row_group(group) for group in range(footer.num_row_groups)]
    sizes = [group.total_byte_size // max(group.num_columns // 2, 1) for group in groups]
    return 0 if max(sizes, default=0) <= CHUNK_BYTES else WINDOW_BYTES


class SignedParquet:
    """A Parquet file in the making, with the checksum of its footer; it appears when it is whole.

    Errors of every method: ``OutputError`` if the file cannot be written.
    """

    def __init__(
        self, path: Path, opening: contextlib.ExitStack, folder: OutputFolder | None = None
    ) -> None:
        """``opening`` closes it: the file is there if nothing has gone wrong by then.

        It is one of the set of ``folder``, if that is given, and there when all of them are.
        """
        whole = whole_file(path) if folder is None else folder.file(path.name)
        self._sink: Any = opening.enter_context(whole)
        self._signed = SignedFile(self._sink)
        self._file: Any = None
        opening.callback(self._give_up)

    def write(self, table: Any) -> None:
        """Append an Arrow table; all have the schema of the first."""
        if self._file is None:
            self._file = pq.ParquetWriter(
                self._signed,
                table.schema,
                compression="zstd",
                use_dictionary=True,
                write_page_checksum=True,
            )
        self._file.write_table(table, row_group_size=ROW_GROUP_ROWS)

    def finish(self, metadata: bytes) -> None:
        """Write what comes last."""
        self._file.add_key_value_metadata({METADATA_KEY: metadata})
        file, self._file = self._file, None
        self._signed.hold()
        file.close()
        self._signed.finish()

    def _give_up(self) -> None:
        """Let go of a file that is given up; a stream gets no end that looks like a whole one."""
        file, self._file = self._file, None
        if file is not None:
            self._sink.raw.give_up()
            with contextlib.suppress(OSError, pa.ArrowException):
                file.close()
