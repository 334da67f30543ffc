"""What happened when: one record per transfer, action and host operation."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Engine(IntEnum):
    """Who was busy; the four bands of a packet flow graph are HOST_TX to HOST_RCV."""

    HOST_WRITE = 0  # CPU: send call and PIO to the send ring
    HOST_TX = 1  # PCI: host memory to NIC
    NET_TX = 2
    NET_RCV = 3
    HOST_RCV = 4  # PCI: NIC to host memory
    HOST_READ = 5  # CPU: PIO from the receive ring
    FIRMWARE = 6  # the NIC's processor
    CPU = 7  # whatever else it does for programs, or in its kernel
    TABLE = 8  # PCI: the NIC reads entries of its host's translation table
    DESCRIPTOR = 9  # the NIC reads a descriptor in its host's memory
    REPORT = 10  # the NIC's write of a completion, where it is at its host's bus


class Task(IntEnum):
    """What the firmware can do, in the order in which it looks (docs/virtual-time.md)."""

    POST_CONTROL = 0
    POST_PAYLOAD = 1
    HOST_RCV = 2
    COMPLETE = 3
    NET_TX = 4
    FINISH = 5
    HOST_TX = 6
    SERVE = 7
    MISSING = 8


# Times in ps.  ``packet`` counts from 0 per sender; -1 where the firmware acts for no packet yet
# (a receive of a control message is posted before it is known whose).
LOG = np.dtype(
    [
        ("packet", "i8"),
        ("sender", "i8"),  # of a CPU record: the process that it worked for, or -1
        ("node", "i8"),  # where it happened
        ("engine", "i8"),  # Engine
        ("task", "i8"),  # Task of a FIRMWARE record; what a CPU did (``machine``); else -1
        ("control", "i8"),  # 1: the control message; 0: the payload
        ("start", "i8"),
        ("end", "i8"),
        ("bytes", "i8"),
        ("lookup", "i8"),  # ps of a FIRMWARE record, its last, in which pages were looked up
    ],
    align=True,
)

# One per message, in order of ``read`` (or of being dropped), ties by node.
MESSAGE = np.dtype(
    [
        ("sender", "i8"),
        ("packet", "i8"),
        ("destination", "i8"),
        ("payload", "i8"),  # bytes
        ("posted", "i8"),  # ps: start of the send call
        ("read", "i8"),  # ps: end of pio_read; -1: aborted by the watchdog
    ],
    align=True,
)
