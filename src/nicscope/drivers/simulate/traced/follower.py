"""What a process of a program trace does next: rows, notes, barriers, locks."""

import numpy as np

from nicscope.drivers.simulate.host import set_timer
from nicscope.drivers.simulate.ports.reports import KIND_BITS
from nicscope.drivers.simulate.records import ANY_REPORT, COPY, NO_OPERATION, POST, SLEEP
from nicscope.drivers.simulate.records import COMPUTE as COMPUTE_OPERATION
from nicscope.drivers.simulate.traced import state
from nicscope.kernel.decorators import distant, routine, step
from nicscope.nic.ports import layout


@step
def new_note(machine, kind, row, to):
    """Takes a note from the free list, which is not empty."""
    traced = machine.traced
    place = traced.rules[0].free
    note = traced.notes[place]
    traced.rules[0].free = note.link
    note.kind = kind
    note.row = row
    note.to = to
    note.link = state.NO_ROW
    return place


@step
def free_note(machine, place):
    """Returns a note that has been read, or has no reader, to the free list."""
    traced = machine.traced
    traced.notes[place].link = traced.rules[0].free
    traced.rules[0].free = place


@step
def queue_note(machine, p, place):
    """Queues the note for process ``p`` to post before its next row."""
    traced = machine.traced
    follower = traced.followers[p]
    if follower.notes == state.NO_ROW:
        follower.notes = place
    else:
        traced.notes[follower.notes_end].link = place
    follower.notes_end = place


@step
def append_to_pair(machine, p, place):
    """Appends the note, which ``p`` is about to post, to those its receiver will read."""
    traced = machine.traced
    note = traced.notes[place]
    if traced.followers[note.to].ended_at >= 0:
        free_note(machine, place)  # nobody will read it
        return
    note.link = state.NO_ROW
    pair = traced.pairs[traced.pair_of[p, note.to]]
    if pair.first == state.NO_ROW:
        pair.first = place
    else:
        traced.notes[pair.last].link = place
    pair.last = place
    traced.followers[note.to].unread += 1


@step
def has_credit(machine, q):
    """Whether the port of process ``q`` has room for the report of one more note."""
    follower = machine.traced.followers[q]
    return follower.unread < machine.ports.rules[0].ring or follower.ended_at >= 0


@routine
def take_note(machine, q, export, now):
    """Process ``q`` takes the note that the report of ``export`` announces."""
    traced = machine.traced
    follower = traced.followers[q]
    node = machine.processes[q].node
    pair = traced.pairs[traced.pair_at[node, export]]
    place = pair.first
    pair.first = traced.notes[place].link
    follower.unread -= 1
    if follower.blocks == 1:
        follower.blocks = 0
        wake_blocked_senders(machine, node, now)
    return place


@step
def wake_blocked_senders(machine, here, now):
    """Wakes processes that wait for room at another's port for a note."""
    followers = machine.traced.followers
    for p in range(followers.size):
        if followers[p].wishes == 1:
            state.wake(machine, p, here, now)


@routine
def deliver(machine, s, q, p, now):
    """Delivers the message of SEND row ``s`` to process ``q``; process ``p`` notices it."""
    traced = machine.traced
    follower = traced.followers[q]
    before, r = state.NO_ROW, follower.receives
    while r != state.NO_ROW and not _fits(machine, s, r):
        before, r = r, traced.link[r]
    if r == state.NO_ROW:
        _queue_unexpected(machine, follower, s)
        return
    _unlink_receive(traced, follower, before, r)
    state.end_row_remotely(machine, r, p, now)


@step
def _fits(machine, s, r):
    """Whether the message of SEND row ``s`` matches RECEIVE row ``r``."""
    sent, wanted = machine.script[s], machine.script[r]
    return sent.name == wanted.name and (
        wanted.peer == state.ANYBODY or wanted.peer == sent.process
    )


@step
def _unlink_receive(traced, follower, before, r):
    after = traced.link[r]
    if before == state.NO_ROW:
        follower.receives = after
    else:
        traced.link[before] = after
    if after == state.NO_ROW:
        follower.receives_end = before


