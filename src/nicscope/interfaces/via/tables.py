"""What VI-MSG keeps on one NIC, as calls: registrations, VIs, rooms, descriptors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.coherent.binding import Binding
from nicscope.drivers.via import firmware as entries
from nicscope.interfaces.via.names import Error
from nicscope.nic.vimsg import connections, regions, requests, rooms
from nicscope.nic.vimsg.layout import (
    FIRST_PAGE,
    MAY_READ,
    MAY_WRITE,
    NOWHERE,
    PAGE,
    new_vimsg,
    with_room,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nicscope.interfaces.via.settings import Settings
    from nicscope.interfaces.via.vi import Attributes
    from nicscope.nic.vimsg.layout import Vimsg


class Outcome(NamedTuple):
    """What a step decided beside what it returns."""

    request: int | None  # the receive that a message takes
    status: int  # of names.Status
    tell_first: int | None  # for the sender, as the message has come
    tell_last: int | None  # once it is where it belongs
    error: Error | None  # that the library hears of
    breaks: bool  # the connection


class Run(NamedTuple):
    """A stretch of the host's memory."""

    first: int  # 1 where a segment begins: it has been translated
    address: int
    length: int
    page: int  # virtual, counted from the first of all


def rights_of(*, rdma_write: bool, rdma_read: bool) -> int:
    """Of an RDMA from afar, as the NIC has them."""
    return MAY_WRITE * rdma_write | MAY_READ * rdma_read


