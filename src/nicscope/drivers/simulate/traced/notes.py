"""Notes: what one process tells another, as a remote store that notifies, in order of posting."""

from __future__ import annotations

from nicscope.drivers.simulate.traced.rows import end_elsewhere, wake
from nicscope.drivers.simulate.traced.state import ANYBODY, NO_ROW
from nicscope.kernel.decorators import routine, step


@step
def new_note(machine, kind, row, to):
    """A note that is nobody's yet; there is one."""
    traced = machine.traced
    place = traced.rules[0].free
    note = traced.notes[place]
    traced.rules[0].free = note.link
    note.kind = kind
    note.row = row
    note.to = to
    note.link = NO_ROW
    return place


@step
def free_note(machine, place):
    """The note has been read, or was for nobody."""
    traced = machine.traced
    traced.notes[place].link = traced.rules[0].free
    traced.rules[0].free = place


@step
def have_posted(machine, p, place):
    """Process ``p`` has to post that note before it goes on."""
    traced = machine.traced
    follower = traced.followers[p]
    if follower.notes == NO_ROW:
        follower.notes = place
    else:
        traced.notes[follower.notes_end].link = place
    follower.notes_end = place


@step
def send_off(machine, p, place):
    """The note is about to be posted by process ``p``: its receiver will find it in its turn."""
    traced = machine.traced
    note = traced.notes[place]
    if traced.followers[note.to].ended_at >= 0:
        free_note(machine, place)  # nobody will read it
        return
    note.link = NO_ROW
    pair = traced.pairs[traced.pair_of[p, note.to]]
    if pair.first == NO_ROW:
        pair.first = place
    else:
        traced.notes[pair.last].link = place
    pair.last = place
    traced.followers[note.to].unread += 1


@step
def has_credit(machine, q):
    """Whether a report of one more note will have its place at the port of process ``q``."""
    follower = machine.traced.followers[q]
    return follower.unread < machine.ports.rules[0].ring or follower.ended_at >= 0


@routine
def take_note(machine, q, export, now):
    """The note that the report of ``export`` is for, read by process ``q``."""
    traced = machine.traced
    follower = traced.followers[q]
    node = machine.processes[q].node
    pair = traced.pairs[traced.pair_at[node, export]]
    place = pair.first
    pair.first = traced.notes[place].link
    follower.unread -= 1
    if follower.blocks == 1:
        follower.blocks = 0
        let_others_post(machine, node, now)
    return place


@step
def let_others_post(machine, here, now):
    """Whoever waits until a process has room for a note looks again."""
    followers = machine.traced.followers
    for p in range(followers.size):
        if followers[p].wishes == 1:
            wake(machine, p, here, now)


@routine
def deliver(machine, s, q, p, now):
    """The message of SEND row ``s`` is with process ``q``, as process ``p`` finds."""
    traced = machine.traced
    follower = traced.followers[q]
    before, r = NO_ROW, follower.receives
    while r != NO_ROW and not _fits(machine, s, r):
        before, r = r, traced.link[r]
    if r == NO_ROW:
        _keep(machine, follower, s)
        return
    _unlink_receive(traced, follower, before, r)
    end_elsewhere(machine, r, p, now)


@step
def _fits(machine, s, r):
    """Whether the message of SEND row ``s`` is what RECEIVE row ``r`` waits for."""
    sent, wanted = machine.script[s], machine.script[r]
    return sent.name == wanted.name and (wanted.peer == ANYBODY or wanted.peer == sent.process)


@step
def _unlink_receive(traced, follower, before, r):
    after = traced.link[r]
    if before == NO_ROW:
        follower.receives = after
    else:
        traced.link[before] = after
    if after == NO_ROW:
        follower.receives_end = before


@step
def _keep(machine, follower, s):
    """Nobody has asked for the message yet: it stands behind those that came before."""
    traced = machine.traced
    traced.link[s] = NO_ROW
    if follower.came == NO_ROW:
        follower.came = s
    else:
        traced.link[follower.came_end] = s
    follower.came_end = s


@routine
def find_message(machine, r, q):
    """Whether the message of RECEIVE row ``r`` of process ``q`` has come; else the row waits."""
    traced = machine.traced
    follower = traced.followers[q]
    before, s = NO_ROW, follower.came
    while s != NO_ROW and not _fits(machine, s, r):
        before, s = s, traced.link[s]
    if s == NO_ROW:
        traced.link[r] = NO_ROW
        if follower.receives == NO_ROW:
            follower.receives = r
        else:
            traced.link[follower.receives_end] = r
        follower.receives_end = r
        return False
    after = traced.link[s]
    if before == NO_ROW:
        follower.came = after
    else:
        traced.link[before] = after
    if after == NO_ROW:
        follower.came_end = before
    return True
