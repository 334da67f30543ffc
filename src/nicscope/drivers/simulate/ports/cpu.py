"""Who has the CPU of a host with ports: processes that poll, signals, interrupts.

A process that polls keeps its CPU until its time slice ends, if others wait for it.  Who blocks or
waits for a signal leaves the CPU to them (U-Net/MM, 4).  On a host with two whoever polls has one
of them; what the others could not do meanwhile is not charged.  Interrupts extend the operation
that they interrupt.
"""

import numpy as np

from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.ports.posting import MODE_BITS, POLL
from nicscope.drivers.simulate.ports.reports import (
    has_awaited_report,
    has_report_slot,
    has_wait_expired,
    will_get_no_report,
)
from nicscope.drivers.simulate.ports.state import has_ports
from nicscope.drivers.simulate.processor import interrupt_second, is_second_idle
from nicscope.drivers.simulate.records import (
    COMPUTE,
    CPU,
    IDLE,
    INTERRUPTED,
    KINDS,
    NO_PROCESS,
    REPORT,
)
from nicscope.kernel.decorators import distant, routine, step


@step
def keeps_polling(machine):
    """Whether processes of this machine keep their CPUs while they poll."""
    return has_ports(machine.ports) and machine.ports.rules[0].time_slice > 0


@routine
def select_process(machine, n, chosen, now):
    """Selects who gets the idle CPU of ``n``, if ``chosen`` is the first that can run, or none.

    Nobody has, where another one polls: its own word, or the end of its time slice, comes first.
    Tasks of one process have one time slice: it polls for them all.
    """
    serving = machine.ports.nodes[n]
    p = np.int64(serving.polling_process)
    if p != NO_PROCESS and machine.processes[p].operation != REPORT:  # a task that was dropped
        serving.spun += now - serving.polled_since
        serving.polling_process = p = np.int64(NO_PROCESS)
    if p != NO_PROCESS and (
        has_awaited_report(machine, n, p)
        or will_get_no_report(machine, n, p)
        or has_wait_expired(machine, n, p)
    ):
        chosen = p
    if chosen == NO_PROCESS:
        if p == NO_PROCESS:
            serving.polling_process = _longest_poller(machine, n)
            serving.polled_since = now
        return np.int64(NO_PROCESS)
    if p == NO_PROCESS:
        return np.int64(chosen)
    ran = now - serving.polled_since
    left = -ran % machine.ports.rules[0].time_slice
    if left > 0 and machine.chained[chosen].main != machine.chained[p].main:
        put(machine.agenda, n * KINDS + CPU, now + left)
        return np.int64(NO_PROCESS)
    serving.spun += ran
    serving.polling_process = NO_PROCESS
    return np.int64(chosen)


@step
def _longest_poller(machine, n):
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
    if process.operation != COMPUTE or process.payload == 0 or not has_report_slot(machine, n, p):
        return
    signal = machine.ports.costs[n].signal
    process.payload = 0
    process.address = machine.agenda.times[n * KINDS + CPU] - now
    node.cpu_busy += signal - process.address
    put(machine.agenda, n * KINDS + CPU, now + signal)


@distant
def interrupt_cpu(machine, n, duration, now):
    """Takes ``duration`` ps from a CPU of ``n``: now if it idles, else from its operation."""
    node = machine.nodes[n]
    if node.cpu == IDLE:
        node.cpu = INTERRUPTED
        node.cpu_since = now
        node.cpu_process = -1
        node.cpu_busy += duration
        put(machine.agenda, n * KINDS + CPU, now + duration)
    elif is_second_idle(node):
        interrupt_second(node, duration, now)
    else:
        machine.ports.nodes[n].stolen += duration