@step
def _queue_unexpected(machine, follower, s):
    """Queues a message that no receive matches behind those that came before."""
    traced = machine.traced
    traced.link[s] = state.NO_ROW
    if follower.came == state.NO_ROW:
        follower.came = s
    else:
        traced.link[follower.came_end] = s
    follower.came_end = s


@routine
def find_message(machine, r, q):
    """Whether the message of RECEIVE row ``r`` of process ``q`` has come; else the row waits."""
    traced = machine.traced
    follower = traced.followers[q]
    before, s = state.NO_ROW, follower.came
    while s != state.NO_ROW and not _fits(machine, s, r):
        before, s = s, traced.link[s]
    if s == state.NO_ROW:
        traced.link[r] = state.NO_ROW
        if follower.receives == state.NO_ROW:
            follower.receives = r
        else:
            traced.link[follower.receives_end] = r
        follower.receives_end = r
        return False
    after = traced.link[s]
    if before == state.NO_ROW:
        follower.came = after
    else:
        traced.link[before] = after
    if after == state.NO_ROW:
        follower.came_end = before
    return True


@routine
def enter_barrier(machine, r, now):
    """Enters the process of BARRIER row ``r`` into its barrier; the last one releases it."""
    traced = machine.traced
    row = machine.script[r]
    place = traced.meeting_of[row.name, machine.processes[row.process].node]
    meeting = traced.meetings[place]
    traced.link[r] = state.NO_ROW
    if _is_waiting_at(machine, meeting, row.process):
        if meeting.later == state.NO_ROW:
            meeting.later = r
        else:
            traced.link[meeting.later_end] = r
        meeting.later_end = r
        return
    _append_waiter(traced, meeting, r)
    advance_barrier(machine, place, row.process, now)


@step
def _append_waiter(traced, meeting, r):
    if meeting.first == state.NO_ROW:
        meeting.first = r
    else:
        traced.link[meeting.last] = r
    meeting.last = r
    meeting.come += 1


@step
def _is_waiting_at(machine, meeting, p):
    """Whether an earlier row of process ``p`` waits at the barrier: one entry per round."""
    r = meeting.first
    while r != state.NO_ROW:
        if machine.script[r].process == p:
            return True
        r = machine.traced.link[r]
    return False


@routine
def end_round(machine, place, k, p, now):
    """Ends round ``k`` for the node at ``place``, whose speaker ``p`` has been notified."""
    machine.traced.heard[place, k] += 1
    advance_barrier(machine, place, p, now)


@routine
def advance_barrier(machine, place, p, now):
    """Notifies the next node of each completed round; after the last, releases the barrier."""
    traced = machine.traced
    meeting = traced.meetings[place]
    while meeting.come == meeting.parties:
        if meeting.turn == meeting.rounds:
            _release_barrier(machine, meeting, p, now)
            continue
        if meeting.told == meeting.turn:
            nodes = meeting.nodes
            there = meeting.begin + (place - meeting.begin + (1 << meeting.turn)) % nodes
            note = new_note(machine, state.ROUND, state.NO_ROW, traced.meetings[there].speaker)
            traced.notes[note].name = there
            traced.notes[note].turn = meeting.turn
            queue_note(machine, p, note)
            meeting.told += 1
        if traced.heard[place, meeting.turn] <= meeting.met:
            return
        meeting.turn += 1


@step
def _release_barrier(machine, meeting, p, now):
    """Releases the barrier; early arrivals count for the next round."""
    traced = machine.traced
    r = meeting.first
    meeting.first = state.NO_ROW
    meeting.come = 0
    meeting.turn = 0
    meeting.told = 0
    meeting.met += 1
    while r != state.NO_ROW:
        after = traced.link[r]
        state.end_row_remotely(machine, r, p, now)
        r = after
    r = meeting.later
    meeting.later = state.NO_ROW
    while r != state.NO_ROW:
        after = traced.link[r]
        traced.link[r] = state.NO_ROW
        if _is_waiting_at(machine, meeting, machine.script[r].process):
            if meeting.later == state.NO_ROW:
                meeting.later = r
            else:
                traced.link[meeting.later_end] = r
            meeting.later_end = r
        else:
            _append_waiter(traced, meeting, r)
        r = after


