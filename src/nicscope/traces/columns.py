"""Columns of a trace: what they may hold, and Arrow's types for them.

A trace with rows that register or deregister memory has a column ``page_size``, and may have a
column ``rights``; both are null of requests.  Their lengths may be longer than a request's: the
column is then as wide as they need.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from nicscope.errors import TraceError, did_you_mean
from nicscope.kernel.decorators import kernel
from nicscope.traces.schema import (
    FIRST_REGISTRATION,
    LARGEST_PAGE,
    OP_NAMES,
    OPTIONAL_COLUMNS,
    PAGE_SIZE_COLUMN,
    REQUIRED_COLUMNS,
    RIGHTS_COLUMN,
    ROW_CODES,
    ROW_NAMES,
    SMALLEST_PAGE,
    Op,
    Requests,
    Rows,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray


NO_NODE = -1
LONG_AGO = np.iinfo(np.int64).min
LAST_ADDRESS = np.uint64(2**64 - 1)
ONE = np.uint64(1)
FIRST_CAPACITY = 1024


class Fault(enum.IntEnum):
    """Why a request is invalid."""

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
def fault_of_request(requests, row):
    """Why one request is invalid, its time left aside."""
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
    """The first invalid row from ``start`` on and why it is invalid; advances ``clocks``."""
    for row in range(start, requests.node.size):
        fault = fault_of_request(requests, row)
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
    """Checks the batches of one trace in order; keeps row numbers and clocks between them."""

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
        """An error saying ``what`` is wrong with row ``row`` of the next batch."""
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
    """Whether a column of Arrow type ``found`` can be read as the schema's column ``name``.

    Integers may have any width, as tables of pandas and Polars have; each value is looked at
    later.  What may be null may be floating, which is what pandas makes of integers with nulls.
    """
    if name == "op":
        return is_text(found.value_type if pa.types.is_dictionary(found) else found)
    if name in OPTIONAL_COLUMNS and (pa.types.is_floating(found) or pa.types.is_null(found)):
        return True
    return bool(pa.types.is_integer(found))


def is_text(kind: Any) -> bool:
    """Whether ``kind`` is one of Arrow's string types."""
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
    """``batch`` with the columns ``names`` cast to the schema's types; ``op`` stays as it is.

    Errors: ``TraceError`` through ``checker`` for the first null or value that does not fit.
    """
    for name in names:
        place = batch.schema.get_field_index(name)
        column = batch.column(place)
        if name in REQUIRED_COLUMNS and column.null_count:
            row = first_null(column)
            raise checker.error(row, f"{name} is null; only peer and buffer may be")
        kind = kind_of(name, column.type, batch.schema.names) if name != "op" else None
        if kind is not None and column.type != kind:
            batch = batch.set_column(place, name, cast_column(column, name, checker, kind))
    return batch


def first_null(column: Any) -> int:
    """The first row of an Arrow column that is null."""
    return int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])


def cast_column(column: Any, name: str, checker: Checker, kind: Any = None) -> Any:
    """``column`` cast to the type of the schema's column ``name``, or to ``kind``.

    Errors: ``TraceError`` through ``checker`` for the first value that does not fit it.
    """
    kind = TYPES[name] if kind is None else kind
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise checker.error(*_first_unfit(column.to_pylist(), name, kind)) from None


def _first_unfit(values: list[Any], name: str, kind: Any = None) -> tuple[int, str]:
    """The row of the first value that the schema's column ``name`` cannot hold, and why."""
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
    return cast_column(column, name, checker, kind_of(name, column.type, names))


def _array(column: Any, name: str, checker: Checker) -> Any:
    try:
        return pa.array(column)  # of the type that its values have, so that none is cut to fit
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        pass
    try:
        return pa.array(column, TYPES[name])  # 64 bits without a sign
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        raise checker.error(*_first_unfit(list(column), name)) from None


