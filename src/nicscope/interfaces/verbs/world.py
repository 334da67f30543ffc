"""The simulated node that programs of verbs run on: its device, addresses, small allocations."""

from __future__ import annotations

import itertools
import threading
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.interfaces.verbs_device.fabric import addresses, guid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nicscope.drivers.simulate.thread_scheduler import ScheduledCaller
    from nicscope.interfaces.verbs.cmid import CMID
    from nicscope.interfaces.verbs.device import Context
    from nicscope.interfaces.verbs_device.calls import Facts


PAGE = 4096
LEAST = 16
ARENA_PAGES = 16


class Heap:
    """Blocks of powers of two up to half a page; what is larger has pages of its own."""

    def __init__(self, device: Any) -> None:
        self._device = device
        self._free: dict[int, list[int]] = {}
        self._sizes: dict[int, int] = {}  # of each block that is allocated, by its address

    def allocate(self, size: int, alignment: int = LEAST) -> int:
        """The address of ``size`` zeroed bytes at a multiple of ``alignment``, at most a page's."""
        room = LEAST
        while room < max(size, alignment):
            room *= 2
        if room > PAGE // 2:
            length = -(-max(size, 1) // PAGE) * PAGE
            address = int(self._device.map(length))
            self._sizes[address] = length
            return address
        free = self._free.setdefault(room, [])
        if not free:
            start = int(self._device.map(ARENA_PAGES * PAGE))
            free.extend(range(start + ARENA_PAGES * PAGE - room, start - room, -room))
        address = free.pop()
        self._sizes[address] = room
        self._device.write(address, bytes(room))
        return address

    def release(self, address: int) -> bool:
        """Give a block back; False where there is none."""
        size = self._sizes.pop(address, None)
        if size is None:
            return False
        if size > PAGE // 2:
            self._device.unmap(address, size)
        else:
            self._free[size].append(address)
        return True


DEVICE = "nicscope"
GID_SLOTS = 8


class Gid(NamedTuple):
    """An entry of the GID table; both are RoCE v2."""

    slot: int
    raw: bytes


class World:
    """A node and its device, as the programs on it see them."""

    def __init__(self, device: Any, node: int = 0, name: str | None = None) -> None:
        self.device = device
        self.node = node
        self.heap = Heap(device)
        self.name = f"{DEVICE}{node}" if name is None else name
        self.guid = guid(node)
        self.contexts: weakref.WeakValueDictionary[int, Context] = weakref.WeakValueDictionary()
        self.opened: weakref.WeakSet[Context] = weakref.WeakSet()
        self.listeners: dict[tuple[str, int], CMID] = {}  # of connections, by name and service
        self.ends = 0  # of connections, so far
        self.domains: dict[tuple[int, int], tuple[int, int]] = {}  # of a file: handle and holders
        self.neighbours: list[World] = [self]  # all that one network joins, by their numbers
        self.turn: ScheduledCaller | None = None  # of the program, where others run on other nodes
        self.offered: dict[str, list[Any]] = {}  # to the others, by name and in order
        self.taken: dict[str, int] = {}  # how many of each the program has had
        self.called: dict[int, str] = {}  # of the processes that its program began

    @property
    def facts(self) -> Facts:
        """What the device can do."""
        facts: Facts = self.device.facts
        return facts

    @property
    def is_over(self) -> bool:
        """Whether its program ran beside others and all of them have ended."""
        return self.turn is not None and self.turn.turns.over.is_set()

    def take_turns(self) -> ScheduledCaller:
        """Register the node's program with the scheduler of several programs, once."""
        from nicscope.drivers.simulate.thread_scheduler import ScheduledCaller

        if self.turn is None:
            self.turn = ScheduledCaller(self.device.fabric.take_turns())
            bind_world(self)
        return self.turn

    def wait(self, what: str, has_come: Callable[[], bool], may_fail: bool = False) -> bool:
        """Run other programs until ``has_come()``; False if it never can."""
        if self.turn is None:
            return has_come()
        return self.turn.wait(what, has_come, may_fail)

    def stuck(self, name: str) -> str:
        """What each deadlocked program of the run waits for; ``name``: of the first of them."""
        stuck = {} if self.turn is None else self.turn.turns.stuck
        return "; ".join(
            f"{self.called.get(number, name)} waits for {what}" for number, what in stuck.items()
        )

    def end(self) -> None:
        """Stop the threads and child processes that still run beside its program."""
        if self.turn is not None:
            self.turn.turns.end()
            bind_world(None)

    def gids(self) -> Iterator[Gid]:
        """The port's GIDs: the link-local one, and the one of its IPv4 address."""
        yield from (Gid(slot, raw) for slot, raw in enumerate(addresses(self.node)))

    def gid(self, index: int) -> bytes:
        """The GID at ``index``; zeros for an empty entry."""
        return next((gid.raw for gid in self.gids() if gid.slot == index), bytes(16))


_current: list[World] = []
_own = threading.local()  # of a program in a thread of its own


def bind_world(world: World | None) -> None:
    """Bind this thread's program to ``world``; None: to the current default."""
    _own.world = world


def whose() -> World | None:
    """The world that this thread is bound to, if any."""
    return getattr(_own, "world", None)


def track_opened() -> weakref.WeakValueDictionary[int, Any]:
    """Begin to track the objects that this thread's program opens, in order."""
    _own.opened, _own.numbers = weakref.WeakValueDictionary(), itertools.count()
    found: weakref.WeakValueDictionary[int, Any] = _own.opened
    return found


def add_opened(thing: Any) -> None:
    """Add an object to those that this thread's program has opened."""
    opened = getattr(_own, "opened", None)
    if opened is not None:
        opened[next(_own.numbers)] = thing


def use(world: World | None) -> None:
    """Make ``world`` the default for programs; None: a new one is made on first use."""
    _current[:] = [] if world is None else [world]


def here() -> World:
    """The world of the calling program."""
    own = whose()
    if own is not None:
        return own
    if not _current:
        from nicscope.interfaces.verbs_device.device import Device

        _current.append(World(Device()))
    return _current[0]
