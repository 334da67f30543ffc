"""The NIC's engine fetches descriptors from its host's memory, and whoever waits for it takes it.

A send's is fetched before it is served, while the NIC's processor does other things.  A receive's
is on the NIC with its doorbell, and so is any that the CPU moves there itself.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.bus.descriptors import stretch_of
from nicscope.drivers.simulate.bus.engine import is_engine_free
from nicscope.drivers.simulate.bus.moving import start_move
from nicscope.drivers.simulate.bus.state import AWAITING_ENGINE
from nicscope.drivers.simulate.bus.stretches import OUT
from nicscope.drivers.simulate.flow import begin
from nicscope.drivers.simulate.machine import CPU, KINDS, PCI_DESCRIPTOR
from nicscope.kernel.decorators import distant, step
from nicscope.memory.coherence.asks import ENGINE_OUT, PROCESSOR
from nicscope.nic.ports.arbitrate import next_token
from nicscope.nic.ports.layout import NOBODY
from nicscope.nic.ports.tokens import bytes_of
from nicscope.nic.ways.state import FETCH


@distant
def tell_of_engine(machine, n, now):
    """The engine may be free: a descriptor that is to be fetched has it, or a CPU that waits."""
    if not is_engine_free(machine, n):
        return
    if machine.ports.rules[0].fetches == 1:
        _fetch(machine, n, now)
    waits = machine.bus.timing[n, PROCESSOR].state == AWAITING_ENGINE
    if waits and is_engine_free(machine, n):
        put(machine.agenda, n * KINDS + CPU, now)


@distant
def bring_descriptor(machine, n, now):
    """Have the engine, when free, fetch the descriptor of the port in ``SERVING.bringing``."""
    if is_engine_free(machine, n):
        _fetch(machine, n, now)


@step
def _fetch(machine, n, now):
    """Begin with the next part of the descriptor that the NIC wants, if it wants one."""
    serving = machine.ports.nodes[n]
    if serving.bringing == NOBODY:
        return
    p = np.int64(serving.bringing)
    token = _wanted_token(machine, n)
    most = bytes_of(token)
    physical, size = np.int64(OUT), np.int64(0)
    if serving.brought < most:
        physical, size = stretch_of(machine, n, p, token, serving.brought, most)
    if physical == OUT:  # all is there, or what was posted has ended meanwhile
        _end(machine, n)
        return
    machine.nodes[n].pci = PCI_DESCRIPTOR
    begin(machine.pci_flows[n], now, 0, size, 1)  # for the log
    rules = machine.bus.rules[n]
    place = rules.descriptor + serving.brought
    serving.brought += size
    start_move(machine, n, ENGINE_OUT, rules.way, FETCH, physical, place, size, now)


@step
def _wanted_token(machine, n):
    """Which descriptor the NIC fetches, or 0: it has ended meanwhile, with its connection.

    Its port may have the next one posted already, which is another.
    """
    serving = machine.ports.nodes[n]
    p = np.int64(serving.bringing)
    if machine.ports.table[n, p].taken != serving.wanted:
        return np.int64(0)
    return next_token(machine.ports, n, p)


@step
def _end(machine, n):
    """The descriptor is on the NIC, or is not wanted there any more."""
    serving = machine.ports.nodes[n]
    if _wanted_token(machine, n) != 0:
        place = serving.wanted % machine.ports.rules[0].ring
        machine.ports.work.tokens[n, serving.bringing, place] = 0
    serving.bringing = NOBODY
    serving.brought = 0
    serving.attention = 1


@distant
def take_descriptor(machine, n):
    """The descriptor that the NIC of ``n`` fetches has come, or a part of it."""
    if machine.ports.nodes[n].brought >= bytes_of(_wanted_token(machine, n)):
        _end(machine, n)