class Tables:
    """Of one NIC."""

    def __init__(self, settings: Settings, pages: int, memory: NDArray[np.uint8]) -> None:
        """``pages``: of a process; ``memory``: the NIC's own."""
        self._settings = settings
        self._nic_memory = memory
        self._handle = 0
        self._keep(
            new_vimsg(
                settings.mtu,
                settings.retries,
                settings.max_transfer,
                settings.nic["staging_bytes"],
                pages,
                settings.window,
            )
        )
        self._free_requests = list(range(len(self.memory.requests)))[::-1]
        self._free_vis = list(range(len(self.memory.vis)))[::-1]

    def _keep(self, memory: Vimsg) -> None:
        self.memory = memory
        self._bound = Binding(memory)
        self._desk = Binding(entries.new_desk(memory, self._nic_memory, self._settings.mtu))

        self._frame, self._payload = self._desk.state.frame, self._desk.state.payload
        self.states = memory.vis["state"]
        self._lengths = memory.requests["length"]
        bound = self._bound.of
        # What every message needs, found once; the rest is bound, or compiled, when it is needed.
        self._permits = bound(regions.permits)
        self._take_room, self._give_room = bound(rooms.take_room), bound(rooms.give_room)
        self._runs_of_stretch = bound(regions.runs_of_stretch)
        self._runs_of_request = bound(regions.runs_of_request)
        self._read_request = self._desk.of(entries.read_request)
        self._controls = memory.requests["control"]

    def _call(self, kernel: Callable[..., Any], *numbers: int) -> int:
        return int(self._bound.of(kernel)(*numbers) or 0)

    def outcome(self) -> Outcome:
        """Of the last step that has one."""
        request, status, first, last, error, breaks = self.memory.outcome[0].tolist()
        return Outcome(
            None if request == NOWHERE else request,
            status,
            None if first == NOWHERE else first,
            None if last == NOWHERE else last,
            None if error == NOWHERE else Error(error),
            bool(breaks),
        )

    # --- registrations -------------------------------------------------------------------

    def add_region(
        self, address: int, frames: NDArray[np.int64], length: int, tag: int, rights: int
    ) -> int:
        """The handle of newly registered memory, whose pages are in those frames."""
        first = address // PAGE - FIRST_PAGE
        self.memory.frames[first : first + len(frames)] = frames
        for _ in range(len(self.memory.regions)):
            self._handle += 1
            if self._call(regions.add_region, self._handle, address, length, tag, rights):
                return self._handle
        self._grow_regions()
        return self.add_region(address, frames, length, tag, rights)

    def _grow_regions(self) -> None:
        old = self.memory.regions
        wider = np.zeros(2 * len(old), old.dtype).view(type(old))
        for region in old:
            wider[int(region["handle"]) % len(wider)] = region
        self._keep(self.memory._replace(regions=wider))

    def drop_region(self, handle: int) -> tuple[int, int] | None:
        """The address and bytes of what the handle named, and names no more; None if nothing."""
        region = self.memory.regions[handle % len(self.memory.regions)]
        if handle < 1 or region["handle"] != handle:
            return None
        region["handle"] = 0
        return int(region["address"]), int(region["length"])

    def is_tagged(self, tag: int) -> bool:
        """Whether any registered memory has that tag."""
        table = self.memory.regions
        return bool(((table["handle"] != 0) & (table["tag"] == tag)).any())

    def permits(self, handle: int, address: int, length: int, tag: int) -> bool:
        """Whether a VI with ``tag`` may use that stretch."""
        if not 0 <= address < 1 << 63 or not 0 <= handle < 1 << 63:
            return False
        return bool(self._permits(handle, address, length, tag, 0))

    # --- VIs -----------------------------------------------------------------------------

    def open_vi(self, attributes: Attributes) -> int:
        """Where on the NIC a VI with these is, idle."""
        if not self._free_vis:
            before = len(self.memory.vis)
            self._keep(with_room(self.memory, vis=before + 1))
            self._free_vis = list(range(before, len(self.memory.vis)))[::-1]
        v = self._free_vis.pop()
        rights = rights_of(rdma_write=attributes.rdma_write, rdma_read=attributes.rdma_read)
        level, longest = int(attributes.reliability), attributes.max_transfer
        self._call(connections.open_vi, v, level, attributes.tag, longest, rights)
        return v

    def close_vi(self, v: int) -> None:
        """The VI is no more."""
        self._free_vis.append(v)

    def connect(self, v: int, node: int, peer: int, expected: int, epoch: int) -> None:
        """``v`` is connected with ``peer`` of ``node``, whose next message is ``expected``."""
        self._call(connections.connect, v, node, peer, expected, epoch)

    def epoch(self, v: int) -> int:
        """Of the last connection that any VI had at place ``v``."""
        return int(self.memory.links[v]["epoch"])

    def sent(self, v: int) -> int:
        """Messages that VI ``v`` has sent."""
        return int(self.memory.vis[v]["sent"])

    def forget(self, v: int) -> None:
        """Nothing is left of what is posted and of half a message."""
        self._call(connections.forget, v)

    def lose_connection(self, v: int) -> bool:
        """Whether it had not lost it before."""
        return bool(self._call(connections.lose_connection, v))

    # --- rooms ---------------------------------------------------------------------------

    def take_room(self, side: int, count: int) -> int | None:
        """The lowest place with room for ``count`` bytes; None if there is none."""
        place = int(self._take_room(side, count))
        return None if place == NOWHERE else place

    def give_room(self, place: int) -> None:
        """The room at ``place`` is free again."""
        self._give_room(place)

    # --- descriptors ---------------------------------------------------------------------

    def read_request(self, raw: NDArray[np.uint8], *, receive: bool) -> tuple[int, bool]:
        """Where on the NIC a descriptor of that queue is now, and whether its format is wrong."""
        if not self._free_requests:
            before = len(self.memory.requests)
            self._keep(with_room(self.memory, requests=before + 1))
            self._free_requests = list(range(before, len(self.memory.requests)))[::-1]
        place = self._free_requests.pop()
        self._payload[: len(raw)] = raw
        return place, bool(self._read_request(place, len(raw), int(receive)))

    def forget_request(self, place: int) -> None:
        """It is done."""
        self._free_requests.append(place)

    def length_of(self, request: int) -> int:
        """Bytes in all its segments."""
        return int(self._lengths[request])

    def status_word(self, request: int | None, status: int, *, receive: bool) -> int:
        """What is written back into a descriptor that is done."""
        control = 0 if request is None else int(self._controls[request])
        return int(requests.status_word(receive, control, status))

    def runs_of_stretch(self, address: int, count: int) -> list[Run]:
        """Where that registered stretch is in the host's memory."""
        return self._runs(self._runs_of_stretch(address, count))

    def runs_of_request(self, request: int, count: int | None = None) -> list[Run]:
        """Likewise the first ``count`` bytes of a request's segments, or all segments."""
        limit = NOWHERE if count is None else count
        return self._runs(self._runs_of_request(request, limit))

    def _runs(self, found: int) -> list[Run]:
        return [Run._make(row) for row in self.memory.runs[:found].tolist()]
