"""Where the time of a node goes that serves one request after the other: parts that add up.

At every moment several engines may run.  The moment is counted once, for the first of these that
applies: the library on the CPU, a miss being served, the processor (a lookup, or its queues), the
PCI, the network, the peer, nobody.
"""

from __future__ import annotations

from nicscope.drivers.simulate.machine import IDLE, INTERRUPTED, LINK_IDLE, PCI_IDLE
from nicscope.kernel.decorators import routine, step
from nicscope.nic.delivery import MISSING, NO_TASK, POST_PAYLOAD, SERVE

LIBRARY = 0  # on the CPU: posts, checks, pins, polls, copies
LOOKUP = 1  # a translation is looked up
MISS = 2  # a translation is on its way
QUEUES = 3  # the processor minds descriptors, packets, reports
DMA = 4  # bytes cross the node's PCI, and it has nothing else to wait for
NETWORK = 5
PEER = 6  # the other NIC works
WAITING = 7  # for a time-out, or for the time of the next request
ACCOUNTS = 8
ACCOUNT_NAMES = ("library", "lookup", "miss", "queues", "dma", "network", "peer", "waiting")


@routine
def part_time(machine, since, now):
    """Add the time from ``since`` to ``now``, in which nothing happened, to its account."""
    spent = now - since
    if spent == 0:
        return
    node = machine.nodes[0]
    looking = machine.ports.nodes[0]
    if _works(node.cpu) or _works(node.other):
        machine.account[LIBRARY] += spent
        if node.task in (SERVE, POST_PAYLOAD):
            looking.looking -= min(spent, looking.looking)
    elif node.task == MISSING or looking.thread != 0:
        machine.account[MISS] += spent
    elif node.task in (SERVE, POST_PAYLOAD):
        lookup = min(spent, looking.looking)
        looking.looking -= lookup
        machine.account[LOOKUP] += lookup
        machine.account[QUEUES] += spent - lookup
    elif node.task != NO_TASK:
        machine.account[QUEUES] += spent
    elif node.pci != PCI_IDLE:
        machine.account[DMA] += spent
    else:
        machine.account[_elsewhere(machine)] += spent


@step
def _works(doing):
    return doing != IDLE and doing != INTERRUPTED


@step
def _elsewhere(machine):
    busy = WAITING
    for n in range(machine.nodes.size):
        node = machine.nodes[n]
        if node.link != LINK_IDLE:
            return NETWORK
        if node.task != NO_TASK or node.pci != PCI_IDLE:
            busy = PEER
    return busy
