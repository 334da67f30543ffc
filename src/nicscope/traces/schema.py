"""Schema of a request trace: columns, operations and metadata."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nicscope.errors import TraceError
from nicscope.outputs.file import TABLES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

METADATA_KEY = b"nicscope"
SCHEMA_VERSION = 1
DEFAULT_PAGE_SIZE = 4096
SMALLEST_PAGE, LARGEST_PAGE = 512, 1 << 30  # bytes; as designs have them
MOST_METADATA = 1 << 24  # bytes
# Formats that traces are written in, by the endings of their files.
WRITTEN = TABLES | {"oracle-general": (".oracleGeneral", ".oracleGeneral.bin", ".bin")}
DEEPEST = 50  # objects and lists within each other in metadata


class Op(enum.IntEnum):
    """What a request does with its local buffer, and its code in columns."""

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
    """A row that registers or deregisters memory, and its code in the column ``op``."""

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
        """0 of a request, 1 of a registration, 2 of a deregistration."""
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
        """One line of all fields that differ from the defaults, if any."""
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
