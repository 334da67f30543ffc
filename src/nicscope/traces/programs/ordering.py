"""When each row could begin and end if a network took no time: the longest way to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.kernel.decorators import kernel
from nicscope.traces.programs.schema import Operation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.traces.programs.schema import Others, ProgramTrace, Waits


class Times(NamedTuple):
    """Nanoseconds from the beginning, of each row."""

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    is_reached: NDArray[np.bool_]  # not where rows wait for each other, or for what nobody sends

    @property
    def longest_ns(self) -> int:
        """How long the longest way through takes: nothing can be sooner."""
        return int(self.end[self.is_reached].max(initial=0))


def times_without_network(trace: ProgramTrace) -> Times:
    """Times in which only computing passes; a message is there when it is sent, a lock is free."""
    begins, ends = _events(trace)
    edges = [
        np.stack([begins, ends]),
        _of_waits(trace, begins, ends),
        *_of_others(trace.after_others, ends, begins),
        *_of_others(trace.after_start_others, begins, begins),
    ]
    messages, missing = _of_messages(trace, ends)
    edges.append(messages)
    if trace.after_start is not None:
        edges.append(_within(trace, trace.after_start, begins, begins))
    meetings, met = _of_barriers(trace, begins, ends)
    edges.append(meetings)
    source, target = np.concatenate(edges, axis=1)
    order = np.argsort(source, kind="stable")
    many = 2 * trace.rows + met
    first = np.zeros(many + 1, np.int64)
    np.cumsum(np.bincount(source, minlength=many), out=first[1:])
    takes = np.zeros(many, np.int64)
    takes[ends] = trace.duration_ns.astype(np.int64)
    waiting = np.bincount(target, minlength=many)
    waiting[ends[missing]] += 1  # for what nobody sends
    time = np.zeros(many, np.int64)
    _longest(first, target[order], waiting, takes, time, np.empty(many, np.int64))
    reached = waiting[ends] == 0
    return Times(time[begins], time[ends], reached)


def _events(trace: ProgramTrace) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    rows = np.arange(trace.rows)
    return 2 * rows, 2 * rows + 1


def _of_waits(
    trace: ProgramTrace, begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.int64]:
    if trace.after is not None:
        return _within(trace, trace.after, ends, begins)
    is_first = np.zeros(trace.rows, np.bool_)
    is_first[trace.first[:-1][np.diff(trace.first) > 0]] = True
    later = np.flatnonzero(~is_first)
    return np.stack([ends[later - 1], begins[later]])


def _within(
    trace: ProgramTrace,
    waits: Waits,
    of: NDArray[np.int64],
    to: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Edges from events ``of`` the rows that are named, by place, ``to`` those that name them."""
    rows = np.repeat(np.arange(trace.rows), np.diff(waits.first))
    begins = trace.first[np.searchsorted(trace.first, rows, "right") - 1]
    return np.stack([of[begins + waits.places], to[rows]])


def _of_others(
    others: Others | None, of: NDArray[np.int64], to: NDArray[np.int64]
) -> list[NDArray[np.int64]]:
    if others is None:
        return []
    rows = np.repeat(np.arange(len(others.first) - 1), np.diff(others.first))
    return [np.stack([of[others.rows], to[rows]])]


def _of_messages(
    trace: ProgramTrace, ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """From each SEND to the RECEIVE that takes it, in their order, and RECEIVEs without one.

    Those of any source or tag are left alone.
    """
    process = trace.process_of_rows().astype(np.int64)
    sends = np.flatnonzero(trace.operation == Operation.SEND)
    takes = np.flatnonzero(
        (trace.operation == Operation.RECEIVE) & (trace.peer >= 0) & (trace.name >= 0)
    )
    sent = np.stack([process[sends], trace.peer[sends].astype(np.int64), trace.name[sends]])
    taken = np.stack([trace.peer[takes].astype(np.int64), process[takes], trace.name[takes]])
    keys = np.concatenate([sent, taken], axis=1)
    _, group = np.unique(keys, axis=1, return_inverse=True)
    group = group.reshape(-1)
    one = _numbered(group[: len(sends)])
    other = _numbered(group[len(sends) :])
    _, mine, theirs = np.intersect1d(one, other, assume_unique=True, return_indices=True)
    edges = np.stack([ends[sends[mine]], ends[takes[theirs]]])
    return edges, takes[~np.isin(other, one)]


def _numbered(group: NDArray[np.int64]) -> NDArray[np.int64]:
    """A number for each that has its group and its place in it."""
    order = np.argsort(group, kind="stable")
    begins = np.searchsorted(group[order], group[order])
    place = np.empty(len(group), np.int64)
    place[order] = np.arange(len(group)) - begins
    return np.asarray(group * (1 << 32) + place)


def _of_barriers(
    trace: ProgramTrace, begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], int]:
    """From who comes to where they meet, and on; how many meetings there are."""
    rows = np.flatnonzero(trace.operation == Operation.BARRIER)
    process = trace.process_of_rows()[rows].astype(np.int64)
    _, group = np.unique(np.stack([trace.name[rows], process]), axis=1, return_inverse=True)
    often = _numbered(group.reshape(-1)) & ((1 << 32) - 1)
    kinds, meeting = np.unique(np.stack([trace.name[rows], often]), axis=1, return_inverse=True)
    at = 2 * trace.rows + meeting.reshape(-1)
    return np.stack(
        [np.concatenate([begins[rows], at]), np.concatenate([at, ends[rows]])]
    ), kinds.shape[1]


@kernel
def _longest(first, targets, waiting, takes, time, ready):
    """Add to ``time`` the latest of each event; each takes its time at its end.

    ``waiting`` says how many each waits for, and is left with those that never come; ``ready`` is
    room for as many events.
    """
    count = 0
    for event in range(waiting.size):
        if waiting[event] == 0:
            ready[count] = event
            count += 1
    done = 0
    while done < count:
        event = ready[done]
        done += 1
        time[event] += takes[event]
        for edge in range(first[event], first[event + 1]):
            target = targets[edge]
            time[target] = max(time[target], time[event])
            waiting[target] -= 1
            if waiting[target] == 0:
                ready[count] = target
                count += 1
