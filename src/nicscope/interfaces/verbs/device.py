"""Devices, contexts, device memory, and what devices and ports say of themselves."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any, ClassVar

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.addr import GID, PORT, gid_of
from nicscope.interfaces.verbs.base import (
    GID_SLOTS,
    Attributes,
    Fields,
    PyverbsCM,
    PyverbsObject,
    PyverbsRDMAError,
    PyverbsUserError,
    World,
    as_bytes,
    error,
    here,
    refusal,
)
from nicscope.interfaces.verbs.enumerations import be64toh, byte_swapped64, naming

if TYPE_CHECKING:
    from collections.abc import Callable

PHYSICAL = {
    0: "No state change",
    1: "Sleep",
    2: "Polling",
    3: "Disabled",
    4: "PortConfigurationTraining",
    5: "LinkUp",
    6: "LinkErrorRecovery",
    7: "PhyTest",
}
WIDTHS = {1: "1X", 2: "4X", 4: "8X", 8: "12X", 16: "2X"}
SPEEDS = {  # Gbit/s of a lane
    0: "0.0 Gbps",
    1: "2.5 Gbps",
    2: "5.0 Gbps",
    4: "5.0 Gbps",
    8: "10.0 Gbps",
    16: "14.0 Gbps",
    32: "25.0 Gbps",
    64: "50.0 Gbps",
    128: "100.0 Gbps",
    256: "200.0 Gbps",
}
STATES = {1: "Down", 2: "Init", 3: "Armed", 4: "Active", 5: "Active defer", 0: "NOP"}
LAYERS = {0: "Unspecified", 1: "InfiniBand", 2: "Ethernet"}


VALUED = "{0} ({1})"
phys_state_to_str = naming(
    "The name of a port's physical state.", PHYSICAL, "Invalid physical state", form=VALUED
)
port_state_to_str = naming("The name of a port's state.", STATES, "Invalid state", form=VALUED)
translate_mtu = naming(
    "The bytes of an MTU code.", e.ibv_mtu, "Invalid MTU", "IBV_MTU_", form=VALUED
)
width_to_str = naming("The lanes of a link width code.", WIDTHS, "Invalid width", form=VALUED)
translate_link_layer = naming(
    "The name of a port's link layer.", LAYERS, "Invalid link layer ({0})"
)
translate_node_type = naming(
    "The name of a device's node type.", e.ibv_node_type, "Unknown", "IBV_NODE_"
)
translate_transport_type = naming(
    "The name of a device's transport type.", e.ibv_transport_type, "Unknown", "IBV_TRANSPORT_"
)
translate_event_type = naming(
    "The name of an asynchronous event.", e.ibv_event_type, "Unknown event type ({0})"
)


def speed_to_str(speed: int, speed_ex: int = 0) -> str:
    """The speed of a lane; the extended field takes precedence where it is set."""
    found = speed_ex or speed
    return f"{SPEEDS.get(found, 'Invalid speed')} ({found})"


def guid_format(num: int) -> str:
    """A GUID in network order as four groups."""
    digits = f"{be64toh(num):016x}"
    return ":".join(digits[at : at + 4] for at in range(0, 16, 4))


def guid_to_hex(node_guid: int) -> str:
    """A GUID in the host's order as digits."""
    return hex(node_guid)


def _flags_named(meaning: str, kind: Any, prefix: str) -> Callable[[int], str]:
    def names_of(flags: int) -> str:
        told = [one.name.removeprefix(prefix) for one in kind if flags & int(one)]
        return f"{flags} ({' '.join(told)})" if told else str(flags)

    names_of.__doc__ = meaning
    return names_of


translate_device_cap_flags = _flags_named(
    "The names of a device's capability flags.", e.ibv_device_cap_flags, "IBV_DEVICE_"
)
translate_port_cap_flags = _flags_named(
    "The names of a port's capability flags.", e.ibv_port_cap_flags, "IBV_PORT_"
)
translate_port_cap_flags2 = _flags_named(
    "The names of a port's extended capability flags.", e.ibv_port_cap_flags2, "IBV_PORT_"
)


