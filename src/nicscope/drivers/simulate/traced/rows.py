"""Rows: which may begin, and what their beginnings and ends make ready."""

from __future__ import annotations

import numpy as np

from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.machine import ANY_REPORT, KINDS, TIMER
from nicscope.drivers.simulate.traced.state import (
    BARRIER,
    COMPUTE,
    COMPUTE_ROW,
    DEPOSIT,
    DEPOSIT_ROW,
    ENDED,
    FETCH,
    FETCH_ROW,
    HEARS,
    LIBRARY,
    LOCK,
    LOCK_ROW,
    NO_ROW,
    RECEIVE,
    RECEIVE_ROW,
    SEND,
    SEND_ROW,
    UNLOCK_ROW,
)
from nicscope.kernel.decorators import routine, step


@step
def begin_rows(machine, r, now):
    """Row ``r`` begins: what waits for that may be ready."""
    traced = machine.traced
    traced.begun[r] = now
    _need_less(machine, traced.starters, r, now)


@routine
def end_row(machine, r, now):
    """Row ``r`` has ended, and its process knows: what waits for that may be ready."""
    traced = machine.traced
    row = machine.script[r]
    follower = traced.followers[row.process]
    follower.ended += 1
    traced.progress[r] |= ENDED
    machine.scripted[row.process].done += 1
    traced.took[row.process, row.operation] += now - traced.begun[r]
    if traced.ended.size > 0:
        traced.ended[r] = now
    if follower.doing == HEARS:
        traced.times[row.process, _part_of(row.operation)] += follower.waited
        follower.waited = 0
    _need_less(machine, traced.enders, r, now)


@step
def _part_of(operation):
    """Where the time goes in which a process waited for the end of such a row."""
    if operation == COMPUTE_ROW:
        return COMPUTE
    if operation == FETCH_ROW:
        return FETCH
    if operation == DEPOSIT_ROW:
        return DEPOSIT
    if operation == SEND_ROW:
        return SEND
    if operation == RECEIVE_ROW:
        return RECEIVE
    if operation == LOCK_ROW:
        return LOCK
    return LIBRARY if operation == UNLOCK_ROW else BARRIER


@step
def _need_less(machine, waits, r, now):
    if waits.first.size == 0:
        return
    traced = machine.traced
    p = machine.script[r].process
    for i in range(waits.first[r], waits.first[r + 1]):
        other = np.int64(waits.places[i])
        traced.needs[other] -= 1
        if traced.needs[other] == 0:
            q = machine.script[other].process
            _be_ready(traced, traced.followers[q], other)
            if q != p:
                wake(machine, q, machine.processes[p].node, now)


@step
def _be_ready(traced, follower, r):
    traced.link[r] = NO_ROW
    if follower.ready == NO_ROW:
        follower.ready = r
    else:
        traced.link[follower.ready_end] = r
    follower.ready_end = r


@step
def next_row(machine, p):
    """The row that process ``p`` may begin now, or ``NO_ROW``."""
    traced = machine.traced
    follower = traced.followers[p]
    if traced.needs.size > 0:
        return np.int64(follower.ready)
    if follower.next < follower.last and follower.ended == follower.next - follower.first:
        return np.int64(follower.next)
    return np.int64(NO_ROW)


@step
def take_row(machine, p):
    """Process ``p`` begins what ``next_row`` says."""
    traced = machine.traced
    follower = traced.followers[p]
    if traced.needs.size > 0:
        follower.ready = traced.link[follower.ready]
    else:
        follower.next += 1


@routine
def end_elsewhere(machine, r, p, now):
    """Row ``r`` has ended in the course of what process ``p`` does; its own process hears of it."""
    traced = machine.traced
    q = machine.script[r].process
    if q == p:
        end_row(machine, r, now)
        return
    follower = traced.followers[q]
    traced.link[r] = NO_ROW
    if follower.over == NO_ROW:
        follower.over = r
    else:
        traced.link[follower.over_end] = r
    follower.over_end = r
    wake(machine, q, machine.processes[p].node, now)


@step
def wake(machine, q, here, now):
    """Have process ``q`` look again, if it waits; node ``here`` looks in any case."""
    machine.traced.followers[q].is_woken = 1
    process = machine.processes[q]
    if process.operation == ANY_REPORT and process.node != here:
        put(machine.agenda, process.node * KINDS + TIMER, now)
