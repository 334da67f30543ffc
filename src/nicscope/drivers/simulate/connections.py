"""Small reads or writes of many threads over many queue pairs of one NIC, in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.clock import NEVER
from nicscope.drivers.simulate.agenda import Agenda, earliest, new_agenda, put
from nicscope.kernel.decorators import kernel, step
from nicscope.kernel.records import records
from nicscope.nic.context_cache import Residents, bring, leave, look_up, new_residents

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
    credits: NDArray[np.int64]  # operations that may still be posted, of all queue pairs together
    starved: Ring  # threads that wait for a credit
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
    budget: int | None = None,
) -> Traffic:
    """Threads at rest.  ``doorbells`` None: one for each queue pair.

    ``budget``: operations of all threads together that may be outstanding.  A thread that finds it
    used up posts its next operation when another ends, first come, first served.

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
        credits=np.array([operations if budget is None else min(budget, operations)], np.int64),
        starved=_ring(threads),
        free=np.zeros(2, np.int64),
        contexts=new_residents(queue_pairs, context_slots, replacement),
        requests=new_residents(operations, request_slots, replacement),
    )


def _ring(places: int) -> Ring:
    return Ring(np.zeros(places, np.int32), np.zeros(places, np.int64), np.zeros(2, np.int64))


# What a thread's next event is: it has done its share of a post, or has got a credit for it, or has
# its queue pair's lock, or has rung the doorbell; or else it waits for answers, or has taken all of
# them.
_POSTED, _CREDITED, _LOCKED, _RUNG, _WAITING, _TOOK = range(6)
_FETCH_FREE, _EXECUTE_FREE = range(2)  # of ``free``
_FETCH, _EXECUTION, _ANSWER = range(3)  # slots behind the threads'
_HEAD, _COUNT = range(2)  # of a ring's state


@step
def _enter(ring, operation, time):
    place = (ring.state[_HEAD] + ring.state[_COUNT]) % ring.operation.size
    ring.operation[place] = operation
    ring.arrival[place] = time
    ring.state[_COUNT] += 1


@step
def _first(ring):
    """When the first entry of a ring is due."""
    return ring.arrival[ring.state[_HEAD]] if ring.state[_COUNT] > 0 else NEVER


@step
def _take(ring):
    operation = np.int64(ring.operation[ring.state[_HEAD]])
    ring.state[_HEAD] = (ring.state[_HEAD] + 1) % ring.operation.size
    ring.state[_COUNT] -= 1
    return operation


@step
def _hold(traffic, lock, thread, now):
    """Queue for ``lock``; when it has been held.  It is handed over slower the more wait."""
    costs = traffic.costs[0]
    slower = min(traffic.at_lock[lock], costs.waiters) * costs.waiter_ps
    if traffic.holder[lock] != thread:
        slower += costs.moved_ps
        traffic.holder[lock] = thread
    traffic.at_lock[lock] += 1
    begin = max(now, traffic.lock_free[lock])
    traffic.counts[0].locked_ps += begin - now + slower
    traffic.lock_free[lock] = begin + costs.doorbell_ps + slower
    return traffic.lock_free[lock]


