"""VI-KA, the kernel agent, as one process calls it: VIs, memory, connections.

Everything here is a system call.  Source: EDT, 6; VIA Specification 1.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.drivers.simulate.machine import GIVE_UP, REGISTER, REPORT
from nicscope.drivers.simulate.ports.posting import POLL
from nicscope.host.calls import deregister_pages
from nicscope.interfaces.buffers import stretch_of
from nicscope.interfaces.via.addresses import Region
from nicscope.interfaces.via.connections import Connections
from nicscope.interfaces.via.endpoint import RECEIVE_QUEUE, SEND_QUEUE, Endpoint, Ring
from nicscope.interfaces.via.names import Return, State, VipError
from nicscope.interfaces.via.space import Space
from nicscope.interfaces.via.words import Words
from nicscope.kernel.decorators import kernel
from nicscope.kernel.entering import bound
from nicscope.nic.ports.layout import (
    DONE,
    IDLE,
    MAY_FETCH,
    MAY_WRITE,
    NOBODY,
    ONE,
    STATUS_NAMES,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.interfaces.buffers import Stretch
    from nicscope.interfaces.ownership import Owner
    from nicscope.interfaces.ports.buffers import Buffer
    from nicscope.interfaces.via.process import Process
    from nicscope.interfaces.via.vi import Attributes


def rights_of(*, rdma_write: bool, rdma_read: bool) -> int:
    """What others may do from afar, as the NIC has it."""
    return MAY_WRITE * rdma_write | MAY_FETCH * rdma_read


@kernel
def _deregister(machine: Any, n: int, p: int, address: int, length: int) -> None:
    deregister_pages(machine, n, p, address, length)


class Agent(Connections):
    """The kernel agent of a process's node."""

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self.space = Space(process)
        self.words = Words()
        self.opened = 0  # NICs that the process has open
        self.kernel = self.cluster.kernels[self.node]
        assert self.cluster.simulation is not None
        self._deregister = bound(_deregister, self.cluster.simulation.machine)

    # --- protection and memory -----------------------------------------------------------

    def create_tag(self, owner: Owner) -> int:
        """A protection tag of that process."""
        return self.kernel.tags.make(owner, self.kernel.number())

    def destroy_tag(self, owner: Owner, tag: object) -> None:
        """Forget the tag.  Errors: ``VIP_INVALID_PARAMETER``, ``VIP_ERROR_RESOURCE`` if in use."""
        self.kernel.tags.forget(owner, tag, self._is_in_use)

    def close_nic(self, owner: Owner) -> None:
        """One NIC of the process fewer is open.  Errors: ``VIP_ERROR_RESOURCE``."""
        if self.opened == 1:
            left = {
                "VIs": sum(vi.owner is owner for vi in self.vis),
                "protection tags": len(self.kernel.tags.of(owner)),
            }
            found = [f"{count} {what}" for what, count in left.items() if count]
            if found:  # queues and registered memory have a tag
                raise VipError(
                    Return.VIP_ERROR_RESOURCE,
                    f"{owner.name} has {' and '.join(found)} there; destroy them first",
                )
        self.opened -= 1

    def change_region(self, region: Region, tag: int, *, rdma_write: bool, rdma_read: bool) -> None:
        """Have the NIC know registered memory by other attributes."""
        for name, value in (("tag", tag), ("rdma_write", rdma_write), ("rdma_read", rdma_read)):
            object.__setattr__(region, name, value)
        rights = rights_of(rdma_write=rdma_write, rdma_read=rdma_read)
        self.kernel.enter(region, self.process.number, rights)

    def _is_in_use(self, tag: int) -> bool:
        regions = self.kernel.regions.values()
        return any(one.tag == tag for one in regions) or any(
            vi.attributes.tag == tag for vi in self.vis
        )

    def known_tag(self, owner: Owner, tag: object, code: Return) -> int:
        """The tag, if it is that process's; else raise ``code``."""
        return self.kernel.tags.known(owner, tag, code)

    async def register(
        self, owner: Owner, buffer: Stretch, tag: object, *, rdma_write: bool, rdma_read: bool
    ) -> Region:
        """Pin the buffer and permit it to the VIs of the tag."""
        known = self.known_tag(owner, tag, Return.VIP_INVALID_PTAG)
        address, length = stretch_of(owner, self.process, buffer)
        if length < 1:
            raise VipError(
                Return.VIP_INVALID_PARAMETER, "0 bytes are not registered; give it a buffer of 1"
            )
        await self._await_room(address, length)
        key = self.kernel.take_key()
        ended = await self.process.ask(
            REGISTER, peer=self.process.port, address=address, payload=length
        )
        if ended.address != DONE:
            self.kernel.give_key(key)
            raise VipError(
                Return.VIP_ERROR_RESOURCE,
                f"{length} bytes cannot be pinned: {STATUS_NAMES[ended.address]}",
            )
        region = Region(key, self.node, address, length, known, rdma_write, rdma_read)
        rights = rights_of(rdma_write=rdma_write, rdma_read=rdma_read)
        self.kernel.enter(region, self.process.number, rights)
        self.space.note_pins(address, length, 1)
        return region

    async def deregister(self, handle: int) -> None:
        """Take the registration back.  Errors: ``VIP_INVALID_PARAMETER``."""
        await self.process.settle()
        region = self.kernel.withdraw(handle)
        if region is None:
            raise VipError(Return.VIP_INVALID_PARAMETER, f"no registered memory {handle}")
        address, length = region.address, region.length
        self.space.note_pins(address, length, -1)
        await self.process.ask(GIVE_UP, peer=self.process.port, address=address, payload=length)
        self._deregister(self.node, self.process.port, address, length)
        self.kernel.given_back.ring()

    async def _await_room(self, address: int, length: int) -> None:
        """Wait until the NIC has room for the pages there, if registration is to be postponed."""
        room = self.kernel.room
        if room is None:
            return
        if self.space.unregistered(address, length) > room.most:
            raise VipError(
                Return.VIP_ERROR_RESOURCE,
                f"the NIC has room for {room.most} registered pages, never for {length} bytes",
            )
        while self.space.unregistered(address, length) > room.left:
            await self.kernel.given_back.hear(self.process, None)

    # --- virtual interfaces --------------------------------------------------------------

    @property
    def vis(self) -> Sequence[Endpoint]:
        """Those of the node."""
        return self.kernel.vis

    def create_vi(
        self,
        owner: Owner,
        attributes: Attributes,
        send_queue: Ring | None,
        receive_queue: Ring | None,
    ) -> Endpoint:
        """A VI with such attributes, which are checked, idle."""
        self.known_tag(owner, attributes.tag, Return.VIP_INVALID_PTAG)
        port = self.kernel.take_port()
        where = self.node, self.kernel.number(), port
        vi = Endpoint(owner, where, attributes, (send_queue, receive_queue), self._ports)
        self._open(port, attributes, (send_queue, receive_queue))
        self.process._note_port(port, f"VI {where[1]}")
        vi.questions = self._question(port, SEND_QUEUE), self._question(port, RECEIVE_QUEUE)
        self.kernel.vis.append(vi)
        for queue in (send_queue, receive_queue):
            if queue is not None:
                queue.users += 1
                queue.known[port] = vi
        return vi

    def _question(self, port: int, queue: int) -> bytes:
        own = self.process._mapped[port] | queue | POLL << 1
        return self._driven.request(REPORT, port, own=own)

    def _open(
        self, port: int, attributes: Attributes, queues: tuple[Ring | None, Ring | None]
    ) -> None:
        """Have ``port`` of the NIC be a VI of this process."""
        record = self._ports.table[self.node, port]
        record["given"] += record["takes"] == ONE  # else it is new
        record["reaped"] = record["reported"]
        record["read"] = record["reserved"] = record["received"]
        self.process._map_port(port)
        send, receive = (NOBODY if queue is None else queue.place for queue in queues)
        for name, value in (
            ("takes", ONE),
            ("state", IDLE),
            ("channel", NOBODY),
            ("send_queue", send),
            ("receive_queue", receive),
            ("troubles", 0),
            ("notices", 0),
        ):
            record[name] = value
        self._tell_attributes(port, attributes)

    def _tell_attributes(self, port: int, attributes: Attributes) -> None:
        """Have the NIC know those of the VI at ``port``."""
        record = self._ports.table[self.node, port]
        rights = rights_of(rdma_write=attributes.rdma_write, rdma_read=attributes.rdma_read)
        for name, value in (
            ("level", int(attributes.reliability)),
            ("domain", attributes.tag),
            ("rights", rights),
            ("longest", attributes.max_transfer),
        ):
            record[name] = value

    def change_vi(self, vi: Endpoint, attributes: Attributes) -> None:
        """Have a VI, which must be idle, be one with other attributes, which are checked."""
        self._must_be(vi, State.VIP_STATE_IDLE)
        vi.attributes = attributes
        self._tell_attributes(vi.place, attributes)

    def destroy_vi(self, vi: Endpoint) -> None:
        """Errors: ``VIP_INVALID_STATE`` unless idle, ``VIP_ERROR_RESOURCE`` with descriptors."""
        if vi.state is not State.VIP_STATE_IDLE:
            raise VipError(
                Return.VIP_INVALID_STATE, f"VI {vi.number} is in {vi.state.name}; disconnect it"
            )
        if any(vi.posted):
            raise VipError(
                Return.VIP_ERROR_RESOURCE, f"VI {vi.number} has descriptors posted or not taken"
            )
        self.kernel.vis.remove(vi)
        port = vi.place
        for queue in vi.completion_queues:
            if queue is not None:
                queue.hear()
                queue.users -= 1
        vi.close()
        self._ports.table[self.node, port]["open"] = 0
        self.process._lose_port(port)
        self.kernel.give_port(port)

    def create_completion_queue(self, memory: Buffer, handle: int, entries: int) -> Ring:
        """A completion queue in that memory, which is registered."""
        self.check_entries(entries)
        place, number = self.kernel.take_queue(), self.kernel.number()
        record: Any = self._ports.work.queues[self.node, place]
        record["open"], record["entries"] = 1, entries
        record["written"] = record["shown"] = record["read"] = record["notices"] = 0
        where = self.node, number, place
        return Ring(where, memory, handle, entries, self._ports)

    def check_entries(self, entries: int) -> None:
        """Errors: ``VIP_ERROR_RESOURCE`` if no completion queue of the NIC has so many."""
        most = self._ports.work.entries.shape[2]
        if entries > most:
            raise VipError(
                Return.VIP_ERROR_RESOURCE,
                f"a completion queue has up to {most} entries, got {entries}; give the cluster "
                "more (PortSize(entries=...))",
            )

    def resize_completion_queue(self, queue: Ring, entries: int) -> bool:
        """Whether the queue has room for so many entries now: it does not hold more."""
        queue.hear()
        record: Any = self._ports.work.queues[self.node, queue.place]
        if int(record["written"]) - queue.read > entries:
            return False
        record["entries"] = queue.entries = entries
        return True

    def destroy_completion_queue(self, queue: Ring) -> None:
        """Nobody waits for it any more."""
        self._ports.work.queues[self.node, queue.place]["open"] = 0
        self.kernel.give_queue(queue.place)
