"""What a request trace holds: its columns, their ranges and Arrow types, its metadata."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nicscope.errors import TraceError, did_you_mean
from nicscope.kernel.decorators import kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray


METADATA_KEY = b"nicscope"
SCHEMA_VERSION = 1
DEFAULT_PAGE_SIZE = 4096
SMALLEST_PAGE, LARGEST_PAGE = 512, 1 << 30  # bytes; as designs have them
MOST_METADATA = 1 << 24  # bytes
DEEPEST = 50  # objects and lists within each other in metadata


class Op(enum.IntEnum):
    """What a request does with its local buffer; the code that stands for it in columns."""

    SEND = 0
    WRITE = 1
    SERVE_READ = 2
    RECV = 3
    READ = 4
    SERVE_WRITE = 5


# The first operation of the receive path: from here on the local buffer is written, before it
# is read.
FIRST_RECEIVE = Op.RECV
OP_NAMES: tuple[str, ...] = tuple(op.name.lower() for op in Op)
OP_CODES: dict[str, int] = {op.name.lower(): int(op) for op in Op}


class Registration(enum.IntEnum):
    """What a row does that is no request; the code that stands for it in the column ``op``."""

    REGISTER = 6
    DEREGISTER = 7


FIRST_REGISTRATION = Registration.REGISTER
# Of every kind of row that a trace may have, by their codes.
ROW_NAMES: tuple[str, ...] = (*OP_NAMES, *(kind.name.lower() for kind in Registration))
ROW_CODES: dict[str, int] = {name: code for code, name in enumerate(ROW_NAMES)}

# Arrow's names of the column types; ``op`` is read from any kind of string.
REQUIRED_COLUMNS: dict[str, str] = {
    "time_ns": "int64",
    "node": "int32",
    "pid": "int32",
    "op": "string",
    "address": "uint64",
    "length": "uint32",
}
OPTIONAL_COLUMNS: dict[str, str] = {"peer": "int32", "buffer": "int32"}
# Of a trace that says what is registered when; a trace without the first of them does not.
PAGE_SIZE_COLUMN, RIGHTS_COLUMN = "page_size", "rights"


class Requests(NamedTuple):
    """A batch of requests as columns of equal length, in the order of issue.

    ``(node, pid)`` names one address space; ``address`` is its virtual address of the buffer.
    """

    time_ns: NDArray[np.int64]
    node: NDArray[np.int32]
    pid: NDArray[np.int32]
    receive: NDArray[np.uint8]  # 1 where the local buffer is written, 0 where it is read
    op: NDArray[np.uint8]  # codes of Op
    address: NDArray[np.uint64]
    length: NDArray[np.uint32]  # bytes, at least 1


class Rows(NamedTuple):
    """A batch of requests and registrations, in the order of issue; the first columns as above."""

    time_ns: NDArray[np.int64]
    node: NDArray[np.int32]
    pid: NDArray[np.int32]
    receive: NDArray[np.uint8]  # 0 of a registration
    op: NDArray[np.uint8]  # codes of Op and of Registration
    address: NDArray[np.uint64]
    length: NDArray[np.uint32]  # of a registration 0xFFFFFFFF where it is more
    region_bytes: NDArray[np.uint64]  # the length, whatever it is
    page_size: NDArray[np.int64]  # of a registration; 0: not said
    rights: NDArray[np.uint8]  # bits of ``RIGHTS``: that a registration gives, a request needs

    @property
    def kind(self) -> NDArray[np.uint8]:
        """0 of a request, 1 where memory is registered, 2 where it is given back."""
        return kinds_of(self.op)


def kinds_of(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """``Rows.kind`` of rows with these ``codes`` of operations."""
    last_request = FIRST_REGISTRATION - 1
    return codes.clip(last_request) - last_request


class TraceMetadata(msgspec.Struct, kw_only=True):
    """Where a trace comes from; JSON under the key ``nicscope`` of a Parquet file."""

    schema_version: int = msgspec.field(default=SCHEMA_VERSION, name="schema")
    page_size: int = DEFAULT_PAGE_SIZE  # bytes
    origin: dict[str, Any] = msgspec.field(default_factory=dict)  # program, command, recorder...
    regions: list[dict[str, Any]] | None = None  # registered memory, where it is known
    connections: list[dict[str, Any]] | None = None  # by number, where the recorder told them apart
    observed: dict[str, Any] = msgspec.field(default_factory=dict)  # what the recorder counted
    unknown: dict[str, Any] = msgspec.field(default_factory=dict)  # fields of a later version

    def to_json(self) -> bytes:
        """The fields as one JSON object, unknown ones among them as they were read."""
        fields = msgspec.to_builtins(self)
        fields.update(fields.pop("unknown"))
        for name in ("regions", "connections"):
            if fields[name] is None:
                del fields[name]
        return msgspec.json.encode(fields)

    def without_defaults(self) -> list[str]:
        """In a line what it says, if it says anything that is not a trace's default."""
        fields = msgspec.json.decode(self.to_json(), type=dict[str, Any])
        usual = msgspec.json.decode(TraceMetadata().to_json(), type=dict[str, Any])
        said = [name for name, value in fields.items() if value != usual.get(name)]
        if "page_size" in said:
            said[said.index("page_size")] = f"page_size ({self.page_size})"
        return [f"metadata: {', '.join(said)}"] if said else []

    @classmethod
    def from_json(cls, text: bytes, source: str) -> TraceMetadata:
        """The metadata that ``text`` spells; fields it leaves out have their defaults.

        Errors: ``TraceError`` naming ``source`` if it is no JSON object, a field has the wrong
        type, the version is newer than this program's, or the page size is no power of two.
        """
        if len(text) > MOST_METADATA:
            raise TraceError(
                f"{source}: its metadata {METADATA_KEY.decode()!r} has {len(text):,} bytes; at "
                f"most {MOST_METADATA:,} are read"
            )
        known = {field.encode_name for field in msgspec.structs.fields(cls)} - {"unknown"}
        try:
            fields = msgspec.json.decode(text, type=dict[str, Any])
            _check_depth(fields)
            if "schema_version" in fields:
                fields.setdefault("schema", fields.pop("schema_version"))
            if isinstance(fields.get("origin"), str):
                fields["origin"] = {"description": fields["origin"]}
            own = {name: fields.pop(name) for name in list(fields) if name in known}
            metadata = msgspec.convert(own | {"unknown": fields}, cls)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise TraceError(
                f"{source}: its metadata {METADATA_KEY.decode()!r} is damaged: {error}"
            ) from error
        metadata._check(source)
        return metadata

    def _check(self, source: str) -> None:
        if self.schema_version > SCHEMA_VERSION:
            raise TraceError(
                f"{source}: schema version {self.schema_version}, but this nicscope reads up to "
                f"{SCHEMA_VERSION}; use a newer nicscope"
            )
        check_page_size(self.page_size, f"{source}: page_size in its metadata")


