"""Work and completion queues: entries, asynchronous errors, and reports to processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.decorators import distant, routine, step
from nicscope.memory_limit import zeroed
from nicscope.nic.delivery import place_in
from nicscope.nic.ports import layout
from nicscope.nic.ports.calls import break_connection, post_report, release_request_pages
from nicscope.nic.ports.traffic import tally_completion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.memory_limit import Shapes


ASYNC_ERRORS = 16  # of a port that are kept, the newest

# Asynchronous errors: no descriptor completes with them (``WorkQueues.async_errors``).
POSTED_BADLY = 0  # a work request was rejected
CONNECTION_LOST = 1
RECEIVES_EMPTY = 2  # a message found no receive
WRITE_REFUSED = 4  # a remote write was denied access
FETCH_REFUSED = 7
RECEIVE_FAILED = 8  # a message did not fit the receive that it took
QUEUE_FULL = 10  # a completion found no room in its completion queue
RECEIVES_LOW = 11  # fewer receives are left than the process's limit
REQUEST_INVALID = 12  # a remote request without a right here, or not aligned to a word

RECEIVE = np.dtype(
    [
        ("cookie", "i8"),
        ("segments", "i8"),
        ("length", "i8"),  # bytes of all of them
        ("status", "i8"),  # what the library or the NIC found when it was posted
        ("kept", "i8"),  # 1: its pages stay pinned for it
        ("queue", "i8"),  # 1 more than where its end is announced beside, or 0
        ("serial", "i8"),  # how many its port has had before: what stays when its number changes
    ],
    align=True,
)
REGION = np.dtype(
    [
        ("key", "i8"),  # 0: none; its place is the remainder
        ("space", "i8"),
        ("domain", "i8"),  # ports with the same may use it
        ("address", "i8"),
        ("length", "i8"),
        ("rights", "i8"),  # of their peers, and what nobody may
        ("port", "i8"),  # the only one that may have it used, of a window; or 0
        ("shift", "i8"),  # bytes from the addresses that name it to those of its memory
        ("kind", "i8"),  # 1: of a window; 2: of one that only the port may use which bound it
        ("of", "i8"),  # the key of the region that a window is a part of, or 0
    ],
    align=True,
)
QUEUE = np.dtype(
    [
        ("open", "i8"),
        ("entries", "i8"),  # that it has room for
        ("written", "i8"),
        ("shown", "i8"),  # of these, what has crossed to the host's memory
        ("read", "i8"),
        ("notices", "i8"),  # 1 more than the queue where its entries are announced too, or 0
    ],
    align=True,
)
ENTRY = np.dtype(
    [
        ("port", "i8"),  # whose work has completed; NOBODY: to be skipped
        ("side", "i8"),  # SENT, ...
        ("number", "i8"),  # of the report, if that is of a receive
        ("urgent", "i8"),  # 1: a solicited event: it has failed, or its sender asks for one
    ],
    align=True,
)
RUN = np.dtype(
    [
        ("address", "i8"),  # physical
        ("count", "i8"),  # bytes
        ("key", "i8"),  # of its translation, which is held, or NO_KEY
        ("frame", "i8"),
        ("generation", "i8"),
        ("before", "i8"),  # bytes of the same piece, and behind
        ("after", "i8"),
    ],
    align=True,
)


class WorkQueues(NamedTuple):
    """All with the node first."""

    receives: NDArray[Any]  # RECEIVE, shape (nodes, ports, receives)
    pieces: NDArray[Any]  # SEGMENT, shape (nodes, ports, receives, segments)
    regions: NDArray[Any]  # REGION, shape (nodes, regions)
    queues: NDArray[Any]  # QUEUE, shape (nodes, queues)
    entries: NDArray[Any]  # ENTRY, shape (nodes, queues, entries)
    runs: NDArray[Any]  # RUN, shape (nodes, receive_ring, runs): where arriving payloads go
    # SEGMENT, shape (nodes, receive_ring, 1): where the export of an arriving store is redirected
    redirected: NDArray[Any]
    fetched: NDArray[Any]  # SEGMENT, shape (nodes, ports, ring, segments): where answers go
    # Shape (nodes, ports, ring): the token of a descriptor in its host's memory that the NIC has
    # not fetched, 0 of one that is on the NIC.
    tokens: NDArray[np.int64]
    # SEGMENT, of the same shape: where in registered memory a descriptor is, of no length if on the
    # NIC from the first.
    descriptors: NDArray[Any]
    async_errors: NDArray[np.int64]  # shape (nodes, ports, ASYNC_ERRORS)


def work_shapes(extent: Any) -> Shapes:
    """The arrays of ``WorkQueues`` for an ``Extent``."""
    n, p, receives, segments = extent.nodes, extent.ports, extent.receives, extent.segments
    has = 1 if receives else 0
    # What comes for an exported buffer, too, may go to two places, if that is redirected.
    scattered = extent.rings[1] if receives or extent.exports else 0
    return {
        "receives": ((n, p, receives), RECEIVE),
        "pieces": ((n, p, receives, segments), layout.SEGMENT),
        "regions": ((n, extent.regions), REGION),
        "queues": ((n, extent.queues), QUEUE),
        "entries": ((n, extent.queues, extent.entries), ENTRY),
        # Each piece of a payload may lie over the end of a page, and of a burst over several.
        "runs": ((n, scattered, 2 * segments + layout.BURST_PAGES if has else 2), RUN),
        "redirected": ((n, scattered, 1), layout.SEGMENT),
        "fetched": ((n, p, has * extent.ring, segments), layout.SEGMENT),
        "tokens": ((n, p, has * extent.ring), np.dtype(np.int64)),
        "descriptors": ((n, p, has * extent.ring), layout.SEGMENT),
        "async_errors": ((n, p, ASYNC_ERRORS if has or extent.queues else 0), np.dtype(np.int64)),
    }


def new_work_queues(extent: Any) -> WorkQueues:
    """Nothing posted, registered or open."""
    return WorkQueues(**zeroed(work_shapes(extent)))


ASYNC_ERROR = 2  # in place of a side: an asynchronous error


@step
def enqueue_entry(nics, n, p, side, q):
    """Append an entry for ``side`` of port ``p`` to completion queue ``q``; false if it is full."""
    ports = nics.ports
    queue = ports.work.queues[n, q]
    if queue.written - queue.read == queue.entries:
        return False
    entry = ports.work.entries[n, q, queue.written % ports.work.entries.shape[2]]
    entry.port = p
    entry.side = side
    entry.number = ports.table[n, p].received - 1
    entry.urgent = 0
    queue.written += 1
    if ports.rules[0].tells == 1:
        post_report(nics, n, ports.table.shape[1] + q, 0)
    else:
        queue.shown += 1
    return True


@step
def notify(nics, n, p, side, notices):
    """Append an entry for port ``p`` to queue ``notices - 1``, unless ``notices`` is 0."""
    if notices > 0:
        enqueue_entry(nics, n, p, side, notices - 1)


@step
def mark_solicited(nics, n, q):
    """Mark the newest entry of queue ``q`` as solicited: a waiter for solicited events wakes."""
    if q >= 0:
        work = nics.ports.work
        work.entries[n, q, (work.queues[n, q].written - 1) % work.entries.shape[2]].urgent = 1


@step
def local_error_verdict(port):
    """Verdict for a local error: what the peer is told, or that it is told nothing."""
    return np.int64(layout.DONE if port.rules & layout.KEEPS_OWN_ERRORS != 0 else layout.FLUSHED)


@step
def post_async_error(nics, n, p, code):
    """Report an asynchronous error to the process of port ``p``; the newest are kept."""
    port = nics.ports.table[n, p]
    if nics.ports.work.async_errors.shape[2] > 0:
        nics.ports.work.async_errors[n, p, port.async_errors % ASYNC_ERRORS] = code
    port.async_errors += 1
    nics.ports.nodes[n].async_errors += 1
    notify(nics, n, p, ASYNC_ERROR, port.notices)


FAILING = 2  # of a port that is ``stopped``: its connection ends, too


@distant
def report_sent(nics, n, p, slot, status):
    """Complete the descriptor of port ``p`` in ``slot`` with ``status``.

    Those of a connected port are told in the order in which they were posted, whatever the network
    makes of it.
    """
    ports = nics.ports
    if ports.table[n, p].takes != layout.WORK_QUEUE:
        _report_send(nics, n, p, slot, status)
        return
    pending = ports.pending[n, p, slot]
    pending.over = 1
    pending.status = status
    number = pending.number
    if _is_unreported(ports, n, p, number - 1):
        return
    fails = False
    while _is_unreported(ports, n, p, number) and ports.pending[n, p, slot].over == 1:
        told = np.int64(ports.pending[n, p, slot].status)
        fails = fails or told != layout.DONE
        _report_send(nics, n, p, slot, told)
        number += 1
        slot = place_in(number, ports.rules[0].ring)
    if fails and is_failing(ports, n, p):
        ports.table[n, p].stopped = 1
        break_connection(
            nics, n, p, layout.BROKEN, POSTED_BADLY, local_error_verdict(ports.table[n, p])
        )


@step
def is_failing(ports, n, p):
    """Whether port ``p`` breaks its connection when its failed descriptor is reported."""
    port = ports.table[n, p]
    return port.stopped == FAILING and port.state == layout.CONNECTED


@step
def fail_after_predecessors(nics, n, p, slot, status):
    """Fail the descriptor in ``slot`` once its predecessors have completed as they would."""
    nics.ports.table[n, p].stopped = FAILING
    report_sent(nics, n, p, slot, status)


@step
def has_open_predecessor(ports, n, p, slot):
    """Whether a descriptor before that in ``slot`` has not been completed yet."""
    return _is_unreported(ports, n, p, ports.pending[n, p, slot].number - 1)


@step
def _is_unreported(ports, n, p, number):
    """Whether descriptor ``number`` of port ``p`` has not been completed yet."""
    pending = ports.pending[n, p, place_in(number, ports.rules[0].ring)]
    return pending.busy == 1 and pending.number == number


@routine
def _report_send(nics, n, p, slot, status):
    ports = nics.ports
    port = ports.table[n, p]
    report = ports.reports[n, p, layout.SENT, place_in(port.reported, ports.rules[0].ring)]
    pending = ports.pending[n, p, slot]
    report.cookie = pending.cookie
    report.status = status
    report.operation = pending.operation
    report.length = 0
    pending.over = 0
    if port.takes == layout.WORK_QUEUE and status == layout.DONE:
        report.length = pending.length
    release_request_pages(nics, n, p, slot)
    port.reported += 1
    ports.told[n, status] += 1
    tally_completion(nics, n, p, layout.SENT, status)
    ports.port_told[n, p, status] += 1
    if status != layout.DONE:
        ports.nodes[n].rejected += 1
    if ports.rules[0].tells == 1:
        post_report(nics, n, p, layout.SENT)
    is_quiet = (
        port.takes == layout.WORK_QUEUE
        and status == layout.DONE
        and pending.options & layout.UNSIGNALLED != 0
    )
    report.buffers = 1 if is_quiet else 0
    if port.send_queue != layout.NOBODY and not is_quiet:
        post_completion(nics, n, p, layout.SENT, port.send_queue)
        if status != layout.DONE:
            mark_solicited(nics, n, np.int64(port.send_queue))


@distant
def report_received(nics, n, p, operation, name, node, length, buffers, offset):
    """Report an arrival to the process of port ``p``; the place of the report."""
    ports = nics.ports
    port = ports.table[n, p]
    place = place_in(port.received, ports.rules[0].ring)
    report = ports.reports[n, p, layout.RECEIVED, place]
    report.operation = operation
    report.status = layout.DONE
    report.name = name
    report.node = node
    report.length = length
    report.buffers = buffers
    report.offset = offset
    port.received += 1
    if ports.rules[0].tells == 1:
        post_report(nics, n, p, layout.RECEIVED)
    if port.receive_queue != layout.NOBODY:
        post_completion(nics, n, p, layout.RECEIVED, port.receive_queue)
    return place


@distant
def post_completion(nics, n, p, side, q):
    """Post a completion of port ``p`` to completion queue ``q``; a full queue drops it.

    The report has been told before, so whoever finds the entry finds it too.
    """
    if enqueue_entry(nics, n, p, side, q):
        notify(nics, n, p, side, nics.ports.work.queues[n, q].notices)
    else:
        _overrun(nics, n, p)


@step
def _overrun(nics, n, p):
    """Report a full completion queue to the process of port ``p``; its connection will break.

    That ends when the firmware has its next turn: whoever reports is in the middle of something.
    What is reported meanwhile, and what then ends as flushed, is found at the port itself.
    """
    port = nics.ports.table[n, p]
    if port.overrun == 1 or port.state == layout.BROKEN:
        return
    post_async_error(nics, n, p, QUEUE_FULL)
    if port.state == layout.CONNECTED:
        port.overrun = 1
        nics.ports.nodes[n].cuts += 1
