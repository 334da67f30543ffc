"""What may not happen when a program trace is carried out, told from when its rows began and ended.

A program is ``(nodes, rows)``: the node of each process, and of each process its rows, dictionaries
with ``operation``, ``peer``, ``name``, ``after``, ``after_start``, ``after_others``, ...; ``after``
of None is the row before.  A row is known by its process and place.  It shares nothing with what
carries programs out: it only reads the times, and the rules are those of the trace's semantics.
"""

from collections import defaultdict
from itertools import pairwise

MOVES = ("FETCH", "DEPOSIT")


def places(rows):
    """Every row of a program by its process and place."""
    return [(p, i) for p, own in enumerate(rows) for i in range(len(own))]


def needs(rows, p, i):
    """The rows that have to have ended, and those that have to have begun, before a row begins."""
    row = rows[p][i]
    own = [i - 1] if row["after"] is None and i else row["after"] or []
    ended = [(p, place) for place in own] + list(row["after_others"])
    begun = [(p, place) for place in row["after_start"]] + list(row["after_start_others"])
    return ended, begun


def wrongs(nodes, rows, begun, ended):
    """What of the run of a program goes against the trace; times are by process and place."""
    return [
        *_of_order(rows, begun, ended),
        *_of_locks(rows, begun, ended),
        *_of_barriers(rows, begun, ended),
        *_of_messages(rows, begun, ended),
        *_of_time(nodes, rows, begun, ended),
    ]


def _of_order(rows, begun, ended):
    for p, i in places(rows):
        if begun[p, i] < 0 or ended[p, i] < begun[p, i]:
            yield f"{p, i} has not been carried out"
        after, behind = needs(rows, p, i)
        for other in after:
            if begun[p, i] < ended[other]:
                yield f"{p, i} begins before {other} has ended"
        for other in behind:
            if begun[p, i] < begun[other]:
                yield f"{p, i} begins before {other} has"


def _of_locks(rows, begun, ended):
    """One holder at a time, and in the order of asking."""
    held = defaultdict(list)
    for p, own in enumerate(rows):
        open_locks = {}
        for i, row in enumerate(own):
            if row["operation"] == "LOCK":
                open_locks[row["name"]] = i
            elif row["operation"] == "UNLOCK":
                i_lock = open_locks.pop(row["name"])
                # Who asks before whom: once the CPU's own part is over, if it has one.
                asked = begun[p, i_lock] + own[i_lock]["duration_ns"] * 1000
                span = (asked, ended[p, i_lock], begun[p, i])
                held[row["name"]].append((span, (p, i_lock)))
    for name, spans in held.items():
        spans.sort(key=lambda each: each[0][1])
        for ((_, _, let_go), one), ((_, had, _), other) in pairwise(spans):
            if had < let_go:
                yield f"lock {name} is {other}'s before {one} has let go of it"
        for number, ((asked, _, _), one) in enumerate(spans):
            for (asked_later, _, _), other in spans[number + 1 :]:
                if asked_later < asked:
                    yield f"lock {name}: {one} has it before {other}, which asked first"


def _of_barriers(rows, begun, ended):
    """Nobody leaves before all have come."""
    comes = defaultdict(lambda: defaultdict(list))
    for p, i in places(rows):
        if rows[p][i]["operation"] == "BARRIER":
            comes[rows[p][i]["name"]][p].append((begun[p, i], ended[p, i]))
    for name, by_process in comes.items():
        for time in zip(*(sorted(each) for each in by_process.values()), strict=True):
            if min(end for _, end in time) < max(begin for begin, _ in time):
                yield f"barrier {name} is left before all have come"


def _of_messages(rows, begun, ended):
    """What is received was sent before: of a receiver and tag as many, and none too soon."""
    sent, received = defaultdict(list), defaultdict(list)
    for p, i in places(rows):
        row = rows[p][i]
        if row["operation"] == "SEND":
            sent[row["peer"], row["name"]].append(begun[p, i])
        elif row["operation"] == "RECEIVE":
            received[p, row["name"]].append(ended[p, i])
    for key, ends in received.items():
        for begin, end in zip(sorted(sent[key]), sorted(ends), strict=False):
            if end < begin:
                yield f"a message to process {key[0]}, tag {key[1]}, is there before it is sent"
        if len(ends) > len(sent[key]):
            yield f"process {key[0]} has received what nobody sent"


def _of_time(nodes, rows, begun, ended):
    """A row takes at least the CPU's part, and whatever crosses a link takes time."""
    for p, i in places(rows):
        row = rows[p][i]
        took = ended[p, i] - begun[p, i]
        if took < row["duration_ns"] * 1000:
            yield f"{p, i} takes less than its CPU's part"
        crosses = row["operation"] == "SEND" and nodes[row["peer"]] != nodes[p]
        if (row["operation"] in MOVES or crosses) and took <= row["duration_ns"] * 1000:
            yield f"{p, i} takes no time to cross the network"