@step
def _operation_of(traffic, thread):
    return thread * (traffic.began.size // traffic.stage.size) + traffic.posted[thread]


@step
def _move_thread(traffic, thread, now):
    """Advances a thread to its next stage."""
    stage = traffic.stage[thread]
    if stage == _POSTED and traffic.credits[0] == 0:
        traffic.stage[thread] = _CREDITED
        _enter(traffic.starved, thread, now)
        put(traffic.agenda, thread, NEVER)
    elif stage <= _CREDITED:
        if stage == _POSTED:
            traffic.credits[0] -= 1
        own = traffic.queue_pairs[thread]
        pair = own[0] + (traffic.turns[thread] % own[1]) * own[2]
        traffic.queue_pair[_operation_of(traffic, thread)] = pair
        traffic.turns[thread] += 1
        if traffic.lock[pair] == NOBODY:
            _ring_doorbell(traffic, thread, pair, now)
        else:
            traffic.stage[thread] = _LOCKED
            put(traffic.agenda, thread, _hold(traffic, traffic.lock[pair], thread, now))
    elif stage == _LOCKED:
        pair = np.int64(traffic.queue_pair[_operation_of(traffic, thread)])
        traffic.at_lock[traffic.lock[pair]] -= 1
        _ring_doorbell(traffic, thread, pair, now)
    elif stage == _RUNG:
        _issue(traffic, thread, now)
    else:
        traffic.posted[thread] = 0
        traffic.done[thread] = 0
        traffic.stage[thread] = _POSTED
        put(traffic.agenda, thread, now + traffic.costs[0].post_ps)


@step
def _ring_doorbell(traffic, thread, pair, now):
    traffic.stage[thread] = _RUNG
    put(traffic.agenda, thread, _hold(traffic, traffic.doorbell[pair], thread, now))


@step
def _issue(traffic, thread, now):
    """Issues an operation whose doorbell has been rung to the NIC; posts the next, or waits."""
    operation = _operation_of(traffic, thread)
    pair = np.int64(traffic.queue_pair[operation])
    traffic.at_lock[traffic.doorbell[pair]] -= 1
    traffic.began[operation] = now
    _enter(traffic.posts, operation, now)
    _plan(traffic, _FETCH, traffic.posts, _FETCH_FREE)
    traffic.posted[thread] += 1
    if traffic.posted[thread] < _outstanding(traffic):
        traffic.stage[thread] = _POSTED
        put(traffic.agenda, thread, now + traffic.costs[0].post_ps)
    else:
        _wait(traffic, thread, now)


@step
def _outstanding(traffic):
    return traffic.began.size // traffic.stage.size


@step
def _wait(traffic, thread, now):
    """Has a thread poll its completions if all have arrived, or else sleep."""
    traffic.stage[thread] = _WAITING
    put(traffic.agenda, thread, NEVER)
    if traffic.done[thread] == _outstanding(traffic):
        traffic.stage[thread] = _TOOK
        takes = _outstanding(traffic) * traffic.costs[0].completion_ps
        put(traffic.agenda, thread, now + takes)


@step
def _plan(traffic, after, ring, unit):
    """Schedules slot ``after`` the threads' for when ``unit`` can serve the ring's first."""
    first = _first(ring)
    begin = first if first == NEVER else max(first, traffic.free[unit])
    put(traffic.agenda, traffic.stage.size + after, begin)


@step
def _begin(traffic, now):
    """Fetches the oldest posted work request."""
    costs = traffic.costs[0]
    if traffic.free[_FETCH_FREE] <= now:
        operation = _take(traffic.posts)
        traffic.free[_FETCH_FREE] = now + costs.fetch_ps
        bring(traffic.requests, operation)
        _enter(traffic.fetched, operation, traffic.free[_FETCH_FREE] + costs.fetch_latency_ps)
        _plan(traffic, _EXECUTION, traffic.fetched, _EXECUTE_FREE)
    _plan(traffic, _FETCH, traffic.posts, _FETCH_FREE)


@step
def _execute(traffic, now):
    """Executes the oldest fetched work request, or queues it for its queue pair's window."""
    if traffic.free[_EXECUTE_FREE] <= now:
        operation = _take(traffic.fetched)
        window = traffic.window[traffic.queue_pair[operation]]
        if window[0] < traffic.costs[0].window:
            _send(traffic, operation, now)
        else:
            traffic.since[operation] = now
            traffic.waiting[operation] = NOBODY
            if window[1] == NOBODY:
                window[1] = operation
            else:
                traffic.waiting[window[2]] = operation
            window[2] = operation
    _plan(traffic, _EXECUTION, traffic.fetched, _EXECUTE_FREE)


@step
def _send(traffic, operation, now):
    """Put an operation on its way."""
    costs, counts = traffic.costs[0], traffic.counts[0]
    pair = np.int64(traffic.queue_pair[operation])
    traffic.window[pair][0] += 1
    takes = costs.execute_ps + _context(traffic, pair) + _request(traffic, operation)
    counts.executing_ps += costs.execute_ps
    traffic.free[_EXECUTE_FREE] = max(now, traffic.free[_EXECUTE_FREE]) + takes
    _enter(traffic.answers, operation, traffic.free[_EXECUTE_FREE] + costs.answer_ps)
    _plan(traffic, _ANSWER, traffic.answers, _EXECUTE_FREE)


@step
def _context(traffic, pair):
    """Looks up the context of a queue pair; how long a fetch of it blocks the NIC."""
    traffic.counts[0].context_lookups += 1
    if look_up(traffic.contexts, pair):
        return np.int64(0)
    traffic.counts[0].context_misses += 1
    traffic.counts[0].contexts_ps += traffic.costs[0].context_ps
    return np.int64(traffic.costs[0].context_ps)


@step
def _request(traffic, operation):
    """Looks up a work request; how long fetching it again blocks the NIC."""
    if look_up(traffic.requests, operation):
        return np.int64(0)
    traffic.counts[0].work_request_misses += 1
    traffic.counts[0].refetching_ps += traffic.costs[0].fetch_ps
    return np.int64(traffic.costs[0].fetch_ps)


@step
def _answer(traffic, now):
    """Completes the operation whose response has arrived."""
    if traffic.free[_EXECUTE_FREE] <= now:
        operation = _take(traffic.answers)
        pair = np.int64(traffic.queue_pair[operation])
        takes = _context(traffic, pair) + _request(traffic, operation)
        leave(traffic.requests, operation)
        traffic.free[_EXECUTE_FREE] = now + takes
        _complete(traffic, operation, now + takes)
        _open_window(traffic, pair, now + takes)
        _plan(traffic, _EXECUTION, traffic.fetched, _EXECUTE_FREE)
    _plan(traffic, _ANSWER, traffic.answers, _EXECUTE_FREE)


@step
def _complete(traffic, operation, now):
    """Notifies an operation's thread, which polls its completions once all have arrived.

    The operation's credit goes to the thread that has waited longest for one.
    """
    if traffic.starved.state[_COUNT] > 0:
        put(traffic.agenda, _take(traffic.starved), now)
    else:
        traffic.credits[0] += 1
    traffic.counts[0].operations += 1
    traffic.counts[0].nic_ps += now - traffic.began[operation]
    thread = operation // _outstanding(traffic)
    traffic.done[thread] += 1
    if traffic.stage[thread] == _WAITING:
        _wait(traffic, thread, now)


@step
def _open_window(traffic, pair, now):
    """Issues the queue pair's next operation, which has waited for another's response."""
    window = traffic.window[pair]
    window[0] -= 1
    if window[1] != NOBODY:
        waiting = window[1]
        window[1] = traffic.waiting[waiting]
        traffic.counts[0].windowed_ps += now - traffic.since[waiting]
        _send(traffic, waiting, now)


@kernel
def run_traffic(traffic, operations):
    """Runs until ``operations`` operations have ended in all."""
    counts = traffic.counts[0]
    while counts.operations < operations:
        slot = earliest(traffic.agenda)
        now = traffic.agenda.times[slot]
        counts.now_ps = now
        if slot < traffic.stage.size:
            _move_thread(traffic, slot, now)
        elif slot == traffic.stage.size + _FETCH:
            _begin(traffic, now)
        elif slot == traffic.stage.size + _EXECUTION:
            _execute(traffic, now)
        else:
            _answer(traffic, now)
