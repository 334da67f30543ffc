"""Translation misses: who fetches the translation, and what waits for it.

The processor itself waits for entries that it reads from the host's table and for a kernel that
answers at once; a kernel thread serves the rest, and the port, or the packet's sender, comes again.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.flow import begin
from nicscope.drivers.simulate.ports.calls import begin_fetch as fetch_entries
from nicscope.drivers.simulate.ports.calls import fetch_descriptor, interrupt_cpu, queue_miss
from nicscope.drivers.simulate.ports.state import AWAIT_BUS
from nicscope.drivers.simulate.processor import occupy_cpu
from nicscope.drivers.simulate.records import IN_MISS, KINDS, PCI, PCI_IDLE, PCI_TABLE, PROCESSOR
from nicscope.host.pages import is_table_swapped_out
from nicscope.kernel.decorators import distant, step
from nicscope.memory.paging.layout import COPY, DISK, ZERO
from nicscope.nic.delivery import MISSING
from nicscope.nic.ports import layout
from nicscope.nic.ports.calls import needed_for
from nicscope.nic.translate.book import UNET_MM

# What the processor does when it has waited.
FILL = 1  # the scheme's service takes effect
GO_ON = 2  # and what it unpinned has been paid for
DEFER = 3  # the page is not there: the kernel thread will bring it
FAIL = 4
REST = 6  # nothing: what read entries of regions has gone on


@distant
def serve_miss(machine, n, now):
    """Serves the miss that ended the firmware's action: the processor waits, or a port does."""
    ports = machine.ports
    serving = ports.nodes[n]
    outcome = serving.outcome
    serving.outcome = layout.NOTHING_LEFT
    who = serving.miss_for
    space, page = serving.miss_space, serving.miss_page
    receive, ahead = serving.miss_receive, serving.miss_ahead
    if outcome == layout.DESCRIPTOR_MISS:
        fetch_descriptor(machine, n, now)
        return
    if outcome == layout.REGION_MISS:
        fetch_entries(machine, n, now)
        return
    if outcome == layout.HANDLE_MISS:
        queue_miss(machine, n, who, space, page, receive, ahead, now)
        return
    service = ports.rules[0].service
    if service == layout.NO_ONE:
        _wait(machine, n, now, FAIL, 0)
    elif service == layout.FETCHES:
        if is_table_swapped_out(machine, n, space, page):
            ask_for_table(machine, n, now)
        else:
            fetch_entries(machine, n, now)
    elif service == layout.KERNEL:
        _ask_kernel(machine, n, now, _charged(machine, n))
    else:
        queue_miss(machine, n, who, space, page, receive, ahead, now)
        _wait(machine, n, now, DEFER, 0)


@step
def _charged(machine, n):
    """What of a miss has been charged already, as part of the hit it was looked up for.

    Table 1 of U-Net/MM times a whole miss.  The other papers' misses are charged on top of the
    check that finds them.
    """
    ports = machine.ports
    costs, serving = ports.costs[n], ports.nodes[n]
    if ports.rules[0].scheme != UNET_MM:
        return np.int64(0)
    if serving.miss_ahead == 1:
        return costs.lookup_free
    return costs.lookup_receive if serving.miss_receive == 1 else costs.lookup_send


@distant
def begin_fetch(machine, n, now):
    """Read entries of the host's table, as soon as the bus is free; the processor waits.

    The bus is taken for the DMA's part of the miss (UTLB, Table 2).  Entries of regions that the
    same action has missed are read one after the other, and a page's after them.
    """
    node = machine.nodes[n]
    serving = machine.ports.nodes[n]
    costs = machine.ports.costs[n]
    if node.pci != PCI_IDLE:
        serving.stage = AWAIT_BUS
        serving.missing = 1
        node.task = MISSING
        node.task_since = now
        return
    is_page = serving.miss_for != layout.ABANDONED
    reads = serving.region_reads + np.int64(is_page)
    serving.region_reads = 0
    since = node.task_since if node.task == MISSING else now
    node.processor_busy += now - since
    node.pci = PCI_TABLE
    begin(machine.pci_flows[n], now, reads * costs.table_dma, 0, 1)
    put(machine.agenda, n * KINDS + PCI, now + reads * costs.table_dma)
    _wait(machine, n, now, FILL if is_page else REST, reads * costs.fetch)
    node.task_since = since


@step
def ask_for_table(machine, n, now):
    """Interrupts the host for a second-level table that is on the disk (UTLB 3.3)."""
    ports = machine.ports
    serving = ports.nodes[n]
    costs = ports.costs[n]
    _interrupt(machine, n, costs.interrupt, now)
    queue_miss(
        machine,
        n,
        serving.miss_for,
        serving.miss_space,
        serving.miss_page,
        serving.miss_receive,
        serving.miss_ahead,
        now + costs.interrupt,
    )
    _wait(machine, n, now, DEFER, costs.interrupt)


@step
def _ask_kernel(machine, n, now, spent):
    """The kernel answers, in the NIC's interrupt or in a trap, or says that the page is to come."""
    ports = machine.ports
    serving = ports.nodes[n]
    costs = ports.costs[n]
    receive = serving.miss_receive
    needed = needed_for(machine, n, serving.miss_space, serving.miss_page, receive)
    asking = max(np.int64(0), costs.handshake + costs.interrupt - spent)
    if needed == DISK and (ports.rules[0].fresh == 0 or serving.miss_ahead == 0):
        _interrupt(machine, n, costs.interrupt, now)
        queue_miss(
            machine,
            n,
            serving.miss_for,
            serving.miss_space,
            serving.miss_page,
            receive,
            serving.miss_ahead,
            now + asking,
        )
        _wait(machine, n, now, DEFER, asking)
        return
    if needed < 0:
        _interrupt(machine, n, costs.interrupt, now)
        _wait(machine, n, now, FAIL, asking)
        return
    work = costs.pin_receive if receive == 1 else costs.pin_send
    if needed == COPY:
        work = costs.pin_shared
    elif needed in (ZERO, DISK):
        work = costs.zero
    _interrupt(machine, n, costs.interrupt + work, now)
    asking = costs.handshake + costs.interrupt + work - spent
    _wait(machine, n, now, FILL, max(np.int64(0), asking))


@step
def _interrupt(machine, n, duration, now):
    """The NIC interrupts its host for a miss, whose handler takes ``duration`` of the CPU.

    Not where the kernel serves ports: it misses in a trap, on the CPU (U-Net/MM, 5.2.1).
    """
    if machine.ports.rules[0].serves == 1:
        machine.ports.nodes[n].interrupts += 1
        interrupt_cpu(machine, n, duration, now)


@step
def _wait(machine, n, now, stage, duration):
    node = machine.nodes[n]
    machine.ports.nodes[n].stage = stage
    machine.ports.nodes[n].miss_time += duration
    if machine.ports.rules[0].serves == 0:
        machine.ports.nodes[n].kernel_time += duration
        node.cpu_since = now
        occupy_cpu(machine, n, now, IN_MISS, duration)
        return
    machine.ports.nodes[n].missing = 1
    node.task = MISSING
    node.task_since = now
    node.processor_busy += duration
    put(machine.agenda, n * KINDS + PROCESSOR, now + duration)


@step
def wait_on(machine, n, now, duration):
    """Has the processor wait ``duration`` longer, for pages that are unpinned."""
    _wait(machine, n, now, GO_ON, duration)
