"""Misses: who brings the translation, and what waits for it.

The processor itself waits for entries that it reads from the host's table and for a kernel that
answers at once; a kernel thread serves the rest, and the port, or the packet's sender, comes again.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.cpu import occupy_cpu
from nicscope.drivers.simulate.machine import IN_MISS, KINDS, PROCESSOR
from nicscope.drivers.simulate.ports.calls import needed_for, raise_event, steal_cpu
from nicscope.drivers.simulate.ports.state import FETCHES, KERNEL, NO_ONE
from nicscope.jit import distant, step
from nicscope.memory.paging.layout import COPY, DISK, ZERO
from nicscope.nic.delivery import MISSING

ARRIVAL = -2  # in place of a port: the packet whose place is looked for

# What the processor does when it has waited.
FILL = 1  # the scheme's service takes effect
GO_ON = 2  # and what it unpinned has been paid for
DEFER = 3  # the page is not there: the kernel thread will bring it
FAIL = 4


@distant
def begin_miss(machine, n, who, space, page, receive, ahead, now):
    """Have the miss of ``page`` served; the processor waits, or ``who`` does."""
    ports = machine.ports
    serving = ports.nodes[n]
    costs = ports.costs[n]
    serving.miss_for = who
    serving.miss_space = space
    serving.miss_page = page
    serving.miss_receive = receive
    serving.miss_ahead = ahead
    # A miss is charged instead of the hit that the lookup was begun for (docs/programs.md).
    spent = costs.lookup_send
    if ahead == 1:
        spent = costs.lookup_free
    elif receive == 1:
        spent = costs.lookup_receive
    service = ports.rules[0].service
    if service == NO_ONE:
        _wait(machine, n, now, FAIL, 0)
    elif service == FETCHES:
        _wait(machine, n, now, FILL, max(np.int64(0), costs.fetch - spent))
    elif service == KERNEL:
        _ask_kernel(machine, n, now, spent)
    else:
        raise_event(machine, n, who, space, page, receive, ahead, now)
        _wait(machine, n, now, DEFER, 0)


@step
def _ask_kernel(machine, n, now, spent):
    """The NIC interrupts; the handler answers, or says that the page has to be brought first."""
    ports = machine.ports
    serving = ports.nodes[n]
    costs = ports.costs[n]
    receive = serving.miss_receive
    needed = needed_for(machine, n, serving.miss_space, serving.miss_page, receive)
    asking = max(np.int64(0), costs.handshake + costs.interrupt - spent)
    serving.interrupts += 1
    if needed == DISK and (ports.rules[0].fresh == 0 or receive == 0):
        if ports.rules[0].serves == 1:
            steal_cpu(machine, n, costs.interrupt, now)
        raise_event(
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
        if ports.rules[0].serves == 1:
            steal_cpu(machine, n, costs.interrupt, now)
        _wait(machine, n, now, FAIL, asking)
        return
    work = costs.pin_receive if receive == 1 else costs.pin_send
    if needed == COPY:
        work = costs.pin_shared
    elif needed in (ZERO, DISK):
        work = costs.zero
    if ports.rules[0].serves == 1:
        steal_cpu(machine, n, costs.interrupt + work, now)
    asking = costs.handshake + costs.interrupt + work - spent
    _wait(machine, n, now, FILL, max(np.int64(0), asking))


@step
def _wait(machine, n, now, stage, duration):
    node = machine.nodes[n]
    machine.ports.nodes[n].stage = stage
    machine.ports.nodes[n].miss_time += duration
    if machine.ports.rules[0].serves == 0:
        machine.ports.nodes[n].kernel_time += duration
        occupy_cpu(machine, n, now, IN_MISS, duration)
        return
    node.task = MISSING
    node.task_since = now
    node.processor_busy += duration
    put(machine.agenda, n * KINDS + PROCESSOR, now + duration)


@step
def wait_on(machine, n, now, duration):
    """The processor waits ``duration`` longer, for pages that are unpinned."""
    _wait(machine, n, now, GO_ON, duration)
