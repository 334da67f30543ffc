"""What a process that follows a program trace does next, now that its operation has ended."""

from __future__ import annotations

import numpy as np

from nicscope.drivers.simulate.machine import (
    ANY_REPORT,
    COPY,
    NO_OPERATION,
    POST,
    SLEEP,
)
from nicscope.drivers.simulate.machine import COMPUTE as COMPUTE_OPERATION
from nicscope.drivers.simulate.operations import set_timer
from nicscope.drivers.simulate.ports.reporting import KIND_BITS
from nicscope.drivers.simulate.traced.barriers import come_to_barrier, hear_of_round
from nicscope.drivers.simulate.traced.locks import advance_lock, ask_for_lock, let_go_of_lock
from nicscope.drivers.simulate.traced.notes import (
    deliver,
    find_message,
    free_note,
    has_credit,
    let_others_post,
    new_note,
    send_off,
    take_note,
)
from nicscope.drivers.simulate.traced.rows import begin_rows, end_row, next_row, take_row
from nicscope.drivers.simulate.traced.state import (
    ANSWERED,
    AT_REST,
    BARRIER_ROW,
    COMPUTE,
    COMPUTE_ROW,
    COMPUTES,
    COPIES,
    FETCH_ROW,
    GRANT,
    GRANTED,
    HEARS,
    LEADS,
    LIBRARY,
    LOCK_ROW,
    MESSAGE,
    NO_ROW,
    NOT_DELIVERED,
    NOTHING_WRONG,
    POSTS_NOTE,
    POSTS_ROW,
    RECEIVE_ROW,
    RELEASE,
    ROUND,
    SEND_ROW,
    STOLEN,
    SYNC_BYTES,
    UNLOCK_ROW,
)
from nicscope.kernel.decorators import distant, routine, step
from nicscope.nic.ports.layout import DONE, FETCH, NOTIFY, RECEIVED, SENT, WRITE

NOTIFIES = NOTIFY << KIND_BITS
OF_NOTE = -1  # in place of the row, in what a report says: nobody waits for it


@distant
def go_on_with_trace(machine, p, now):
    """What process ``p`` does next, now that its operation has ended."""
    _account(machine, p, now)
    _see_to_end(machine, p, now)
    if machine.traced.rules[0].wrong != NOTHING_WRONG or not _go_on(machine, p, now):
        _leave(machine, p)


@step
def _account(machine, p, now):
    """Put the time since the process did something else where it went."""
    follower = machine.traced.followers[p]
    times = machine.traced.times
    spent = now - follower.since
    follower.since = now
    if follower.doing in (COMPUTES, LEADS):
        duration = machine.script[follower.at].not_before
        times[p, COMPUTE] += duration
        times[p, STOLEN] += spent - duration
    elif follower.doing == HEARS:
        follower.waited += spent
    else:
        times[p, LIBRARY] += spent


@step
def _see_to_end(machine, p, now):
    """Effect of what the process did until now."""
    follower = machine.traced.followers[p]
    doing = follower.doing
    if doing == COMPUTES:
        end_row(machine, np.int64(follower.at), now)
    elif doing == LEADS:
        follower.held = follower.at
    elif doing in (POSTS_ROW, POSTS_NOTE):
        follower.outstanding += 1
    elif doing == COPIES:
        row = np.int64(follower.at)
        deliver(machine, row, np.int64(machine.script[row].peer), p, now)
        end_row(machine, row, now)
    elif doing == HEARS:
        _hear(machine, p, now)


@routine
def _hear(machine, p, now):
    """The process has heard of something: of rows that others ended, and maybe of a report."""
    follower = machine.traced.followers[p]
    follower.is_woken = 0
    follower.wishes = 0
    while follower.over != NO_ROW:
        r = np.int64(follower.over)
        follower.over = machine.traced.link[r]
        end_row(machine, r, now)
    process = machine.processes[p]
    if follower.heard == SENT:
        follower.outstanding -= 1
        _end_descriptor(machine, p, np.int64(process.packet), np.int64(process.address), now)
    elif follower.heard == RECEIVED:
        _read_note(machine, p, take_note(machine, p, np.int64(process.tag), now), now)


