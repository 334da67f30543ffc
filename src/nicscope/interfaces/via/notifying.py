"""Handlers: functions of the program that the library calls when work has ended, or on errors.

``VipSendNotify``, ``VipRecvNotify``, ``VipCQNotify`` and ``VipErrorCallback``.  A process is one
thread; so its handlers run while it waits for them (``handle``), which a notice of the NIC wakes.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.drivers.simulate.machine import AWAIT_QUEUE
from nicscope.drivers.simulate.ports.posting import SIGNAL
from nicscope.drivers.simulate.ports.reporting import LATE
from nicscope.interfaces.via.completions import DONE_CALLS, NAMES, Completions
from nicscope.interfaces.via.endpoint import RECEIVE_QUEUE, SEND_QUEUE, Endpoint, Ring
from nicscope.interfaces.via.names import Error, Return, VipError
from nicscope.interfaces.via.vi import CompletionQueue, Vi
from nicscope.nic.ports.layout import NOBODY

if TYPE_CHECKING:
    from nicscope.interfaces.via.agent import Agent

Handler = Callable[..., Awaitable[None] | None]


class ErrorDescriptor(msgspec.Struct, frozen=True):
    """What an error handler is told (``VIP_ERROR_DESCRIPTOR``)."""

    vi: Vi
    error: Error


class Notice(msgspec.Struct, frozen=True, eq=False):
    """A handler that is called once."""

    handler: Handler
    context: object


class Notifications(Completions):
    """Calls that have handlers called."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent)
        self._wakes = agent.kernel.notices_of(self._process.number)
        self._of_work: dict[tuple[int, int], tuple[Endpoint, deque[Notice]]] = {}
        self._of_rings: dict[int, tuple[Ring, deque[Notice]]] = {}
        self._of_errors: Notice | None = None
        self._told: dict[int, int] = {}  # errors of each VI that the handler has had

    async def send_notify(self, vi: Vi, handler: Handler, context: object = None) -> None:
        """Have ``handler(context, nic, vi, descriptor)`` called when the oldest send has ended.

        Once; the descriptor is taken off its queue, whatever its status.  Errors:
        ``VIP_INVALID_PARAMETER`` for a queue that has a completion queue, as all that it has is
        announced there.
        """
        await self._notify(vi, SEND_QUEUE, handler, context)

    async def recv_notify(self, vi: Vi, handler: Handler, context: object = None) -> None:
        """Likewise when the oldest receive has ended."""
        await self._notify(vi, RECEIVE_QUEUE, handler, context)

    async def cq_notify(
        self, queue: CompletionQueue, handler: Handler, context: object = None
    ) -> None:
        """Have ``handler(context, nic, vi, is_receive)`` called for its next entry, once."""
        self._enter()
        ring: Ring = self._owner.record_of(queue, CompletionQueue)
        notice = _checked(handler, context)
        await self._agent.call()
        self._of_rings.setdefault(ring.place, (ring, deque()))[1].append(notice)
        ring.wake_by(self._wakes)

    async def error_callback(self, handler: Handler | None, context: object = None) -> None:
        """Have ``handler(context, nic, error)`` called for each error that no descriptor tells of.

        None: for none any more; ``errors`` lists them in any case.
        """
        self._enter()
        notice = None if handler is None else _checked(handler, context)
        await self._agent.call()
        self._of_errors = notice
        self._watch_errors()

    async def handle(self, timeout_us: float | None = None) -> int:
        """Call the handlers that are due, or wait for the first; how many were called.

        None were only after ``timeout_us``.  Handlers may call whatever the program may but this.
        Errors: ``VIP_DESCRIPTOR_ERROR`` if no handler is to be called.
        """
        self._enter()
        latest = self._latest(timeout_us)
        if self._of_errors is None and not any(self._pending()):
            raise VipError(Return.VIP_DESCRIPTOR_ERROR, "no handler is to be called")
        await self._process.settle()
        while True:
            self._watch_errors()
            called = await self._call_due()
            if called:
                return called
            own = SIGNAL << 1
            ended = await self._process._driven.ask(
                AWAIT_QUEUE, peer=self._wakes, own=own, address=latest or 0
            )
            if ended.own == LATE:
                return 0
            record: Any = self._ports.work.queues[self.node, self._wakes]
            record["read"] = record["shown"]  # all that is due is looked for

    def _pending(self) -> list[deque[Notice]]:
        return [notices for _, notices in (*self._of_work.values(), *self._of_rings.values())]

    async def _notify(self, handle: Vi, queue: int, handler: Handler, context: object) -> None:
        self._enter()
        vi: Endpoint = self._owner.record_of(handle, Vi)
        notice = _checked(handler, context)
        if vi.completion_queues[queue] is not None:
            raise VipError(
                Return.VIP_INVALID_PARAMETER,
                f"VI {vi.number} has a completion queue for its {NAMES[queue]}s: call cq_notify, "
                f"and {DONE_CALLS[queue]} in the handler",
            )
        await self._agent.call()
        self._of_work.setdefault((vi.place, queue), (vi, deque()))[1].append(notice)
        vi.wake_by(queue, self._wakes)

    async def _call_due(self) -> int:
        """Call each handler once whose time has come; how many were."""
        called = 0
        for place, (ring, notices) in list(self._of_rings.items()):
            ring.hear()
            ring.say()
            while notices and ring.is_shown():
                found = await self._entry(ring, None)
                assert found is not None
                await self._call(notices.popleft(), *found)
                called += 1
            if not notices:
                del self._of_rings[place]
                ring.wake_by(NOBODY)
        for (place, queue), (vi, notices) in list(self._of_work.items()):
            while notices and vi.posted[queue] and self._has_ended(vi, queue):
                await self._call(notices.popleft(), vi.handle, await self._ended(vi, queue))
                called += 1
            if not notices and self._of_work.get((place, queue), (None,))[0] is vi:
                del self._of_work[place, queue]
                vi.wake_by(queue, NOBODY)
        return called + await self._tell_errors()

    def _has_ended(self, vi: Endpoint, queue: int) -> bool:
        """Whether the oldest descriptor has; what has been reported over a bus comes for sure."""
        return vi.posted[queue][0].told or vi.reported(queue) > 0

    async def _ended(self, vi: Endpoint, queue: int) -> Any:
        """The oldest descriptor, off its queue, however it ended."""
        while not vi.posted[queue][0].told:
            await self._reported(vi, queue, None)
        try:
            return self._taken(vi, queue)
        except VipError as error:
            return error.descriptor

    async def _tell_errors(self) -> int:
        notice = self._of_errors
        called = 0
        for vi in [vi for vi in self._agent.vis if vi.owner is self._owner]:
            while notice is not None and self._told.get(vi.number, 0) < len(vi.errors):
                number = self._told.get(vi.number, 0)
                self._told[vi.number] = number + 1
                await self._call(notice, ErrorDescriptor(vi.handle, vi.errors[number]))
                called += 1
        return called

    def _watch_errors(self) -> None:
        """Have the NIC wake the process for errors, if it has a handler."""
        for vi in self._agent.vis:
            if vi.owner is self._owner:
                vi.wake_for_errors(NOBODY if self._of_errors is None else self._wakes)

    async def _call(self, notice: Notice, *what: object) -> None:
        result = notice.handler(notice.context, self, *what)
        if inspect.isawaitable(result):
            await result


def _checked(handler: object, context: object) -> Notice:
    if not callable(handler):
        raise VipError(
            Return.VIP_INVALID_PARAMETER, f"a handler is a function, not {handler!r:.60}"
        )
    return Notice(handler, context)
