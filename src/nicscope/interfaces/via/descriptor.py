"""The specification's words, and descriptors: their fields, encoding and places.

Source: Virtual Interface Architecture Specification 1.0 (Compaq, Intel, Microsoft, 1997) and the
header of its provider library, VIPL.
"""

from __future__ import annotations

import functools
import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import msgspec

from nicscope.drivers.current_program import RUNNING
from nicscope.errors import SimulationError, WaitTimeoutError
from nicscope.interfaces import arguments
from nicscope.interfaces.arguments import LEAST
from nicscope.interfaces.buffers import MemoryRange
from nicscope.interfaces.ownership import Owned, Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class _Word(IntEnum):
    """An enumeration member that prints as the specification spells it."""

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return str(self) if not spec else int.__format__(self, spec)


class _Bits(IntFlag):
    """A bit mask that prints as the specification spells it."""

    def __str__(self) -> str:
        return " | ".join(self._names()) or "0"

    def _names(self) -> list[str]:
        return _spelt(int(self), type(self), 0)

    def __format__(self, spec: str) -> str:
        return str(self) if not spec else int.__format__(self, spec)


def _spelt(word: int, kind: type[_Bits], field: int) -> list[str]:
    """The names of the bits of ``word``; those of ``field`` are one number, of one name."""
    named = {int(each): name for name, each in kind.__members__.items()}
    bits = [1 << place for place in range(word.bit_length()) if word >> place & 1]
    parts = [bit for bit in bits if not bit & field]
    if word & field in named or word & field:
        parts.append(word & field)
    return [named.get(part, hex(part)) for part in sorted(parts)]


class Status(_Bits):
    """The status word of a descriptor."""

    def _names(self) -> list[str]:
        return _spelt(int(self), Status, STATUS_OP_MASK)

    VIP_STATUS_DONE = 0x1
    VIP_STATUS_FORMAT_ERROR = 0x2
    VIP_STATUS_PROTECTION_ERROR = 0x4
    VIP_STATUS_LENGTH_ERROR = 0x8
    VIP_STATUS_PARTIAL_ERROR = 0x10
    VIP_STATUS_DESC_FLUSHED_ERROR = 0x20
    VIP_STATUS_TRANSPORT_ERROR = 0x40
    VIP_STATUS_RDMA_PROT_ERROR = 0x80
    VIP_STATUS_REMOTE_DESC_ERROR = 0x100
    VIP_STATUS_OP_RECEIVE = 0x10000
    VIP_STATUS_OP_RDMA_WRITE = 0x20000
    VIP_STATUS_OP_REMOTE_RDMA_WRITE = 0x30000
    VIP_STATUS_OP_RDMA_READ = 0x40000
    VIP_STATUS_IMMEDIATE = 0x80000


STATUS_ERROR_MASK = 0x1FE
STATUS_OP_MASK = 0x70000


class Control(_Bits):
    """The control word of a descriptor; its two lowest bits are the operation."""

    def _names(self) -> list[str]:
        return _spelt(int(self), Control, CONTROL_OP_MASK)

    VIP_CONTROL_OP_SENDRECV = 0x0
    VIP_CONTROL_OP_RDMAWRITE = 0x1
    VIP_CONTROL_OP_RDMAREAD = 0x2
    VIP_CONTROL_IMMEDIATE = 0x4
    VIP_CONTROL_QFENCE = 0x8


CONTROL_OP_MASK = 0x3
CONTROL_RESERVED = 0xFFF0


class Reliability(_Word):
    """A VI's reliability level."""

    VIP_SERVICE_UNRELIABLE = 1
    VIP_SERVICE_RELIABLE_DELIVERY = 2
    VIP_SERVICE_RELIABLE_RECEPTION = 4


class State(_Word):
    """The state of a VI."""

    VIP_STATE_IDLE = 0
    VIP_STATE_CONNECTED = 1
    VIP_STATE_CONNECT_PENDING = 2
    VIP_STATE_ERROR = 3


class Error(_Word):
    """Asynchronous errors that the library reports."""

    VIP_ERROR_POST_DESC = 0
    VIP_ERROR_CONN_LOST = 1
    VIP_ERROR_RECVQ_EMPTY = 2
    VIP_ERROR_VI_OVERRUN = 3
    VIP_ERROR_RDMAW_PROT = 4
    VIP_ERROR_RDMAW_DATA = 5
    VIP_ERROR_RDMAW_ABORT = 6
    VIP_ERROR_RDMAR_PROT = 7
    VIP_ERROR_COMP_PROT = 8
    VIP_ERROR_RDMA_TRANSPORT = 9
    VIP_ERROR_CATASTROPHIC = 10


