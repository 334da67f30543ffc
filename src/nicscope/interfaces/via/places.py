"""Places in registered memory where descriptors lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.interfaces.arguments import LEAST
from nicscope.interfaces.ownership import Owned
from nicscope.interfaces.via.addresses import Region
from nicscope.interfaces.via.descriptor import ALIGNMENT, AddressSegment, DataSegment, Descriptor
from nicscope.interfaces.via.names import Control, Return, VipError
from nicscope.interfaces.via.numbers import whole

if TYPE_CHECKING:
    from nicscope.interfaces.ownership import Owner


class Descriptors(Owned):
    """Registered memory cut into places for descriptors; each call takes the next place."""

    what = "places for descriptors"
    origin = "descriptors()"

    def __init__(self, region: Region, segments: int) -> None:
        self._region = region
        self._size = -(-(32 + 16 * segments) // ALIGNMENT) * ALIGNMENT
        self._count = region.length // self._size
        self._most = segments
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

    def _holds(self, address: int, handle: int, count: int) -> bool:
        """Whether a descriptor of ``count`` bytes there is in one of these places."""
        offset = address - self._region.address
        if handle != self._region.handle or not 0 <= offset < self._count * self._size:
            return False
        return offset % self._size == 0 and count <= self._size


def checked(owner: Owner, descriptor: Descriptor) -> tuple[int, int, int, Descriptors]:
    """How many bytes a descriptor has, the address where they go, handle and places of that memory.

    What its segments say the NIC judges; those that a region gave say whose they are besides.
    """
    places = descriptor.places if isinstance(descriptor, Descriptor) else None
    if places is None:
        raise VipError(
            Return.VIP_INVALID_PARAMETER,
            "a descriptor is needed that request() of this process's descriptors() gave",
        )
    records = owner.records
    if id(places) not in records or type(places) is not Descriptors:
        owner.record_of(places, Descriptors)
    count = descriptor.byte_count if descriptor.is_plain else len(descriptor.encode())
    for one in descriptor.data:
        region = one.region
        if region is not None and (id(region) not in records or type(region) is not Region):
            owner.record_of(region, Region)
    address = descriptor.address
    if type(address) is not int:
        address = whole(address, "an address")
    if not places._holds(address, descriptor.handle, count):
        raise VipError(
            Return.VIP_INVALID_PARAMETER,
            f"a descriptor lies in a place of its descriptors(), aligned to {ALIGNMENT}: what "
            "request() gave does; it is not moved or made longer",
        )
    return count, address, descriptor.handle, places