def op_codes(
    column: Any, checker: Checker, kinds: Mapping[str, int] = ROW_CODES, called: str = "op"
) -> NDArray[np.uint8]:
    """Codes of ``Op`` for a column of its names, in any of Arrow's kinds of string.

    ``kinds``: the codes by name, if they are others, of the column ``called`` so.
    Errors: ``TraceError`` through ``checker`` for the first that is no operation's name.
    """
    if not pa.types.is_dictionary(column.type):
        if pa.types.is_string_view(column.type):
            column = column.cast(pa.large_string())
        column = column.dictionary_encode()
    # As bytes: what a file says is text need not be.  A view needs no pyarrow.compute, a cast does.
    values = column.dictionary
    bytewise = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}.get(values.type)
    names = (values.view(bytewise) if bytewise else values.cast(pa.large_binary())).to_pylist()
    known = {name.encode(): code for name, code in kinds.items()}
    codes = np.array([known.get(name, UNKNOWN_OP) for name in names], np.uint8)
    places: NDArray[Any] = np.from_dlpack(column.indices)
    beyond = np.flatnonzero((places < 0) | (places >= codes.size))
    if beyond.size:
        row = int(beyond[0])
        raise checker.error(row, f"damaged: {called} is entry {places[row]} of {codes.size}")
    of_rows: NDArray[np.uint8] = codes.take(places)
    if UNKNOWN_OP in codes and (unknown := np.flatnonzero(of_rows == UNKNOWN_OP)).size:
        row = int(unknown[0])
        name = (names[places[row]] or b"").decode(errors="backslashreplace")
        raise checker.error(row, f"unknown {called} {name!r}{did_you_mean(name, kinds)}")
    return of_rows


def op_column(codes: NDArray[Any], names: Iterable[str] = ()) -> Any:
    """Codes of rows as the dictionary column that a trace with columns ``names`` holds."""
    known = ROW_NAMES if PAGE_SIZE_COLUMN in names else OP_NAMES
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(known))


def op_array(column: Any) -> Any:
    """``column`` of names or codes as an Arrow array; unknown names are reported later."""
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
    import pyarrow.compute as pc  # a tenth of a second, which most commands need not wait for

    found = pc.fill_null(pc.match_substring_regex(column, pattern), False)
    place = pc.index(found, True).as_py()
    return None if place < 0 else int(place)


# By the names of verbs' access flags (rdma-core, ibv_reg_mr).  A NIC may always read for its own
# process; ``local_read`` says that it may do no more.
RIGHTS = {"local_read": 0, "local_write": 1, "remote_write": 2, "remote_read": 4}
ALL_RIGHTS = sum(RIGHTS.values())
# By the code of a row: what an operation needs of the region that it names.
_NEEDED = np.zeros(len(ROW_NAMES), np.uint8)
_NEEDED[[Op.RECV, Op.READ]] = RIGHTS["local_write"]
_NEEDED[Op.SERVE_READ] = RIGHTS["remote_read"]
_NEEDED[Op.SERVE_WRITE] = RIGHTS["remote_write"]
_NEEDED[FIRST_REGISTRATION:] = ALL_RIGHTS  # unless they say which
_LONGEST = np.uint64(2**32 - 1)
_LAST = np.uint64(2**64 - 1)
_PARTED = re.compile(r"[\s|,+]+")


def may_register(names: Iterable[str]) -> bool:
    """Whether a trace with columns of these ``names`` may have rows that register memory."""
    return PAGE_SIZE_COLUMN in names


def requests_in(rows: Sequence[Any]) -> Requests:
    """The requests among ``rows``, whose first columns are those of requests."""
    return only_requests(Requests._make(rows[: len(Requests._fields)]))


def only_requests(rows: Requests) -> Requests:
    """``rows`` without those that are no requests."""
    chosen = rows.op < FIRST_REGISTRATION
    return rows if chosen.all() else Requests._make(column[chosen] for column in rows)


def lengths_of(column: Any, codes: NDArray[np.uint8], checker: Checker) -> NDArray[np.uint32]:
    """Requests' lengths of a wide ``column``; those of registrations are capped.

    Errors: ``TraceError`` through ``checker`` for a request's that does not fit.
    """
    lengths = wide_values(column)
    long = np.flatnonzero((lengths > _LONGEST) & (codes < FIRST_REGISTRATION))
    if long.size:
        row = int(long[0])
        raise checker.error(
            row, f"length is {lengths[row]}; a request's must be from 0 to {_LONGEST} (uint32)"
        )
    return np.minimum(lengths, _LONGEST).astype(np.uint32)


