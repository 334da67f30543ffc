"""The parts of a design beside its translation: who serves, delivery, transport, and the way.

A design file, ``--set`` and the JSON of a design name them as ``PARTS`` does.  What can run with
what is told by ``nicscope.interfaces.ways``; see ``docs/ways.md``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from nicscope.config.delivery import POLICIES, TRANSPORTS
from nicscope.errors import DesignError, did_you_mean


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
