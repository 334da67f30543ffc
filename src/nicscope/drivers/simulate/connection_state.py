"""What a NIC and the threads that post to it have between two events; ``connections`` runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.simulate.agenda import Agenda, new_agenda, put
from nicscope.kernel.records import records
from nicscope.nic.residents import Residents, new_residents

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

NOBODY = -1
COSTS = np.dtype(
    [
        (name, "i8")
        for name in (
            "post_ps",  # of a thread, for each operation
            "doorbell_ps",  # that a lock is held
            "moved_ps",  # longer if another thread had it before
            "waiter_ps",  # and for each who waits for it
            "waiters",  # of them that count
            "completion_ps",  # of a thread, for each operation
            "fetch_ps",  # between two fetches of work requests
            "context_ps",  # that a context takes to come
            "fetch_latency_ps",
            "execute_ps",  # between two operations
            "answer_ps",  # from an operation's start until its answer is there
            "window",  # operations of a queue pair that may be on their way
        )
    ],
    align=True,
)
COUNTS = np.dtype(
    [
        (name, "i8")
        for name in (
            "operations",  # that have ended
            "work_request_misses",  # work requests that were fetched once more
            "context_lookups",
            "context_misses",
            "executing_ps",  # that the NIC was busy with operations
            "refetching_ps",  # and with work requests that it had to fetch again
            "contexts_ps",  # and with contexts
            "locked_ps",  # that threads waited for locks, added up
            "windowed_ps",  # that operations waited for their queue pair's window, added up
            "now_ps",
            "nic_ps",  # from doorbell to completion, added up
        )
    ],
    align=True,
)


class Ring(NamedTuple):
    """Operations in the order in which they arrive; arrivals never go back."""

    operation: NDArray[np.int32]
    arrival: NDArray[np.int64]  # ps
    state: NDArray[np.int64]  # first place, and how many


class Traffic(NamedTuple):
    """All of it; operations are numbered by thread, then by turn."""

    costs: NDArray[Any]
    counts: NDArray[Any]
    agenda: Agenda  # threads, then the next fetch, the next execution, the next answer
    stage: NDArray[np.int32]  # by thread
    posted: NDArray[np.int64]  # of the batch
    done: NDArray[np.int64]
    turns: NDArray[np.int64]  # operations that a thread has posted so far
    queue_pairs: NDArray[np.int64]  # by thread: first, how many, and how far apart
    lock: NDArray[np.int32]  # of an operation's queue pair; NOBODY where only one thread has it
    doorbell: NDArray[np.int32]  # lock of the doorbell, by queue pair
    lock_free: NDArray[np.int64]  # ps, by lock
    holder: NDArray[np.int32]  # thread that had a lock last
    at_lock: NDArray[np.int64]  # threads that hold it or wait for it
    queue_pair: NDArray[np.int32]  # by operation
    began: NDArray[np.int64]  # ps of the doorbell, by operation
    posts: Ring  # doorbells rung
    fetched: Ring
    answers: Ring
    waiting: NDArray[np.int32]  # by operation: the next of its queue pair that waits
    since: NDArray[np.int64]  # ps from which on it does
    window: NDArray[np.int64]  # by queue pair: on their way, first that waits, last
    free: NDArray[np.int64]  # ps when the NIC can fetch, and execute
    contexts: Residents
    requests: Residents


class Doorbells(NamedTuple):
    """Registers of a context: the first are one queue pair's each, the others are dealt out."""

    own: int
    shared: int


def new_traffic(
    costs: Mapping[str, int],
    threads: int,
    queue_pairs: int,
    outstanding: int,
    doorbells: Doorbells | None,
    context_slots: int,
    request_slots: int,
    replacement: int,
) -> Traffic:
    """Threads at rest.  ``doorbells`` None: one for each queue pair.

    With more queue pairs than threads each thread takes turns with its own; with fewer, threads
    share them.
    """
    operations = threads * outstanding
    given = records(1, COSTS)
    given[0] = tuple(costs[name] for name in COSTS.names or ())
    own = np.zeros((threads, 3), np.int64)
    for thread in range(threads):
        first = thread % queue_pairs
        own[thread] = (first, max(1, -(-(queue_pairs - first) // threads)), threads)
    pairs = np.arange(queue_pairs)
    shares = queue_pairs < threads
    if doorbells is None:
        register = pairs
    else:
        dealt = doorbells.own + (pairs - doorbells.own) % max(doorbells.shared, 1)
        register = np.where(pairs < doorbells.own, pairs, dealt)
    agenda = new_agenda(threads + 3)
    for thread in range(threads):
        put(agenda, thread, given[0].post_ps)
    return Traffic(
        costs=given,
        counts=records(1, COUNTS),
        agenda=agenda,
        stage=np.zeros(threads, np.int32),
        posted=np.zeros(threads, np.int64),
        done=np.zeros(threads, np.int64),
        turns=np.zeros(threads, np.int64),
        queue_pairs=own,
        lock=(pairs if shares else np.full(queue_pairs, NOBODY)).astype(np.int32),
        doorbell=(queue_pairs + register).astype(np.int32),
        lock_free=np.zeros(2 * queue_pairs + 16, np.int64),
        holder=np.full(2 * queue_pairs + 16, NOBODY, np.int32),
        at_lock=np.zeros(2 * queue_pairs + 16, np.int64),
        queue_pair=np.zeros(operations, np.int32),
        began=np.zeros(operations, np.int64),
        posts=_ring(operations),
        fetched=_ring(operations),
        answers=_ring(operations),
        waiting=np.full(operations, NOBODY, np.int32),
        since=np.zeros(operations, np.int64),
        window=np.tile(np.array([0, NOBODY, NOBODY], np.int64), (queue_pairs, 1)),
        free=np.zeros(2, np.int64),
        contexts=new_residents(queue_pairs, context_slots, replacement),
        requests=new_residents(operations, request_slots, replacement),
    )


def _ring(places: int) -> Ring:
    return Ring(np.zeros(places, np.int32), np.zeros(places, np.int64), np.zeros(2, np.int64))
