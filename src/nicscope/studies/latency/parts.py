"""Breakdown of one message's latency from the log, each instant counted once.

A message goes on in three stretches: the sender's processor until its doorbell has rung, the two
NICs until the receiver's report is in its host's memory, the receiver's processor until its polls
have seen that and its program has loaded the message.  Several things may be under way at one
moment; it is counted for the first of these: the NICs' messaging (the sender's before the
receiver's), the engines between host and NIC, a host's processor, what the NICs do for other
messages, the network; and where nothing was, as waiting.  So parts add up.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.config.design import Way
from nicscope.drivers.simulate.observe import Engine, Task
from nicscope.drivers.simulate.records import ACCESSING, COPYING, INTERRUPTED, POLLING, POSTING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray


class Part(IntEnum):
    """A component of a message's latency.  Source: EDT, 7.2 and Figures 8 and 9.

    LIBRARY, COPY, WAIT, NETWORK and USER_READ are ours: the paper's Transport is the time of VI-MSG
    alone, its User Data what the sender writes.
    """

    USER_DATA = 0  # the program writes the message
    DMA_INIT = 1
    DMA_EXEC = 2
    DMA_INTERRUPT = 3
    COHERENCE = 4  # the NIC writes back, or takes, blocks that it keeps
    BLOCK_WAIT = 5  # the NIC waits for blocks that it reads because the host wrote them
    COPY = 6  # the processor moves or flushes the message itself
    SEND = 7  # transport at the sender: the NIC's messaging
    RECEIVE = 8
    LIBRARY = 9  # the library posts and polls
    WAIT = 10  # for a NIC's processor that has something else to do, or for what nobody saw
    PIN = 11  # the library checks and pins
    TRANSLATION = 12  # the NIC looks pages up, if not the messaging does in a table of its own
    MISS = 13  # it has to wait for a translation
    NETWORK = 14  # links and switches
    USER_READ = 15  # the receiving program loads the message


DATA_TRANSFER = (
    Part.DMA_INIT,
    Part.DMA_EXEC,
    Part.DMA_INTERRUPT,
    Part.COHERENCE,
    Part.BLOCK_WAIT,
    Part.COPY,
)
TRANSPORT = (Part.SEND, Part.RECEIVE)

# Of overlapping spans the highest counts.
NETWORK, BESIDE, CPU, ENGINE, RECEIVING, SENDING = range(1, 7)
# What the NIC's processor does for messages before, or to come.
FOR_OTHERS = (Task.POST_CONTROL, Task.FINISH)
OF_CPU = (POSTING, ACCESSING, COPYING)
# What the engine does that fetches, or that delivers, if not by DMA.
FETCHES = {Way.EDT: Part.BLOCK_WAIT, Way.CNI: Part.BLOCK_WAIT}
DELIVERS = {Way.EDT: Part.COHERENCE, Way.CNI: Part.COHERENCE}
# Its move of a descriptor, where descriptors lie in the host's memory.
DESCRIPTOR = 9
BY_CPU = (Way.PIO, Way.PIO_COMBINED)  # what the engine waits for is the processor


class Span(NamedTuple):
    """An activity from ``start`` to ``end`` (ps)."""

    rank: int
    part: Part
    start: int
    end: int


class Sent(NamedTuple):
    """A message: its nodes, and when (ps) it was begun, detected and read."""

    sender: int
    receiver: int
    byte_count: int
    begun: int
    seen: int
    read: int


class Prices(NamedTuple):
    """Costs (ps) that split a record into several parts."""

    way: Way
    post: int  # the rest of a post is checking and pinning
    fetch_init: int
    deliver_init: int
    interrupt: int  # at the end of a transfer
    own_table: bool  # the messaging looks pages up itself: that is no part of its own


def prices_of(
    way: Way, costs: Mapping[str, int], nic: Mapping[str, int], *, own_table: bool
) -> Prices:
    """The prices for nodes with such costs, and such an interface on their bus."""
    if way is Way.PCI:
        init = costs.get("pci_read_start", 0), costs.get("pci_write_start", 0)
        return Prices(way, costs["post"], *init, 0, own_table)
    init = nic["dma_init"], nic["dma_init"]
    return Prices(way, costs["post"], *init, nic["dma_interrupt"], own_table)


def parts_of(log: NDArray[Any], sent: Sent, prices: Prices) -> list[int]:
    """Ps by ``Part`` of a message; ``log`` is by ``end`` and has no other message meanwhile."""
    first, last = np.searchsorted(log["end"], [sent.begun, sent.read], side="right")
    records = [_Record(*row) for row in log[list(_Record._fields)][first:last].tolist()]
    return parted(message_spans(records, sent, prices), sent.begun, sent.read)


def parted(spans: Iterable[Span], begun: int, seen: int) -> list[int]:
    """Ps by ``Part`` from ``begun`` to ``seen``: overlapping spans count as the highest part.

    Of equal ranks it is the first span's.
    """
    kept = [one for one in spans if max(one.start, begun) < min(one.end, seen)][::-1]
    times = np.unique([begun, seen, *(at for one in kept for at in (one.start, one.end))])
    times = times[(begun <= times) & (times <= seen)]
    part = np.full(max(len(times) - 1, 0), int(Part.WAIT))
    for one in sorted(kept, key=lambda one: one.rank):  # what counts is painted last
        first, last = np.searchsorted(times, [max(one.start, begun), min(one.end, seen)])
        part[first:last] = int(one.part)
    sums = np.zeros(len(Part), np.int64)
    np.add.at(sums, part, np.diff(times))
    found: list[int] = sums.tolist()
    return found


class _Record(NamedTuple):
    """The fields of a log record that are used here."""

    node: int
    engine: int
    task: int
    control: int
    start: int
    end: int
    bytes: int
    lookup: int


def message_spans(records: Sequence[_Record], sent: Sent, prices: Prices) -> Iterator[Span]:
    """The activities for that message, by its three stages."""
    rung, told = _doorbell_end(records, sent), _notified_at(records, sent)
    yield from _sender_spans(records, sent, prices, rung)
    left = max((one.end for one in _of(records, sent.sender, Engine.NET_TX)), default=rung)
    come = min((one.end for one in _of(records, sent.sender, Engine.NET_TX)), default=told)
    for one in records:
        if one.node == sent.sender and rung <= one.start and one.end <= left:
            yield from _on_nic(one, Part.SEND, SENDING, prices)
        if one.node == sent.receiver and come <= one.start and one.end <= told:
            yield from _on_nic(one, Part.RECEIVE, RECEIVING, prices)
    for one in records:
        if one.node == sent.receiver and one.engine == Engine.CPU and one.start >= told:
            loading = Part.USER_READ if one.start >= sent.seen else Part.LIBRARY
            part = Part.COPY if one.task == COPYING else loading
            yield Span(CPU, part, one.start, one.end)


def _of(records: Sequence[_Record], node: int, engine: Engine) -> Iterator[_Record]:
    return (one for one in records if one.node == node and one.engine == engine)


def _doorbell_end(records: Sequence[_Record], sent: Sent) -> int:
    """When the sender's CPU has finished the post and rung the doorbell."""
    rung = sent.begun
    posted = False
    for one in _of(records, sent.sender, Engine.CPU):
        if one.start < sent.begun:
            continue
        if posted and (one.start != rung or one.task not in OF_CPU):
            break
        posted |= one.task == POSTING
        if posted:
            rung = one.end
    return rung