@step
def _end_descriptor(machine, p, r, status, now):
    """The descriptor of row ``r`` has ended."""
    if status != DONE:
        machine.traced.followers[p].failed += 1
        machine.scripted[p].failed += 1
    if r == OF_NOTE:
        if status != DONE:
            _give_up(machine, np.int64(NO_ROW), status)
        return
    operation = machine.script[r].operation
    if operation == LOCK_ROW:
        advance_lock(machine, r, ANSWERED, p, now)
        return
    if operation == SEND_ROW and status != DONE:
        _give_up(machine, r, status)
    end_row(machine, r, now)


@step
def _give_up(machine, r, status):
    """What somebody waits for did not go: the program goes no further."""
    rules = machine.traced.rules[0]
    rules.wrong = NOT_DELIVERED
    rules.wrong_row = r
    rules.wrong_status = status


@step
def _read_note(machine, p, place, now):
    note = machine.traced.notes[place]
    kind, row = note.kind, np.int64(note.row)
    name, k = np.int64(note.name), np.int64(note.turn)
    free_note(machine, place)
    if kind == MESSAGE:
        deliver(machine, row, p, p, now)
    elif kind == GRANT:
        advance_lock(machine, row, GRANTED, p, now)
    elif kind == ROUND:
        hear_of_round(machine, name, k, p, now)


@step
def _go_on(machine, p, now):
    """Have the process do what it can, or wait; whether it is to be heard of again."""
    follower = machine.traced.followers[p]
    while True:
        if follower.notes != NO_ROW:
            if not _may_post_note(machine, p):
                break
            _post_note(machine, p)
            return True
        r = np.int64(follower.held)
        if r == NO_ROW:
            r = next_row(machine, p)
            if r == NO_ROW:
                break
            if machine.traced.begun[r] < 0:
                if not _may_post(machine, p, r):
                    break
                take_row(machine, p)
                begin_rows(machine, r, now)
                if _leads(machine, p, r, now):
                    return True
                follower.held = r
        if not _may_post(machine, p, r):
            break
        follower.held = NO_ROW
        if _start(machine, p, r, now):
            return True
        if machine.traced.rules[0].wrong != NOTHING_WRONG:
            return False
    if follower.ended == follower.last - follower.first and follower.notes == NO_ROW:
        return False
    _wait(machine, p)
    return True


@step
def _wait(machine, p):
    machine.traced.followers[p].doing = HEARS
    process = machine.processes[p]
    process.operation = ANY_REPORT
    process.peer = machine.scripted[p].port
    process.own = 0
    process.address = 0
    process.duration = 0


@step
def _leave(machine, p):
    """The process goes no further: its run hears of it."""
    follower = machine.traced.followers[p]
    machine.traced.times[p, LIBRARY] += follower.waited
    follower.waited = 0
    follower.doing = AT_REST
    follower.ended_at = follower.since
    process = machine.processes[p]
    process.operation = NO_OPERATION
    if follower.blocks == 1:
        let_others_post(machine, process.node, follower.since)
    machine.inbox[machine.tally[0].ended] = process
    machine.inbox[machine.tally[0].ended].process = p
    machine.tally[0].ended += 1


@step
def _leads(machine, p, r, now):
    """Whether row ``r`` begins with the CPU's part, which process ``p`` does now."""
    row = machine.script[r]
    if row.not_before == 0:
        return False
    follower = machine.traced.followers[p]
    follower.at = r
    follower.doing = COMPUTES if row.operation == COMPUTE_ROW else LEADS
    process = machine.processes[p]
    process.duration = row.not_before
    process.payload = 0
    process.address = 0
    process.time = now
    if follower.alone == 1:
        process.operation = COMPUTE_OPERATION
    else:
        process.operation = SLEEP
        set_timer(machine, process.node)
    return True


@routine
def _may_post(machine, p, r):
    """Whether row ``r`` of process ``p`` can go on; who has no room for its note is remembered."""
    row = machine.script[r]
    traced = machine.traced
    if row.operation in (COMPUTE_ROW, RECEIVE_ROW, UNLOCK_ROW, BARRIER_ROW):
        return True
    if traced.followers[p].outstanding >= traced.rules[0].depth:
        return False
    if row.operation != SEND_ROW or machine.processes[row.peer].node == machine.processes[p].node:
        return True
    if has_credit(machine, row.peer):
        return True
    traced.followers[row.peer].blocks = 1
    traced.followers[p].wishes = 1
    return False


