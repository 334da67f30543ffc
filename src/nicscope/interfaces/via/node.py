"""One NIC's state in virtual time, and how its processor and the host's spend that."""

from __future__ import annotations

import functools
from collections import deque
from typing import TYPE_CHECKING

from nicscope.interfaces.via.engine import Engine
from nicscope.interfaces.via.turns import NO_FRAME, Bell

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from nicscope.interfaces.via.addresses import AddressSpace
    from nicscope.interfaces.via.endpoint import Delivery, Endpoint, Work
    from nicscope.interfaces.via.firmware import Firmware
    from nicscope.interfaces.via.journal import Journal, Part
    from nicscope.interfaces.via.messaging import Messaging
    from nicscope.interfaces.via.network import Frame, Network
    from nicscope.interfaces.via.observer import Observer
    from nicscope.interfaces.via.port import Port
    from nicscope.interfaces.via.settings import Settings
    from nicscope.interfaces.via.translating import Translator
    from nicscope.interfaces.via.turns import Turns

    Task = Work | Frame | tuple[Work, int, int] | Callable[[], Awaitable[None]]


@functools.cache
def _doing(cost: str) -> str:
    """What is done that costs so much, by the name without whom it costs."""
    return cost.partition("_")[2]


class Node:
    """What the parts of its messaging share."""

    def __init__(
        self,
        turns: Turns,
        port: Port,
        settings: Settings,
        network: Network,
        space: AddressSpace,
        firmware: Firmware,
        observer: Observer,
        translator: Translator | None = None,
        *,
        cut_through: bool = False,
    ) -> None:
        self.turns = turns
        self.port = port
        self.settings = settings
        self.network = network
        self.space = space
        self.firmware = firmware
        self.translator = translator
        self.cut_through = cut_through
        self.observer = observer
        self.engines = (Engine(turns, port), Engine(turns, port))  # to send, received
        self.neighbours: list[Messaging] = []  # by node
        self.works: dict[int, Work] = {}  # by the place of what the NIC has read
        self.unsettled: dict[int, Endpoint] = {}  # with frames not acknowledged, by place
        self.freed = Bell(turns)  # of a room, or of an entry of the receive queue
        self.deliveries: deque[Delivery] = deque()  # that the processor has to collect
        self.posting = False  # somebody is between publishing and the doorbell
        self.posted = Bell(turns)
        self.idle: list[Bell] = []  # on which programs of the node wait for completions
        self._tasks: deque[Task] = deque()
        self._called = Bell(turns)

    def submit(self, task: Task) -> None:
        """A token, a frame, a completion to report, or what else; taken in this order."""
        self._tasks.append(task)
        self._called.ring()

    def spend(
        self, cost: str, journal: Journal | None, part: Part, frame: tuple[int, int] = NO_FRAME
    ) -> Awaitable[None]:
        """Let firmware, or library, run for as long as ``cost`` says; to be awaited now."""
        end = self.turns.now + self.settings.costs[cost]
        if journal is not None:
            journal.spend(part, end)
        return self.turns.until(end, _doing(cost), frame)
