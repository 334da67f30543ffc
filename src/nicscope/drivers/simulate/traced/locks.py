"""Locks: queues of processes, each granted by the one before it.

A lock lies in the memory of one node.  Who asks swaps its name for that of the last who asked, by
a remote fetch of a word: the round trip of a fetch-and-store that the lock's NIC answers without
its host.  Who is not the first waits for a note of the one before it, who has read who comes next
(Mellor-Crummey and Scott, 1991).  Who lets go and knows of nobody writes that to the lock's node.
What a node does in its own memory costs no message.
"""

from __future__ import annotations

from nicscope.drivers.simulate.traced.notes import have_posted, new_note
from nicscope.drivers.simulate.traced.rows import end_elsewhere
from nicscope.drivers.simulate.traced.state import (
    ANSWERED,
    GRANT,
    GRANTED,
    NO_ROW,
    NOT_HELD,
    RELEASE,
)
from nicscope.kernel.decorators import routine, step


@routine
def ask_for_lock(machine, r, now):
    """LOCK row ``r`` stands behind those that have asked before; whether a fetch is to follow."""
    traced = machine.traced
    row = machine.script[r]
    lock = traced.locks[row.name]
    if lock.holder == NO_ROW:
        lock.holder = row.process
        traced.progress[r] |= GRANTED
    else:
        traced.link[r] = NO_ROW
        if lock.first == NO_ROW:
            lock.first = r
        else:
            traced.link[lock.last] = r
        lock.last = r
    if lock.node != machine.processes[row.process].node:
        return True
    advance_lock(machine, r, ANSWERED, row.process, now)
    return False


@step
def advance_lock(machine, r, how, p, now):
    """LOCK row ``r`` is answered, or granted, in the course of what process ``p`` does."""
    progress = machine.traced.progress
    progress[r] |= how
    if progress[r] == ANSWERED | GRANTED:
        end_elsewhere(machine, r, p, now)


@routine
def let_go_of_lock(machine, r, now):
    """The process of UNLOCK row ``r`` hands its lock to whoever has asked next."""
    traced = machine.traced
    row = machine.script[r]
    p = row.process
    lock = traced.locks[row.name]
    here = machine.processes[p].node
    if lock.holder != p:
        traced.rules[0].wrong = NOT_HELD
        traced.rules[0].wrong_row = r
        return
    following = lock.first
    if following == NO_ROW:
        lock.holder = NO_ROW
        if lock.node != here:
            have_posted(machine, p, new_note(machine, RELEASE, r, traced.home_ways[p, lock.node]))
        return
    lock.first = traced.link[following]
    q = machine.script[following].process
    lock.holder = q
    if machine.processes[q].node == here:
        advance_lock(machine, following, GRANTED, p, now)
    else:
        have_posted(machine, p, new_note(machine, GRANT, following, q))
