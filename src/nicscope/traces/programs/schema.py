"""What a program trace holds: the operations of processes, and which waits for which."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from nicscope.errors import TraceError
from nicscope.traces.schema import DEFAULT_PAGE_SIZE, METADATA_KEY, MOST_METADATA, check_page_size

if TYPE_CHECKING:
    from numpy.typing import NDArray

FORMAT = "nicscope program trace"
PROGRAM_VERSION = 1
ENDING = ".program.parquet"
NOBODY = -1  # the peer of what has none, and of a RECEIVE that takes any process's message
MOST_NS = 1 << 53  # of a process's computing, 104 days: still exact as picoseconds in 64 bits


class Operation(enum.IntEnum):
    """What a process does; the code that stands for it in columns."""

    COMPUTE = 0
    FETCH = 1
    DEPOSIT = 2
    SEND = 3
    RECEIVE = 4
    LOCK = 5
    UNLOCK = 6
    BARRIER = 7


OPERATION_NAMES: tuple[str, ...] = tuple(operation.name.lower() for operation in Operation)
OPERATION_CODES: dict[str, int] = {name: code for code, name in enumerate(OPERATION_NAMES)}

# Arrow's names of the column types, in the order of the columns.
PROGRAM_COLUMNS: dict[str, str] = {
    "process": "uint32",
    "operation": "string",
    "peer": "int32",
    "address": "uint64",
    "length": "uint32",
    "name": "int64",
    "duration_ns": "uint64",
}
LIST_COLUMNS = ("after", "after_start")  # lists of uint32, or null
# Lists of structs of a process and the place of a row of it, or null.
OTHERS_COLUMNS = ("after_others", "after_start_others")
PLACE = ("process", "row")


class Waits(NamedTuple):
    """Which rows each row waits for: ``places[first[row] : first[row + 1]]``.

    Rows are counted through all processes, places within the row's process.
    """

    first: NDArray[np.int64]  # one more than there are rows
    places: NDArray[np.uint32]  # each less than its row's own


class Others(NamedTuple):
    """Which rows of other processes each row waits for: ``rows[first[row] : first[row + 1]]``.

    All are counted through all processes.
    """

    first: NDArray[np.int64]  # one more than there are rows
    rows: NDArray[np.int64]


class ProgramMetadata(msgspec.Struct, kw_only=True):
    """Where a program trace comes from; JSON under the key ``nicscope`` of a Parquet file."""

    format: str = FORMAT
    version: int = PROGRAM_VERSION
    nodes_of_processes: list[int]  # the node of each process, rising from 0 without a gap
    page_size: int = DEFAULT_PAGE_SIZE  # bytes
    base: int = 0  # address of the first byte of the memory that rows name
    memory_bytes: int = 0  # how much there is from there on
    program: str = ""
    size: str = ""
    seed: int = 0
    left_out: list[str] = msgspec.field(default_factory=list)  # what the record does not hold
    assumed: dict[str, Any] = msgspec.field(default_factory=dict)  # what nothing said
    origin: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def processes(self) -> int:
        """How many there are."""
        return len(self.nodes_of_processes)

    @property
    def nodes(self) -> int:
        """How many there are."""
        return self.nodes_of_processes[-1] + 1

    def to_json(self) -> bytes:
        """All of it as one JSON object."""
        return msgspec.json.encode(self)

    def check(self, source: str) -> None:
        """Return if it can be; errors: ``TraceError`` naming ``source`` and what cannot."""
        where = f"{source}: its metadata"
        if self.version > PROGRAM_VERSION:
            raise TraceError(
                f"{source}: version {self.version} of program traces, but this nicscope reads up "
                f"to {PROGRAM_VERSION}; use a newer nicscope"
            )
        check_page_size(self.page_size, f"{source}: page_size in its metadata")
        nodes = self.nodes_of_processes
        if not nodes:
            raise TraceError(f"{where}: nodes_of_processes names no process")
        steps = {after - before for before, after in zip([0, *nodes], nodes, strict=False)}
        if nodes[0] != 0 or not steps <= {0, 1}:
            raise TraceError(
                f"{where}: nodes_of_processes must rise from 0 without a gap, such as [0, 0, 1, 1]"
            )
        for name in ("base", "memory_bytes", "seed"):
            if not 0 <= getattr(self, name) < 1 << 64:
                raise TraceError(f"{where}: {name} must be from 0 to 2^64 - 1")
        if self.base + self.memory_bytes > 1 << 64:
            raise TraceError(f"{where}: memory_bytes from base on reach past 2^64")

    @classmethod
    def from_json(cls, text: bytes | None, source: str) -> ProgramMetadata:
        """The metadata that ``text`` spells.  Errors: ``TraceError`` naming ``source``."""
        if text is None or len(text) > MOST_METADATA:
            raise TraceError(
                f"{source}: its metadata {METADATA_KEY.decode()!r} is "
                f"{'missing' if text is None else 'too long'}; record or convert it again"
            )
        try:
            metadata = msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise TraceError(
                f"{source}: its metadata {METADATA_KEY.decode()!r} is damaged: {error}"
            ) from error
        if metadata.format != FORMAT:
            raise TraceError(f"{source}: its metadata says format {metadata.format!r}")
        metadata.check(source)
        return metadata


class ProgramTrace(NamedTuple):
    """Columns through all processes; those of process p are rows ``first[p]`` to ``first[p + 1]``.

    Within a process rows are in the order in which it asked.
    """

    metadata: ProgramMetadata
    first: NDArray[np.int64]  # one more than there are processes
    operation: NDArray[np.uint8]  # codes of Operation
    peer: NDArray[np.int32]  # a node (FETCH, DEPOSIT), a process (SEND, RECEIVE), or NOBODY
    address: NDArray[np.uint64]  # of the local buffer
    length: NDArray[np.uint32]  # bytes
    name: NDArray[np.int64]  # of a lock or barrier; the tag of a message
    duration_ns: NDArray[np.uint64]  # of the CPU
    after: Waits | None  # that have to have ended; None: each row waits for the one before it
    after_start: Waits | None  # that have to have begun; None: there are none
    after_others: Others | None = None  # other processes' that have to have ended
    after_start_others: Others | None = None  # and begun

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.operation)

    def process_of_rows(self) -> NDArray[np.uint32]:
        """The process of each row."""
        return np.repeat(np.arange(len(self.first) - 1, dtype=np.uint32), np.diff(self.first))

    def rows_of(self, process: int) -> slice:
        """Where the rows of a process are."""
        return slice(int(self.first[process]), int(self.first[process + 1]))


def is_program(schema: Any) -> bool:
    """Whether a Parquet file with Arrow's ``schema`` holds a program trace and no request trace."""
    return "operation" in schema.names and "op" not in schema.names
