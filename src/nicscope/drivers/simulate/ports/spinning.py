"""A process that polls keeps its CPU until its time slice ends, if others wait for it.

Who blocks or waits for a signal leaves the CPU to them (U-Net/MM, 4).  On a host with two
whoever polls has one of them; what the others could not do meanwhile is not charged.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.machine import (
    COMPUTE,
    CPU,
    KINDS,
    NO_PROCESS,
    REPORT,
)
from nicscope.drivers.simulate.ports.posting import MODE_BITS, POLL
from nicscope.drivers.simulate.ports.reporting import (
    has_report,
    has_word,
    is_in_vain,
    is_overdue,
)
from nicscope.drivers.simulate.ports.state import has_ports
from nicscope.kernel.decorators import routine, step


@step
def keeps_polling(machine):
    """Whether processes of this machine keep their CPUs while they poll."""
    return has_ports(machine.ports) and machine.ports.rules[0].time_slice > 0


@routine
def whose_turn(machine, n, chosen, now):
    """Selects who gets the idle CPU of ``n``, if ``chosen`` is the first that can run, or none.

    Nobody has, where another one polls: its own word, or the end of its time slice, comes first.
    Tasks of one process have one time slice: it polls for them all.
    """
    serving = machine.ports.nodes[n]
    p = np.int64(serving.spinner)
    if p != NO_PROCESS and machine.processes[p].operation != REPORT:  # a task that was dropped
        serving.spun += now - serving.spun_since
        serving.spinner = p = np.int64(NO_PROCESS)
    if p != NO_PROCESS and _has_heard(machine, n, p):
        chosen = p
    if chosen == NO_PROCESS:
        if p == NO_PROCESS:
            serving.spinner = _poller(machine, n)
            serving.spun_since = now
        return np.int64(NO_PROCESS)
    if p == NO_PROCESS:
        return np.int64(chosen)
    ran = now - serving.spun_since
    left = -ran % machine.ports.rules[0].time_slice
    if left > 0 and machine.chained[chosen].main != machine.chained[p].main:
        put(machine.agenda, n * KINDS + CPU, now + left)
        return np.int64(NO_PROCESS)
    serving.spun += ran
    serving.spinner = NO_PROCESS
    return np.int64(chosen)


@step
def _has_heard(machine, n, p):
    return has_word(machine, n, p) or is_in_vain(machine, n, p) or is_overdue(machine, n, p)


@step
def _poller(machine, n):
    """The process of ``n`` that has polled for longest, or nobody."""
    node = machine.nodes[n]
    chosen = NO_PROCESS
    for p in range(node.first_process, node.last_process):
        process = machine.processes[p]
        polls = process.operation == REPORT and (process.own >> 1) & ((1 << MODE_BITS) - 1) == POLL
        if polls and (chosen == NO_PROCESS or process.time < machine.processes[chosen].time):
            chosen = p
    return chosen


@step
def signal_program(machine, n, now):
    """Delivers a signal for a report to the process that computes on ``n``, if it asked for one.

    It goes on when the signal has been delivered, and is told what was left to be computed.
    """
    node = machine.nodes[n]
    p = node.cpu_process
    if p == NO_PROCESS:
        return
    process = machine.processes[p]
    if process.operation != COMPUTE or process.payload == 0 or not has_report(machine, n, p):
        return
    signal = machine.ports.costs[n].signal
    process.payload = 0
    process.address = machine.agenda.times[n * KINDS + CPU] - now
    node.cpu_busy += signal - process.address
    put(machine.agenda, n * KINDS + CPU, now + signal)