VENDOR = 0x4E53  # of nobody's: helpers of programs branch on those of real makers
PART = 1
VERSION = "1.0.0"
PAGE_SIZES = 0xFFFFFFFFFFFFF000
MOST = 1 << 20  # objects of a kind: simulated ones end with the memory
KEYS = 1
SPEED_100G = {"active_width": 2, "active_speed": 32}  # four lanes of 25 Gbit/s
PHYSICAL_UP = 5
MTU_CODES = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}
ODP_RC = (
    "IBV_ODP_SUPPORT_SEND",
    "IBV_ODP_SUPPORT_RECV",
    "IBV_ODP_SUPPORT_WRITE",
    "IBV_ODP_SUPPORT_READ",
    "IBV_ODP_SUPPORT_ATOMIC",
    "IBV_ODP_SUPPORT_SRQ_RECV",
    "IBV_ODP_SUPPORT_FLUSH",
    "IBV_ODP_SUPPORT_ATOMIC_WRITE",
)


class Attr(Fields, PyverbsObject):
    """Queried values by name, read only."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values, SHOWN=tuple(values))

    def __getattr__(self, name: str) -> Any:  # for type checkers: the values are attributes
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class DeviceAttr(Attr):
    """A device's limits."""

    SAID: ClassVar = {"node_guid": guid_format, "sys_image_guid": guid_format}


class DeviceAttrEx(Attr):
    """A device's extended limits."""


class ODPCaps(Attr):
    """Operations supported on memory with on-demand paging."""


class TSOCaps(Attr):
    """Segmentation offload, which is not supported."""


class RSSCaps(Attr):
    """Receive side scaling, which is not supported."""


class TMCaps(Attr):
    """Tag matching, which is not supported."""


class PacketPacingCaps(Attr):
    """Packet pacing, which is not supported."""


class CQModerationCaps(Attr):
    """Completion moderation, which is not supported."""


class PCIAtomicCaps(Attr):
    """PCI atomics, which are not supported."""


class PortAttr(Attr):
    """Attributes of a port."""


class GIDEntry(Attr):
    """An entry of the GID table."""

    def gid_str(self) -> str:
        """The address as text."""
        return gid_of(self.raw).gid


class QueryDeviceExInput(Attributes):
    """The input of an extended device query."""

    comp_mask: int = 0


def _flags(world: World) -> int:
    facts = world.facts
    flags = e.IBV_DEVICE_RC_RNR_NAK_GEN | e.IBV_DEVICE_SYS_IMAGE_GUID
    if facts.windows:
        flags |= e.IBV_DEVICE_MEM_WINDOW | e.IBV_DEVICE_MEM_WINDOW_TYPE_2B
    if e.IBV_QPT_XRC_SEND in facts.qp_types:
        flags |= e.IBV_DEVICE_XRC
    if facts.srq:
        flags |= e.IBV_DEVICE_SRQ_RESIZE
    return int(flags)


def atomics(world: World) -> bool:
    """Whether the device supports both atomic operations."""
    both = {e.IBV_WR_ATOMIC_CMP_AND_SWP, e.IBV_WR_ATOMIC_FETCH_AND_ADD}
    return both <= world.facts.opcodes


def device_attr(world: World) -> DeviceAttr:
    """The limits of a world's device."""
    facts = world.facts
    guid = byte_swapped64(world.guid)
    return DeviceAttr(
        fw_version=VERSION,
        node_guid=guid,
        sys_image_guid=guid,
        max_mr_size=(1 << 64) - 1,
        page_size_cap=PAGE_SIZES,
        vendor_id=VENDOR,
        vendor_part_id=PART,
        hw_ver=1,
        max_qp=facts.max_qp,
        max_qp_wr=facts.max_qp_wr,
        device_cap_flags=_flags(world),
        max_sge=facts.max_sge,
        max_sge_rd=facts.max_sge,
        max_cq=facts.max_cq,
        max_cqe=facts.max_cqe,
        max_mr=facts.max_mr,
        max_pd=MOST,
        max_qp_rd_atom=facts.max_rd_atomic,
        max_ee_rd_atom=0,
        max_res_rd_atom=MOST,
        max_qp_init_rd_atom=facts.max_rd_atomic,
        max_ee_init_rd_atom=0,
        atomic_caps=int(e.IBV_ATOMIC_HCA if atomics(world) else e.IBV_ATOMIC_NONE),
        max_ee=0,
        max_rdd=0,
        max_mw=facts.max_mr if facts.windows else 0,
        max_raw_ipv6_qps=0,
        max_raw_ethy_qp=0,
        max_mcast_grp=0,
        max_mcast_qp_attach=0,
        max_ah=MOST,
        max_fmr=0,
        max_map_per_fmr=0,
        max_srq=facts.max_qp if facts.srq else 0,
        max_srq_wr=facts.max_srq_wr if facts.srq else 0,
        max_srq_sge=facts.max_sge if facts.srq else 0,
        max_pkeys=KEYS,
        local_ca_ack_delay=0,
        phys_port_cnt=1,
    )


