"""What all of the verbs stands on: errors, the node, closing of objects, attributes, memory."""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import mmap as _mmap
import os
import sys
import threading
import weakref
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, dataclass_transform

from nicscope.interfaces.verbs_device.calls import Facts, Refused
from nicscope.interfaces.verbs_device.fabric import addresses, guid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from nicscope.drivers.simulate.thread_scheduler import ScheduledCaller


NO_CODE = -1


class PyverbsError(Exception):
    """A verb that failed; its message ends with the system's word for the error, if it has one."""

    def __init__(self, msg: str, error_code: int = NO_CODE) -> None:
        if error_code != NO_CODE:
            msg = f"{msg}. Errno: {error_code}, {os.strerror(error_code)}"
        super().__init__(msg)


class PyverbsRDMAError(PyverbsError):
    """A verb that the device has refused."""

    def __init__(self, msg: str, error_code: int = NO_CODE) -> None:
        super().__init__(msg, error_code)
        self._code = error_code

    @property
    def error_code(self) -> int:
        """The system's number of the error; -1: none."""
        return self._code


class PyverbsUserError(PyverbsError):
    """A call that makes no sense, whatever the device."""

    def __init__(self, msg: str) -> None:
        super().__init__(msg)


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
        self.contexts: weakref.WeakValueDictionary[int, PyverbsCM] = weakref.WeakValueDictionary()
        self.opened: weakref.WeakSet[PyverbsCM] = weakref.WeakSet()
        self.listeners: dict[tuple[str, int], Any] = {}  # CM identifiers, by name and service
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


LOGGER = logging.getLogger("pyverbs")
TAG = 0xFF  # the bits of a key that its owner may change
_last = [0]  # the number of the last error, as a C library's errno


# Forgotten and not closed yet: what Python's collector has found in the thread of another node's
# program, which may not ask for anything in their names, and what was in use by another of these.
_left: list[PyverbsCM] = []


def close_abandoned() -> None:
    """Close the objects that this thread's program has dropped and nothing uses any more."""
    if not _left:
        return
    own = whose()
    found = [each for each in _left if each._owner in (None, own)]
    _left[:] = [
        each for each in _left if each._owner not in (None, own) and not each._owner.is_over
    ]
    close_all(found)


def close_all(things: Iterable[PyverbsCM]) -> None:
    """Close each object that can be closed, in reverse order of dependency."""
    for each in sorted(things, key=lambda one: len(one.ORDER)):
        try:
            each.close()
        except PyverbsRDMAError as failed:
            if failed.error_code == errno.EBUSY:
                _left.append(each)
        except Exception:
            each.logger.debug("%s could not be closed", each, exc_info=True)


def error(text: str, errno: int) -> PyverbsRDMAError:
    """An error to raise, which ``PyverbsRDMAErrno`` will know of."""
    _last[0] = errno
    return PyverbsRDMAError(text, errno)


def PyverbsRDMAErrno(msg: str) -> PyverbsRDMAError:  # noqa: N802 - its name is given
    """An exception that carries the errno of the last failed call."""
    return PyverbsRDMAError(msg, _last[0])


@contextlib.contextmanager
def refusal(text: str) -> Iterator[None]:
    """Convert a call that the device refuses within the block into an error prefixed ``text``."""
    try:
        yield
    except Refused as refused:
        raise error(text, refused.errno) from None


def inc_rkey(rkey: int) -> int:
    """The rkey with the same index and the next tag."""
    return (rkey & ~TAG) | ((rkey + 1) & TAG)


class PyverbsObject:
    """Base of every verbs object that a program holds."""

    __slots__ = ()

    logger = LOGGER

    def set_log_level(self, val: int) -> None:
        """Show messages of this level and above."""
        self.logger.setLevel(val)


