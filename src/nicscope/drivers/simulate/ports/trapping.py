"""A kernel serves ports whose NIC cannot: in a trap of the process, on its CPU (U-Net/MM 5.2).

The trap ends when there is nothing left to do for the port; a page that is out is waited for in it.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.simulate.cpu import occupy_cpu
from nicscope.drivers.simulate.machine import IN_MISS, IN_TRAP, POSTING
from nicscope.drivers.simulate.ports.calls import end_miss, follow_outcome
from nicscope.drivers.simulate.ports.prices import service_time
from nicscope.kernel.decorators import distant, step
from nicscope.nic.ports.arbitrate import NO_SOURCE, index_of, ready_at_port
from nicscope.nic.ports.calls import serve
from nicscope.nic.ports.controller import demand
from nicscope.nic.ports.layout import FREE_TO_GO, NOTHING_LEFT


@step
def can_go_on_in_trap(machine, n, p):
    """Whether something can be done for port ``p`` now, or nothing is left."""
    endpoint = machine.endpoints[n]
    if ready_at_port(machine, n, p) != NO_SOURCE:
        return endpoint.written - endpoint.finished < endpoint.send_ring
    port = machine.ports.table[n, p]
    if port.open == 0:
        return True
    return port.blocked == FREE_TO_GO and port.busy == 0 and port.taken == port.posted


@step
def begin_in_trap(machine, n, process, now):
    """Have the CPU enter the kernel, do the next thing for the port, or return to the process."""
    serving = machine.ports.nodes[n]
    source = ready_at_port(machine, n, process.peer)
    duration = np.int64(process.duration)
    process.duration = 0
    if duration > 0:
        source = np.int64(NO_SOURCE)
    elif source == NO_SOURCE:
        occupy_cpu(machine, n, now, POSTING, 0)
        return
    else:
        duration = service_time(machine, n, source)
    serving.trap_source = source
    serving.kernel_time += duration
    occupy_cpu(machine, n, now, IN_TRAP, duration)


@distant
def serve_in_trap(machine, n, now):
    """Effect of what the CPU has done in a trap."""
    serving = machine.ports.nodes[n]
    if serving.trap_source == NO_SOURCE:
        return
    others = serving.source
    serving.source = serving.trap_source
    serving.in_trap = 1
    serve(machine, n)
    serving.in_trap = 0
    if serving.outcome != NOTHING_LEFT:
        follow_outcome(machine, n, now)
    else:
        _demand_after_last(machine, n)
    serving.source = others


@distant
def end_miss_in_trap(machine, n, now):
    """The kernel has seen to a miss in a trap, or knows what will: the trap goes on."""
    machine.ports.nodes[n].in_trap = 1
    end_miss(machine, n, now)
    machine.ports.nodes[n].in_trap = 0
    if machine.nodes[n].cpu != IN_MISS:
        _demand_after_last(machine, n)


@step
def _demand_after_last(machine, n):
    """Have the controller look, if the trap finds nothing more for it now: once for all it found.

    A trap that has to wait, for a page or for what makes room, does not keep back what it has put
    on the ring.
    """
    p = index_of(machine.ports.nodes[n].trap_source)
    if ready_at_port(machine, n, p) == NO_SOURCE:
        demand(machine, n)