def wide_values(column: Any) -> NDArray[np.uint64]:
    """The values of an Arrow column of whole numbers, 64 bits each."""
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values.astype(np.uint64)


def check_registrations(requests: Requests, batch: Any, checker: Checker) -> None:
    """Return if the registrations in the record ``batch`` of ``requests`` are valid.

    Errors: ``TraceError`` through ``checker`` for the first that cannot.
    """
    if (requests.op >= FIRST_REGISTRATION).any():
        rows_of(requests, batch, checker)


def rows_of(requests: Requests, batch: Any, checker: Checker) -> Rows:
    """``requests`` of the record ``batch``, with its registrations.

    Errors: ``TraceError`` through ``checker`` for the first that cannot be believed.
    """
    chosen = np.flatnonzero(requests.op >= FIRST_REGISTRATION)
    count = len(requests.op)
    sizes, rights = np.zeros(count, np.int64), _NEEDED[requests.op]
    lengths = requests.length.astype(np.uint64)
    if chosen.size:
        names = batch.schema.names
        if not may_register(names):
            raise checker.error(
                int(chosen[0]),
                "registers memory, but there is no column 'page_size'; add one (null where the "
                "page size is not known)",
            )
        places = pa.array(chosen)
        lengths = wide_values(batch.column("length"))
        sizes[chosen] = _page_sizes(batch.column(PAGE_SIZE_COLUMN).take(places), chosen, checker)
        if RIGHTS_COLUMN in names:
            rights[chosen] = _rights(batch.column(RIGHTS_COLUMN).take(places), chosen, checker)
        last = np.maximum(lengths[chosen], np.uint64(1)) - np.uint64(1)
        wrapping = requests.address[chosen] > _LAST - last
        if wrapping.any():
            row = int(chosen[int(np.flatnonzero(wrapping)[0])])
            raise checker.error(
                row,
                f"address {int(requests.address[row]):#x} with length {lengths[row]} wraps past "
                "2^64",
            )
    return Rows(*requests, lengths, sizes, rights)


def _page_sizes(column: Any, chosen: NDArray[Any], checker: Checker) -> NDArray[np.int64]:
    try:
        found: NDArray[np.int64] = column.cast(pa.int64()).fill_null(0).to_numpy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise checker.error(int(chosen[0]), "page_size is no whole number of bytes") from None
    known = found[~np.asarray(column.is_null())]
    rows = chosen[~np.asarray(column.is_null())]
    good = (known >= SMALLEST_PAGE) & (known <= LARGEST_PAGE) & (known & (known - 1) == 0)
    if not good.all():
        place = int(np.flatnonzero(~good)[0])
        raise checker.error(
            int(rows[place]),
            f"page_size is {known[place]}; must be a power of two from {SMALLEST_PAGE} to "
            f"{LARGEST_PAGE}, or null",
        )
    return found


def _rights(column: Any, chosen: NDArray[Any], checker: Checker) -> NDArray[np.uint8]:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (is_text(column.type) or pa.types.is_null(column.type)):
        raise checker.error(int(chosen[0]), f"rights are {column.type}; must be text, or null")
    known: dict[str | None, int] = {None: ALL_RIGHTS}
    found = np.empty(len(column), np.uint8)
    for place, text in enumerate(column.to_pylist()):
        if text not in known:
            known[text] = _rights_in(text, int(chosen[place]), checker)
        found[place] = known[text]
    return found


def _rights_in(text: str, row: int, checker: Checker) -> int:
    names = [name for name in _PARTED.split(text.strip()) if name]
    for name in names:
        if name not in RIGHTS:
            raise checker.error(row, f"unknown right {name!r}{did_you_mean(name, RIGHTS)}")
    if not names:
        raise checker.error(row, "rights are empty; say local_read where nothing is written")
    if "remote_write" in names and "local_write" not in names:
        raise checker.error(
            row, f"rights are {text!r}; remote_write needs local_write too, as ibv_reg_mr has it"
        )
    return sum(RIGHTS[name] for name in set(names))