def _notified_at(records: Sequence[_Record], sent: Sent) -> int:
    """When the receiver's NIC notified the host: the last report that its poll could see."""
    polled = [
        one.start
        for one in _of(records, sent.receiver, Engine.CPU)
        if one.task == POLLING and one.end <= sent.seen
    ]
    latest = max(polled, default=sent.seen)
    for engine, task in ((Engine.REPORT, None), (Engine.FIRMWARE, Task.COMPLETE)):
        ends = [
            one.end
            for one in _of(records, sent.receiver, engine)
            if one.end <= latest and task in (None, one.task)
        ]
        if ends:
            return max(ends)
    return latest


def _sender_spans(
    records: Sequence[_Record], sent: Sent, prices: Prices, rung: int
) -> Iterator[Span]:
    """Spans of the first stage: message store, descriptor store, post."""
    left = sent.byte_count
    for one in _of(records, sent.sender, Engine.CPU):
        if one.start < sent.begun or one.end > rung:
            continue
        if one.task == POSTING:
            yield Span(CPU, Part.LIBRARY, one.start, min(one.end, one.start + prices.post))
            yield Span(CPU, Part.PIN, min(one.end, one.start + prices.post), one.end)
        elif one.task == COPYING:
            yield Span(CPU, Part.COPY, one.start, one.end)
        elif one.task == ACCESSING:
            yield Span(CPU, Part.USER_DATA if left > 0 else Part.LIBRARY, one.start, one.end)
            left -= one.bytes
        else:
            yield Span(CPU, Part.MISS, one.start, one.end)


def _on_nic(one: _Record, messaging: Part, rank: int, prices: Prices) -> Iterator[Span]:
    """The part that a record of the middle stage belongs to."""
    if one.engine == Engine.FIRMWARE and one.task == Task.MISSING:
        yield Span(rank, Part.MISS, one.start, one.end)
    elif one.engine == Engine.FIRMWARE and one.task in FOR_OTHERS:
        yield Span(BESIDE, Part.WAIT, one.start, one.end)
    elif one.engine == Engine.FIRMWARE:
        looking = messaging if prices.own_table else Part.TRANSLATION
        yield Span(rank, messaging, one.start, one.end - one.lookup)
        yield Span(rank, looking, one.end - one.lookup, one.end)
    elif one.engine == Engine.REPORT:
        yield Span(rank, messaging, one.start, one.end)
    elif one.engine == Engine.TABLE:
        yield Span(ENGINE, Part.MISS, one.start, one.end)
    elif one.engine == Engine.HOST_TX or one.engine == DESCRIPTOR:
        yield from _transfer(one, FETCHES.get(prices.way), prices.fetch_init, prices)
    elif one.engine == Engine.HOST_RCV:
        yield from _transfer(one, DELIVERS.get(prices.way), prices.deliver_init, prices)
    elif one.engine == Engine.NET_TX:
        yield Span(NETWORK, Part.NETWORK, one.start, one.end)
    elif one.engine == Engine.CPU and one.task == INTERRUPTED:
        helps = prices.way in (*BY_CPU, Way.CNI, Way.DMA)
        yield Span(CPU, Part.COPY if helps else Part.MISS, one.start, one.end)


def _transfer(one: _Record, part: Part | None, init: int, prices: Prices) -> Iterator[Span]:
    """The spans of a DMA engine's transfer: waiting for blocks, or a DMA in three parts."""
    if prices.way in BY_CPU and one.engine != DESCRIPTOR:
        return
    if part is not None:
        yield Span(ENGINE, part, one.start, one.end)
        return
    begun = min(one.end, one.start + init)
    done = max(begun, one.end - prices.interrupt)
    yield Span(ENGINE, Part.DMA_INIT, one.start, begun)
    yield Span(ENGINE, Part.DMA_EXEC, begun, done)
    yield Span(ENGINE, Part.DMA_INTERRUPT, done, one.end)
