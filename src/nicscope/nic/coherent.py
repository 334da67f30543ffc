"""A coherent network interface's own parts: tags, packet table, queues (``docs/coherence.md``)."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.kernel.records import records

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


SEND = 0
RECEIVE = 1
QUEUES = 2
POINTER_BLOCKS = 4  # send tail and head, receive tail and head

NOWHERE = -1

VALID = 4  # state of a block that holds new bytes from the network (DMA-like receive)

# Values of ``receive_method``, ``initialisation`` and ``when_full`` that are asked for.
COHERENT_METHOD = 1  # else like DMA
BY_READING = 2  # else by flushing
FALL_BACK = 1  # else postpone

# What an interface is like: times in ps, sizes in bytes.
NIC_PARAMETERS = (
    "memory_bytes",
    "staging_bytes",
    "dma_mbytes_s",
    "dma_window",
    "dma_init",
    "dma_interrupt",
    "reaction",
    "read_window",
    "doorbell_bytes",
    "receive_method",
    "initialisation",
    "when_full",
    "pinned_bytes_max",
    "queue_blocks",
    "queue_poll",
    "lazy_pointers",
    "valid_bits",
    "sense_reverse",
)

WINDOW = 8  # the most transfers that a DMA engine may have under way


CONFIG = np.dtype(
    [(name, "i8") for name in NIC_PARAMETERS]
    + [
        ("queue_start", "i8"),  # byte of NIC memory where the queues begin
        ("buffer_start", "i8"),  # where buffers of regions begin
        ("queue_address", "i8"),  # of the host, likewise
        ("block", "i8"),  # bytes
    ],
    align=True,
)

TAG = np.dtype(
    [
        ("valid", "i8"),  # A: 1 if the tag is in use
        ("host_start", "i8"),  # SHA
        ("host_end", "i8"),  # EHA, the first byte behind
        ("nic_start", "i8"),  # SNA
        ("nic_end", "i8"),  # ENA
        ("users", "i8"),  # registrations that have not been taken back
        ("used", "i8"),  # registers.clock at the last registration or its end
        ("receive", "i8"),  # of what waits for a receive: that receive's serial number
    ],
    align=True,
)

QUEUE = np.dtype(
    [
        ("tail", "i8"),  # entries written so far
        ("head", "i8"),  # entries consumed so far, as the consumer counts
        ("shadow", "i8"),  # head as the producer last saw it
        ("credit", "i8"),  # entries that the producer may write before it looks again
        ("seen_tail", "i8"),  # tail as the consumer last saw it (without valid bits)
        ("head_checks", "i8"),
    ],
    align=True,
)

REGISTERS = np.dtype(
    [
        ("clock", "i8"),
        ("pinned", "i8"),  # bytes registered or kept
        ("token", "i8"),  # in the doorbell
        ("doorbells", "i8"),
        ("assembled", "i8"),  # bytes taken out of the send queue, and fetched, so far
        ("fetched", "i8"),
        ("taken", "i8"),  # bytes of the message that arrives that the host has copied out already
        ("registrations", "i8"),
        ("releases", "i8"),
        ("fallbacks", "i8"),
    ],
    align=True,
)


class Interface(NamedTuple):
    """One interface; of several, each array has one more axis in front."""

    config: NDArray[Any]  # CONFIG, shape (1,)
    registers: NDArray[Any]  # REGISTERS, shape (1,)
    tags: NDArray[Any]  # TAG
    queues: NDArray[Any]  # QUEUE, shape (QUEUES,)
    scratch: NDArray[np.uint8]  # one block, being put together
    assembly: NDArray[np.uint8]  # ring of bytes taken out of the send queue


def nic_settings(given: Mapping[str, int]) -> dict[str, int]:
    """Every parameter's value.  Errors: ValueError for one that is wrong, or is not given."""
    for name in given:
        if name not in NIC_PARAMETERS:
            raise ValueError(f"no parameter {name!r} of a coherent interface")
    for name in NIC_PARAMETERS:
        if name not in given:
            raise ValueError(f"a coherent interface needs {name}")
    values = dict(given)
    for name in ("dma_window", "read_window"):
        if not 1 <= values[name] <= WINDOW:
            raise ValueError(f"{name} must be from 1 to {WINDOW}, got {values[name]!r}")
    for name in ("receive_method", "initialisation", "when_full"):
        if values[name] not in (1, 2):
            raise ValueError(f"{name} must be 1 or 2, got {values[name]!r}")
    for name in ("lazy_pointers", "valid_bits", "sense_reverse"):
        if values[name] not in (0, 1):
            raise ValueError(f"{name} must be 0 or 1, got {values[name]!r}")
    for name in ("dma_mbytes_s", "doorbell_bytes", "memory_bytes", "staging_bytes"):
        if values[name] < 1:
            raise ValueError(f"{name} must be at least 1, got {values[name]!r}")
    if values["queue_blocks"] < 2 or values["queue_blocks"] % 2:
        raise ValueError(f"queue_blocks must be even, at least 2, got {values['queue_blocks']!r}")
    for name, value in values.items():
        if value < 0:
            raise ValueError(f"{name} must not be negative, got {value!r}")
    return values


def queue_bytes(given: Mapping[str, int], block: int) -> int:
    """What the cacheable queues of an interface and their pointers take, on either side."""
    return (QUEUES * given["queue_blocks"] + POINTER_BLOCKS) * block


