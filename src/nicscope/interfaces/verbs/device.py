"""Devices and contexts: where every program of verbs begins."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.addr import GID, PORT, gid_of
from nicscope.interfaces.verbs.base import PyverbsCM, PyverbsObject, error
from nicscope.interfaces.verbs.device_attr import (
    DeviceAttr,
    DeviceAttrEx,
    GIDEntry,
    PortAttr,
    QueryDeviceExInput,
    device_attr,
    device_attr_ex,
    gid_entry,
    guid_format,
    guid_to_hex,
    phys_state_to_str,
    port_attr,
    port_state_to_str,
    speed_to_str,
    translate_device_cap_flags,
    translate_event_type,
    translate_link_layer,
    translate_mtu,
    translate_node_type,
    translate_port_cap_flags,
    translate_port_cap_flags2,
    translate_transport_type,
    width_to_str,
)
from nicscope.interfaces.verbs.dm import DM, AllocDmAttr
from nicscope.interfaces.verbs.pyverbs_error import PyverbsRDMAError, PyverbsUserError
from nicscope.interfaces.verbs.world import GID_SLOTS, here

if TYPE_CHECKING:
    from nicscope.interfaces.verbs.cmid import CMID
    from nicscope.interfaces.verbs.world import World

__all__ = [
    "DM",
    "AllocDmAttr",
    "AsyncEvent",
    "Context",
    "Device",
    "DeviceAttr",
    "DeviceAttrEx",
    "FdArr",
    "GIDEntry",
    "PortAttr",
    "QueryDeviceExInput",
    "get_device_list",
    "guid_format",
    "guid_to_hex",
    "phys_state_to_str",
    "port_state_to_str",
    "rdma_get_devices",
    "speed_to_str",
    "translate_device_cap_flags",
    "translate_event_type",
    "translate_link_layer",
    "translate_mtu",
    "translate_node_type",
    "translate_port_cap_flags",
    "translate_port_cap_flags2",
    "translate_transport_type",
    "width_to_str",
]

VECTORS = 1  # of completions: a simulated host has one place for interrupts
PKEY = 0xFFFF
SPEED_MBPS = 100_000
NS = 1_000_000_000


class Device(PyverbsObject):
    """A device that can be opened."""

    def __init__(self, name: bytes, guid: int) -> None:
        self.name = name
        self.node_type = int(e.IBV_NODE_CA)
        self.transport_type = int(e.IBV_TRANSPORT_IB)
        self.guid = guid
        self.index = 0

    def __str__(self) -> str:
        return (
            f"Device {self.name.decode()}, node type {translate_node_type(self.node_type)}, "
            f"transport type {translate_transport_type(self.transport_type)}, "
            f"guid {guid_to_hex(self.guid)}, index {self.index}"
        )


def get_device_list() -> list[Device]:
    """Every device of this node."""
    world = here()
    return [Device(world.name.encode(), world.guid)]


def rdma_get_devices() -> list[Device]:
    """Every device that the connection manager can use."""
    return get_device_list()


class FdArr(PyverbsObject):
    """An array of file descriptors."""

    def __init__(self, arr: list[int] | None = None, count: int = 0) -> None:
        self.arr, self.count = list(arr or []), int(count)


class Context(PyverbsCM):
    """An open device context."""

    ORDER = ("qps", "rwq_tables", "wqs", "ccs", "cqs", "dms", "pds", "xrcds")

    def __init__(
        self,
        name: str | None = None,
        cmd_fd: int | None = None,
        cmid: CMID | None = None,
        attr: Any = None,
    ) -> None:
        if attr is not None:
            raise PyverbsUserError("Attributes are of other makers' devices")
        if name is None and cmd_fd is None and cmid is None:
            raise PyverbsUserError("Device name must be provided")
        self.world: World = here()
        self._file = -1
        # What was made on it, and on those that share its file: ("pd", handle) and so on.
        self.things: dict[tuple[str, int], Any] = {}
        if cmd_fd is not None:
            self.things = self._sharing(int(cmd_fd)).things
        elif name is not None and name != self.world.name:
            raise PyverbsRDMAError(f"Failed to find device {name}")
        self.name = self.world.name
        self.num_comp_vectors = VECTORS
        self._opened()
        self.world.opened.add(self)

    @property
    def context(self) -> Context:
        """The context that its objects are created on."""
        return self

    def _sharing(self, file: int) -> Context:
        try:
            inode = os.fstat(file).st_ino
        except OSError as wrong:
            raise error("Failed to import device", wrong.errno or errno.EINVAL) from None
        found = self.world.contexts.get(inode)
        if found is None or found._closed:
            raise error("Failed to import device", errno.EINVAL)
        return found

    @property
    def cmd_fd(self) -> int:
        """The command file descriptor, from which the same context can be opened again."""
        if self._file < 0:
            self._file = os.memfd_create(self.name)
            self.world.contexts[os.fstat(self._file).st_ino] = self
        return self._file

    def _release(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def query_device(self) -> DeviceAttr:
        """The device's limits."""
        return device_attr(self.world)

    def query_device_ex(self, ex_input: QueryDeviceExInput | None = None) -> DeviceAttrEx:
        """The device's extended limits."""
        if ex_input is not None and ex_input.comp_mask:
            raise error("Failed to query EX device", errno.EINVAL)
        return device_attr_ex(self.world)

    def _checked(self, port_num: int, failed: str) -> int:
        if int(port_num) != PORT:
            raise error(failed, errno.EINVAL)
        return PORT

    def query_port(self, port_num: int) -> PortAttr:
        """Attributes of a port."""
        self._checked(port_num, f"Failed to query port {int(port_num)}")
        return port_attr(self.world, GID_SLOTS)

    def query_port_speed(self, port_num: int) -> int:
        """The port's speed in units of 100 Mbit/s."""
        self._checked(port_num, f"Failed to query port {int(port_num)} speed")
        return SPEED_MBPS // 100

    def query_pkey(self, port_num: int, index: int) -> int:
        """An entry of the pkey table; there is only the default partition."""
        self._checked(port_num, f"Failed to query pkey {index} of port {port_num}")
        if int(index):
            raise error(f"Failed to query pkey {index} of port {port_num}", errno.EINVAL)
        return PKEY

    def get_pkey_index(self, port_num: int, pkey: int) -> int:
        """The index of a pkey in the port's table."""
        self._checked(port_num, f"Failed to find pkey {pkey} of port {port_num}")
        if int(pkey) != PKEY:
            raise error(f"Failed to find pkey {pkey} of port {port_num}", errno.ENOENT)
        return 0

    def _slot(self, port_num: int, index: int, failed: str) -> bytes:
        self._checked(port_num, failed)
        if not 0 <= int(index) < GID_SLOTS:
            raise error(failed, errno.EINVAL)
        return self.world.gid(int(index))

    def query_gid(self, port_num: int, index: int) -> GID:
        """An entry of the GID table; zeros if it is empty."""
        return gid_of(self._slot(port_num, index, f"Failed to query gid {index}"))

    def query_gid_type(self, port_num: int, index: int) -> int:
        """The type of a GID, in the numbering of sysfs."""
        failed = f"Failed to query gid type of port {port_num} and gid index {index}"
        if not any(self._slot(port_num, index, failed)):
            raise error(failed, errno.EINVAL)
        return int(e.IBV_GID_TYPE_SYSFS_ROCE_V2)

    def query_gid_table(self, max_entries: int, flags: int = 0) -> list[GIDEntry]:
        """All entries of the GID table that are not empty; the error's number is negative."""
        entries = [gid_entry(gid.raw, gid.slot, PORT) for gid in self.world.gids()]
        if int(flags) or int(max_entries) < len(entries):
            raise error("Failed to query gid table", -errno.EINVAL)
        return entries

    def query_gid_ex(self, port_num: int, gid_index: int, flags: int = 0) -> GIDEntry:
        """An entry of the GID table; errors: ENODATA for an empty one."""
        failed = f"Failed to query gid table port_num={port_num}, index={gid_index}"
        raw = self._slot(port_num, gid_index, failed)
        if int(flags):
            raise error(failed, errno.EINVAL)
        if not any(raw):
            raise error(failed, errno.ENODATA)
        return gid_entry(raw, int(gid_index), PORT)

    def query_rt_values_ex(self, comp_mask: int = e.IBV_VALUES_MASK_RAW_CLOCK) -> tuple[int, int]:
        """The device's clock: seconds, and nanoseconds since then."""
        if int(comp_mask) & ~int(e.IBV_VALUES_MASK_RAW_CLOCK):
            raise error("Failed to query real time values", errno.EINVAL)
        return divmod(int(self.world.device.now_ns), NS)

    def get_async_event(self) -> AsyncEvent:
        """The next asynchronous event; virtual time advances until there is one.

        Errors: ``PyverbsRDMAError`` if none can ever come.
        """
        holders = [*self._living("qps"), *self._living("cqs")]
        for pd in self._living("pds"):
            holders += [*pd._living("srqs"), *pd._living("qps")]
        holders += self._living("srqs")
        qps = {each.qp_num: each for each in holders if hasattr(each, "qp_num")}
        cqs = {each.handle: each for each in holders if hasattr(each, "ack_events")}
        srqs = {each.handle: each for each in holders if hasattr(each, "get_srq_num")}
        found = self.world.device.next_async_event(set(qps), set(cqs), set(srqs))
        if found is None:
            raise error("Failed to get async event: none can come", errno.EAGAIN)
        about: Any = qps
        if found.type == e.IBV_EVENT_CQ_ERR:
            about = cqs
        elif found.type in (e.IBV_EVENT_SRQ_ERR, e.IBV_EVENT_SRQ_LIMIT_REACHED):
            about = srqs
        return AsyncEvent(found.type, about.get(found.element))


class AsyncEvent(PyverbsObject):
    """An asynchronous event of a queue, a queue pair or a port."""

    def __init__(self, event_type: int, about: Any = None) -> None:
        self.event_type = int(event_type)
        self.about = about

    def ack(self) -> None:
        """Acknowledge the event."""

    def __str__(self) -> str:
        return f"event_type: {translate_event_type(self.event_type)}"
