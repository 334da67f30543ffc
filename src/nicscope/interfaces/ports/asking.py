"""What a process asks of its port: said and waited for, or put before a call that answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.config.scheme import Scheme
from nicscope.drivers.running import RUNNING
from nicscope.drivers.simulate.machine import CHAIN, POST, PROVIDE
from nicscope.drivers.simulate.ports.posting import GATHER, MORE
from nicscope.drivers.simulate.ports.reporting import KIND_BITS
from nicscope.errors import SimulationError
from nicscope.interfaces.arguments import LEAST, raw_bytes, whole
from nicscope.nic.ports.layout import INLINE, INLINE_BYTES, NOTIFY, SEND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.drivers.simulate.driven import Process as Driven
    from nicscope.drivers.simulate.ports.state import Ports
    from nicscope.interfaces.ownership import Owner
    from nicscope.interfaces.ports.cluster import PortCluster
    from nicscope.interfaces.ports.memory import Memory

# Schemes under which the pages of a descriptor are pinned before it is posted.
PINS_FIRST = (
    Scheme.STATIC,
    Scheme.RNIC,
    Scheme.UTLB,
    Scheme.UTLB_SHARED,
    Scheme.UTLB_PROCESS,
)
NO_REGION = 0  # where memory need not be registered for a port
MOST_BEFORE = CHAIN - 1  # the call itself is the last of the chain
_tuple: Any = tuple.__new__  # makes a NamedTuple in half the time of its class


class Asked(NamedTuple):
    """A call that only ends, to be put before one that answers; it has not begun."""

    request: int  # the descriptor's number, by which ``done`` reports it; -1: there is none
    what: bytes  # as the driver is asked
    inline: bytes = b""
    segments: Sequence[tuple[int, int, int]] = ()  # where there are several, each with its key


class PortCalls(ABC):
    """A process's port, as far as it is asked for something."""

    cluster: PortCluster[Any]
    _owner: Owner
    _driven: Driven
    _ports: Ports
    _memory: Memory
    _node: int
    _port: int
    _mapped: dict[int, int]
    _next_request: int
    _surely_short: int

    @abstractmethod
    def _question(self, which: int, mode: str, port: int | None) -> bytes:
        """The request for the next report of the ring ``which``."""

    @abstractmethod
    def _gone(self, port: int | None) -> SimulationError:
        """The error for what a port that has closed does not do any more."""

    def posting(
        self,
        operation: int,
        name: int,
        segments: Sequence[tuple[int, int]],
        *,
        offset: int = 0,
        notify: bool = False,
        port: int | None = None,
        more: bool = False,
    ) -> Asked:
        """``post``, to be put before ``done`` or ``arrival``.

        ``more``: a kernel that serves ports is not asked to look yet, as another follows.
        """
        self._owner.check_caller()
        most = self.cluster.size.segments
        if not 1 <= len(segments) <= most:
            raise SimulationError(
                f"a descriptor names 1 to {most} pieces of memory, {len(segments)} were given"
            )
        if type(operation) is not int or not 0 <= operation < 1 << KIND_BITS:
            operation = whole(operation, "an operation", 0, (1 << KIND_BITS) - 1)
        if operation != SEND and not self.cluster.nic_serves:
            raise SimulationError(
                f"the kernel serves the ports of platform {self.cluster.platform.name!r} and takes "
                "messages only; for remote memory choose a platform whose NIC can be programmed"
            )
        for address, length in segments:
            if type(address) is not int or type(length) is not int:
                segments = [one[:2] for one in _whole_segments(segments)]
            elif length > self._surely_short:
                self._check_length(address, length)
        if type(name) is not int or type(offset) is not int:
            name, offset = whole(name, "a name", LEAST), whole(offset, "an offset", LEAST)
        which = self._own(port)
        own = self._mapped[which] | operation | ((NOTIFY if notify else 0) << KIND_BITS)
        own |= MORE if more else 0
        request = self._next_request
        address, length = segments[0]
        if len(segments) > 1:
            own |= GATHER
            length, several = len(segments), _whole_segments(segments)
        else:
            several = []
        what = self._driven.request(POST, which, length, name, address, offset, request, own)
        self._next_request += 1
        return Asked(request, what, b"", several)

    def _check_length(self, address: int, length: int) -> None:
        """Refuse what is longer than whoever pins it before it is posted can pin at once."""
        if self.cluster.design.scheme not in PINS_FIRST or address < 0:
            return  # or what the NIC is to refuse
        page, longest = self._memory.page_size, self.cluster.size.longest
        pages = (address + length - 1) // page - address // page + 1
        if longest < pages <= self._memory.state.entries.shape[2]:
            raise SimulationError(
                f"a piece of memory of {pages} pages is more than can be pinned for one "
                f"descriptor, {longest}; give the cluster a PortSize with longest={pages}"
            )

    def posting_inline(
        self, operation: int, name: int, content: bytes, port: int | None = None
    ) -> Asked:
        """``post_inline``, to be put before ``done`` or ``arrival``."""
        return self._inlined(operation, name, content, port, 1)

    def _inlined(
        self,
        operation: int,
        name: int,
        content: bytes,
        port: int | None,
        follow: int,
        flags: int = 0,
    ) -> Asked:
        """A post that holds its data, and behind which ``follow`` others are put."""
        driven = self._driven
        if RUNNING.program is not driven:
            self._owner.check_caller()
        raw = content if type(content) is bytes else raw_bytes(content)
        size = len(raw)
        if size > INLINE_BYTES:
            raise SimulationError(
                f"a descriptor holds up to {INLINE_BYTES} bytes, {size} were given"
            )
        if type(operation) is not int or not 0 <= operation < 1 << KIND_BITS:
            operation = whole(operation, "an operation", 0, (1 << KIND_BITS) - 1)
        if type(name) is not int:
            name = whole(name, "a name", LEAST)
        which = self._port if port is None else self._own(port)
        own = self._mapped[which] | operation | (INLINE << KIND_BITS) | flags
        request = self._next_request
        what = driven.request(POST, which, size, name, 0, 0, request, own, follow)
        self._next_request = request + 1
        asked: Asked = _tuple(Asked, (request, what, raw, ()))
        return asked

    def providing(self, address: int, port: int | None = None, more: bool = False) -> Asked:
        """``provide``, to be put before ``done``, ``arrival`` or another ``provide``.

        ``more``: as of ``posting``.
        """
        self._owner.check_caller()
        at = whole(address, "an address", LEAST)
        which = self._own(port)
        own = self._mapped[which] | (MORE if more else 0)
        return Asked(-1, self._driven.request(PROVIDE, which, address=at, own=own))

    def _own(self, port: int | None) -> int:
        """The port meant, which is mapped into this process's address space and no other's."""
        if port is None:
            return self._port
        if type(port) is not int:
            port = whole(port, "a port")
        if port not in self._mapped:
            raise SimulationError(
                f"port {port} of node {self._node} is not this process's; open it first"
            )
        return port

    def _place(self, asked: Asked) -> None:
        """Write down what ``asked`` has beside its request, as it is to begin at once."""
        driven = self._driven
        inline = asked[2]
        driven.control_bytes[: len(inline)] = inline
        if asked.segments:
            self._ports.gathers[driven.number, : len(asked.segments)] = asked.segments

    def _behind(self, before: Asked | Sequence[Asked], last: bytes) -> bytes:
        """The request for what ``before`` asks for, one after the other, and then for ``last``."""
        driven = self._driven
        if type(before) is Asked:
            _, what, inline, segments = before
            if inline and not segments and what.startswith(driven.head):
                # It says itself that one follows.
                driven.control_bytes[: len(inline)] = inline
                return what + last
            before = [before]
        if not isinstance(before, (list, tuple)):
            raise _no_call(before)
        if len(before) > MOST_BEFORE:
            raise SimulationError(
                f"up to {MOST_BEFORE} calls can be put before one, {len(before)} were given"
            )
        self._check_own(before)
        for place, asked in enumerate(before):
            if place == 0:
                self._place(asked)
                continue
            if asked.segments:
                self._place_behind(asked, place - 1)
            content = np.frombuffer(asked.inline, np.uint8)
            driven.inlined[place - 1, : len(content)] = content
        return driven.chain([*(asked.what for asked in before), last])

    def _check_own(self, several: Sequence[Asked]) -> None:
        """Return if these are calls that this process has made."""
        for asked in several:
            if type(asked) is not Asked:
                raise _no_call(asked)
            if not asked.what.startswith(self._driven.head):
                raise SimulationError(
                    f"{self._owner.name} was given what another process asked for; a process puts "
                    "its own calls before its own"
                )

    def _place_behind(self, asked: Asked, place: int) -> None:
        """Write down the pieces of memory of what is not the first of a chain."""
        gathered = self._ports.gathered
        if not gathered.size:
            raise SimulationError(
                "of calls that are put before one, only the first can post several pieces of memory"
            )
        gathered[self._driven.number, place, : len(asked.segments)] = asked.segments


def _no_call(given: object) -> SimulationError:
    return SimulationError(
        "what is put before a call is made by posting(), posting_inline() or providing(), not "
        f"something of type {type(given).__name__}"
    )


def _whole_segments(segments: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Pieces of memory as whole numbers.  Errors: ``SimulationError`` for what is none."""
    return [
        (whole(address, "an address", LEAST), whole(length, "a length", LEAST), NO_REGION)
        for address, length in segments
    ]