@step
def _may_post_note(machine, p):
    """Whether the first note that process ``p`` is to post can go."""
    traced = machine.traced
    note = traced.notes[traced.followers[p].notes]
    if traced.followers[p].outstanding >= traced.rules[0].depth:
        return False
    if note.kind == RELEASE or has_credit(machine, note.to):
        return True
    traced.followers[note.to].blocks = 1
    traced.followers[p].wishes = 1
    return False


@step
def _start(machine, p, r, now):
    """Row ``r``, which has had the CPU's part, does the rest; whether that keeps the CPU."""
    row = machine.script[r]
    operation = row.operation
    follower = machine.traced.followers[p]
    if operation == COMPUTE_ROW:
        end_row(machine, r, now)
        return False
    if operation == RECEIVE_ROW:
        if find_message(machine, r, p):
            end_row(machine, r, now)
        return False
    if operation == UNLOCK_ROW:
        let_go_of_lock(machine, r, now)
        if machine.traced.rules[0].wrong == NOTHING_WRONG:
            end_row(machine, r, now)
        return False
    if operation == BARRIER_ROW:
        come_to_barrier(machine, r, now)
        return False
    if operation == LOCK_ROW:
        if not ask_for_lock(machine, r, now):
            return False
        way = machine.traced.home_ways[p, machine.traced.locks[row.name].node]
        address = machine.traced.rules[0].sync_address
        _post(machine, p, r, FETCH, way, address, address, SYNC_BYTES)
    elif operation == SEND_ROW:
        if machine.processes[row.peer].node == machine.processes[p].node:
            return _copy(machine, p, r, now)
        way = machine.traced.pairs[machine.traced.pair_of[p, row.peer]].way
        send_off(machine, p, new_note(machine, MESSAGE, r, row.peer))
        _post(machine, p, r, WRITE | NOTIFIES, way, row.offset, row.address, row.length)
    else:
        kind = FETCH if operation == FETCH_ROW else WRITE
        way = machine.traced.home_ways[p, row.peer]
        _post(machine, p, r, kind, way, row.offset, row.address, row.length)
    follower.doing = POSTS_ROW
    return True


@step
def _copy(machine, p, r, now):
    """The CPU copies the message of SEND row ``r`` to where a process of its node has it."""
    follower = machine.traced.followers[p]
    if machine.script[r].length == 0:
        deliver(machine, r, np.int64(machine.script[r].peer), p, now)
        end_row(machine, r, now)
        return False
    process = machine.processes[p]
    follower.at = r
    follower.doing = COPIES
    process.operation = COPY
    process.payload = machine.script[r].length
    process.time = now
    return True


@step
def _post_note(machine, p):
    """Process ``p`` posts the first note that it has to."""
    traced = machine.traced
    follower = traced.followers[p]
    place = np.int64(follower.notes)
    note = traced.notes[place]
    follower.notes = note.link
    address = traced.rules[0].sync_address
    if note.kind == RELEASE:
        way = np.int64(note.to)
        free_note(machine, place)
        _post(machine, p, np.int64(OF_NOTE), WRITE, way, address, address, SYNC_BYTES)
    else:
        way = np.int64(traced.pairs[traced.pair_of[p, note.to]].way)
        send_off(machine, p, place)
        _post(machine, p, np.int64(OF_NOTE), WRITE | NOTIFIES, way, address, address, SYNC_BYTES)
    follower.doing = POSTS_NOTE


@routine
def _post(machine, p, r, kind, way, offset, address, length):
    """Process ``p`` posts a descriptor for row ``r`` at its port."""
    process = machine.processes[p]
    process.operation = POST
    process.time = machine.tally[0].now
    process.peer = machine.scripted[p].port
    process.own = kind
    process.tag = way
    process.duration = offset
    process.address = address
    process.payload = length
    process.packet = r
