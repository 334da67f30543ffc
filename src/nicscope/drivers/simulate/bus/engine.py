"""The NIC's engine at the other end of a cacheable queue, while a process's CPU is at this one.

It is the same engine that moves packets, so the queue holds one message's bytes at a time.
"""

from __future__ import annotations

import numpy as np

from nicscope.clock import NEVER
from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.bus.calls import tell_of_engine
from nicscope.drivers.simulate.bus.state import AWAITING_ENGINE, RESTING
from nicscope.drivers.simulate.machine import CPU, KINDS, PCI_IDLE
from nicscope.drivers.simulate.ports.calls import begin_fetch
from nicscope.drivers.simulate.ports.state import AWAIT_BUS
from nicscope.kernel.decorators import step
from nicscope.memory.coherence.access import LOAD, WINDOW, begin_access
from nicscope.memory.coherence.asks import ENGINE_IN, ENGINE_OUT, PROCESSOR
from nicscope.nic.delivery import HOST_RCV, HOST_TX
from nicscope.nic.ways.state import NO_CALL


@step
def is_engine_free(machine, n):
    """Whether the engine moves nothing, and the firmware does not set it to something already."""
    node = machine.nodes[n]
    return node.pci == PCI_IDLE and node.task != HOST_TX and node.task != HOST_RCV


@step
def await_engine(machine, n):
    """Have the CPU, amid an errand, look again when the engine is free."""
    zero = np.int64(0)
    begin_access(machine.bus.ways.access[n, 0], LOAD, zero, zero, zero, WINDOW)
    machine.bus.ways.moves[n, PROCESSOR].call = NO_CALL
    machine.bus.timing[n, PROCESSOR].state = AWAITING_ENGINE
    put(machine.agenda, n * KINDS + CPU, NEVER)


@step
def leave_engine(machine, n, now):
    """One end of the queue is done: when both are, the engine is free."""
    timing = machine.bus.timing
    is_done = timing[n, ENGINE_OUT].state == RESTING and timing[n, ENGINE_IN].state == RESTING
    if machine.bus.errands[n].moving == 1 or not is_done:
        return
    machine.nodes[n].pci = PCI_IDLE
    if machine.ports.nodes[n].stage == AWAIT_BUS:
        begin_fetch(machine, n, now)
    tell_of_engine(machine, n, now)
