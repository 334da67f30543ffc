"""A kernel's interrupt handler: it takes what has come in, where the NIC cannot (U-Net/MM 5.2).

The controller has put the packets into the kernel's own buffers, in the order of its ring.  The
handler runs at once, whatever the CPU does, and that takes so much longer.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.simulate.agenda import NEVER, put
from nicscope.drivers.simulate.machine import KINDS, TIMER
from nicscope.drivers.simulate.ports.calls import complete_arrival, steal_cpu
from nicscope.drivers.simulate.ports.durations import handler_duration
from nicscope.kernel.decorators import distant, step


@distant
def begin_handler(machine, n, now):
    """A packet is in the kernel's memory: interrupt, unless the handler runs."""
    serving = machine.ports.nodes[n]
    if serving.handler_at == NEVER:
        serving.interrupts += 1
        _take_next(machine, n, now, np.int64(machine.ports.costs[n].interrupt_entry))


@step
def _take_next(machine, n, now, entry):
    serving = machine.ports.nodes[n]
    slot = serving.taken_in % machine.endpoints[n].receive_ring
    duration = entry + handler_duration(machine, n, slot)
    serving.kernel_time += duration
    steal_cpu(machine, n, duration, now)
    serving.handler_at = now + duration
    timer = n * KINDS + TIMER
    if serving.handler_at < machine.agenda.times[timer]:
        put(machine.agenda, timer, serving.handler_at)


@distant
def end_handler(machine, n, now):
    """Effect of the handler's work on one packet, if that has ended; it goes on to the next."""
    serving = machine.ports.nodes[n]
    if serving.handler_at > now:
        return
    endpoint = machine.endpoints[n]
    serving.handler_at = NEVER
    complete_arrival(machine, n, serving.taken_in % endpoint.receive_ring, now)
    endpoint.dropped += 1
    serving.taken_in += 1
    if serving.taken_in < endpoint.completed:
        _take_next(machine, n, now, np.int64(0))