def check_page_size(page_size: int, what: str) -> None:
    """Return if pages may have that many bytes; errors: ``TraceError`` beginning with ``what``."""
    if not SMALLEST_PAGE <= page_size <= LARGEST_PAGE or page_size & (page_size - 1):
        raise TraceError(
            f"{what} must be a power of two from {SMALLEST_PAGE} to {LARGEST_PAGE}, got {page_size}"
        )


def _check_depth(fields: dict[str, Any]) -> None:
    """Errors: ``RecursionError`` if they are nested deeper than ``DEEPEST``."""
    level: list[Any] = [fields]
    for _ in range(DEEPEST):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise RecursionError(f"it is nested more than {DEEPEST} deep")


NO_NODE = -1
LONG_AGO = np.iinfo(np.int64).min
LAST_ADDRESS = np.uint64(2**64 - 1)
ONE = np.uint64(1)
FIRST_CAPACITY = 1024


class Fault(enum.IntEnum):
    """What is wrong with a request."""

    NONE = 0
    NEGATIVE_NODE = 1
    NEGATIVE_PID = 2
    ZERO_LENGTH = 3
    WRAPPING = 4
    BACKWARDS = 5
    TOO_MANY_NODES = 6  # no fault of the trace: the table of clocks has to grow


class Clocks(NamedTuple):
    """The latest time seen on each node: an open hash table, its capacity a power of two."""

    node: np.ndarray  # int64, NO_NODE where the slot is free
    time_ns: np.ndarray  # int64