class SystemInfo(_Word):
    """What ``query_system_management_info`` may be asked."""

    VIP_SMI_AUTODISCOVERY = 1


class Return(_Word):
    """What a call of the library returns; all but the first two are raised as ``VipError``."""

    VIP_SUCCESS = 0
    VIP_NOT_DONE = 1
    VIP_INVALID_PARAMETER = 2
    VIP_ERROR_RESOURCE = 3
    VIP_TIMEOUT = 4
    VIP_REJECT = 5
    VIP_INVALID_RELIABILITY_LEVEL = 6
    VIP_INVALID_MTU = 7
    VIP_INVALID_QOS = 8
    VIP_INVALID_PTAG = 9
    VIP_INVALID_RDMAREAD = 10
    VIP_DESCRIPTOR_ERROR = 11
    VIP_INVALID_STATE = 12
    VIP_ERROR_NAMESERVICE = 13
    VIP_NO_MATCH = 14
    VIP_NOT_REACHABLE = 15
    VIP_ERROR_NOT_SUPPORTED = 16


class VipError(SimulationError):
    """A call that did not succeed; ``code`` is what the C library would have returned.

    Of work that ended with an error ``descriptor`` says which: it is taken off its queue.
    """

    def __init__(self, code: Return, why: str, descriptor: Descriptor | None = None) -> None:
        super().__init__(f"{code.name}: {why}")
        self.code = code
        self.descriptor = descriptor


class VipTimeoutError(VipError, WaitTimeoutError):
    """``VIP_TIMEOUT``: what a call waited for has not come in time."""


CONTROL_SEGMENT = struct.Struct("<QIHHIIII")  # next, its handle, count, control, -, immediate, ...
STATUS_WORDS = struct.Struct("<III")  # immediate data, length and status: what the NIC writes
ADDRESS_SEGMENT = struct.Struct("<QII")
STATUS_AT = CONTROL_SEGMENT.size - STATUS_WORDS.size
DATA_SEGMENT = struct.Struct("<QII")
ALIGNMENT = 64
NOT_YET = Status(0)
_DONE = int(Status.VIP_STATUS_DONE)
_ENDED_AS = STATUS_ERROR_MASK | _DONE


class DataSegment(msgspec.Struct, frozen=True):
    """A data segment: virtual address, memory handle, length.

    Its numbers are what the NIC gets, which judges them by its own tables.  One that
    ``Region.segment`` gave says besides which region it is of.
    """

    address: int
    handle: int
    length: int
    region: Region | None = None


class AddressSegment(msgspec.Struct, frozen=True):
    """An address segment: where in the remote node's memory an RDMA begins."""

    address: int
    handle: int


class Descriptor(msgspec.Struct, eq=False):
    """A work request, and once it has completed its ``status``, ``length`` and ``immediate``."""

    address: int  # virtual, where its bytes are
    handle: int
    data: tuple[DataSegment, ...]
    control: Control = Control.VIP_CONTROL_OP_SENDRECV
    remote: AddressSegment | None = None
    immediate: int = 0
    length: int = 0
    status: Status = NOT_YET
    places: Descriptors | None = None  # that gave it

    def __repr__(self) -> str:
        asked = sum(one.length for one in self.data)
        return f"<Descriptor of {asked} bytes, {self.control}: {self.status or 'not done'}>"

    @property
    def operation(self) -> int:
        """The lowest bits of ``control``: a send or receive, an RDMA write, an RDMA read."""
        return int(self.control) & CONTROL_OP_MASK

    @property
    def ok(self) -> bool:
        """Whether it completed without an error."""
        return int(self.status) & _ENDED_AS == _DONE

    @property
    def byte_count(self) -> int:
        """The length of its encoding."""
        count = len(self.data) + (self.remote is not None)
        return CONTROL_SEGMENT.size + DATA_SEGMENT.size * count

    def encode(self) -> bytes:
        """The encoding as the library stores it when posting.

        Errors: ``VIP_INVALID_PARAMETER`` for what has no room in them.
        """
        data, remote = self.data, self.remote
        count = len(data) + (remote is not None)
        try:
            total = sum([one.length for one in data]) & 0xFFFFFFFF
            raw = CONTROL_SEGMENT.pack(0, 0, count, self.control, 0, self.immediate, total, 0)
            if remote is not None:
                raw += ADDRESS_SEGMENT.pack(remote.address, remote.handle, 0)
            for one in data:
                raw += DATA_SEGMENT.pack(one.address, one.handle, one.length)
        except (struct.error, TypeError, AttributeError):
            raise VipError(
                Return.VIP_INVALID_PARAMETER,
                "a segment is an address of 64 bits, a handle of 32 and a length of 32, control is "
                "of 16 and immediate data of 32; what region.segment() gives is so",
            ) from None
        return raw


