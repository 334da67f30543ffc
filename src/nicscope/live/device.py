"""The device as real processes use it: its memory stands for theirs, nobody's call moves time."""

from __future__ import annotations

import ctypes
import errno
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from nicscope.drivers.simulate.ports.build import HostSize
from nicscope.drivers.simulate.process import LAST, SIZE
from nicscope.drivers.simulate.thread_scheduler import SingleCaller
from nicscope.errors import RoomError
from nicscope.interfaces.verbs_device import calls
from nicscope.interfaces.verbs_device.calls import Completion, Refused
from nicscope.interfaces.verbs_device.device import Device
from nicscope.interfaces.verbs_device.fabric import (
    ANY_QUEUE,
    SPACE,
    Fabric,
    Pair,
)
from nicscope.interfaces.verbs_device.fabric import SIZE as PORTS
from nicscope.kernel.distant import relink
from nicscope.live import layout
from nicscope.nic.ports.calls import FIRMWARE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from nicscope.drivers.simulate.process import Simulation
    from nicscope.interfaces.verbs_device.calls import Cq, Region

NODES = layout.CONSTANTS["NODES"]
PAIRS = 320  # queue pairs of each
# Pages of the regions of a node, the most and the least.  Assumed: what programs ask for that are
# tried on one machine, of which tgtd asks for 1 GiB and some more.  Memory is taken as they are
# used, but there is to be enough for all.
MOST_FRAMES, LEAST_FRAMES = 17 << 14, 17 << 10
LIVE_SIZE = msgspec.structs.replace(PORTS, regions=1 << 13, queues=257, connections=1 << 12)
ACCESS = calls.LOCAL_WRITE | calls.REMOTE_WRITE | calls.REMOTE_READ | calls.REMOTE_ATOMIC
OPTIONAL = 0x3FF00000 | 1 << 7  # flags that may be ignored, huge pages among them
PAGE = 4096
_LAST_ADDRESS = (1 << 63) - PAGE  # the firmware reckons with int64
# Completions of a queue: assumed, of the order of present cards; libfabric asks for 2**18.
MOST_CQE = 1 << 20