@kernel
def slot_of(clocks, node):
    """Slot of ``node`` in ``clocks``, taken for it if need be; -1 if every slot is taken."""
    mask = clocks.node.size - 1
    slot = ((node * 2654435769) >> 12) & mask
    for _ in range(clocks.node.size):
        if clocks.node[slot] == NO_NODE:
            clocks.node[slot] = node
        if clocks.node[slot] == node:
            return slot
        slot = (slot + 1) & mask
    return -1


@kernel
def fault_of(requests, row):
    """What is wrong with one request, its time left aside."""
    if requests.node[row] < 0:
        return Fault.NEGATIVE_NODE
    if requests.pid[row] < 0:
        return Fault.NEGATIVE_PID
    if requests.length[row] == 0:
        return Fault.ZERO_LENGTH
    if requests.address[row] > LAST_ADDRESS - (np.uint64(requests.length[row]) - ONE):
        return Fault.WRAPPING
    return Fault.NONE


@kernel
def first_fault(requests, clocks, start):
    """First bad row from ``start`` on and what is wrong with it; advances ``clocks``."""
    for row in range(start, requests.node.size):
        fault = fault_of(requests, row)
        if fault != Fault.NONE:
            return row, fault
        slot = slot_of(clocks, np.int64(requests.node[row]))
        if slot < 0:
            return row, Fault.TOO_MANY_NODES
        if requests.time_ns[row] < clocks.time_ns[slot]:
            return row, Fault.BACKWARDS
        clocks.time_ns[slot] = requests.time_ns[row]
    return -1, Fault.NONE


def _empty_clocks(capacity: int) -> Clocks:
    return Clocks(np.full(capacity, NO_NODE, np.int64), np.full(capacity, LONG_AGO, np.int64))


class Checker:
    """Checks the batches of one trace in their order; remembers rows and clocks between them."""

    def __init__(self, source: str) -> None:
        self._source = source
        # Where a row of the batch to come stands; importers say line numbers instead.
        self.place: Callable[[int], str] = self._row_of_the_file
        self._clocks = _empty_clocks(FIRST_CAPACITY)
        self.rows = 0  # seen so far

    def check(self, requests: Requests) -> None:
        """Errors: ``TraceError`` naming the source, the first bad row and its value."""
        row, fault = first_fault(requests, self._clocks, 0)
        while fault == Fault.TOO_MANY_NODES:
            self._grow()
            row, fault = first_fault(requests, self._clocks, row)
        if fault != Fault.NONE:
            raise self.error(row, self._describe(requests, row, Fault(fault)))
        self.rows += requests.node.size

    def error(self, row: int, what: str) -> TraceError:
        """The error that says ``what`` is wrong with row ``row`` of the batch to come."""
        return TraceError(f"{self._source}: {self.place(row)}: {what}")

    def _row_of_the_file(self, row: int) -> str:
        return f"row {self.rows + row} (the first is 0)"

    def _grow(self) -> None:
        old = self._clocks
        self._clocks = _empty_clocks(2 * old.node.size)
        for node, time_ns in zip(old.node, old.time_ns, strict=True):
            self._clocks.time_ns[slot_of(self._clocks, node)] = time_ns

    def _describe(self, requests: Requests, row: int, fault: Fault) -> str:
        node, time_ns = int(requests.node[row]), int(requests.time_ns[row])
        address, length = int(requests.address[row]), int(requests.length[row])
        if fault == Fault.NEGATIVE_NODE:
            return f"node is {node}; nodes are numbered from 0"
        if fault == Fault.NEGATIVE_PID:
            return f"pid is {requests.pid[row]}; must not be negative"
        if fault == Fault.ZERO_LENGTH:
            return "length is 0; a request moves at least 1 byte"
        if fault == Fault.WRAPPING:
            return f"address {address:#x} with length {length} wraps past 2^64"
        before = self._clocks.time_ns[slot_of(self._clocks, np.int64(node))]
        return (
            f"time_ns is {time_ns}, after {before} on the same node {node}; "
            "time must not go backwards within a node"
        )


