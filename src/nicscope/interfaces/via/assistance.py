"""What the host does for an RDMA where the NIC does not reach its memory coherently by itself.

The NIC interrupts the kernel agent, which moves the bytes (PIO, CNI) or flushes the caches before
and after the engine does (DMA).  Meanwhile the NIC goes on; what remains comes back as a task.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from nicscope.drivers.simulate.log import Engine
from nicscope.interfaces.via import outgoing
from nicscope.interfaces.via.endpoint import SEND_QUEUE
from nicscope.interfaces.via.journal import Part
from nicscope.interfaces.via.observer import Worker
from nicscope.interfaces.via.turns import Bell, hear
from nicscope.nic.coherent.mechanism import Mechanism

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any

    from nicscope.interfaces.via.endpoint import Delivery
    from nicscope.interfaces.via.journal import Journal
    from nicscope.interfaces.via.messaging import Messaging
    from nicscope.interfaces.via.network import Frame
    from nicscope.interfaces.via.tables import Run


async def write_for(ni: Messaging, frame: Frame, place: int, finish: Callable[[], None]) -> None:
    """Bring an RDMA write's bytes, at ``place``, to the host's memory; then ``finish``."""
    runs = ni.firmware.runs_of_stretch(frame.remote_address, frame.total)
    if ni.port.by_processor:
        delivery = await ni.scatter(runs, place, None)
        ni.deliveries.append(delivery)
        _on_cpu(ni, _collect(ni, delivery, finish))
    else:
        _on_cpu(ni, _flush_around(ni, runs, place, finish))


async def _collect(ni: Messaging, mine: Delivery, finish: Callable[[], None]) -> None:
    await _interrupt(ni)
    while not mine.collected:
        if mine not in ni.deliveries:  # a program of this node is about to
            await hear(ni.freed)
        else:
            await take(ni, ni.deliveries[0] if in_order(ni) else mine, None)
    finish()


async def _flush_around(
    ni: Messaging, runs: Sequence[Run], place: int, finish: Callable[[], None]
) -> None:
    await _interrupt(ni)
    await _flush(ni, runs)
    moved = Bell(ni.turns)

    async def move() -> None:
        await ni.scatter(runs, place, None)
        ni.give(place)
        moved.ring()

    ni.submit(move)
    await hear(moved)
    await _flush(ni, runs)
    finish()


def read_for(ni: Messaging, frame: Frame) -> None:
    """Have the bytes that the other end wants to read come to the NIC, and be sent."""
    _on_cpu(ni, _publish(ni, frame))


async def _publish(ni: Messaging, frame: Frame) -> None:
    await _interrupt(ni)
    runs = ni.firmware.runs_of_stretch(frame.remote_address, frame.total)
    await begin_posting(ni)
    place = ni.firmware.take_room(SEND_QUEUE, frame.total)
    while place is None:
        await hear(ni.freed)
        place = ni.firmware.take_room(SEND_QUEUE, frame.total)
    at = place
    for run in runs:
        while True:
            end = ni.port.hand_out(run.address, run.length, at, ni.turns.now, None)
            if end >= 0:
                break
            await hear(ni.freed)
        await ni.turns.until(end, "publish")
        at += run.length
    await ni.turns.until(ni.port.doorbell(0, ni.turns.now), "doorbell")
    ni.submit(partial(answer, ni, frame, runs, place, None))
    end_posting(ni)


async def answer(
    ni: Messaging, frame: Frame, runs: Sequence[Run], place: int, journal: Journal | None
) -> None:
    """Take what the other end wants to read, and send it, unless the connection is over."""
    raw = await ni.gather(runs, place, journal, Part.SEND)
    ni.give(place)
    if frame.target.has(frame.epoch):
        await outgoing.respond(ni, frame.target, raw, journal)


def _on_cpu(ni: Messaging, work: Coroutine[Any, Any, None]) -> None:
    """Have the kernel agent do ``work`` beside whatever else there is."""
    ni.turns.start(work, "an RDMA's interrupt", Worker(ni.observer, Engine.CPU), serves=True)


async def _interrupt(ni: Messaging) -> None:
    ni.observer.interrupts += 1
    await ni.turns.until(ni.turns.now + ni.settings.ka_interrupt, "interrupt")


async def _flush(ni: Messaging, runs: Sequence[Run]) -> None:
    for run in runs:
        end = ni.port.clear(run.address, run.length, ni.turns.now, None)
        await ni.turns.until(end, "flush")


async def begin_posting(ni: Messaging) -> None:
    """With a queue, wait until nobody else of the node is between publishing and the doorbell.

    The NIC takes what is published in the order of the doorbells.
    """
    while ni.posting:
        await hear(ni.posted)
    ni.posting = in_order(ni)


def end_posting(ni: Messaging) -> None:
    """The doorbell has rung."""
    ni.posting = False
    ni.posted.ring()


def in_order(ni: Messaging) -> bool:
    """Whether messages can only be taken in the order in which they came."""
    return ni.port.mechanism is Mechanism.CNI


async def take(ni: Messaging, one: Delivery, journal: Journal | None) -> None:
    """Bring one message that waits on the NIC to its buffer."""
    ni.deliveries.remove(one)
    for place, at, size in one.runs:
        end = ni.port.pick_up(place, at, size, ni.turns.now, journal)
        assert end >= 0, "what was delivered can be collected"
        await ni.turns.until(end, "collect")
    one.collected = True
    ni.give(one.place)
