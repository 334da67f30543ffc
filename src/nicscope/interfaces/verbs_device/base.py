"""The machine beneath a device, made when it is first asked for something, and the way into it."""

from __future__ import annotations

import functools
import gc
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from nicscope.drivers.simulate.machine import AWAIT_QUEUE, CHAIN, COMPUTE
from nicscope.drivers.simulate.ports.reporting import LATE

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.drivers.simulate.calling import Caller
    from nicscope.drivers.simulate.driven import Process as Driven
    from nicscope.drivers.simulate.driven import Record
    from nicscope.drivers.simulate.machine import Machine
    from nicscope.interfaces.ports.memory import Memory
    from nicscope.interfaces.verbs_device.fabric import Fabric
    from nicscope.interfaces.verbs_device.pair import Pair

P = ParamSpec("P")
T = TypeVar("T")

SPACE = 0
ANY_QUEUE = 0  # in which every end of work and every trouble is announced
OWN_PORT = 1  # of the process, at which it registers
OWN = 9  # in a Record
NEVER_FULL = 1 << 62
MOST_BEFORE = CHAIN - 1  # what is asked next is the last of the chain
PS_PER_NS = 1000


def uninterrupted(call: Callable[P, T]) -> Callable[P, T]:
    """``call`` in which Python collects no garbage: whose end asks the device for something, too.

    A queue pair that nobody has any more is closed when it is collected, which must not be amid
    another operation.
    """

    @functools.wraps(call)
    def carried(*given: P.args, **named: P.kwargs) -> T:
        if not gc.isenabled():
            return call(*given, **named)
        gc.disable()
        try:
            return call(*given, **named)
        finally:
            gc.enable()

    return carried


class Base(ABC):
    """What all parts of a device stand on."""

    _fabric: Fabric
    _memory: Memory
    _machine: Machine
    _driven: Driven
    _ports: Any
    _calling: Caller
    _node = 0  # of the fabric

    def _begin_machine(self) -> None:
        simulation = self._fabric.begun()
        assert self._fabric.memory is not None
        self._memory = self._fabric.memory
        self._machine = simulation.machine
        self._ports = simulation.machine.ports
        self._calling = self._fabric.caller()
        self._before: list[bytes] = []  # posts, which go in front of what is asked next
        self._driven = simulation.processes[self._node]
        costs = self._ports.costs[self._node]
        self._call_ps, self._poll_ps = int(costs["system_call"]), int(costs["poll"])
        record = self._ports.table[self._node, OWN_PORT]
        record["open"], record["space"] = 1, SPACE
        self._any: Any = self._ports.work.queues[self._node, ANY_QUEUE]
        self._any["open"], self._any["entries"] = 1, NEVER_FULL
        # Read one number at a time, these are several times faster than records.
        queues = self._ports.work.queues
        own = queues[self._node]
        self._shown, self._read_to = own["shown"].data, own["read"].data
        self._written = own["written"].data
        entries = self._ports.work.entries[self._node, ANY_QUEUE]
        self._sides, self._owners = entries["side"].data, entries["port"].data
        self._polling = self._driven.request(COMPUTE, duration=self._poll_ps)
        assert self._fabric.book is not None
        self._fabric.book.note(self._node, OWN_PORT, SPACE)

    @property
    def now_ns(self) -> int:
        """Virtual time."""
        self._settle()
        return self._driven.now // PS_PER_NS

    @uninterrupted
    def _ask(self, operation: int, **fields: int) -> Record | None:
        """Carry out an operation of the process, behind what was posted before."""
        return self._carry_out(self._driven.request(operation, **fields))

    def _carry_out(self, request: bytes) -> Record | None:
        before = self._before
        if before:
            before.append(request)
            request = self._driven.chain(before)
            before.clear()
        return self._calling.carry_out(request)

    def _put(self, request: bytes) -> None:
        """Have an operation go before what is asked next: it says only that it has ended.

        The call that posts is uninterrupted, from when the post's pieces are put down.
        """
        self._before.append(request)
        if len(self._before) == MOST_BEFORE:
            self._settle()

    @uninterrupted
    def _settle(self) -> None:
        """Have what was posted be the NIC's."""
        before = self._before
        if before:
            request = self._driven.chain(before) if len(before) > 1 else before[0]
            before.clear()
            self._calling.carry_out(request)

    def _spend(self, ps: int) -> None:
        """Have the processor busy for a while."""
        self._ask(COMPUTE, duration=ps)

    def _system_call(self) -> None:
        """What the kernel is asked takes its time."""
        self._spend(self._call_ps)

    def be_called_in_turns(self) -> None:
        """Have the programs that call it take turns from now on."""
        self._settle()
        self._calling = self._fabric.caller()

    def _rests(self) -> bool:
        """Let other programs of the process go on, if any can; then there may be something."""
        return self._calling.rest(self._written[ANY_QUEUE])

    @uninterrupted
    def _wait_for(self, ps: int) -> bool:
        """Go on until something ends or goes wrong, or for so long; whether something did."""
        self._read_to[ANY_QUEUE] = self._written[ANY_QUEUE]
        driven = self._driven
        latest = driven.now + ps
        ended = self._carry_out(driven.request(AWAIT_QUEUE, ANY_QUEUE, 0, 0, latest))
        self._hear()
        return ended is not None and ended[OWN] != LATE

    @abstractmethod
    def _hear(self) -> None:
        """Take note of what has gone wrong beside work."""

    @abstractmethod
    def qp_state(self, number: int) -> int:
        """The state of a queue pair."""

    @abstractmethod
    def _is_registered(self, page: int) -> bool:
        """Whether a region keeps the page where it is."""

    @abstractmethod
    def _feed(self, pair: Pair) -> None:
        """Hand what waits for a place of the NIC's queues over, as far as there is one."""
