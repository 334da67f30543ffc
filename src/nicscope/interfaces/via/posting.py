"""The half of VIPL that posts: descriptors checked, written down and handed to the NIC."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from nicscope.drivers.running import RUNNING
from nicscope.drivers.simulate.machine import CHAIN, POST, PROVIDE
from nicscope.drivers.simulate.ports.posting import GATHER
from nicscope.drivers.simulate.ports.reporting import KIND_BITS
from nicscope.drivers.simulate.yielding import coroutine
from nicscope.interfaces.via.descriptor import AddressSegment, DataSegment, Descriptor
from nicscope.interfaces.via.endpoint import RECEIVE_QUEUE, SEND_QUEUE, Endpoint, Work
from nicscope.interfaces.via.names import (
    CONTROL_OP_MASK,
    CONTROL_RESERVED,
    Control,
    Return,
    Status,
    VipError,
)
from nicscope.interfaces.via.places import Descriptors, checked, is_sure
from nicscope.interfaces.via.process import MOST_BEFORE
from nicscope.interfaces.via.program import Program
from nicscope.interfaces.via.vi import Vi
from nicscope.nic.ports.layout import BAD_DESCRIPTOR, DONE, FENCED, FETCH, IMMEDIATE, SEND, WRITE

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from nicscope.drivers.simulate.driven import Record
    from nicscope.interfaces.via.agent import Agent

OPERATIONS = {
    int(Control.VIP_CONTROL_OP_SENDRECV): SEND,
    int(Control.VIP_CONTROL_OP_RDMAWRITE): WRITE,
    int(Control.VIP_CONTROL_OP_RDMAREAD): FETCH,
}
NO_OPERATION = 0  # for what no NIC can make sense of
PLAIN = Control.VIP_CONTROL_OP_SENDRECV
HAS_IMMEDIATE = int(Control.VIP_CONTROL_IMMEDIATE)
HAS_FENCE = int(Control.VIP_CONTROL_QFENCE)
NOT_YET = Status(0)
_WORDS = struct.Struct("<2q")  # immediate, and the handle of the memory of the descriptor itself
_SEGMENT = struct.Struct("=Q2q")  # an address is any of 64 bits: the NIC says what it thinks of it


class Posting(Program):
    """Calls that hand work to the NIC."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent)
        driven = self._driven
        # Where the pieces of what is posted, and its immediate word, are put down: of the first
        # operation of a chain, of the second, ...
        pieces = self._ports.gathers[driven.number], *self._ports.gathered[driven.number]
        self._pieces = [memoryview(one.view(np.uint8)) for one in pieces[:CHAIN]]
        self._words_with = [driven.control_bytes, *(memoryview(one) for one in driven.inlined)]
        self._depths = int(self._ports.rules[0]["ring"]), self._ports.work.receives.shape[2]

    @coroutine
    def post_send(self, vi: Vi, descriptor: Descriptor) -> Generator[bytes, Record, None]:
        """Hand a send or an RDMA to the NIC.  Errors: see ``_posted``."""
        endpoint, work = self._posted(vi, SEND_QUEUE, descriptor)
        if len(self._process._before) == MOST_BEFORE:
            yield from self._process.settle()
        self._sending(endpoint, work)

    @coroutine
    def post_recv(self, vi: Vi, descriptor: Descriptor) -> Generator[bytes, Record, None]:
        """Hand a receive to the NIC, before the message is sent.  Errors: see ``_posted``."""
        endpoint, work = self._posted(vi, RECEIVE_QUEUE, descriptor)
        if len(self._process._before) == MOST_BEFORE:
            yield from self._process.settle()
        self._receiving(endpoint, work)

    async def rdma_write(
        self,
        vi: Vi,
        places: Descriptors,
        data: Sequence[DataSegment],
        remote: AddressSegment,
        immediate: int | None = None,
    ) -> Descriptor:
        """Write ``data`` to the other node's memory from ``remote`` on; the posted descriptor."""
        self._enter()
        self._owner.record_of(places, Descriptors)
        descriptor = places.request(
            *data, control=Control.VIP_CONTROL_OP_RDMAWRITE, remote=remote, immediate=immediate
        )
        await self.post_send(vi, descriptor)
        return descriptor

    async def rdma_read(
        self, vi: Vi, places: Descriptors, data: Sequence[DataSegment], remote: AddressSegment
    ) -> Descriptor:
        """Read the other node's memory from ``remote`` on into ``data``; the descriptor."""
        self._enter()
        self._owner.record_of(places, Descriptors)
        descriptor = places.request(*data, control=Control.VIP_CONTROL_OP_RDMAREAD, remote=remote)
        await self.post_send(vi, descriptor)
        return descriptor

    def _posted(self, handle: Vi, queue: int, descriptor: Descriptor) -> tuple[Endpoint, Work]:
        """The VI and what is noted of the descriptor, which is about to be handed over.

        Errors: ``VIP_INVALID_PARAMETER`` for a VI, or memory, that is not this process's, and for a
        descriptor that is not in its place, or still posted; ``VIP_ERROR_RESOURCE`` if the queue is
        full.  Whether the VI may have descriptors in that memory the NIC says.
        """
        if RUNNING.program is not self._driven:
            self._enter()
        found = self._owner.records.get(id(handle))
        if found is None or type(handle) is not Vi:
            self._owner.refuse(handle, Vi)
        vi: Endpoint = found[1]
        if type(descriptor) is Descriptor and is_sure(descriptor, self._owner.records):
            address, among = descriptor.address, descriptor.places
            assert among is not None
        else:
            address, among = checked(self._owner, descriptor)
        if address in vi.addresses:
            raise VipError(
                Return.VIP_INVALID_PARAMETER,
                "the descriptor's place is still in a queue of the VI; request() gives another",
            )
        process, posted = self._process, vi.posted[queue]
        if len(posted) >= self._depths[queue]:
            raise VipError(
                Return.VIP_ERROR_RESOURCE,
                f"VI {vi.number} has {len(posted)} descriptors in this queue, which is all that it "
                "holds; take some back, or give the cluster a larger one",
            )
        cookie = process._next_request
        process._next_request = cookie + 1
        work = Work(descriptor, address, among, cookie)
        descriptor.status, descriptor.length = NOT_YET, 0
        self._words.works[address] = work
        posted.append(work)
        vi.addresses.add(address)
        return vi, work

    def _put_down(self, data: Sequence[DataSegment], place: int) -> None:
        """Have the driver find the pieces of memory of what is at ``place`` of a chain."""
        at, pieces = 0, self._pieces[place]
        for one in data:
            _SEGMENT.pack_into(pieces, at, one.address, one.length, one.handle)
            at += _SEGMENT.size

    def _sending(self, vi: Endpoint, work: Work) -> None:
        """Put a descriptor into a send queue before what the process asks next."""
        process = self._process
        data, control, remote, word = work.said
        place = len(process._before)
        operation, flags, key, at = SEND, 0, 0, 0
        self._words_with[place][:16] = _WORDS.pack(word, work.handle)
        if control is not PLAIN or remote is not None:
            how = int(control)
            operation = OPERATIONS.get(how & CONTROL_OP_MASK, NO_OPERATION)
            if how & HAS_IMMEDIATE:
                flags = IMMEDIATE
            if how & HAS_FENCE:
                flags |= FENCED
            if remote is not None:
                key, at = remote.handle, remote.address
                at -= (at >> 63) << 64  # as the driver has it: signed
            if how & CONTROL_RESERVED or (remote is None) != (operation == SEND):
                operation = NO_OPERATION
        self._put_down(data, place)
        own = process._mapped[vi.place] | operation | flags << KIND_BITS | GATHER
        process._before.append(
            self._driven.request(POST, vi.place, len(data), key, work.token, at, work.cookie, own)
        )

    def _receiving(self, vi: Endpoint, work: Work) -> None:
        """Likewise, into a receive queue."""
        process = self._process
        data, control, remote, _ = work.said
        found = DONE
        if remote is not None or (control is not PLAIN and int(control) & ~HAS_IMMEDIATE):
            found = BAD_DESCRIPTOR
        self._put_down(data, len(process._before))
        own = process._mapped[vi.place] | found
        process._before.append(
            self._driven.request(
                PROVIDE, vi.place, len(data), work.handle, work.token, 0, work.cookie, own
            )
        )