def new_interfaces(
    nodes: int, given: Mapping[str, int], block: int, host_bytes: int, tags: int
) -> Interface:
    """``nodes`` equal interfaces with nothing registered; Errors: ValueError."""
    values = nic_settings(given)
    queues = queue_bytes(values, block)
    staging = -(-values["staging_bytes"] // block) * block
    if staging + queues > values["memory_bytes"] or queues > host_bytes:
        raise ValueError(
            f"memory_bytes has no room for staging and queues, got {values['memory_bytes']!r}"
        )
    config = records((nodes, 1), CONFIG)
    for name, value in values.items():
        config[name] = value
    config["queue_start"] = staging
    config["buffer_start"] = staging + queues
    config["queue_address"] = host_bytes - queues
    config["block"] = block
    return Interface(
        config=config,
        registers=records((nodes, 1), REGISTERS),
        tags=records((nodes, tags), TAG),
        queues=records((nodes, QUEUES), QUEUE),
        scratch=np.zeros((nodes, block), np.uint8),
        assembly=np.zeros((nodes, staging), np.uint8),
    )


class Mechanism(IntEnum):
    """In the order of appearance in EDT, 1 and 2."""

    PIO = 0  # the processor moves words, uncached
    PIO_COMBINED = 1  # the same through write-combining buffers
    DMA = 2  # software flushes the cache, the engine sees memory alone
    DMA_RETRY = 3  # the engine retries until dirty blocks are written back
    DMA_INTERVENTION = 4  # the cache supplies dirty blocks
    CNI = 5  # cacheable queues
    EDT = 6  # the NIC reads registered blocks as they are written


NAMES = {
    "pio": Mechanism.PIO,
    "pio-combined": Mechanism.PIO_COMBINED,
    "dma": Mechanism.DMA,
    "cc-dma-retry": Mechanism.DMA_RETRY,
    "cc-dma-intervention": Mechanism.DMA_INTERVENTION,
    "cni": Mechanism.CNI,
    "edt": Mechanism.EDT,
}
# Those that move a message's bytes by the processor, between its memory and buffers on the NIC.
BY_PROCESSOR = (Mechanism.PIO, Mechanism.PIO_COMBINED, Mechanism.CNI)
# Where the host's CPU has a part in what the NIC begins, which takes an interrupt if no process
# has done it before.
HELPED_BY_HOST = (*BY_PROCESSOR, Mechanism.DMA)


WORD = 4  # bytes: of an entry's last word, and of a pointer
BYTE = 8  # bits


@step
def payload_bytes(interface):
    """Bytes of a message in an entry."""
    return interface.config[0].block - WORD


@step
def entry_place(interface, queue, count):
    """Where the entry is into which the ``count``-th block goes, from the start of the queues."""
    blocks = interface.config[0].queue_blocks
    return (queue * blocks + count % blocks) * interface.config[0].block


@step
def pointer_place(interface, queue, is_head):
    """Where the pointer is, likewise."""
    config = interface.config[0]
    return (2 * config.queue_blocks + 2 * queue + is_head) * config.block


@step
def sense_of(interface, count):
    """The sense of the ``count``-th entry: 1 in the first pass, whose blocks begin as zeros."""
    if interface.config[0].sense_reverse == 0:
        return np.int64(1)
    return 1 - ((count // interface.config[0].queue_blocks) & 1)


@step
def credit_of(interface, queue):
    """Entries that the producer may write, given its copy of the head.

    With lazy pointers at most half the queue, so that it looks twice in a pass while no more than
    half is full; without them one.
    """
    config = interface.config[0]
    state = interface.queues[queue]
    free = config.queue_blocks - (state.tail - state.shadow)
    return min(free, config.queue_blocks // 2 if config.lazy_pointers != 0 else np.int64(1))


@step
def put_word(target, place, value):
    """Store ``value`` as the four bytes of a word, the lowest first."""
    for i in range(WORD):
        target[place + i] = (value >> (BYTE * i)) & 255


@step
def get_word(source, place):
    """The word at ``place``."""
    value = np.int64(0)
    for i in range(WORD):
        value |= np.int64(source[place + i]) << (BYTE * i)
    return value


@step
def tag_covering(interface, start, end):
    """The tag whose region holds all of ``start`` up to ``end``, or ``NOWHERE``."""
    found = np.int64(NOWHERE)
    for t in range(interface.tags.size):
        tag = interface.tags[t]
        if tag.valid != 0 and tag.host_start <= start and end <= tag.host_end:
            found = np.int64(t)
    return found


@step
def free_tag(interface):
    """A tag that is not in use, or ``NOWHERE``."""
    for t in range(interface.tags.size):
        if interface.tags[t].valid == 0:
            return np.int64(t)
    return np.int64(NOWHERE)


@step
def find_buffer_space(interface, count):
    """The lowest place in NIC memory for a buffer of ``count`` bytes, or ``NOWHERE``."""
    start = interface.config[0].buffer_start
    while start + count <= interface.config[0].memory_bytes:
        behind = start
        for t in range(interface.tags.size):
            tag = interface.tags[t]
            if tag.valid != 0 and tag.nic_start < start + count and start < tag.nic_end:
                behind = max(behind, tag.nic_end)
        if behind == start:
            return start
        start = behind
    return np.int64(NOWHERE)


@step
def use_tag(interface, t, change):
    """Add ``change`` users to tag ``t``."""
    interface.registers[0].clock += 1
    interface.tags[t].users += change
    interface.tags[t].used = interface.registers[0].clock


@step
def set_tag(interface, t, start, end, place):
    """Make ``t`` the tag of the region ``start`` up to ``end``, its buffer at ``place``."""
    tag = interface.tags[t]
    tag.valid = 1
    tag.host_start = start
    tag.host_end = end
    tag.nic_start = place
    tag.nic_end = place + (end - start)
    tag.users = 0
    interface.registers[0].pinned += end - start


@step
def clear_tag(interface, t):
    """Free tag ``t``."""
    tag = interface.tags[t]
    interface.registers[0].pinned -= tag.host_end - tag.host_start
    tag.valid = 0