class PyverbsValue(PyverbsObject):
    """An attribute object: closable like all others, though it holds no resource."""

    __slots__ = ()

    def close(self) -> None:
        """Does nothing."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class PyverbsCM(PyverbsObject):
    """A closable object: by its owner, a ``with`` block, its parent, or the garbage collector."""

    ORDER: ClassVar[tuple[str, ...]] = ()  # kinds of what is made on it, first closed first
    _closed = True  # nothing is to be closed of what could not be made
    _owner: World | None = None  # in whose thread alone it is closed

    def _opened(self) -> None:
        """Mark the object as open and add it to those that its thread's program has opened."""
        close_abandoned()
        self._closed = False
        self._owner = whose()
        add_opened(self)
        self._born: dict[str, weakref.WeakSet[PyverbsCM]] = {}

    def _add_dependent(self, child: PyverbsCM, kind: str) -> None:
        """Register ``child`` as dependent: it is closed before this object."""
        born = self._born.get(kind)
        if born is None:
            born = self._born[kind] = weakref.WeakSet()
        born.add(child)

    def _living(self, kind: str) -> list[Any]:
        return [child for child in self._born.get(kind, ()) if not child._closed]

    def close(self) -> None:
        """Release the resource; closing again does nothing."""
        if self._closed:
            return
        self._closed = True
        for kind in self.ORDER:
            for child in [*self._born.get(kind, ())]:
                child.close()
        with refusal(f"Failed to close a {type(self).__name__}"):
            try:
                self._release()
            except Refused:
                self._closed = False  # it is as it was, and can be closed later
                raise

    def _release(self) -> None:
        """Release what the device holds for the object."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self._closed or sys.is_finalizing():  # at exit there is nothing left to tell
            return
        if self._owner is not None and self._owner.is_over:
            return
        _left.append(self)
        close_abandoned()


WIDTH = 22  # of a name in a print


class Fields:
    """An object that prints as one line for each of its fields."""

    __slots__ = ()

    SHOWN: ClassVar[tuple[str, ...]] = ()
    SAID: ClassVar[dict[str, Callable[[Any], str]]] = {}  # of what prints as something else

    def shown(self) -> list[tuple[str, Any]]:
        """Field names and values in the order in which they are printed."""
        rows = []
        for name in self.SHOWN:
            value = getattr(self, name)
            rows.append(
                (name.replace("_", " "), self.SAID[name](value) if name in self.SAID else value)
            )
        return rows

    def __str__(self) -> str:
        return printed(dict(self.shown()))


@dataclass_transform(eq_default=False, field_specifiers=(field,))
class Attributes(Fields, PyverbsObject):
    """What a program sets when it makes the object, by position or by name, or later.

    A kind declares it field by field.  An ``int`` field takes any number, truncated as C does.
    """

    _numbers: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        own = vars(cls)
        made: Any = dataclass(init="__init__" not in own, repr=False, eq=False)(cls)
        numbers = [each.name for each in fields(made) if each.type == "int"]
        cls._numbers = frozenset(numbers)
        if "SHOWN" not in own:
            cls.SHOWN = tuple(numbers)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, int(value) if name in self._numbers else value)


def printed(values: Mapping[str, Any]) -> str:
    """A line for each value, behind its name."""
    return "".join(f"{name:<{WIDTH}}: {value}\n" for name, value in values.items())


PROT_NONE_ = 0
PROT_READ_ = _mmap.PROT_READ
PROT_WRITE_ = _mmap.PROT_WRITE
PROT_EXEC_ = _mmap.PROT_EXEC
MAP_PRIVATE_ = _mmap.MAP_PRIVATE
MAP_SHARED_ = _mmap.MAP_SHARED
MAP_ANONYMOUS_ = _mmap.MAP_ANONYMOUS
MAP_FIXED_ = 0x10
MAP_STACK_ = 0x20000
MAP_HUGETLB_ = 0x40000
MAP_HUGE_SHIFT_ = 26
MADV_DONTNEED = 4
HUGE = 2 << 20
ALIGNMENT = 8


def mmap(
    addr: int = 0,
    length: int = 100,
    prot: int = PROT_READ_ | PROT_WRITE_,
    flags: int = MAP_PRIVATE_ | MAP_ANONYMOUS_,
    fd: int = 0,  # noqa: ARG001 - there are no files in this memory
    offset: int = 0,  # noqa: ARG001
) -> int:
    """The address of ``length`` zeroed bytes in pages of their own."""
    wanted, size = int(flags), int(length)
    if size < 1:
        raise error("Failed to mmap memory", errno.EINVAL)
    if not wanted & MAP_ANONYMOUS_ or wanted & MAP_FIXED_ or int(addr) or not int(prot) & 3:
        raise error("Failed to mmap memory", errno.EOPNOTSUPP)
    huge = bool(wanted & MAP_HUGETLB_)
    with refusal("Failed to mmap memory"):
        return int(here().device.map(_rounded(size, huge), huge))


def munmap(addr: int, length: int) -> None:
    """Unmap pages; a memory region keeps those that it has pinned."""
    with refusal("Failed to unmap memory"):
        here().device.unmap(int(addr), _rounded(int(length), False))


def madvise(addr: int, length: int, flags: int = MADV_DONTNEED) -> None:
    """Discard the pages of a range: they read as zeros afterwards."""
    if int(flags) != MADV_DONTNEED:
        raise error("Failed to advise memory", errno.EOPNOTSUPP)
    first = int(addr)
    if first % PAGE:
        raise error("Failed to advise memory", errno.EINVAL)
    with refusal("Failed to advise memory"):
        here().device.drop(first, _rounded(int(length), False))


def _rounded(length: int, huge: bool) -> int:
    unit = HUGE if huge else PAGE
    return -(-length // unit) * unit


def malloc(size: int) -> int:
    """The address of ``size`` bytes."""
    return here().heap.allocate(int(size))


def posix_memalign(size: int, alignment: int = ALIGNMENT) -> int:
    """The address of ``size`` zeroed bytes at a multiple of ``alignment``."""
    wanted = int(alignment)
    if wanted < ALIGNMENT or wanted & (wanted - 1):
        raise MemoryError(f"Failed to allocate memory: {wanted} is no alignment")
    world = here()
    if wanted <= PAGE:
        return world.heap.allocate(int(size), wanted)
    if wanted <= HUGE:
        return int(world.device.map(_rounded(int(size), True), True))
    raise MemoryError(f"Failed to allocate memory at a multiple of {wanted}")


def free(ptr: int) -> None:
    """Free memory that ``malloc`` or ``posix_memalign`` allocated."""
    world = here()
    if int(ptr) and not world.heap.release(int(ptr)):
        raise PyverbsError(f"Failed to free {int(ptr):#x}: nothing is allocated there")


def read(addr: int, length: int, offset: int = 0) -> bytes:
    """The bytes at an address."""
    with refusal("Failed to read memory"):
        found: bytes = here().device.read(int(addr) + int(offset), int(length))
        return found


def write(addr: int, data: Any, length: int, offset: int = 0) -> None:
    """Write ``length`` bytes of ``data`` at an address."""
    with refusal("Failed to write memory"):
        here().device.write(int(addr) + int(offset), as_bytes(data, int(length)))


def as_bytes(data: Any, length: int) -> bytes:
    """Exactly ``length`` bytes of text or bytes; zeros behind their end."""
    raw = data.encode() if isinstance(data, str) else bytes(data)
    return raw[:length].ljust(length, b"\0")


def read32(addr: int, offset: int = 0) -> int:
    """The word at an address, in the host's order."""
    return int.from_bytes(read(addr, 4, offset), "little")


def read64(addr: int, offset: int = 0) -> int:
    """The double word at an address, in the host's order."""
    return int.from_bytes(read(addr, 8, offset), "little")


def writebe32(addr: int, val: int, offset: int = 0) -> None:
    """Write a word in network order."""
    write(addr, (int(val) & 0xFFFFFFFF).to_bytes(4, "big"), 4, offset)


def writebe64(addr: int, val: int, offset: int = 0) -> None:
    """Write a double word in network order."""
    write(addr, (int(val) & (1 << 64) - 1).to_bytes(8, "big"), 8, offset)