def _odp(world: World) -> ODPCaps:
    facts = world.facts
    if not facts.on_demand:
        return ODPCaps(general_caps=0, rc_odp_caps=0, uc_odp_caps=0, ud_odp_caps=0, xrc_odp_caps=0)
    ops = facts.opcodes
    caps = e.IBV_ODP_SUPPORT_SEND | e.IBV_ODP_SUPPORT_RECV
    optional = {
        e.IBV_ODP_SUPPORT_WRITE: e.IBV_WR_RDMA_WRITE in ops,
        e.IBV_ODP_SUPPORT_READ: e.IBV_WR_RDMA_READ in ops,
        e.IBV_ODP_SUPPORT_ATOMIC: atomics(world),
        e.IBV_ODP_SUPPORT_SRQ_RECV: facts.srq,
        e.IBV_ODP_SUPPORT_FLUSH: e.IBV_WR_FLUSH in ops,
        e.IBV_ODP_SUPPORT_ATOMIC_WRITE: e.IBV_WR_ATOMIC_WRITE in ops,
    }
    rc = int(caps | sum(flag for flag, runs in optional.items() if runs))
    plain = int(caps) | (int(e.IBV_ODP_SUPPORT_SRQ_RECV) if facts.srq else 0)
    return ODPCaps(
        general_caps=int(e.IBV_ODP_SUPPORT | e.IBV_ODP_SUPPORT_IMPLICIT),
        rc_odp_caps=rc if e.IBV_QPT_RC in facts.qp_types else 0,
        uc_odp_caps=(plain | int(e.IBV_ODP_SUPPORT_WRITE)) if e.IBV_QPT_UC in facts.qp_types else 0,
        ud_odp_caps=plain if e.IBV_QPT_UD in facts.qp_types else 0,
        xrc_odp_caps=rc if e.IBV_QPT_XRC_SEND in facts.qp_types else 0,
    )


def device_attr_ex(world: World) -> DeviceAttrEx:
    """The extended limits of a world's device."""
    orig = device_attr(world)
    return DeviceAttrEx(
        comp_mask=0,
        orig_attr=orig,
        odp_caps=_odp(world),
        completion_timestamp_mask=(1 << 64) - 1,
        hca_core_clock=1_000_000,  # kHz: time stamps count nanoseconds
        device_cap_flags_ex=orig.device_cap_flags,
        tso_caps=TSOCaps(max_tso=0, supported_qpts=0),
        rss_caps=RSSCaps(
            supported_qpts=0,
            max_rwq_indirection_tables=0,
            max_rwq_indirection_table_size=0,
            rx_hash_fields_mask=0,
            rx_hash_function=0,
        ),
        max_wq_type_rq=0,
        packet_pacing_caps=PacketPacingCaps(
            qp_rate_limit_min=0, qp_rate_limit_max=0, supported_qpts=0
        ),
        raw_packet_caps=0,
        tm_caps=TMCaps(max_rndv_hdr_size=0, max_num_tags=0, flags=0, max_ops=0, max_sge=0),
        cq_mod_caps=CQModerationCaps(max_cq_count=0, max_cq_period=0),
        max_dm_size=world.facts.dm_bytes,
        pci_atomic_caps=PCIAtomicCaps(fetch_add=0, swap=0, compare_swap=0),
        xrc_odp_caps=_odp(world).xrc_odp_caps,
        phys_port_cnt_ex=1,
    )


