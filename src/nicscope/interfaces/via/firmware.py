"""One NIC's messaging firmware as calls: what ``nic.vimsg`` decides, one crossing each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.interfaces.via.names import Error, Status
from nicscope.nic.vimsg import connections, receiving, regions, requests, rooms, sending
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
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nicscope.interfaces.via.settings import Settings
    from nicscope.interfaces.via.vi import Attributes


class Outcome(NamedTuple):
    """What a step decided beside what it returns."""

    request: int | None  # the receive that a message takes
    status: Status
    tell_first: Status | None  # for the sender, as the message has come
    tell_last: Status | None  # once it is where it belongs
    error: Error | None  # that the library hears of
    breaks: bool  # the connection


class Run(NamedTuple):
    """A stretch of the host's memory."""

    first: bool  # of a segment: it has been translated
    address: int
    length: int
    page: int  # virtual, counted from the first of all


def rights_of(*, rdma_write: bool, rdma_read: bool) -> int:
    """Of an RDMA from afar, as the NIC has them."""
    return MAY_WRITE * rdma_write | MAY_READ * rdma_read


class Firmware:
    """The messaging on one node's NIC."""

    def __init__(self, settings: Settings, pages: int) -> None:
        self.memory = new_vimsg(
            settings.mtu,
            settings.retries,
            settings.max_transfer,
            settings.nic["staging_bytes"],
            pages,
        )
        self._free_requests = list(range(len(self.memory.requests)))[::-1]
        self._free_vis = list(range(len(self.memory.vis)))[::-1]
        self._handle = 0

    def _grow(self, *, vis: int = 0, requests: int = 0, rooms: int = 0) -> None:
        self.memory = with_room(self.memory, vis, requests, rooms)

    # --- registrations -------------------------------------------------------------------

    def add_region(
        self, address: int, frames: NDArray[np.int64], length: int, tag: int, rights: int
    ) -> int:
        """The handle of newly registered memory, whose pages are in those frames."""
        first = address // PAGE - FIRST_PAGE
        self.memory.frames[first : first + len(frames)] = frames
        for _ in range(len(self.memory.regions)):
            self._handle += 1
            if regions.add_region(self.memory, self._handle, address, length, tag, rights):
                return self._handle
        self._grow_regions()
        return self.add_region(address, frames, length, tag, rights)

    def _grow_regions(self) -> None:
        old = self.memory.regions
        wider = np.zeros(2 * len(old), old.dtype).view(type(old))
        for region in old:
            wider[int(region["handle"]) % len(wider)] = region
        self.memory = self.memory._replace(regions=wider)

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
        return bool(regions.permits(self.memory, handle, address, length, tag, 0))

    # --- VIs -----------------------------------------------------------------------------

    def open_vi(self, attributes: Attributes) -> int:
        """Where on the NIC a VI with these is, idle."""
        if not self._free_vis:
            before = len(self.memory.vis)
            self._grow(vis=before + 1)
            self._free_vis = list(range(before, len(self.memory.vis)))[::-1]
        v = self._free_vis.pop()
        rights = rights_of(rdma_write=attributes.rdma_write, rdma_read=attributes.rdma_read)
        level, longest = int(attributes.reliability), attributes.max_transfer
        connections.open_vi(self.memory, v, level, attributes.tag, longest, rights)
        return v

    def close_vi(self, v: int) -> None:
        """The VI is no more."""
        self._free_vis.append(v)

    def connect(self, v: int, node: int, peer: int, expected: int) -> None:
        """``v`` is connected with ``peer`` of ``node``, whose next message is ``expected``."""
        connections.connect(self.memory, v, node, peer, expected)

    def sent(self, v: int) -> int:
        """Messages that VI ``v`` has sent."""
        return int(self.memory.vis[v]["sent"])

    def forget(self, v: int) -> None:
        """Nothing is left of what is posted and of half a message."""
        connections.forget(self.memory, v)

    def lose_connection(self, v: int) -> bool:
        """Whether it had not lost it before."""
        return bool(connections.lose_connection(self.memory, v))

    # --- rooms ---------------------------------------------------------------------------

    def take_room(self, side: int, count: int) -> int | None:
        """The lowest place with room for ``count`` bytes; None if there is none."""
        self._room_for_rooms()
        place = int(rooms.take_room(self.memory, side, count))
        return None if place == NOWHERE else place

    def give_room(self, place: int) -> None:
        """The room at ``place`` is free again."""
        rooms.give_room(self.memory, place)

    def _room_for_rooms(self) -> None:
        self._grow(rooms=int(self.memory.config[0]["rooms"]) + 1)

    # --- descriptors ---------------------------------------------------------------------

    def read_request(self, raw: NDArray[np.uint8]) -> tuple[int, bool]:
        """Where on the NIC a descriptor is now, and whether its format is wrong."""
        if not self._free_requests:
            before = len(self.memory.requests)
            self._grow(requests=before + 1)
            self._free_requests = list(range(before, len(self.memory.requests)))[::-1]
        place = self._free_requests.pop()
        return place, bool(requests.read_request(self.memory, place, raw, 0, len(raw)))

    def forget_request(self, place: int) -> None:
        """It is done."""
        self._free_requests.append(place)

    def length_of(self, request: int) -> int:
        """Bytes in all its segments."""
        return int(self.memory.requests[request]["length"])

    def status_word(self, request: int | None, status: Status, *, receive: bool) -> int:
        """What is written back into a descriptor that is done."""
        control = 0 if request is None else int(self.memory.requests[request]["control"])
        return int(requests.status_word(receive, control, int(status)))

    def runs_of_stretch(self, address: int, count: int) -> list[Run]:
        """Where that registered stretch is in the host's memory."""
        return self._runs(int(regions.runs_of_stretch(self.memory, address, count)))

    def runs_of_request(self, request: int, count: int | None = None) -> list[Run]:
        """Likewise the first ``count`` bytes of a request's segments, or all segments."""
        limit = NOWHERE if count is None else count
        return self._runs(int(regions.runs_of_request(self.memory, request, limit)))

    def _runs(self, found: int) -> list[Run]:
        rows = self.memory.runs[:found].tolist()
        return [Run(bool(first), *more) for first, *more in rows]

    # --- sending -------------------------------------------------------------------------

    def admit(self, v: int, request: int) -> tuple[int, Outcome]:
        """What becomes of a descriptor of the send queue (``nic.vimsg.sending``)."""
        found = int(sending.admit(self.memory, v, request))
        return found, self._outcome()

    def refuse(self, v: int, status: Status) -> Outcome:
        """What follows an error of a request itself."""
        sending.refuse(self.memory, v, int(status))
        return self._outcome()

    def fragments(
        self, v: int, node: int, request: int | None, kind: int, raw: NDArray[np.uint8]
    ) -> Iterator[tuple[Any, NDArray[np.uint8]]]:
        """Header and bytes of each frame of a message."""
        asked = NOWHERE if request is None else request
        sending.open_message(self.memory, v, node, asked, kind, len(raw))
        last = False
        while not last:
            sending.next_fragment(self.memory)
            header = self.memory.header.copy()
            begin = int(header[0]["offset"])
            yield header, raw[begin : begin + int(header[0]["count"])]
            last = bool(header[0]["last"])

    def is_settled(self, v: int, acknowledgement: int) -> bool:
        """Whether the frame that was sent is done with, after that came back, or ``NOWHERE``."""
        return bool(sending.is_settled(self.memory, v, acknowledgement))

    def is_given_up(self, v: int) -> bool:
        """Whether the connection is lost, as no acknowledgement came in time once more."""
        return bool(sending.is_given_up(self.memory, v))

    # --- receiving -----------------------------------------------------------------------

    def take_receive(self, v: int, request: int) -> bool:
        """Whether the receive now waits for a message."""
        return bool(connections.take_receive(self.memory, v, request))

    def hear_frame(self, header: Any) -> tuple[bool, int]:
        """Whether the frame is to be taken, and what is acknowledged, or ``NOWHERE``."""
        taken, acknowledgement = receiving.hear_frame(self.memory, header)
        return bool(taken), int(acknowledgement)

    def take_frame(
        self, header: Any, memory: NDArray[np.uint8], raw: NDArray[np.uint8], *, waited: bool
    ) -> tuple[int, Outcome]:
        """What becomes of a frame (``nic.vimsg.receiving``)."""
        self._room_for_rooms()
        step = receiving.place_frame if waited else receiving.take_frame
        return int(step(self.memory, header, memory, raw)), self._outcome()

    def receive_ahead(self, header: Any) -> int | None:
        """The receive that a message will take, if it fits there."""
        found = int(receiving.receive_ahead(self.memory, header))
        return None if found == NOWHERE else found

    def assembly(self, v: int) -> int:
        """Where the message that is arriving at VI ``v`` is put together."""
        return int(self.memory.vis[v]["assembly"])

    def match(self, header: Any) -> tuple[int, Outcome]:
        """Where the message that has come is put together, and what follows."""
        return int(receiving.match(self.memory, header)), self._outcome()

    def _outcome(self) -> Outcome:
        request, status, first, last, error, breaks = self.memory.outcome[0].tolist()
        return Outcome(
            None if request == NOWHERE else request,
            Status(status),
            None if first == NOWHERE else Status(first),
            None if last == NOWHERE else Status(last),
            None if error == NOWHERE else Error(error),
            bool(breaks),
        )
