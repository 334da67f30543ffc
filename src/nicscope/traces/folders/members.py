"""The files of a folder that is a trace: what their footers say, before any row is read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow.parquet as pq

from nicscope.errors import TraceError, printable
from nicscope.inputs import STDIN
from nicscope.traces.columns import TYPES
from nicscope.traces.files import footer_digest, open_bytes
from nicscope.traces.reader import trace_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.traces.reader import Trace
    from nicscope.traces.schema import TraceMetadata

ENDING = ".parquet"
HIDDEN = (".", "_")  # how names begin that other tools leave out as well
# What all files must agree in; the rest of the first file's metadata holds if all have the same.
AGREED = ("schema_version", "page_size", "regions", "connections")
FREE = ("origin", "observed", "unknown")


class Span(NamedTuple):
    """The lowest and the highest of a column's values in a file."""

    low: int
    high: int


class Member(NamedTuple):
    """A file of the folder as it was when it was looked at."""

    name: str  # fit to be printed
    path: str  # absolute
    rows: int  # requests
    registrations: int
    byte_count: int
    digest: int  # of its footer, by which the file is known again
    nodes: Span | None  # None: only its rows say
    times: Span | None


class Look(NamedTuple):
    """What a file says of itself; it is closed again, as there may be thousands."""

    member: Member
    metadata: TraceMetadata
    schema: Any  # Arrow's


def is_folder(path: Path | str) -> bool:
    """Whether there is a folder of that name; ``-`` is standard input."""
    try:
        return os.fspath(path) != STDIN and Path(path).is_dir()
    except (OSError, ValueError):
        return False


def files_of(folder: Path) -> list[Path]:
    """The trace files in ``folder``, in the order of their names' bytes.

    Names that begin with a dot or an underscore are left out.  Errors: ``TraceError`` if the
    folder cannot be read, holds none, or holds anything else, a folder for instance.
    """
    shown = printable(str(folder))
    try:
        names = sorted((path.name for path in folder.iterdir()), key=os.fsencode)
    except OSError as error:
        raise TraceError(f"{shown}: cannot be read: {error.strerror}") from error
    found = []
    for name in names:
        if name.startswith(HIDDEN):
            continue
        path = folder / name
        if path.is_dir():
            raise TraceError(
                f"{shown}: is a folder that holds another, {printable(name)!r}; a trace's files "
                "lie side by side"
            )
        if path.suffix != ENDING:
            raise TraceError(
                f"{shown}: is a folder that holds {printable(name)!r}; one that is a trace holds "
                f"{ENDING} files and nothing else, so move it away"
            )
        if not path.is_file():
            raise TraceError(f"{printable(str(path))}: is no plain file; move it away")
        found.append(path)
    if not found:
        raise TraceError(
            f"{shown}: is a folder without a trace: no {ENDING} file is in it; 'nicscope trace "
            "split' makes one of a trace"
        )
    return found


def look_at(path: Path) -> Look:
    """What the footer of the file ``path`` says.

    Errors: as ``nicscope.traces.reader.open_trace``, naming the file.
    """
    source = open_bytes(path)
    trace = trace_of(source)
    digest, is_signed = footer_digest(path)
    nodes, times = _spans(path) if is_signed else (None, None)
    member = Member(
        trace.name,
        str(path.resolve()),
        trace.rows,
        trace.registrations,
        trace.byte_count,
        digest,
        nodes,
        times,
    )
    return Look(member, trace.metadata, trace.arrow_schema)


def open_member(member: Member) -> Trace:
    """The file ``member`` as a trace by itself.

    Errors: ``TraceError`` if it is not the file that was looked at.
    """
    source = open_bytes(member.path)
    source.name = member.name
    trace = trace_of(source)
    if (trace.rows, trace.byte_count) != (member.rows, member.byte_count) or (
        footer_digest(Path(member.path))[0] != member.digest
    ):
        raise TraceError(f"{member.name}: has changed since it was looked at; begin again")
    return trace


def _spans(path: Path) -> tuple[Span | None, Span | None]:
    """Of nodes and of times, by what the groups of rows say of themselves.

    For a footer whose checksum is right: asked of a damaged one, the library ends the process.
    """
    footer = pq.read_metadata(path)
    names = [footer.schema.column(place).path for place in range(footer.num_columns)]
    found: list[Span | None] = []
    for name in ("node", "time_ns"):
        place = names.index(name)
        known = [
            footer.row_group(group).column(place).statistics
            for group in range(footer.num_row_groups)
            if footer.row_group(group).num_rows
        ]
        if not known or any(one is None or not one.has_min_max for one in known):
            found.append(None)
        else:
            found.append(Span(min(one.min for one in known), max(one.max for one in known)))
    return found[0], found[1]


def agree(looks: Sequence[Look]) -> TraceMetadata:
    """What is true of all files: the first one's metadata.

    Errors: ``TraceError`` that names two files which differ in their columns or in ``AGREED``.
    """
    first = looks[0]
    columns = _columns(first.schema)
    for look in looks:
        two = f"{look.member.name}: differs from {first.member.name} in"
        for field in AGREED:
            mine, its = getattr(first.metadata, field), getattr(look.metadata, field)
            if mine != its:
                said = f" ({mine} and {its})" if isinstance(mine, int) else ""
                raise TraceError(
                    f"{two} {field}{said}; the files of a folder that is one trace say the same"
                )
        if _columns(look.schema) != columns:
            raise TraceError(
                f"{two} its columns; the files of a folder that is one trace have the same"
            )
    kept = msgspec.structs.asdict(first.metadata)
    for field in FREE:
        if any(getattr(look.metadata, field) != kept[field] for look in looks):
            kept[field] = {}
    return type(first.metadata)(**kept)


def _columns(schema: Any) -> dict[str, Any]:
    """Columns by name; of those that the schema does not know, their types."""
    return {name: None if name in TYPES else schema.field(name).type for name in schema.names}