@routine
def acquire_lock(machine, r, now):
    """Queues LOCK row ``r`` for its lock; returns whether a fetch must follow."""
    traced = machine.traced
    row = machine.script[r]
    lock = traced.locks[row.name]
    if lock.holder == state.NO_ROW:
        lock.holder = row.process
        traced.progress[r] |= state.GRANTED
    else:
        traced.link[r] = state.NO_ROW
        if lock.first == state.NO_ROW:
            lock.first = r
        else:
            traced.link[lock.last] = r
        lock.last = r
    if lock.node != machine.processes[row.process].node:
        return True
    advance_lock(machine, r, state.ANSWERED, row.process, now)
    return False


@step
def advance_lock(machine, r, how, p, now):
    """Marks LOCK row ``r`` answered or granted, in a step of process ``p``; both end the row."""
    progress = machine.traced.progress
    progress[r] |= how
    if progress[r] == state.ANSWERED | state.GRANTED:
        state.end_row_remotely(machine, r, p, now)


@routine
def release_lock(machine, r, now):
    """Passes the lock of UNLOCK row ``r`` to the next row that waits for it."""
    traced = machine.traced
    row = machine.script[r]
    p = row.process
    lock = traced.locks[row.name]
    here = machine.processes[p].node
    if lock.holder != p:
        traced.rules[0].wrong = state.NOT_HELD
        traced.rules[0].wrong_row = r
        return
    following = lock.first
    if following == state.NO_ROW:
        lock.holder = state.NO_ROW
        if lock.node != here:
            queue_note(
                machine, p, new_note(machine, state.RELEASE, r, traced.home_ways[p, lock.node])
            )
        return
    lock.first = traced.link[following]
    q = machine.script[following].process
    lock.holder = q
    if machine.processes[q].node == here:
        advance_lock(machine, following, state.GRANTED, p, now)
    else:
        queue_note(machine, p, new_note(machine, state.GRANT, following, q))


NOTIFIES = layout.NOTIFY << KIND_BITS
OF_NOTE = -1  # in place of the row, in what a report says: nobody waits for it


@distant
def run_trace_process(machine, p, now):
    """Continues process ``p``, which follows a program trace and whose operation has ended."""
    _account(machine, p, now)
    _end_activity(machine, p, now)
    if machine.traced.rules[0].wrong != state.NOTHING_WRONG or not _run_follower(machine, p, now):
        _stop_follower(machine, p)


@step
def _account(machine, p, now):
    """Adds the time since the process's last change of activity to that activity's account."""
    follower = machine.traced.followers[p]
    times = machine.traced.times
    spent = now - follower.since
    follower.since = now
    if follower.doing in (state.COMPUTES, state.LEADS):
        duration = machine.script[follower.at].not_before
        times[p, state.COMPUTE] += duration
        times[p, state.STOLEN] += spent - duration
    elif follower.doing == state.HEARS:
        follower.waited += spent
    else:
        times[p, state.LIBRARY] += spent


@step
def _end_activity(machine, p, now):
    """Ends the activity that the process was in until now."""
    follower = machine.traced.followers[p]
    doing = follower.doing
    if doing == state.COMPUTES:
        state.end_row(machine, np.int64(follower.at), now)
    elif doing == state.LEADS:
        follower.held = follower.at
    elif doing in (state.POSTS_ROW, state.POSTS_NOTE):
        follower.outstanding += 1
    elif doing == state.COPIES:
        row = np.int64(follower.at)
        deliver(machine, row, np.int64(machine.script[row].peer), p, now)
        state.end_row(machine, row, now)
    elif doing == state.HEARS:
        _process_wakeup(machine, p, now)


@routine
def _process_wakeup(machine, p, now):
    """Handles what woke the process: rows that others ended, and perhaps a report."""
    follower = machine.traced.followers[p]
    follower.is_woken = 0
    follower.wishes = 0
    while follower.over != state.NO_ROW:
        r = np.int64(follower.over)
        follower.over = machine.traced.link[r]
        state.end_row(machine, r, now)
    process = machine.processes[p]
    if follower.heard == layout.SENT:
        follower.outstanding -= 1
        _end_descriptor(machine, p, np.int64(process.packet), np.int64(process.address), now)
    elif follower.heard == layout.RECEIVED:
        _read_note(machine, p, take_note(machine, p, np.int64(process.tag), now), now)


