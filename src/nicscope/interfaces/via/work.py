"""The half of VIPL that works: posts, polls, waits, completion queues, handlers."""

from __future__ import annotations

import functools
import inspect
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, TypeVar

import msgspec

from nicscope.drivers.current_program import RUNNING
from nicscope.drivers.simulate.ports.posting import GATHER, POLL, SIGNAL
from nicscope.drivers.simulate.ports.reports import KIND_BITS, LATE
from nicscope.drivers.simulate.process import OWN, SIZE, TIME, Record, coroutine, pack_into, unfit
from nicscope.drivers.simulate.records import AWAIT_QUEUE, COMPUTE, POST, PROVIDE, REPORT
from nicscope.interfaces.via.agent import MOST_BEFORE, Agent, Program
from nicscope.interfaces.via.descriptor import (
    CONTROL_OP_MASK,
    CONTROL_RESERVED,
    NOT_YET,
    STATUS_ERROR_MASK,
    AddressSegment,
    Control,
    DataSegment,
    Descriptor,
    Descriptors,
    Error,
    Return,
    Status,
    VipError,
    VipTimeoutError,
    Work,
    checked,
    is_unmodified,
)
from nicscope.interfaces.via.vi import (
    RECEIVE_QUEUE,
    SEND_QUEUE,
    CompletionQueue,
    Endpoint,
    Ring,
    Vi,
    error_reason,
)
from nicscope.interfaces.work_queues import posting_places
from nicscope.nic.ports import layout as ended_as
from nicscope.nic.ports.layout import (
    BAD_DESCRIPTOR,
    DONE,
    FENCED,
    FETCH,
    IMMEDIATE,
    NOBODY,
    SEND,
    WRITE,
)

NAMES = ("send", "receive")  # by work queue
DONE_CALLS = ("send_done", "recv_done")
ERRORS = {
    ended_as.DONE: Status(0),
    ended_as.PROTECTION: Status.VIP_STATUS_PROTECTION_ERROR,
    ended_as.TOO_LONG: Status.VIP_STATUS_LENGTH_ERROR,
    ended_as.FLUSHED: Status.VIP_STATUS_DESC_FLUSHED_ERROR,
    ended_as.PEER_DEAD: Status.VIP_STATUS_TRANSPORT_ERROR,
    ended_as.NO_RECEIVE: Status.VIP_STATUS_TRANSPORT_ERROR,
    ended_as.REMOTE_PROTECTION: Status.VIP_STATUS_RDMA_PROT_ERROR,
    ended_as.REMOTE_FAILED: Status.VIP_STATUS_REMOTE_DESC_ERROR,
    ended_as.REMOTE_INVALID: Status.VIP_STATUS_REMOTE_DESC_ERROR,
    ended_as.BAD_DESCRIPTOR: Status.VIP_STATUS_FORMAT_ERROR,
}
# What a report of a run calls each end of a descriptor.
STATUSES = tuple(
    f"{ERRORS[end]} ({name})" if end != ended_as.DONE and end in ERRORS else name
    for end, name in enumerate(ended_as.STATUS_NAMES)
)
# Of a report: the operation, the immediate word, and whether there is one.
IN_REPORT = ("operation", "name", "buffers")
OF_SENDS = {WRITE: Status.VIP_STATUS_OP_RDMA_WRITE, FETCH: Status.VIP_STATUS_OP_RDMA_READ}


def posted_with_cookie(vi: Endpoint, queue: int, cookie: int) -> Work:
    """The posted descriptor with that number."""
    return next(work for work in vi.posted[queue] if work.cookie == cookie)


@functools.cache
def status_of(queue: int, operation: int, ended: int, has_immediate: bool) -> Status:
    """The status word of a descriptor whose end the NIC has reported."""
    status = Status.VIP_STATUS_DONE | ERRORS[ended]
    if queue == SEND_QUEUE:
        return status | OF_SENDS.get(operation, Status(0))
    if has_immediate:
        status |= Status.VIP_STATUS_IMMEDIATE
    if operation == WRITE:
        return status | Status.VIP_STATUS_OP_REMOTE_RDMA_WRITE
    return status | Status.VIP_STATUS_OP_RECEIVE


