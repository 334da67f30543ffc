"""A NIC at the bus writes completions to host memory, where the polling CPU reads them.

A process sees a report when the transaction that brings it has ended, and in the order in which
they were made.
"""

import numpy as np

from nicscope.drivers.simulate.bus.moves import start_move
from nicscope.drivers.simulate.observe import REPORT as REPORTED
from nicscope.drivers.simulate.observe import log_transfer
from nicscope.kernel.decorators import distant, routine, step
from nicscope.memory.coherence.bus import REPORT as MASTER
from nicscope.nic.ports.layout import REPORT
from nicscope.nic.ways.state import REPORT as TO_REPORT

BYTES = REPORT.itemsize
ENTRY_BYTES = 16  # of an entry crosses: which VI, and which of its queues; the rest is the model's
BITS = 8


@step
def report_address(machine, n, p, ring, number):
    """Where the host's memory has report ``number`` of a ring of port ``p``."""
    length = machine.ports.rules[0].ring
    place = (2 * p + ring) * length + number % length
    return machine.bus.rules[n].reports + place * BYTES


@step
def entry_address(machine, n, q, number):
    """Where the host's memory has an entry of completion queue ``q``: behind all reports."""
    ports = machine.ports
    reports = 2 * ports.table.shape[1] * ports.rules[0].ring * BYTES
    length = ports.work.entries.shape[2]
    return machine.bus.rules[n].reports + reports + (q * length + number % length) * ENTRY_BYTES


@distant
def post_report(machine, n, p, ring):
    """Writes a completed report of port ``p`` of ``n`` to host memory, after those queued before.

    Behind all ports come completion queues, as if they were some.
    """
    telling = machine.bus.telling[n]
    machine.bus.due[n, telling.due % machine.bus.due.shape[1]] = 2 * p + ring
    telling.due += 1
    if telling.due == telling.told + 1:
        _write_next(machine, n, np.int64(machine.tally[0].now))


@distant
def end_report_write(machine, n, now):
    """Ends the write of a report to the host's memory and begins the next one."""
    telling = machine.bus.telling[n]
    log_transfer(machine, REPORTED, n, n, -1, 0, telling.since, now, 0)
    which = machine.bus.due[n, telling.told % machine.bus.due.shape[1]]
    if which // 2 < machine.bus.shown.shape[1]:
        machine.bus.shown[n, which // 2, which % 2] += 1
    else:
        machine.ports.work.queues[n, which // 2 - machine.bus.shown.shape[1]].shown += 1
    telling.told += 1
    if telling.told < telling.due:
        _write_next(machine, n, now)


@routine
def _write_next(machine, n, now):
    machine.bus.telling[n].since = now
    which = machine.bus.due[n, machine.bus.telling[n].told % machine.bus.due.shape[1]]
    p, ring = which // 2, which % 2
    if p >= machine.bus.shown.shape[1]:
        _write_entry(machine, n, p - machine.bus.shown.shape[1], now)
        return
    number = machine.bus.shown[n, p, ring]
    _put(machine, n, machine.ports.reports[n, p, ring, number % machine.ports.rules[0].ring])
    rules = machine.bus.rules[n]
    address = report_address(machine, n, p, ring, number)
    count = np.int64(BYTES)
    start_move(machine, n, MASTER, rules.way, TO_REPORT, address, rules.report, count, now)


@step
def _write_entry(machine, n, q, now):
    work = machine.ports.work
    number = work.queues[n, q].shown
    entry = work.entries[n, q, number % work.entries.shape[2]]
    rules = machine.bus.rules[n]
    memory = machine.bus.ways.agents.memory[n]
    _put_word(memory, rules.report, entry.port)
    _put_word(memory, rules.report + 8, entry.side)
    count = np.int64(ENTRY_BYTES)
    address = entry_address(machine, n, q, number)
    start_move(machine, n, MASTER, rules.way, TO_REPORT, address, rules.report, count, now)


@step
def _put(machine, n, report):
    """Writes the report's bytes into the NIC's memory, from where they are moved to the host."""
    memory = machine.bus.ways.agents.memory[n]
    place = machine.bus.rules[n].report
    _put_word(memory, place, report.cookie)
    _put_word(memory, place + 8, report.status)
    _put_word(memory, place + 16, report.operation)
    _put_word(memory, place + 24, report.name)
    _put_word(memory, place + 32, report.node)
    _put_word(memory, place + 40, report.length)
    _put_word(memory, place + 48, report.buffers)
    _put_word(memory, place + 56, report.offset)


@step
def _put_word(memory, place, value):
    for i in range(8):
        memory[place + i] = (value >> (BITS * i)) & 255