OP_TYPE = pa.dictionary(pa.int32(), pa.string())
TYPES: dict[str, Any] = {
    name: OP_TYPE if name == "op" else pa.type_for_alias(alias)
    for name, alias in (REQUIRED_COLUMNS | OPTIONAL_COLUMNS).items()
}
# What nicscope's own recorder and importers add to a trace, so that it is known in any format.
FURTHER = {
    "posted": pa.uint32(),
    "tid": pa.int32(),
    "syscall": OP_TYPE,
    PAGE_SIZE_COLUMN: pa.uint32(),
    RIGHTS_COLUMN: OP_TYPE,
}
UNKNOWN_OP = 255
# What reading a damaged file may end in, beside Arrow's own errors.
DAMAGE = (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError, MemoryError)


def may_hold(found: Any, name: str) -> bool:
    """Whether a column of Arrow's type ``found`` may be the schema's column ``name``.

    Integers may have any width, as tables of pandas and Polars have; each value is looked at
    later.  What may be null may be floating, which is what pandas makes of integers with nulls.
    """
    if name == "op":
        return is_text(found.value_type if pa.types.is_dictionary(found) else found)
    if name in OPTIONAL_COLUMNS and (pa.types.is_floating(found) or pa.types.is_null(found)):
        return True
    return bool(pa.types.is_integer(found))


def is_text(kind: Any) -> bool:
    """Whether ``kind`` is one of Arrow's kinds of string."""
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def kind_of(name: str, found: Any, names: Iterable[str]) -> Any:
    """Arrow's type for the schema's column ``name``, of type ``found``, of columns ``names``.

    Lengths stay wide where a registered region may be longer than a request.
    """
    if name == "length" and PAGE_SIZE_COLUMN in names and found.bit_width > 32:
        return pa.uint64()
    return TYPES[name]


def as_schema(batch: Any, names: Iterable[str], checker: Checker) -> Any:
    """``batch`` with the columns ``names`` in exactly the schema's types; ``op`` stays as it is.

    Errors: ``TraceError`` through ``checker`` for the first null or value that does not fit.
    """
    for name in names:
        place = batch.schema.get_field_index(name)
        column = batch.column(place)
        if name in REQUIRED_COLUMNS and column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise checker.error(row, f"{name} is null; only peer and buffer may be")
        kind = kind_of(name, column.type, batch.schema.names) if name != "op" else None
        if kind is not None and column.type != kind:
            batch = batch.set_column(place, name, fitted(column, name, checker, kind))
    return batch


def fitted(column: Any, name: str, checker: Checker, kind: Any = None) -> Any:
    """``column`` in the type of the schema's column ``name``, or in that ``kind`` of it.

    Errors: ``TraceError`` through ``checker`` for the first value that does not fit it.
    """
    kind = TYPES[name] if kind is None else kind
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise checker.error(*_first_unfit(column.to_pylist(), name, kind)) from None


