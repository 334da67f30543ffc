"""The split-transaction bus: an address part and a data part, each used by one at a time.

A transaction asks for the bus, is granted the address part after arbitration, on an edge of the
bus clock, and is *ordered* when its snoop is over: what it does to states and bytes happens then.
Its data phase follows when the data are ready and the data part is free, in the order of the
address phases.  Masters are served as they ask; see ``docs/coherence.md``.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import step

MB = 1_000_000  # a byte takes that many ps at 1 MB/s
POINTS = 8  # of the background master's cycle
ORDER = 5  # has no divisor in common with them: all are met


@step
def edge(host, when):
    """The first edge of the bus clock at or after ``when`` (ps)."""
    cycle = host.config[0].bus_cycle
    return (when + cycle - 1) // cycle * cycle


@step
def ordered_at(host, asks):
    """When a transaction that asks for the bus at ``asks`` would be ordered (ps)."""
    config = host.config[0]
    cycle = config.bus_cycle
    start = max(edge(host, asks + config.arbitration * cycle), host.registers[0].address_free)
    return start + (config.address_phase + config.snoop) * cycle


@step
def order(host, master, kind, ordered):
    """Count a transaction that is ordered at ``ordered`` (ps); the address part was its."""
    config = host.config[0]
    registers = host.registers[0]
    registers.address_free = ordered - config.snoop * config.bus_cycle
    registers.address_busy += config.address_phase * config.bus_cycle
    host.counts[master, kind] += 1


@step
def data_phase(host, ready, count, mbytes_s):
    """When the last of ``count`` bytes that are ready at ``ready`` has crossed (ps).

    A device that is slower than the bus (``mbytes_s``, 0 for one that is not) holds the data part
    for as long as it takes.
    """
    config = host.config[0]
    registers = host.registers[0]
    beats = (count + config.bus_bytes - 1) // config.bus_bytes
    taken = beats * config.bus_cycle
    if mbytes_s > 0:
        taken = max(taken, edge(host, (count * MB + mbytes_s - 1) // mbytes_s))
    start = max(edge(host, ready), registers.data_free)
    registers.data_free = start + taken
    registers.data_busy += taken
    return start + taken


@step
def burst_left(host, number):
    """How long (ps) the background master's burst still lasts when an engine's operation begins.

    Bursts are held to their end.  When operations begin has nothing to do with them: the
    ``number``-th finds their cycle at one of eight points, in a fixed order.  Eight operations meet
    them all; of operations in pairs the first and the second ones do, within sixteen.
    """
    config = host.config[0]
    if config.background_percent == 0:
        return np.int64(0)
    beats = (config.background_bytes + config.bus_bytes - 1) // config.bus_bytes
    burst = beats * config.bus_cycle
    cycle = burst * 100 // config.background_percent
    point = (number + number // POINTS) * ORDER % POINTS
    return max(np.int64(0), burst - cycle * (2 * point + 1) // (2 * POINTS))