@step
def _end_descriptor(machine, p, r, status, now):
    """The descriptor of row ``r`` has ended."""
    if status != layout.DONE:
        machine.traced.followers[p].failed += 1
        machine.scripted[p].failed += 1
    if r == OF_NOTE:
        if status != layout.DONE:
            _give_up(machine, np.int64(state.NO_ROW), status)
        return
    operation = machine.script[r].operation
    if operation == state.LOCK_ROW:
        advance_lock(machine, r, state.ANSWERED, p, now)
        return
    if operation == state.SEND_ROW and status != layout.DONE:
        _give_up(machine, r, status)
    state.end_row(machine, r, now)


@step
def _give_up(machine, r, status):
    """Stops the program: the request of row ``r`` has failed."""
    rules = machine.traced.rules[0]
    rules.wrong = state.NOT_DELIVERED
    rules.wrong_row = r
    rules.wrong_status = status


@step
def _read_note(machine, p, place, now):
    note = machine.traced.notes[place]
    kind, row = note.kind, np.int64(note.row)
    name, k = np.int64(note.name), np.int64(note.turn)
    free_note(machine, place)
    if kind == state.MESSAGE:
        deliver(machine, row, p, p, now)
    elif kind == state.GRANT:
        advance_lock(machine, row, state.GRANTED, p, now)
    elif kind == state.ROUND:
        end_round(machine, name, k, p, now)


@step
def _run_follower(machine, p, now):
    """Runs the process until it must wait; returns whether it is to be called again."""
    follower = machine.traced.followers[p]
    while True:
        if follower.notes != state.NO_ROW:
            if not _may_post_note(machine, p):
                break
            _post_note(machine, p)
            return True
        r = np.int64(follower.held)
        if r == state.NO_ROW:
            r = state.next_row(machine, p)
            if r == state.NO_ROW:
                break
            if machine.traced.begun[r] < 0:
                if not _may_post(machine, p, r):
                    break
                state.take_row(machine, p)
                state.begin_rows(machine, r, now)
                if _begin_row(machine, p, r, now):
                    return True
                follower.held = r
        if not _may_post(machine, p, r):
            break
        follower.held = state.NO_ROW
        if _start(machine, p, r, now):
            return True
        if machine.traced.rules[0].wrong != state.NOTHING_WRONG:
            return False
    if follower.ended == follower.last - follower.first and follower.notes == state.NO_ROW:
        return False
    _wait(machine, p)
    return True


@step
def _wait(machine, p):
    machine.traced.followers[p].doing = state.HEARS
    process = machine.processes[p]
    process.operation = ANY_REPORT
    process.peer = machine.scripted[p].port
    process.own = 0
    process.address = 0
    process.duration = 0


@step
def _stop_follower(machine, p):
    """Stops the process and reports that to its run."""
    follower = machine.traced.followers[p]
    machine.traced.times[p, state.LIBRARY] += follower.waited
    follower.waited = 0
    follower.doing = state.AT_REST
    follower.ended_at = follower.since
    process = machine.processes[p]
    process.operation = NO_OPERATION
    if follower.blocks == 1:
        wake_blocked_senders(machine, process.node, follower.since)
    machine.inbox[machine.tally[0].ended] = process
    machine.inbox[machine.tally[0].ended].process = p
    machine.tally[0].ended += 1


@step
def _begin_row(machine, p, r, now):
    """Whether row ``r`` begins with work of the CPU, which process ``p`` does now."""
    row = machine.script[r]
    if row.not_before == 0:
        return False
    follower = machine.traced.followers[p]
    follower.at = r
    follower.doing = state.COMPUTES if row.operation == state.COMPUTE_ROW else state.LEADS
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
    """Whether row ``r`` of ``p`` can post; one without room for its note is marked as waiting."""
    row = machine.script[r]
    traced = machine.traced
    if row.operation in (state.COMPUTE_ROW, state.RECEIVE_ROW, state.UNLOCK_ROW, state.BARRIER_ROW):
        return True
    if traced.followers[p].outstanding >= traced.rules[0].depth:
        return False
    if (
        row.operation != state.SEND_ROW
        or machine.processes[row.peer].node == machine.processes[p].node
    ):
        return True
    if has_credit(machine, row.peer):
        return True
    traced.followers[row.peer].blocks = 1
    traced.followers[p].wishes = 1
    return False


