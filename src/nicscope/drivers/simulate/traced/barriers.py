"""Barriers: processes of a node meet in its memory, nodes by rounds of notes (dissemination).

In round k of a barrier of n nodes, node i tells node i + 2**k of n that it has come so far, and
goes on when it has been told as much: after ceil(log2 n) rounds all have come (Hensgen, Finkel and
Manber, 1988).  Who comes last of a node, and then its first process, speaks for it.
"""

from __future__ import annotations

from nicscope.drivers.simulate.traced.notes import have_posted, new_note
from nicscope.drivers.simulate.traced.rows import end_elsewhere
from nicscope.drivers.simulate.traced.state import NO_ROW, ROUND
from nicscope.kernel.decorators import routine, step


@routine
def come_to_barrier(machine, r, now):
    """The process of BARRIER row ``r`` waits with others, or all have come with it."""
    traced = machine.traced
    row = machine.script[r]
    place = traced.meeting_of[row.name, machine.processes[row.process].node]
    meeting = traced.meetings[place]
    traced.link[r] = NO_ROW
    if _waits_already(machine, meeting, row.process):
        if meeting.later == NO_ROW:
            meeting.later = r
        else:
            traced.link[meeting.later_end] = r
        meeting.later_end = r
        return
    _stand(traced, meeting, r)
    go_on_meeting(machine, place, row.process, now)


@step
def _stand(traced, meeting, r):
    if meeting.first == NO_ROW:
        meeting.first = r
    else:
        traced.link[meeting.last] = r
    meeting.last = r
    meeting.come += 1


@step
def _waits_already(machine, meeting, p):
    """Whether an earlier row of process ``p`` waits there: it comes once each time."""
    r = meeting.first
    while r != NO_ROW:
        if machine.script[r].process == p:
            return True
        r = machine.traced.link[r]
    return False


@routine
def hear_of_round(machine, place, k, p, now):
    """Process ``p``, the speaker of meeting ``place``, has been told of round ``k``."""
    machine.traced.heard[place, k] += 1
    go_on_meeting(machine, place, p, now)


@routine
def go_on_meeting(machine, place, p, now):
    """Tell the next node how far this one is, as often as may be; at the end all go on."""
    traced = machine.traced
    meeting = traced.meetings[place]
    while meeting.come == meeting.parties:
        if meeting.turn == meeting.rounds:
            _part(machine, meeting, p, now)
            continue
        if meeting.told == meeting.turn:
            nodes = meeting.nodes
            there = meeting.begin + (place - meeting.begin + (1 << meeting.turn)) % nodes
            note = new_note(machine, ROUND, NO_ROW, traced.meetings[there].speaker)
            traced.notes[note].name = there
            traced.notes[note].turn = meeting.turn
            have_posted(machine, p, note)
            meeting.told += 1
        if traced.heard[place, meeting.turn] <= meeting.met:
            return
        meeting.turn += 1


@step
def _part(machine, meeting, p, now):
    """All have come: who waits goes on, and who has come again already stands for the next time."""
    traced = machine.traced
    r = meeting.first
    meeting.first = NO_ROW
    meeting.come = 0
    meeting.turn = 0
    meeting.told = 0
    meeting.met += 1
    while r != NO_ROW:
        after = traced.link[r]
        end_elsewhere(machine, r, p, now)
        r = after
    r = meeting.later
    meeting.later = NO_ROW
    while r != NO_ROW:
        after = traced.link[r]
        traced.link[r] = NO_ROW
        if _waits_already(machine, meeting, machine.script[r].process):
            if meeting.later == NO_ROW:
                meeting.later = r
            else:
                traced.link[meeting.later_end] = r
            meeting.later_end = r
        else:
            _stand(traced, meeting, r)
        r = after
