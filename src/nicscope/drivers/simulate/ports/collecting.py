"""Completions taken off a queue, with the reports that they announce: many in one crossing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.kernel.decorators import kernel, step
from nicscope.nic.delivery import place_in
from nicscope.nic.ports.layout import NOBODY, RECEIVED, SENT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Columns of what is written down of each.
PORT, SIDE, COOKIE, STATUS, OPERATION, LENGTH, WORD, BESIDE, OFFSET, NODE = range(10)
COLUMNS = 10
AT_ONCE = 64


class Collecting(NamedTuple):
    """A machine, and where what is collected on it is written down."""

    machine: Any
    rows: NDArray[np.int64]  # shape (AT_ONCE, COLUMNS)


@kernel
def collect(state: Any, n: int, q: int, most: int) -> Any:
    """Take up to ``most`` completions off queue ``q`` of node ``n`` into ``rows``; how many."""
    work = state.machine.ports.work
    queue = work.queues[n, q]
    taken = 0
    while taken < most and queue.read < queue.shown:
        entry = work.entries[n, q, queue.read % work.entries.shape[2]]
        queue.read += 1
        if entry.port == NOBODY:
            continue  # its port has begun anew since
        state.rows[taken, PORT] = entry.port
        state.rows[taken, SIDE] = entry.side
        if entry.side == SENT:
            _take_sent(state, n, entry.port, taken)
            taken += 1
        elif entry.side == RECEIVED:
            _take_received(state, n, entry.port, entry.number, taken)
            taken += 1
    return taken


@step
def _take_sent(state, n, p, row):
    """Write the next end of a descriptor down that is announced, past those that are not."""
    ports = state.machine.ports
    port = ports.table[n, p]
    while True:
        report = ports.reports[n, p, SENT, place_in(port.reaped, ports.rules[0].ring)]
        port.reaped += 1
        if report.buffers == 0 or port.reaped == port.reported:
            break
    _write_down(state, report, row)


@step
def _take_received(state, n, p, number, row):
    ports = state.machine.ports
    port = ports.table[n, p]
    report = ports.reports[n, p, RECEIVED, place_in(number, ports.rules[0].ring)]
    port.read += 1
    _write_down(state, report, row)


@step
def _write_down(state, report, row):
    state.rows[row, COOKIE] = report.cookie
    state.rows[row, STATUS] = report.status
    state.rows[row, OPERATION] = report.operation
    state.rows[row, LENGTH] = report.length
    state.rows[row, WORD] = report.name
    state.rows[row, BESIDE] = report.buffers
    state.rows[row, OFFSET] = report.offset
    state.rows[row, NODE] = report.node


@kernel
def forget_completions(machine: Any, n: int, p: int, q: int) -> None:
    """What queue ``q`` still announces of port ``p``, which begins anew, is to be passed by."""
    work = machine.ports.work
    queue = work.queues[n, q]
    for number in range(queue.read, queue.written):
        entry = work.entries[n, q, number % work.entries.shape[2]]
        if entry.port == p:
            entry.port = NOBODY
