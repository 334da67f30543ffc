"""The parts of a design beside its translation: delivery, transport, the way, who serves.

A design file, ``--set`` and the JSON of a design name them as ``PARTS`` does.  What can run with
what is told by ``nicscope.interfaces.ways``; see ``docs/ways.md``.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.errors import DesignError, PlatformError, did_you_mean
from nicscope.telling import ToldPlainly

if TYPE_CHECKING:
    from nicscope.config.platform import Platform


class Transport(msgspec.Struct, frozen=True, kw_only=True):
    """Whether and how packets are brought again that did not arrive."""

    reliable: bool = True
    window: int = 32  # packets on the way between two nodes
    time_out_ps: int = 1_000_000_000
    most_retries: int = 12
    ack_delay_ps: int = 20_000_000
    # Numbered, acknowledged and retransmitted by: two nodes together, or each connection by itself.
    by_connection: bool = False
    # When retries have been to no avail, routes that are alive are looked for by probes (UTLB 4.1).
    remaps: bool = True
    # Assumed: how long the answer to a probe is waited for; none is printed.
    probe_time_out_ps: int = 100_000_000


# A design's word: what of a transport it says.
TRANSPORTS: dict[str, dict[str, bool]] = {
    "reliable": {"reliable": True},
    "unreliable": {"reliable": False},
    "reliable-connections": {"reliable": True, "by_connection": True},
}


def chosen_transport(word: str | None, own: Transport) -> Transport:
    """``own``, an interface's, as a design's ``transport`` has it; None leaves it as it is."""
    return own if word is None else msgspec.structs.replace(own, **TRANSPORTS[word])


CONTROL_BYTES = 128  # Trapeze, 2.1: a control message, always sent whole
# Where DMA of a payload can begin: at a word of the 32-bit bus (Trapeze, 1).  The eight transfers
# whose bytes section 3.4 prints are all whole words of 4, and four of them no whole words of 8.
PAYLOAD_ALIGNMENT = 4  # bytes

# A platform on which delivery can be simulated states all of these; what does not apply is 0.
DELIVERY_COSTS = (
    "send_call",
    "pio_write",
    "pio_read",
    "pci_read_start",
    "pci_read_per_byte",
    "pci_read_contended_per_byte",
    "pci_write_start",
    "pci_write_per_byte",
    "pci_write_contended_per_byte",
    "link_start",
    "link_per_byte",
    "link_watchdog",
    "switch_hop",
    "nic_memory_per_byte",
    "firmware_start",
    "firmware_finish",
    "firmware_log",
    "block_copy_per_byte",
    "block_copy_contended_per_byte",
)
# What the firmware does for each transfer; a platform may price it as a whole (send_queue) instead.
FIRMWARE_COSTS = ("firmware_start", "firmware_finish")
# A control message in bursts; stated where the bridge can.
BURSTS = {"pio_write": "pio_write_burst", "pio_read": "pio_read_burst"}


class Policy(IntEnum):
    """When bytes in NIC memory go on to the sink."""

    STORE_AND_FORWARD = 0
    CUT_THROUGH = 1


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One NIC's delivery: Trapeze's parts, each of which can be set."""

    policy: Policy = Policy.CUT_THROUGH
    eager: bool = True
    minpulse_send: int = 128  # bytes
    minpulse_receive: int = 128
    send_buffers: int = 4
    receive_buffers: int = 4
    send_ring: int = 64  # entries
    receive_ring: int = 64
    max_payload: int = 8192  # bytes
    logging: bool = False
    control_bytes: int = CONTROL_BYTES  # of a packet, before its payload
    by_message: bool = False  # a message's first packet waits until its last is on the NIC

    @ToldPlainly()
    def __post_init__(self) -> None:
        """Refuse what no NIC could be: ``DesignError``."""
        for name in ("send_buffers", "receive_buffers", "send_ring", "receive_ring", "max_payload"):
            if getattr(self, name) < 1:
                raise DesignError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("minpulse_send", "minpulse_receive"):
            value = getattr(self, name)
            if not 1 <= value <= self.max_payload:
                raise DesignError(
                    f"{name} must be from 1 to the largest payload, {self.max_payload}, got {value}"
                )


MESSAGE_STORE_AND_FORWARD = "message-store-and-forward"
# The published policies, as parts.  Pure cut-through is eager with one buffer on each side
# (Trapeze, 3.3); store-and-forward is double buffered (3.3); adaptive has several buffers (3.4).
# SONIC-VIA has a message on the NIC before it goes out (EDT, 3); its buffers are messages' rooms.
POLICIES: dict[str, Delivery] = {
    "store-and-forward": Delivery(
        policy=Policy.STORE_AND_FORWARD, send_buffers=2, receive_buffers=2
    ),
    "cut-through": Delivery(send_buffers=1, receive_buffers=1),
    "cut-through-minpulse": Delivery(eager=False, send_buffers=1, receive_buffers=1),
    "adaptive": Delivery(),
    MESSAGE_STORE_AND_FORWARD: Delivery(
        policy=Policy.STORE_AND_FORWARD, send_buffers=8, receive_buffers=8, by_message=True
    ),
}