def _first_unfit(values: list[Any], name: str, kind: Any = None) -> tuple[int, str]:
    """Row of the first of ``values`` that the schema's column ``name`` cannot hold, and why."""
    kind = TYPES[name] if kind is None else kind
    info = np.iinfo(kind.to_pandas_dtype())
    low, high = int(info.min), int(info.max)
    for row, value in enumerate(values):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float | np.integer):
            return row, f"{name} is {value!r}; must be a whole number"
        if value != value or not low <= value <= high or value != int(value):
            return row, f"{name} is {value}; must be from {low} to {high} ({kind})"
    return 0, f"{name} cannot be read as {kind}"


def array_of(column: Any, name: str, checker: Checker, names: Iterable[str] = ()) -> Any:
    """A sequence, NumPy or Arrow array as an Arrow array of the schema's column ``name``.

    ``names`` are those of all columns.

    Errors: ``TraceError`` through ``checker`` for the first value that does not fit it.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if not isinstance(column, pa.Array):
        column = _array(column, name, checker)
    if pa.types.is_null(column.type) or column.type == TYPES[name]:
        return column.cast(TYPES[name])
    if not may_hold(column.type, name):
        raise checker.error(0, f"{name} is {column[0].as_py()!r}; must be a whole number")
    return fitted(column, name, checker, kind_of(name, column.type, names))


def _array(column: Any, name: str, checker: Checker) -> Any:
    try:
        return pa.array(column)  # of the type that its values have, so that none is cut to fit
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        pass
    try:
        return pa.array(column, TYPES[name])  # 64 bits without a sign
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        raise checker.error(*_first_unfit(list(column), name)) from None


def op_codes(column: Any, checker: Checker) -> NDArray[np.uint8]:
    """Codes of ``Op`` for a column of its names, in any of Arrow's kinds of string.

    Errors: ``TraceError`` through ``checker`` for the first that is no operation's name.
    """
    if not pa.types.is_dictionary(column.type):
        if pa.types.is_string_view(column.type):
            column = column.cast(pa.large_string())
        column = column.dictionary_encode()
    # As bytes: what a file says is text need not be.
    names = column.dictionary.cast(pa.large_binary()).to_pylist()
    known = {name.encode(): code for name, code in ROW_CODES.items()}
    codes = np.array([known.get(name, UNKNOWN_OP) for name in names], np.uint8)
    places: NDArray[Any] = column.indices.to_numpy()
    beyond = np.flatnonzero((places < 0) | (places >= codes.size))
    if beyond.size:
        row = int(beyond[0])
        raise checker.error(row, f"damaged: op is entry {places[row]} of {codes.size}")
    of_rows: NDArray[np.uint8] = codes[places]
    if UNKNOWN_OP in codes and (unknown := np.flatnonzero(of_rows == UNKNOWN_OP)).size:
        row = int(unknown[0])
        name = (names[places[row]] or b"").decode(errors="backslashreplace")
        raise checker.error(row, f"unknown op {name!r}{did_you_mean(name, ROW_CODES)}")
    return of_rows


def op_column(codes: NDArray[Any], names: Iterable[str] = ()) -> Any:
    """Codes of rows as the dictionary column that a trace with columns ``names`` holds."""
    known = ROW_NAMES if PAGE_SIZE_COLUMN in names else OP_NAMES
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(known))


def op_array(column: Any) -> Any:
    """``column`` of names or codes as an Arrow array; unknown names stay to be reported."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "iu":
        if column.size and not 0 <= column.min() <= column.max() < len(ROW_NAMES):
            raise ValueError("op holds a code that is none of Op's")
        return op_column(column, (PAGE_SIZE_COLUMN,))
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.Array):
        return column
    try:
        return pa.array(column)
    except (pa.ArrowException, UnicodeEncodeError) as error:
        raise ValueError(f"op is no column of names: {error}") from error


def holds(column: Any, pattern: str) -> int | None:
    """The first row of a column of text that matches the regular expression ``pattern``."""
    found = pc.fill_null(pc.match_substring_regex(column, pattern), False)
    place = pc.index(found, True).as_py()
    return None if place < 0 else int(place)
