"""Places in registered memory where descriptors lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.interfaces.arguments import LEAST
from nicscope.interfaces.buffers import Stretch
from nicscope.interfaces.ownership import Owned
from nicscope.interfaces.via.addresses import Region
from nicscope.interfaces.via.descriptor import (
    ALIGNMENT,
    CONTROL_SEGMENT,
    DATA_SEGMENT,
    AddressSegment,
    DataSegment,
    Descriptor,
)
from nicscope.interfaces.via.names import Control, Return, VipError
from nicscope.interfaces.via.numbers import whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nicscope.interfaces.ownership import Owner


MOST_HANDLE = 0xFFFFFFFF


def place_bytes(segments: int) -> int:
    """What a place takes for a descriptor of up to ``segments`` segments."""
    return -(-(CONTROL_SEGMENT.size + DATA_SEGMENT.size * segments) // ALIGNMENT) * ALIGNMENT


class Descriptors(Owned):
    """Registered memory cut into places for descriptors; each call takes the next place."""

    what = "places for descriptors"
    origin = "descriptors()"

    def __init__(self, region: Region, segments: int) -> None:
        self._region = region
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
        if self._owner is not None:
            self._owner.check_caller()
        if len(data) + (remote is not None) > self._most:
            raise VipError(
                Return.VIP_INVALID_PARAMETER,
                f"these descriptors have room for {self._most} segments, got {len(data)}",
            )
        for one in data:
            if isinstance(one, Region):
                raise VipError(
                    Return.VIP_INVALID_PARAMETER,
                    "a descriptor is of segments, not regions: give region.segment(offset, length)",
                )
            if isinstance(one, Stretch):
                raise VipError(
                    Return.VIP_INVALID_PARAMETER,
                    "a descriptor is of segments of registered memory, not buffers: give what "
                    "register_mem(buffer, tag) gave as region.segment(offset, length)",
                )
        address = self._region.address + self._next % self._count * self._size
        self._next += 1
        word, how = 0, control
        if type(control) is not Control:
            how = Control(whole(control, "a control word", 0, 0xFFFF))
        if immediate is not None:
            word = whole(immediate, "immediate data", LEAST)
            how |= Control.VIP_CONTROL_IMMEDIATE
        return Descriptor(
            address,
            self._region.handle,
            data,
            how,
            remote,
            immediate=word,
            places=self,
        )

    def _holds(self, address: int, count: int) -> bool:
        """Whether a descriptor of ``count`` bytes there is in one of these places."""
        offset = address - self._region.address
        if not 0 <= offset < self._count * self._size:
            return False
        return offset % self._size == 0 and count <= self._size


def is_sure(descriptor: Descriptor, records: Mapping[int, object]) -> bool:
    """Whether ``checked`` would find nothing wrong: all is as ``request`` and a region gave it.

    ``records``: what the process has been given.  It may be False for what is right all the same.
    """
    places, data = descriptor.places, descriptor.data
    if type(places) is not Descriptors or id(places) not in records or type(data) is not tuple:
        return False
    address, end = descriptor.address, places._end
    if type(address) is not int or not places._begin <= address < end:
        return False
    if (address - places._begin) % places._size or len(data) > places._most:
        return False
    if descriptor.handle != places._region.handle or type(descriptor.control) is not Control:
        return False
    for one in data:
        region = one.region
        if type(region) is not Region or id(region) not in records:
            return False
        if type(one.address) is not int or type(one.length) is not int:
            return False
        if not region.address <= one.address <= region.address + region.length - one.length:
            return False
        if one.handle != region.handle or one.length < 0:
            return False
    return descriptor.remote is None and descriptor.immediate == 0


def checked(owner: Owner, descriptor: Descriptor) -> tuple[int, Descriptors]:
    """The address of a descriptor, and the places that it lies in.

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