@step
def _may_post_note(machine, p):
    """Whether the first note that process ``p`` has queued can be posted."""
    traced = machine.traced
    note = traced.notes[traced.followers[p].notes]
    if traced.followers[p].outstanding >= traced.rules[0].depth:
        return False
    if note.kind == state.RELEASE or has_credit(machine, note.to):
        return True
    traced.followers[note.to].blocks = 1
    traced.followers[p].wishes = 1
    return False


@step
def _start(machine, p, r, now):
    """Carries out row ``r`` after the CPU's part of it; returns whether that keeps the CPU."""
    row = machine.script[r]
    operation = row.operation
    follower = machine.traced.followers[p]
    if operation == state.COMPUTE_ROW:
        state.end_row(machine, r, now)
        return False
    if operation == state.RECEIVE_ROW:
        if find_message(machine, r, p):
            state.end_row(machine, r, now)
        return False
    if operation == state.UNLOCK_ROW:
        release_lock(machine, r, now)
        if machine.traced.rules[0].wrong == state.NOTHING_WRONG:
            state.end_row(machine, r, now)
        return False
    if operation == state.BARRIER_ROW:
        enter_barrier(machine, r, now)
        return False
    if operation == state.LOCK_ROW:
        if not acquire_lock(machine, r, now):
            return False
        way = machine.traced.home_ways[p, machine.traced.locks[row.name].node]
        address = machine.traced.rules[0].sync_address
        _post(machine, p, r, layout.FETCH, way, address, address, state.SYNC_BYTES)
    elif operation == state.SEND_ROW:
        if machine.processes[row.peer].node == machine.processes[p].node:
            return _copy(machine, p, r, now)
        way = machine.traced.pairs[machine.traced.pair_of[p, row.peer]].way
        append_to_pair(machine, p, new_note(machine, state.MESSAGE, r, row.peer))
        _post(machine, p, r, layout.WRITE | NOTIFIES, way, row.offset, row.address, row.length)
    else:
        kind = layout.FETCH if operation == state.FETCH_ROW else layout.WRITE
        way = machine.traced.home_ways[p, row.peer]
        _post(machine, p, r, kind, way, row.offset, row.address, row.length)
    follower.doing = state.POSTS_ROW
    return True


@step
def _copy(machine, p, r, now):
    """The CPU copies the message of SEND row ``r`` to where a process of its node has it."""
    follower = machine.traced.followers[p]
    if machine.script[r].length == 0:
        deliver(machine, r, np.int64(machine.script[r].peer), p, now)
        state.end_row(machine, r, now)
        return False
    process = machine.processes[p]
    follower.at = r
    follower.doing = state.COPIES
    process.operation = COPY
    process.payload = machine.script[r].length
    process.time = now
    return True


@step
def _post_note(machine, p):
    """Process ``p`` posts its first queued note."""
    traced = machine.traced
    follower = traced.followers[p]
    place = np.int64(follower.notes)
    note = traced.notes[place]
    follower.notes = note.link
    address = traced.rules[0].sync_address
    if note.kind == state.RELEASE:
        way = np.int64(note.to)
        free_note(machine, place)
        _post(machine, p, np.int64(OF_NOTE), layout.WRITE, way, address, address, state.SYNC_BYTES)
    else:
        way = np.int64(traced.pairs[traced.pair_of[p, note.to]].way)
        append_to_pair(machine, p, place)
        _post(
            machine,
            p,
            np.int64(OF_NOTE),
            layout.WRITE | NOTIFIES,
            way,
            address,
            address,
            state.SYNC_BYTES,
        )
    follower.doing = state.POSTS_NOTE


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
