"""All state of a simulation: arrays with one record per node, and those of the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.config.delivery import DELIVERY_COSTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.drivers.simulate.agenda import Agenda
    from nicscope.fabric.paths import Paths

# Kinds of pending things; their order is that of equal times (docs/virtual-time.md, Order).
SEND_READY = 0
RECEIVE_READY = 1
CPU = 2
PCI = 3
LINK = 4
PROCESSOR = 5
WATCHDOG = 6
KINDS = 8  # a power of two

# What a CPU does.
IDLE = 0
CALLING = 1
WRITING = 2
READING = 3
COPYING = 4

# What a PCI engine does.
PCI_IDLE = 0
PCI_READS = 1  # hostTx
PCI_WRITES = 2  # hostRcv

# What a link transmit engine does.
LINK_IDLE = 0
STARTING = 1
QUEUED = 2  # for a link of its path
HEADING = 3  # the packet's head is on its way
STALLED = 4  # the receiver has posted no receive
FLOWING = 5

COSTS = np.dtype([(name, "i8") for name in DELIVERY_COSTS], align=True)

NODE = np.dtype(
    [
        ("task", "i8"),  # the firmware's, or NO_TASK
        ("task_since", "i8"),
        ("task_packet", "i8"),  # the packet that the task was begun for, as its side counts
        ("cpu", "i8"),
        ("cpu_since", "i8"),
        ("pci", "i8"),
        ("fetching", "i8"),  # the packet that hostTx is moving, or -1
        ("link", "i8"),
        ("link_control", "i8"),  # 1: netTx moves a control message
        ("link_begun", "i8"),
        ("link_bytes", "i8"),
        ("receive_begun", "i8"),  # when netRcv was posted
        ("source", "i8"),  # whose packet has a whole path to this node, or -1
        # script
        ("run", "i8"),
        ("last_run", "i8"),
        ("run_left", "i8"),
        ("not_before", "i8"),
        ("next_number", "i8"),
        # for the observer
        ("aborted", "i8"),
        ("received", "i8"),
        ("received_bytes", "i8"),
        ("latency_sum", "i8"),
        ("latency_max", "i8"),
        ("first_read", "i8"),
        ("last_read", "i8"),
        ("pci_busy", "i8"),  # ps
        ("link_busy", "i8"),
        ("processor_busy", "i8"),
        ("cpu_busy", "i8"),
    ],
    align=True,
)

RUN = np.dtype(
    [("destination", "i8"), ("payload", "i8"), ("count", "i8"), ("gap", "i8")], align=True
)

TALLY = np.dtype([("messages", "i8"), ("log", "i8"), ("events", "i8"), ("now", "i8")], align=True)


class Machine(NamedTuple):
    """One cluster."""

    tally: NDArray[Any]  # TALLY, shape (1,)
    agenda: Agenda  # KINDS slots per node
    costs: NDArray[Any]  # COSTS, shape (nodes,)
    nodes: NDArray[Any]  # NODE, shape (nodes,)
    endpoints: NDArray[Any]  # ENDPOINT, shape (nodes,): the NICs' firmware state
    pci_flows: NDArray[Any]  # FLOW, shape (nodes,)
    link_flows: NDArray[Any]  # FLOW, shape (nodes,), by sender
    copy_flows: NDArray[Any]  # FLOW, shape (nodes,)
    sends: NDArray[Any]  # PACKET, shape (nodes, send_ring)
    arrivals: NDArray[Any]  # PACKET, shape (nodes, receive_ring): accepted, not yet completed
    inboxes: NDArray[Any]  # PACKET, shape (nodes, receive_ring): what the host sees
    paths: Paths
    runs: NDArray[Any]  # RUN, by sender
    messages: NDArray[Any]  # MESSAGE; as many as are kept
    log: NDArray[Any]  # LOG; as many as are kept