def port_attr(world: World, slots: int) -> PortAttr:
    """The attributes of a world's port: Ethernet of 100 Gbit/s, up."""
    most = max(code for size, code in MTU_CODES.items() if size <= world.facts.mtu_bytes)
    return PortAttr(
        state=int(e.IBV_PORT_ACTIVE),
        max_mtu=most,
        active_mtu=most,
        gid_tbl_len=slots,
        port_cap_flags=int(e.IBV_PORT_IP_BASED_GIDS),
        max_msg_sz=world.facts.max_msg_bytes,
        bad_pkey_cntr=0,
        qkey_viol_cntr=0,
        pkey_tbl_len=KEYS,
        lid=0,
        sm_lid=0,
        lmc=0,
        max_vl_num=1,
        sm_sl=0,
        subnet_timeout=0,
        init_type_reply=0,
        **SPEED_100G,
        phys_state=PHYSICAL_UP,
        link_layer=int(e.IBV_LINK_LAYER_ETHERNET),
        flags=int(e.IBV_QPF_GRH_REQUIRED),
        port_cap_flags2=0,
        active_speed_ex=0,
    )


def gid_entry(raw: bytes, index: int, port: int) -> GIDEntry:
    """An entry of the GID table; its halves are words in network order."""
    return GIDEntry(
        raw=raw,
        gid_subnet_prefix=int.from_bytes(raw[:8], "little"),
        gid_interface_id=int.from_bytes(raw[8:], "little"),
        gid_index=index,
        port_num=port,
        gid_type=int(e.IBV_GID_TYPE_ROCE_V2),
        ndev_ifindex=0,
    )


WORD = 4  # bytes: what programmed I/O moves at once


class AllocDmAttr(Attributes):
    """Size and alignment of the device memory to allocate."""

    length: int
    log_align_req: int = 0
    comp_mask: int = 0


class DM(PyverbsCM):
    """An allocation of device memory."""

    ORDER = ("dm_mrs",)

    def __init__(
        self, context: Context, dm_attr: AllocDmAttr | None = None, handle: int | None = None
    ) -> None:
        self.context = context
        self._imported = handle is not None
        if handle is not None:
            found = context.things.get(("dm", int(handle)))
            if found is None:
                raise error(f"Failed to import DM with handle {handle}", errno.EINVAL)
            self.handle, self.size = int(handle), int(found)
        else:
            wanted = dm_attr if dm_attr is not None else AllocDmAttr(0)
            self._allocate(wanted)
        self._opened()
        context._add_dependent(self, "dms")

    def _allocate(self, wanted: AllocDmAttr) -> None:
        most = self.context.world.facts.dm_bytes
        failed = (
            f"Failed to allocate device memory of size {wanted.length}. Max available size {most}."
        )
        if not most:
            raise error(failed, errno.EOPNOTSUPP)
        if wanted.comp_mask or not 0 < wanted.length <= most:
            raise error(failed, errno.EINVAL)
        with refusal(failed):
            self.handle = int(self.context.world.device.alloc_dm(wanted.length))
        self.size = wanted.length
        self.context.things[("dm", self.handle)] = self.size

    def _release(self) -> None:
        if not self._imported:
            self.context.things.pop(("dm", self.handle), None)
            self.context.world.device.free_dm(self.handle)

    def unimport(self) -> None:
        """Release an imported handle."""
        self._closed = True

    def export_dmabuf_fd(self) -> int:
        """A dma-buf file descriptor for the memory, whose bytes stay on the NIC."""
        return os.memfd_create("dm")

    def _check(self, offset: int, length: int, failed: str) -> None:
        if offset < 0 or length < 0 or offset + length > self.size:
            raise error(failed, errno.EFAULT)
        if offset % WORD or length % WORD:
            raise error(failed, errno.EINVAL)

    def copy_to_dm(self, dm_offset: int, data: Any, length: int) -> None:
        """Store words from the CPU into device memory."""
        at, size = int(dm_offset), int(length)
        self._check(at, size, "Failed to copy to dm")
        with refusal("Failed to copy to dm"):
            self.context.world.device.dm_write(self.handle, at, as_bytes(data, size))

    def copy_from_dm(self, dm_offset: int, length: int) -> bytes:
        """Load words of device memory into the CPU."""
        at, size = int(dm_offset), int(length)
        self._check(at, size, "Failed to copy from dm")
        with refusal("Failed to copy from dm"):
            found: bytes = self.context.world.device.dm_read(self.handle, at, size)
            return found


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
        cmid: PyverbsCM | None = None,
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
        if not isinstance(found, Context) or found._closed:
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