Wait = TypeVar("Wait", bound=Callable[..., Awaitable["Descriptor"]])


def _waits(queue: int) -> Callable[[Wait], Wait]:
    """Have the declared call wait for the oldest descriptor of a work queue."""

    @coroutine
    def _waited(
        self: WorkCalls, vi: Vi, timeout_us: float | None = None
    ) -> Generator[bytes, Record, Descriptor]:
        if RUNNING.program is not self._sim_process:
            self._enter()
        found = self._owner.records.get(id(vi))
        if found is None or type(vi) is not Vi:
            self._owner.refuse(vi, Vi)
        known: Endpoint = found[1]
        if known.completion_queues[queue] is not None:
            raise VipError(
                Return.VIP_INVALID_PARAMETER,
                f"VI {known.number} has a completion queue for its {NAMES[queue]}s, where they are "
                f"waited for: call cq_wait, then {DONE_CALLS[queue]}",
            )
        posted = known.posted[queue]
        if not posted:
            self._check_posted(known, queue)
        if timeout_us is not None:
            latest = self._latest(timeout_us)
            while not posted[0].told:
                if not (yield from self._reported(known, queue, latest)):
                    raise VipTimeoutError(Return.VIP_TIMEOUT, "the descriptor is not done in time")
            return self._taken(known, queue)
        while not posted[0].told:
            before = self._process._before
            question = known.questions[queue]
            self._note(known, queue, (yield self._process.behind(question) if before else question))
        return self._taken(known, queue)

    def declared(call: Any) -> Any:
        _waited.__name__, _waited.__doc__ = call.__name__, call.__doc__
        _waited.__qualname__ = f"Nic.{call.__name__}"  # as programs know it
        return _waited

    return declared


Handler = Callable[..., Awaitable[None] | None]


class ErrorDescriptor(msgspec.Struct, frozen=True):
    """The argument of an error handler (``VIP_ERROR_DESCRIPTOR``)."""

    vi: Vi
    error: Error


class Notice(msgspec.Struct, frozen=True, eq=False):
    """A handler that is called once."""

    handler: Handler
    context: object


OPERATIONS = {
    int(Control.VIP_CONTROL_OP_SENDRECV): SEND,
    int(Control.VIP_CONTROL_OP_RDMAWRITE): WRITE,
    int(Control.VIP_CONTROL_OP_RDMAREAD): FETCH,
}
NO_OPERATION = 0  # for what no NIC can make sense of
PLAIN = Control.VIP_CONTROL_OP_SENDRECV
HAS_IMMEDIATE = int(Control.VIP_CONTROL_IMMEDIATE)
HAS_FENCE = int(Control.VIP_CONTROL_QFENCE)
_WORDS = struct.Struct("<2q")  # immediate, and the handle of the memory of the descriptor itself
_SEGMENT = struct.Struct("=Q2q")  # an address is any of 64 bits: the NIC says what it thinks of it
_pack_segment, _SEGMENT_BYTES = _SEGMENT.pack_into, _SEGMENT.size