class Work(msgspec.Struct, eq=False):
    """One posted descriptor."""

    descriptor: Descriptor  # the program's: it gets the outcome, and is not asked again
    address: int
    handle: int  # of the memory there, as it says
    among: Descriptors  # where it lies
    cookie: int
    # What it says when it is posted.
    said: tuple[tuple[DataSegment, ...], Control, AddressSegment | None, int]
    ended: tuple[Status, int, int] | None = None  # with length and immediate word
    told: bool = False  # the library has taken the report of that
    failed: bool = False  # which is of an error

    @property
    def raw(self) -> bytes:
        """Its encoding as the library writes it."""
        return Descriptor(self.address, self.handle, *self.said).encode()


class PendingDescriptors:
    """Posted descriptors of one process whose bytes are not yet stored in its memory."""

    def __init__(self) -> None:
        self.works: dict[int, Work] = {}  # by address: the last that was posted from there
        self.pages: set[int] = set()  # where there are places

    def place(self, address: int, length: int, page: int) -> None:
        """Note a range that holds descriptors."""
        self.pages.update(range(address // page, (address + length - 1) // page + 1))

    def are_in(self, address: int, count: int, page: int) -> bool:
        """Whether the pages of a range hold descriptors."""
        first, last = address // page, (address + count - 1) // page
        if first == last:  # nearly always
            return first in self.pages
        return any(one in self.pages for one in range(first, last + 1))

    def put(self, write: Callable[[int, bytes], None]) -> None:
        """Store all descriptors' bytes into memory by ``write``."""
        for work in self.works.values():
            raw = work.raw
            if work.ended is not None:
                status, length, immediate = work.ended
                words = STATUS_WORDS.pack(immediate & 0xFFFFFFFF, length, status)
                raw = raw[:STATUS_AT] + words + raw[STATUS_AT + len(words) :]
            write(work.address, raw)
        self.works = {at: work for at, work in self.works.items() if work.ended is None}


P = ParamSpec("P")
T = TypeVar("T")


def _converted(check: Callable[P, T]) -> Callable[P, T]:
    """``check``, which raises ``VIP_INVALID_PARAMETER``."""

    @functools.wraps(check)
    def checked(*given: P.args, **named: P.kwargs) -> T:
        try:
            return check(*given, **named)
        except SimulationError as error:
            raise VipError(Return.VIP_INVALID_PARAMETER, str(error)) from None

    return checked


whole, in_ps = _converted(arguments.whole), _converted(arguments.in_ps)
raw_bytes, a_name = _converted(arguments.raw_bytes), _converted(arguments.a_name)


@dataclass(frozen=True, eq=False)
class Region(Owned):
    """A registered memory region; its ``handle`` names it in segments.

    ``tag`` is its protection tag; only VIs with the same one may use it.
    """

    what = "a registered region"
    origin = "register_mem()"

    handle: int
    node: int
    address: int
    length: int
    tag: int
    rdma_write: bool
    rdma_read: bool

    def segment(self, offset: int = 0, length: int | None = None) -> DataSegment:
        """A data segment for part of the region, by default up to its end."""
        begin = offset if type(offset) is int else whole(offset, "an offset", LEAST)
        if length is None:
            size = self.length - begin
        else:
            size = length if type(length) is int else whole(length, "a length", LEAST)
        return DataSegment(self.address + begin, self.handle, size, self)

    def remote(self, offset: int = 0) -> AddressSegment:
        """The address segment for an RDMA from another node."""
        return AddressSegment(self.address + whole(offset, "an offset", LEAST), self.handle)


MOST_HANDLE = 0xFFFFFFFF


def place_bytes(segments: int) -> int:
    """The size of a slot for a descriptor of up to ``segments`` segments."""
    return -(-(CONTROL_SEGMENT.size + DATA_SEGMENT.size * segments) // ALIGNMENT) * ALIGNMENT


class Descriptors(Owned):
    """A registered ring of descriptor slots; each request takes the next slot."""

    what = "places for descriptors"
    origin = "descriptors()"

    def __init__(self, region: Region, segments: int) -> None:
        self._region, self._handle = region, region.handle
        self._size = place_bytes(segments)
        self._count = region.length // self._size
        self._most = segments
        self._begin = region.address
        self._end = self._begin + self._count * self._size
        self._next = 0
        if self._count < 1:
            raise VipError(
                Return.VIP_INVALID_PARAMETER,
                f"{region.length} bytes have no room for a descriptor of {self._size}",
            )

    def request(
        self,
        *data: DataSegment,
        control: Control = Control.VIP_CONTROL_OP_SENDRECV,
        remote: AddressSegment | None = None,
        immediate: int | None = None,
    ) -> Descriptor:
        """A descriptor for a send or a receive of ``data``, or as ``control`` says."""
        owner = self._owner
        if owner is not None and RUNNING.program is not owner._actor:
            owner.check_caller()
        if len(data) + (remote is not None) > self._most:
            raise VipError(
                Return.VIP_INVALID_PARAMETER,
                f"these descriptors have room for {self._most} segments, got {len(data)}",
            )
        for one in data:
            if type(one) is not DataSegment:
                _refuse_memory(one)
        turn = self._next
        address = self._begin + turn % self._count * self._size
        self._next = turn + 1
        word, how = 0, control
        if type(control) is not Control:
            how = Control(whole(control, "a control word", 0, 0xFFFF))
        if immediate is not None:
            word = whole(immediate, "immediate data", LEAST)
            how |= Control.VIP_CONTROL_IMMEDIATE
        return Descriptor(address, self._handle, data, how, remote, word, 0, NOT_YET, self)

    def _holds(self, address: int, count: int) -> bool:
        """Whether a descriptor of ``count`` bytes there is in one of these places."""
        offset = address - self._region.address
        if not 0 <= offset < self._count * self._size:
            return False
        return offset % self._size == 0 and count <= self._size


def _refuse_memory(one: object) -> None:
    """Errors: ``VIP_INVALID_PARAMETER`` for memory itself where a segment of it is needed."""
    if isinstance(one, Region):
        raise VipError(
            Return.VIP_INVALID_PARAMETER,
            "a descriptor is of segments, not regions: give region.segment(offset, length)",
        )
    if isinstance(one, MemoryRange):
        raise VipError(
            Return.VIP_INVALID_PARAMETER,
            "a descriptor is of segments of registered memory, not buffers: give what "
            "register_mem(buffer, tag) gave as region.segment(offset, length)",
        )


def is_unmodified(descriptor: Descriptor, records: Mapping[int, object]) -> bool:
    """A fast check that a descriptor is unmodified since ``request`` and its region made it.

    ``records``: what the process has been given.  It may be False for what is right all the same.
    """
    places, data, address = descriptor.places, descriptor.data, descriptor.address
    if type(places) is not Descriptors or id(places) not in records or type(data) is not tuple:
        return False
    begin = places._begin
    if type(address) is not int or not begin <= address < places._end:
        return False
    if (address - begin) % places._size or len(data) > places._most:
        return False
    if descriptor.handle != places._handle or type(descriptor.control) is not Control:
        return False
    for one in data:
        region, at, length = one.region, one.address, one.length
        if type(region) is not Region or id(region) not in records:
            return False
        if type(at) is not int or type(length) is not int or length < 0:
            return False
        begin = region.address
        if not begin <= at <= begin + region.length - length or one.handle != region.handle:
            return False
    return descriptor.remote is None and descriptor.immediate == 0


def checked(owner: Owner, descriptor: Descriptor) -> tuple[int, Descriptors]:
    """Validate a descriptor: its address, and the ring of slots that it lies in.

    What its handle and its segments say the NIC judges; those that a region gave say whose they are
    besides.
    """
    places = descriptor.places if isinstance(descriptor, Descriptor) else None
    if places is None:
        raise VipError(
            Return.VIP_INVALID_PARAMETER,
            "a descriptor is needed that request() of this process's descriptors() gave",
        )
    owner.record_of(places, Descriptors)
    count = len(descriptor.encode())
    for one in descriptor.data:
        if one.region is not None:
            owner.record_of(one.region, Region)
    address = whole(descriptor.address, "an address")
    whole(descriptor.handle, "a handle", 0, MOST_HANDLE)
    if not places._holds(address, count):
        raise VipError(
            Return.VIP_INVALID_PARAMETER,
            f"a descriptor lies in a place of its descriptors(), aligned to {ALIGNMENT}: what "
            "request() gave does; it is not moved or made longer",
        )
    return address, places
