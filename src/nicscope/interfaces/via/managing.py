"""The calls of VIPL that ask and change what there is: attributes, sizes, names, the NIC itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nicscope.interfaces.arguments import LEAST
from nicscope.interfaces.via.addresses import Region
from nicscope.interfaces.via.library import CQ_ENTRY, MOST_AT_ONCE
from nicscope.interfaces.via.names import Return, State, SystemInfo, VipError
from nicscope.interfaces.via.numbers import a_name, whole
from nicscope.interfaces.via.program import Program
from nicscope.interfaces.via.vi import Attributes, CompletionQueue, Vi, check_attributes

if TYPE_CHECKING:
    from nicscope.interfaces.via.endpoint import Endpoint, Ring
    from nicscope.interfaces.via.names import Reliability


class ViFound(msgspec.Struct, frozen=True):
    """What ``query_vi`` tells."""

    state: State
    attributes: Attributes
    send_queue_empty: bool  # nothing is posted, or not taken back
    recv_queue_empty: bool


class MemAttributes(msgspec.Struct, frozen=True):
    """Of registered memory (``VIP_MEM_ATTRIBUTES``)."""

    tag: int
    rdma_write: bool
    rdma_read: bool


class Discovered(msgspec.Struct, frozen=True):
    """A node to which there is a way, and how many switches are on it."""

    node: int
    hops: int


class Management(Program):
    """Calls about what there is."""

    async def close_nic(self) -> None:
        """Have no more to do with the NIC.

        Errors: ``VIP_INVALID_PARAMETER`` if it is closed already; ``VIP_ERROR_RESOURCE`` as long as
        the process has VIs, queues, memory or tags there, and has not opened it another time.
        """
        self._enter()
        self._agent.close_nic(self._owner)
        self._is_closed = True
        await self._agent.call()

    async def query_vi(self, vi: Vi) -> ViFound:
        """State and attributes of a VI, and whether its queues are empty."""
        self._enter()
        known: Endpoint = self._owner.record_of(vi, Vi)
        await self._agent.call()
        send, receive = known.posted
        return ViFound(known.state, known.attributes, not send, not receive)

    async def set_vi_attributes(
        self,
        vi: Vi,
        *,
        tag: int | None = None,
        reliability: Reliability | None = None,
        max_transfer: int | None = None,
        enable_rdma_write: bool | None = None,
        enable_rdma_read: bool | None = None,
        qos: int | None = None,
    ) -> None:
        """Change attributes of an idle VI; what is None stays.

        Errors: ``VIP_INVALID_STATE`` unless it is idle, and as ``create_vi``.
        """
        self._enter()
        known: Endpoint = self._owner.record_of(vi, Vi)
        if tag is not None:
            tag = self._agent.known_tag(self._owner, tag, Return.VIP_INVALID_PTAG)
        asked = {
            "tag": tag,
            "reliability": reliability,
            "max_transfer": max_transfer,
            "rdma_write": enable_rdma_write,
            "rdma_read": enable_rdma_read,
            "qos": qos,
        }
        changes = {name: value for name, value in asked.items() if value is not None}
        changed = msgspec.structs.replace(known.attributes, **changes)
        check_attributes(changed, self._agent.cluster.settings.max_transfer)
        await self._agent.call()
        self._agent.change_vi(known, changed)

    async def query_mem(self, region: Region) -> MemAttributes:
        """Attributes of registered memory."""
        self._enter()
        self._owner.record_of(region, Region)
        await self._agent.call()
        return MemAttributes(region.tag, region.rdma_write, region.rdma_read)

    async def set_mem_attributes(
        self,
        region: Region,
        *,
        tag: int | None = None,
        enable_rdma_write: bool | None = None,
        enable_rdma_read: bool | None = None,
    ) -> None:
        """Change attributes of registered memory; what is None stays.

        Errors: ``VIP_INVALID_PTAG``.  What is posted with the memory is judged by the new ones.
        """
        self._enter()
        self._owner.record_of(region, Region)
        known = region.tag
        if tag is not None:
            known = self._agent.known_tag(self._owner, tag, Return.VIP_INVALID_PTAG)
        write = region.rdma_write if enable_rdma_write is None else bool(enable_rdma_write)
        read = region.rdma_read if enable_rdma_read is None else bool(enable_rdma_read)
        await self._agent.call()
        self._agent.change_region(region, known, rdma_write=write, rdma_read=read)

    async def resize_cq(self, queue: CompletionQueue, entries: int) -> None:
        """Have a completion queue hold so many completions.

        Errors: ``VIP_INVALID_PARAMETER``; ``VIP_ERROR_RESOURCE`` for more than the NIC has room
        for, and for fewer than the queue holds.
        """
        self._enter()
        ring: Ring = self._owner.record_of(queue, CompletionQueue)
        many = whole(entries, "a queue's number of entries", 1, MOST_AT_ONCE)
        tag = self._agent.kernel.regions[ring.region].tag
        self._agent.check_entries(many)
        memory = self._space.allocate(self._owner, many * CQ_ENTRY)
        region = await self._agent.register(
            self._owner, memory, tag, rdma_write=False, rdma_read=False
        )
        old, before = ring.region, ring.memory
        if self._agent.resize_completion_queue(ring, many):
            ring.region, ring.memory = region.handle, memory
            await self._agent.deregister(old)
            self._space.give_back(self._owner, before)
            return
        await self._agent.deregister(region.handle)
        self._space.give_back(self._owner, memory)
        raise VipError(
            Return.VIP_ERROR_RESOURCE, f"the queue holds more than {many} completions; take some"
        )

    async def query_system_management_info(self, info: SystemInfo) -> tuple[Discovered, ...]:
        """Nodes to which packets of this one have a way (``VIP_SMI_AUTODISCOVERY``).

        Errors: ``VIP_ERROR_NOT_SUPPORTED`` for any other information.
        """
        self._enter()
        if whole(info, "a kind of information", LEAST) != SystemInfo.VIP_SMI_AUTODISCOVERY:
            raise VipError(Return.VIP_ERROR_NOT_SUPPORTED, f"nothing is known as {info}")
        await self._agent.call()
        topology = self._agent.cluster.topology
        ways = sorted(pair for pair in topology.paths if pair[0] == self.node)
        return tuple(Discovered(there, topology.hops[here, there]) for here, there in ways)

    # --- the name service ----------------------------------------------------------------

    async def ns_init(self) -> None:
        """Begin to use the name service."""
        self._enter()
        await self._agent.call()
        self._has_names = True

    async def ns_get_host_by_name(self, name: str, index: int = 0) -> int:
        """The node of that name; of several of a name the one with that index.

        Errors: ``VIP_ERROR_NAMESERVICE`` if there is none, or before ``ns_init``.
        """
        self._enter()
        wanted, which = a_name(name, "a host's name"), whole(index, "an index")
        await self._use_names()
        nodes = self._agent.cluster.names.get(wanted, ())
        if which >= len(nodes):
            raise VipError(
                Return.VIP_ERROR_NAMESERVICE, f"{wanted!r} is the name of {len(nodes)} nodes"
            )
        return nodes[which]

    async def ns_get_host_by_addr(self, node: int) -> str:
        """The first name of that node.  Errors: ``VIP_ERROR_NAMESERVICE``, likewise."""
        self._enter()
        wanted = whole(node, "a node", LEAST)
        await self._use_names()
        for name, nodes in self._agent.cluster.names.items():
            if wanted in nodes:
                return name
        raise VipError(Return.VIP_ERROR_NAMESERVICE, f"node {wanted} has no name")

    async def ns_shutdown(self) -> None:
        """Use the name service no more.  Errors: ``VIP_ERROR_NAMESERVICE`` before ``ns_init``."""
        self._enter()
        await self._use_names()
        self._has_names = False

    async def _use_names(self) -> None:
        if not self._has_names:
            raise VipError(Return.VIP_ERROR_NAMESERVICE, "ns_init() comes first")
        await self._agent.call()