class WorkCalls(Program):
    """Calls that post descriptors, take completed ones off their queues, and register handlers."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent)
        self._pieces, self._words_with = posting_places(self._ports, self._sim_process)
        self._number = self._sim_process.number
        self._depths = int(self._ports.rules[0]["ring"]), self._ports.work.receives.shape[2]
        self._wakes = agent.kernel.notices[self._process.number]
        self._of_work: dict[tuple[int, int], tuple[Endpoint, deque[Notice]]] = {}
        self._of_rings: dict[int, tuple[Ring, deque[Notice]]] = {}
        self._of_errors: Notice | None = None
        self._told: dict[int, int] = {}  # errors of each VI that the handler has had

    # --- posting -------------------------------------------------------------------------

    @coroutine
    def post_send(self, vi: Vi, descriptor: Descriptor) -> Generator[bytes, Record, None]:
        """Post a send or an RDMA.  Errors: see ``_posted``."""
        endpoint, work = self._posted(vi, SEND_QUEUE, descriptor)
        process = self._process
        if process._before == MOST_BEFORE:
            yield from process.settle()
        _, control, remote, word = work.said
        operation, flags, key, at = SEND, 0, 0, 0
        _WORDS.pack_into(self._words_with[process._before], 0, word, work.handle)
        if control is not PLAIN or remote is not None:
            how = int(control)
            operation = OPERATIONS.get(how & CONTROL_OP_MASK, NO_OPERATION)
            if how & HAS_IMMEDIATE:
                flags = IMMEDIATE
            if how & HAS_FENCE:
                flags |= FENCED
            if remote is not None:
                key, at = remote.handle, remote.address
                at -= (at >> 63) << 64  # as the driver has it: signed
            if how & CONTROL_RESERVED or (remote is None) != (operation == SEND):
                operation = NO_OPERATION
        self._put(POST, endpoint, work, key, at, operation | flags << KIND_BITS | GATHER)

    @coroutine
    def post_recv(self, vi: Vi, descriptor: Descriptor) -> Generator[bytes, Record, None]:
        """Post a receive, before the message is sent.  Errors: see ``_posted``."""
        endpoint, work = self._posted(vi, RECEIVE_QUEUE, descriptor)
        if self._process._before == MOST_BEFORE:
            yield from self._process.settle()
        _, control, remote, _ = work.said
        found = DONE
        if remote is not None or (control is not PLAIN and int(control) & ~HAS_IMMEDIATE):
            found = BAD_DESCRIPTOR
        self._put(PROVIDE, endpoint, work, work.handle, 0, found)

    async def rdma_write(
        self,
        vi: Vi,
        places: Descriptors,
        data: Sequence[DataSegment],
        remote: AddressSegment,
        immediate: int | None = None,
    ) -> Descriptor:
        """Write ``data`` to the other node's memory from ``remote`` on; the posted descriptor."""
        self._enter()
        self._owner.record_of(places, Descriptors)
        descriptor = places.request(
            *data, control=Control.VIP_CONTROL_OP_RDMAWRITE, remote=remote, immediate=immediate
        )
        await self.post_send(vi, descriptor)
        return descriptor

    async def rdma_read(
        self, vi: Vi, places: Descriptors, data: Sequence[DataSegment], remote: AddressSegment
    ) -> Descriptor:
        """Read the other node's memory from ``remote`` on into ``data``; the descriptor."""
        self._enter()
        self._owner.record_of(places, Descriptors)
        descriptor = places.request(*data, control=Control.VIP_CONTROL_OP_RDMAREAD, remote=remote)
        await self.post_send(vi, descriptor)
        return descriptor

    def _posted(self, handle: Vi, queue: int, descriptor: Descriptor) -> tuple[Endpoint, Work]:
        """The VI and what is noted of the descriptor, which is about to be handed over.

        Errors: ``VIP_INVALID_PARAMETER`` for a VI, or memory, that is not this process's, and for a
        descriptor that is not in its place, or still posted; ``VIP_ERROR_RESOURCE`` if the queue is
        full.  Whether the VI may have descriptors in that memory the NIC says.
        """
        if RUNNING.program is not self._sim_process:
            self._enter()
        found = self._owner.records.get(id(handle))
        if found is None or type(handle) is not Vi:
            self._owner.refuse(handle, Vi)
        vi: Endpoint = found[1]
        if type(descriptor) is Descriptor and is_unmodified(descriptor, self._owner.records):
            address, among = descriptor.address, descriptor.places
            assert among is not None
        else:
            address, among = checked(self._owner, descriptor)
        if address in vi.addresses:
            raise VipError(
                Return.VIP_INVALID_PARAMETER,
                "the descriptor's place is still in a queue of the VI; request() gives another",
            )
        process, posted = self._process, vi.posted[queue]
        if len(posted) >= self._depths[queue]:
            raise VipError(
                Return.VIP_ERROR_RESOURCE,
                f"VI {vi.number} has {len(posted)} descriptors in this queue, which is all that it "
                "holds; take some back, or give the cluster a larger one",
            )
        cookie = process._next_request
        process._next_request = cookie + 1
        said = descriptor.data, descriptor.control, descriptor.remote, descriptor.immediate
        work = Work(descriptor, address, descriptor.handle, among, cookie, said)
        descriptor.status, descriptor.length = NOT_YET, 0
        self._words.works[address] = work
        posted.append(work)
        vi.addresses.add(address)
        return vi, work

    def _put(self, what: int, vi: Endpoint, work: Work, name: int, at: int, how: int) -> None:
        """Queue a descriptor ahead of the process's next request."""
        process, data = self._process, work.said[0]
        before, begin = process._before, 0
        pieces = self._pieces[before]
        for one in data:
            _pack_segment(pieces, begin, one.address, one.length, one.handle)
            begin += _SEGMENT_BYTES
        count, port = len(data), vi.place
        token = work.address + 2 + count + (work.said[2] is not None)
        own = process._mapped[port] | how
        try:
            pack_into(
                process._asked, before * SIZE, self._number, what, 0, process._node, port,
                work.cookie, count, name, token, own, at,
            )  # fmt: skip
        except struct.error:
            raise unfit(port, count, name, token, at, work.cookie, own) from None
        process._before = before + 1

    # --- completions -----------------------------------------------------------------------

    async def send_done(self, vi: Vi) -> Descriptor | None:
        """Remove and return the oldest posted send if it is done; else None.

        Errors: ``VIP_DESCRIPTOR_ERROR`` if none is posted, or if it ended with an error: what is
        raised then has it as its ``descriptor``, whose status says which.
        """
        return await self._done(vi, SEND_QUEUE)

    async def recv_done(self, vi: Vi) -> Descriptor | None:
        """Remove and return the oldest posted receive if it is done; else None."""
        return await self._done(vi, RECEIVE_QUEUE)

    @_waits(SEND_QUEUE)
    def send_wait(  # type: ignore[empty-body]
        self, vi: Vi, timeout_us: float | None = None
    ) -> Awaitable[Descriptor]:
        """Wait until the oldest posted send is done, and return it.

        Errors: as ``send_done``, and ``VIP_TIMEOUT``; ``VIP_INVALID_PARAMETER`` for a queue that
        has a completion queue, as all waiting is done there then.
        """

    @_waits(RECEIVE_QUEUE)
    def recv_wait(  # type: ignore[empty-body]
        self, vi: Vi, timeout_us: float | None = None
    ) -> Awaitable[Descriptor]:
        """Wait until the oldest posted receive is done, and return it."""

    async def cq_done(self, queue: CompletionQueue) -> tuple[Vi, bool] | None:
        """The VI that has the next completion, and whether it is a receive; None if none has.

        A completion that was taken off its work queue before is passed by.
        """
        self._enter()
        ring: Ring = self._owner.record_of(queue, CompletionQueue)
        await self._process.settle()
        ring.hear()
        ring.say()
        if ring.is_visible():
            return await self._entry(ring, None)
        await self._process.ask(COMPUTE, duration=self._poll_cost)
        return None

    async def cq_wait(
        self, queue: CompletionQueue, timeout_us: float | None = None
    ) -> tuple[Vi, bool]:
        """Wait for the next entry of a completion queue.  Errors: ``VIP_TIMEOUT``."""
        self._enter()
        ring: Ring = self._owner.record_of(queue, CompletionQueue)
        latest = self._latest(timeout_us)
        ring.hear()
        ring.say()
        found = await self._entry(ring, latest)
        if found is None:
            raise VipTimeoutError(Return.VIP_TIMEOUT, "no completion in time")
        return found

    async def _entry(self, ring: Ring, latest: int | None) -> tuple[Vi, bool] | None:
        """Take the next entry of a completion queue; None if there was none until ``latest``."""
        ended = await self._process.ask(AWAIT_QUEUE, peer=ring.place, address=latest or 0)
        ring.hear()
        if ended.own == LATE:
            return None
        vi, which = ring.take()
        ring.say()
        return vi.handle, which == RECEIVE_QUEUE

    async def _done(self, handle: Vi, queue: int) -> Descriptor | None:
        self._enter()
        vi: Endpoint = self._owner.record_of(handle, Vi)
        self._check_posted(vi, queue)
        await self._process.settle()
        while not vi.posted[queue][0].told and self._process.reports(vi.place, queue):
            await self._reported(vi, queue, None)
        if not vi.posted[queue][0].told:
            await self._process.ask(COMPUTE, duration=self._poll_cost)
            return None
        return self._taken(vi, queue)

    def _store_descriptors(self) -> None:
        """Store the status of completed descriptors into memory before the program loads them."""
        for vi in self._agent.vis:
            if vi.owner is self._owner:
                for queue in (SEND_QUEUE, RECEIVE_QUEUE):
                    self._note_reported(vi, queue)
        super()._store_descriptors()

    def _note_reported(self, vi: Endpoint, queue: int) -> None:
        """Note how descriptors ended from reports that are not consumed."""
        record: Any = self._ports.table[self.node, vi.place]
        first = int(record["reaped" if queue == SEND_QUEUE else "read"])
        ring = self._ports.reports[self.node, vi.place, queue]
        for number in range(first, first + self._process.reports(vi.place, queue)):
            report = ring[number % len(ring)]
            work = posted_with_cookie(vi, queue, int(report["cookie"]))
            kind, word, has_immediate = (int(report[name]) for name in IN_REPORT)
            said = status_of(queue, kind, int(report["status"]), has_immediate == 1)
            work.ended = said, int(report["length"]), word if has_immediate else work.said[3]

    @coroutine
    def _reported(
        self, vi: Endpoint, queue: int, latest: int | None
    ) -> Generator[bytes, Record, bool]:
        """Consume the next report of a port; False if there was none until ``latest``."""
        if latest is None:
            question = vi.questions[queue]
        else:
            own = self._process._mapped[vi.place] | queue | POLL << 1
            question = self._sim_process.request(REPORT, vi.place, address=latest, own=own)
        ended = yield self._process.behind(question)
        if ended[OWN] == LATE:
            self._sim_process.now = ended[TIME]
            return False
        self._note(vi, queue, ended)
        return True

    def _note(self, vi: Endpoint, queue: int, ended: Record) -> None:
        """Record the end of a descriptor that a port's report states."""
        _, _, self._sim_process.now, _, _, cookie, length, tag, status, own, _ = ended
        work = vi.posted[queue][0]
        if work.cookie != cookie:
            work = posted_with_cookie(vi, queue, cookie)
        operation, immediate, has_immediate = tag, work.said[3], False
        if queue == RECEIVE_QUEUE:
            operation = own & ((1 << KIND_BITS) - 1)
            if own >> KIND_BITS:
                immediate, has_immediate = tag, True
        said = status_of(queue, operation, status, has_immediate)
        work.ended = said, 0 if status else length, immediate
        work.told, work.failed = True, status != ended_as.DONE

    def _taken(self, vi: Endpoint, queue: int) -> Descriptor:
        """Remove the oldest descriptor, which is done, from its queue."""
        work = vi.posted[queue].popleft()
        outcome, descriptor = work.ended, work.descriptor
        assert outcome is not None
        vi.addresses.discard(work.address)
        ring = vi.completion_queues[queue]
        if ring is not None:
            ring.hear()
            ring.spend(vi, queue)
            ring.say()
        descriptor.status, descriptor.length, descriptor.immediate = outcome
        if work.failed:
            wrong = outcome[0] & STATUS_ERROR_MASK
            asked = descriptor.operation if queue == SEND_QUEUE else 0
            operation = OPERATIONS.get(asked, SEND)
            why = error_reason(work, vi, wrong, operation, self._agent.cluster.kernels)
            raise VipError(
                Return.VIP_DESCRIPTOR_ERROR,
                f"a {NAMES[queue]} of VI {vi.number} ended with {wrong.name}{why}",
                descriptor,
            )
        return descriptor

    def _check_posted(self, vi: Endpoint, queue: int) -> None:
        if not vi.posted[queue]:
            raise VipError(
                Return.VIP_DESCRIPTOR_ERROR,
                f"no descriptor is posted to the {NAMES[queue]} queue of VI {vi.number}",
            )

    # --- handlers ------------------------------------------------------------------------

    async def send_notify(self, vi: Vi, handler: Handler, context: object = None) -> None:
        """Call ``handler(context, nic, vi, descriptor)`` when the oldest send has ended.

        Once; the descriptor is taken off its queue, whatever its status.  Errors:
        ``VIP_INVALID_PARAMETER`` for a queue that has a completion queue, as all that it has is
        announced there.
        """
        await self._notify(vi, SEND_QUEUE, handler, context)

    async def recv_notify(self, vi: Vi, handler: Handler, context: object = None) -> None:
        """Call the handler when the oldest receive has ended."""
        await self._notify(vi, RECEIVE_QUEUE, handler, context)

    async def cq_notify(
        self, queue: CompletionQueue, handler: Handler, context: object = None
    ) -> None:
        """Call ``handler(context, nic, vi, is_receive)`` once, for the queue's next entry."""
        self._enter()
        ring: Ring = self._owner.record_of(queue, CompletionQueue)
        notice = _checked(handler, context)
        await self._agent.call()
        self._of_rings.setdefault(ring.place, (ring, deque()))[1].append(notice)
        ring.notify_by(self._wakes)

    async def error_callback(self, handler: Handler | None, context: object = None) -> None:
        """Call ``handler(context, nic, error)`` for each asynchronous error.

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
            called = await self._call_due_handlers()
            if called:
                return called
            own = SIGNAL << 1
            ended = await self._process._sim_process.ask(
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
        vi.notify_by(queue, self._wakes)

    async def _call_due_handlers(self) -> int:
        """Call each due handler once; how many were called."""
        called = 0
        for place, (ring, notices) in list(self._of_rings.items()):
            ring.hear()
            ring.say()
            while notices and ring.is_visible():
                found = await self._entry(ring, None)
                assert found is not None
                await self._call(notices.popleft(), *found)
                called += 1
            if not notices:
                del self._of_rings[place]
                ring.notify_by(NOBODY)
        for (place, queue), (vi, notices) in list(self._of_work.items()):
            while notices and vi.posted[queue] and self._has_ended(vi, queue):
                await self._call(notices.popleft(), vi.handle, await self._ended(vi, queue))
                called += 1
            if not notices and self._of_work.get((place, queue), (None,))[0] is vi:
                del self._of_work[place, queue]
                vi.notify_by(queue, NOBODY)
        return called + await self._call_error_handlers()

    def _has_ended(self, vi: Endpoint, queue: int) -> bool:
        """Whether the oldest descriptor has ended; a report crossing a bus will arrive for sure."""
        return vi.posted[queue][0].told or vi.reported(queue) > 0

    async def _ended(self, vi: Endpoint, queue: int) -> Any:
        """Remove the oldest descriptor from its queue, whatever its status."""
        while not vi.posted[queue][0].told:
            await self._reported(vi, queue, None)
        try:
            return self._taken(vi, queue)
        except VipError as error:
            return error.descriptor

    async def _call_error_handlers(self) -> int:
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