def _pages(address: int, length: int) -> int:
    """Pages of memory, at least one."""
    return max(-(-(address % PAGE + length) // PAGE), 1)


class Engine:
    """The C functions that move bytes between frames and processes."""

    def __init__(self, library: Path) -> None:
        self.so = ctypes.CDLL(str(library))
        for name in ("live_touch", "live_write", "live_failures"):
            getattr(self.so, name).restype = ctypes.c_int64
        long = ctypes.c_int64
        self.so.live_touch.argtypes = [long, long, long]
        self.so.live_write.argtypes = [long, long, ctypes.c_char_p, long]
        self.so.live_own.argtypes = [long, long]
        self.so.live_place.argtypes = [long, ctypes.c_void_p, ctypes.c_void_p, long]
        self._result = ctypes.c_int64()

    def link(self, machine: Any) -> None:
        """Has the firmware of ``machine`` move bytes of processes, compiled or interpreted."""
        for name, numbers in (("load_from_program", 4), ("store_to_program", 3)):
            function = getattr(self.so, f"live_{name.partition('_')[0]}")
            function.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * numbers
            address = ctypes.cast(function, ctypes.c_void_p).value or 0
            relink(machine, FIRMWARE.place_of(name), address, self._interpreted(function))
        machine.ports.rules["mirrors"] = 1

    def _interpreted(self, function: Any) -> Any:
        result = ctypes.byref(self._result)

        def moved(_machine: Any, *numbers: int) -> int:
            function(result, None, None, *numbers)
            return 0

        return moved


class LiveCaller(SingleCaller):
    """One of several processes, each of which is called by the same plain Python code."""

    def __init__(self, simulation: Simulation, node: int) -> None:
        super().__init__(simulation)
        self.process = simulation.processes[node]
        self._outbox, self._until = self.asked, simulation.machine.tally["until"]
        self._own = memoryview(bytearray(len(self.asked)))
        self.asked = self._own

    def carry_out(self, count: int) -> Sequence[int] | None:
        """As ``SingleCaller``: what is asked may move virtual time."""
        self._outbox[: count * SIZE] = self._own[: count * SIZE]
        self._until[0] = LAST
        self.asked = self._outbox
        try:
            return super().carry_out(count)
        finally:
            self.asked = self._own


class LiveFabric(Fabric):
    """The network that joins the NICs of all attached processes."""

    def __init__(self, engine: Engine, design: Any, platform: Any, **options: Any) -> None:
        """As large as there is memory for.  Errors: as ``Fabric``; ``RoomError``."""
        self.frames = MOST_FRAMES
        while True:
            size = msgspec.structs.replace(LIVE_SIZE, longest=self.frames)
            pages = 2 * self.frames
            host = HostSize(frames=self.frames, pages_per_space=pages, swap_blocks=16)
            options |= {"nodes": NODES, "size": size, "host": host, "pairs": PAIRS}
            try:
                super().__init__(design, platform, **options)
            except RoomError:
                if self.frames == LEAST_FRAMES:
                    raise
                self.frames //= 2
            else:
                break
        self.engine = engine
        self.quiet: Callable[[], object] = list  # has all go that needs no timer

    def begun(self) -> Simulation:
        """The simulation, in which nobody takes turns: the machine asks for all."""
        is_new = self._begun is None
        simulation = super().begun()
        self.turns = None
        if is_new:
            self.engine.link(simulation.machine)
            self.pages = np.zeros((NODES, self.frames), np.int64)
            memory = simulation.machine.ports.memory
            for node in range(NODES):
                bytes_of, pages = memory.bytes[node], self.pages[node]
                if len(bytes_of) < self.frames * PAGE:
                    raise ValueError("a host has fewer frames than it was built with")
                places = bytes_of.ctypes.data, pages.ctypes.data
                self.engine.so.live_place(node, *places, self.frames)
        return simulation

    pages: Any  # by node and frame: the address of the process's page, or 0


class LiveDevice(Device):
    """A NIC and what one process has made on it."""

    _fabric: LiveFabric
    pid = 0  # of the process; 0: it has gone, or none has come yet
    # By region: address of its first page in the process and here, bytes, frames.
    real: dict[int, tuple[int, int, int, Any]]

    def _have_caller(self) -> None:
        self._calling = LiveCaller(self._fabric.begun(), self._node)
        self._asked, self._before, self._rest = self._calling.asked, 0, None

    @property
    def node(self) -> int:
        """The number of its node."""
        return self._node

    @property
    def has_served(self) -> bool:
        """Whether a process has ever been attached."""
        return self._is_made

    def _begin_on(self, fabric: Fabric) -> None:
        super()._begin_on(fabric)
        self.real = {}

    def own(self, pid: int) -> None:
        """Have the device's memory stand for that of a process, or of none (0)."""
        self.now_ps  # noqa: B018 - the machine is made by the first use
        self.pid = pid
        self._fabric.engine.so.live_own(self._node, pid)

    def register_process(
        self, pd: int, address: int, length: int, iova: int, access: int
    ) -> Region:
        """Register memory of the process.

        Errors: as ``register``; EFAULT where the process has nothing; EINVAL for addresses that no
        process can have.
        """
        if iova + length > _LAST_ADDRESS:
            raise Refused(errno.EINVAL)
        mapped = self._map_process(address, length, access)
        try:
            made = self.register(pd, mapped + address % PAGE, length, iova, access & ~OPTIONAL)
        except Refused:
            self.unmap(mapped, _pages(address, length) * PAGE)
            raise
        self._note_process(made.handle, address, length, mapped)
        return made

    def _map_process(self, address: int, length: int, access: int) -> int:
        """Map pages that are to stand for those of the process; where.  Errors: as ``register``."""
        if access & ~(ACCESS | calls.MW_BIND | OPTIONAL):
            raise Refused(errno.EOPNOTSUPP)
        if length < 0 or address < 0 or address + length > _LAST_ADDRESS:
            raise Refused(errno.EINVAL)
        first, pages = address - address % PAGE, -(-(address % PAGE + length) // PAGE)
        if pages > self._fabric.frames:
            raise Refused(errno.ENOMEM)
        if self._fabric.engine.so.live_touch(self.pid, first, pages) != pages:
            raise Refused(errno.EFAULT)
        return self.map(_pages(address, length) * PAGE)

    def _note_process(self, handle: int, address: int, length: int, mapped: int) -> None:
        """Have the frames of a region that is pinned now be those of the process."""
        first, pages = address - address % PAGE, _pages(address, length)
        number = mapped // PAGE
        entries = self._memory.state.entries[self._node, SPACE, number : number + pages]
        frames = entries["frame"][: pages if length else 0]
        self._fabric.pages[self._node, frames] = first + np.arange(len(frames)) * PAGE
        self.real[handle] = first, mapped, pages * PAGE, frames.copy()

    def reregister_process(
        self, handle: int, pd: int | None, memory: tuple[int, int] | None, access: int | None
    ) -> None:
        """Change a region: its domain, its address and length in the process, its rights.

        Errors: as ``register_process``, and then nothing has changed; EINVAL.
        """
        if handle not in self.real:
            raise Refused(errno.EINVAL)
        rights = None if access is None else access & ~OPTIONAL
        if memory is None:
            if access is not None and access & ~(ACCESS | calls.MW_BIND | OPTIONAL):
                raise Refused(errno.EOPNOTSUPP)
            self.reregister(handle, pd, access=rights)
            return
        address, length = memory
        mapped = self._map_process(address, length, access or 0)
        try:
            self.reregister(handle, pd, mapped + address % PAGE, length, rights, address)
        except Refused:
            self.unmap(mapped, _pages(address, length) * PAGE)
            raise
        _, before, size, frames = self.real[handle]
        self._fabric.pages[self._node, frames] = 0
        self.unmap(before, size)
        self._note_process(handle, address, length, mapped)

    def make_cq(self, entries: int, made: Any = Completion) -> Cq:
        """As ``Device.make_cq``; the ring of its program holds what the NIC's own does not."""
        if not 1 <= entries <= MOST_CQE:
            raise Refused(errno.EINVAL)
        found = super().make_cq(min(entries, self._fabric.size.entries), made)
        return found._replace(entries=entries)

    def resize_cq(self, handle: int, entries: int) -> int:
        """Resize a completion queue.  Errors: EINVAL, as for fewer than it holds."""
        queue, record = self._queue(handle), self._queue_record(handle)
        held = int(record["written"]) - int(record["read"])
        if not max(held, 1) <= entries <= MOST_CQE:
            raise Refused(errno.EINVAL)
        record["entries"] = queue.entries = min(entries, self._fabric.size.entries)
        return entries

    def deregister_process(self, handle: int) -> None:
        """Deregister memory of the process.  Errors: EINVAL."""
        if handle not in self.real:
            raise Refused(errno.EINVAL)
        self.deregister(handle)
        _, mapped, size, frames = self.real.pop(handle)
        self._fabric.pages[self._node, frames] = 0
        self.unmap(mapped, size)

    def key_of(self, handle: int) -> int:
        """The key of a region."""
        return self._regions[handle].key

    def shifts_of(self, handle: int) -> tuple[int, int]:
        """From a region's addresses, as requests name them, to those here and of the process."""
        region = self._regions[handle]
        first, mapped, _, _ = self.real[handle]
        return self._shifts[region.key], region.address - mapped + first - region.base

    def _room_for_values(self, pair: Pair) -> tuple[int, int]:
        """Bytes of a request by value, a power of two, and how many a queue pair can have."""
        room = 1 << (max(pair.caps.inline, 8) - 1).bit_length()
        return room, min(pair.caps.send_wr, self._ring) + 1

    def keep_values(self, pair: Pair) -> tuple[int, int]:
        """Make memory for a queue pair's requests by value; bytes of each, and how many.

        Errors: ENOMEM.
        """
        room, places = self._room_for_values(pair)
        pair.inline_at = self.map(places * room)
        try:
            pair.inline_key = self.register(
                pair.domain, pair.inline_at, places * room, pair.inline_at, calls.LOCAL_WRITE
            ).lkey
        except Refused:
            self.unmap(pair.inline_at, places * room)
            pair.inline_at = 0
            raise
        return room, places

    def free_qp(self, number: int) -> None:
        """As ``Device.free_qp``; its memory for requests by value is given back, too."""
        pair = self._pairs.get(number)
        super().free_qp(number)
        if pair is not None and pair.inline_at:
            room, places = self._room_for_values(pair)
            self.unmap(pair.inline_at, room * places)

    def heard(self) -> Iterator[Any]:
        """Asynchronous events since this was last asked."""
        if self._draining or self._told != self._troubles[self._node]:
            self._collect_errors()
        self._read_to[ANY_QUEUE] = self._written[ANY_QUEUE]
        self._heard = self._written[ANY_QUEUE]
        while self._events:
            yield self._events.pop(0)

    def _await_acknowledgement(self, pair: Pair) -> None:
        super()._await_acknowledgement(pair)
        self._fabric.quiet()  # the packet that says so is on its way

    def release_all(self) -> None:
        """Give back all that the process has made and left behind."""
        for number in [*self._pairs]:
            self.free_qp(number)
        for handle in [*self._shared]:
            self.free_srq(handle)
        for handle in [*self._queues]:
            self.free_cq(handle)
        for handle in [*self.real]:
            self.deregister_process(handle)
        for handle in [*self._regions]:
            self.deregister(handle)
        self._domains.clear()
        self._xrcds.clear()
        self._events.clear()