def policy_name(delivery: Delivery) -> str:
    """The name in ``POLICIES``; of a delivery with settings of its own, what kind it is."""
    for name, each in POLICIES.items():
        if each == delivery:
            return name
    return f"own {delivery.policy.name.lower().replace('_', '-')}"


def delivery_costs(platform: Platform) -> dict[str, int]:
    """Picoseconds (per byte, where the name says so) of every cost in ``DELIVERY_COSTS``.

    For a NIC whose firmware is priced action by action, as Trapeze's is.  Errors:
    ``PlatformError`` naming the costs that the platform does not state, or those of the firmware
    if it holds them to be part of others: such a NIC would deliver for nothing.
    """
    costs = transfer_costs(platform)
    inside = [name for name in FIRMWARE_COSTS if name in platform.not_applicable]
    if inside:
        raise PlatformError(
            f"platform {platform.name!r} prices {', '.join(inside)} as part of other steps: "
            "delivery cannot be simulated on it alone; `nicscope platforms` lists those on which "
            "it can"
        )
    unused = [name for name in BURSTS if name in platform.not_applicable]
    if unused:
        raise PlatformError(
            f"platform {platform.name!r} has no control messages that a processor writes and "
            f"reads ({unused[0]}: {platform.not_applicable[unused[0]]}); `nicscope platforms` "
            "lists those that have"
        )
    return costs


def transfer_costs(platform: Platform) -> dict[str, int]:
    """The same for a NIC whose work on a message may be priced as a whole, by ``program_costs``.

    What does not apply is 0.  Errors: ``PlatformError`` naming the costs that the platform does
    not state.
    """
    absent = [
        name
        for name in DELIVERY_COSTS
        if name not in platform.costs and name not in platform.not_applicable
    ]
    if absent:
        raise PlatformError(
            f"platform {platform.name!r} states no {', '.join(absent)}: delivery cannot be "
            "simulated on it; `nicscope platforms` lists those on which it can"
        )
    return {
        name: platform.costs[name].high_ps if name in platform.costs else 0
        for name in DELIVERY_COSTS
    }


def shadow_costs(platform: Platform) -> dict[str, int]:
    """``delivery_costs`` when control messages pass through a shadow buffer in host memory.

    Each costs a pass through the memory, at either end, and crosses the bus in bursts where the
    platform has them.  Source: Trapeze, 2.3.
    """
    costs = delivery_costs(platform)
    memory_pass = CONTROL_BYTES * costs["block_copy_per_byte"]
    for name, burst in BURSTS.items():
        if burst in platform.costs:
            costs[name] = platform.costs[burst].high_ps
    costs["send_call"] += memory_pass
    costs["pio_read"] += memory_pass
    return costs


class ServedBy(StrEnum):
    """Who takes descriptors from a process's queues and gives it what arrives."""

    NIC = "nic"
    KERNEL = "kernel"  # of the host, in a trap of the process and in an interrupt handler


class Way(StrEnum):
    """How descriptors and bytes cross between a host and its NIC."""

    PCI = "pci"  # the NIC's DMA over an I/O bus, as a flow with a rate
    PIO = "pio"  # the processor moves words, uncached
    PIO_COMBINED = "pio-combined"  # the same through write-combining buffers
    DMA = "dma"  # software flushes the caches, the engine sees memory alone
    CC_DMA_RETRY = "cc-dma-retry"  # the engine retries until dirty blocks are written back
    CC_DMA_INTERVENTION = "cc-dma-intervention"  # the cache supplies dirty blocks
    CNI = "cni"  # cacheable queues
    EDT = "edt"  # the NIC reads registered blocks as they are written


class Part(msgspec.Struct, frozen=True):
    """One part: its choices by name, and which one holds where a design says nothing."""

    meaning: str
    choices: tuple[str, ...]
    default: str | None = None
    unsaid: str = "nicscope's default"  # who decides then, or why so


PARTS: dict[str, Part] = {
    "served_by": Part(
        "who serves a process's queues",
        tuple(one.value for one in ServedBy),
        None,
        "the platform: its NIC, unless it runs no firmware",
    ),
    "delivery": Part("when bytes in NIC memory go on", tuple(POLICIES), "adaptive"),
    "transport": Part(
        "whether what is lost comes again", tuple(TRANSPORTS), None, "the interface's own"
    ),
    "way": Part(
        "how bytes cross between host and NIC", tuple(one.value for one in Way), Way.PCI.value
    ),
}


def read_part(key: str, given: Any, where: str) -> str:
    """The choice of part ``key`` that ``given`` names.

    Errors: ``DesignError`` beginning with ``where``, with the nearest name.
    """
    choices = PARTS[key].choices
    if not isinstance(given, str) or given not in choices:
        raise DesignError(f"{where}: no {key} {given!r}{did_you_mean(str(given), choices)}")
    return given
