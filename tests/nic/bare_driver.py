"""A driver with no agenda, no clock and no costs: it asks the firmware what is next, and does it.

It shares the arrays of NICs and hosts with a cluster that is never run, and has nothing else of a
machine: firmware that reached for a time, a cost or an event would find no such field.  Frames
cross at once; a miss is served at once; a deadline comes when a test says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.drivers.simulate.ports.connections import connect_ports
from nicscope.drivers.simulate.ports.linked import FUNCTIONS
from nicscope.host import pages
from nicscope.host.calls import admit_piece
from nicscope.host.pages import note_read
from nicscope.interfaces.ports.cluster import PortCluster
from nicscope.kernel.decorators import copy_bytes, distant
from nicscope.kernel.distant import link
from nicscope.memory.paging.layout import GARBAGE_FRAME
from nicscope.nic.delivery import (
    COMPLETE,
    CONTROL,
    CONTROL_BYTES,
    FINISH,
    HOST_RCV,
    HOST_TX,
    NET_TX,
    NO_TASK,
    NOTHING,
    PAYLOAD,
    POST_CONTROL,
    POST_PAYLOAD,
    SERVE,
    TASKS,
    Engines,
    next_task,
    settle,
)
from nicscope.nic.ports import calls
from nicscope.nic.ports.arrivals import acknowledges_on_nic, classify_packet, record_header
from nicscope.nic.ports.descriptor import put_atomic_result
from nicscope.nic.ports.layout import (
    DONE,
    MAY_FETCH,
    MAY_WRITE,
    NO_ONE,
    NOTHING_LEFT,
    PAGE_MISS,
    SEND,
    VOIDED,
    WORK_QUEUE,
)
from nicscope.nic.ports.transmit import on_packet_sent
from nicscope.nic.transfers import (
    accept_header,
    complete_packet,
    drain_bytes,
    end_transmission,
    finish_message,
    send_bytes,
    take_message,
    take_receive_buffer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from nicscope.drivers.simulate.ports.build import PortSize
    from nicscope.drivers.simulate.ports.state import Ports
    from nicscope.drivers.simulate.store import Store

PAGE = 4096
NOW = 0  # of every action: nothing here takes time


class Nics(NamedTuple):
    """What firmware may touch, and no more."""

    tally: NDArray[Any]
    endpoints: NDArray[Any]
    sends: NDArray[Any]
    arrivals: NDArray[Any]
    store: Store
    ports: Ports
    calls: NDArray[np.int64]


async def _nothing(process: Any) -> None:
    pass


@distant
def abort_transmission(nics: Any, n: int, d: int) -> None:
    """What node ``n`` is putting on the network for ``d`` ends where it is."""
    if nics.endpoints[n].control_sent == 1:
        there = nics.endpoints[d]
        nics.arrivals[d, (there.accepted - 1) % there.receive_ring].broken = 1


@distant
def search_route(nics: Any, n: int, now: int) -> None:
    """There is no other route: the probes of node ``n`` come to nothing, and at once."""
    serving = nics.ports.nodes[n]
    serving.search_there = 0
    serving.search_back = 0
    serving.search_until = now


class Bare:
    """Two nodes with a process each, and a network that ``loses`` the frames it is asked to."""

    def __init__(
        self,
        design: str,
        loses: Callable[[int], bool] | None = None,
        size: PortSize | None = None,
    ) -> None:
        self.cluster = PortCluster[Any](design, nodes=2, size=size)
        for node in (0, 1):
            self.cluster.start(node, _nothing)
        self.cluster.run()
        assert self.cluster.simulation is not None
        whole = self.cluster.simulation.machine
        self.nics = Nics(*(getattr(whole, name) for name in Nics._fields))
        self.ports = self.nics.ports
        self.loses = loses or (lambda _: False)
        self.frames = 0
        self.misses = 0
        # The network is this driver's.
        own = {"abort_transmission": abort_transmission, "search_route": search_route}
        link(self.nics, [own.get(each.__name__, each) for each in FUNCTIONS])

    def join(self, tag: int) -> None:
        """Let process 0 of each node send to the other's by ``tag``."""
        for node in (0, 1):
            channel = self.ports.channels[node, tag]
            channel["port"], channel["node"], channel["tag"] = 1, 1 - node, tag
            channel["unit"], channel["most"] = PAGE, 1 << 16

    def connect(self, level: int, unit: int = PAGE) -> None:
        """Make the ports of both processes each other's peers; their channels are number 1."""
        self.ports.table["longest"][:, 1] = 1 << 16
        connect_ports(self.ports, (0, 1), (1, 1), level, unit)

    def map(self, node: int, pages: int, content: bytes = b"") -> None:
        """Give the node's process memory from address 0 on, beginning with ``content``."""
        assert self.cluster.memory is not None
        self.cluster.memory.map(node, 0, 0, pages, 3)
        if content:
            self.cluster.memory.write(node, 0, 0, content)
        if self.ports.rules[0]["service"] == NO_ONE:  # what is not registered is nobody's to bring
            admit_piece(self.nics, node, 0, 0, pages)

    def read(self, node: int, address: int, count: int) -> bytes:
        """What the node's process would read there."""
        assert self.cluster.memory is not None
        return self.cluster.memory.read(node, 0, address, count)

    def provide(self, node: int, address: int) -> None:
        """Put a page into the free queue of the node's port."""
        port = self.ports.table[node, 1]
        self.ports.provided[node, 1, port["free_posted"]] = address
        port["free_posted"] += 1
        self.ports.nodes[node]["attention"] = self.ports.nodes[node]["last_port"] = 1

    def post(self, node: int, tag: int, address: int, length: int) -> None:
        """Post a send of one segment at the node's port."""
        port = self.ports.table[node, 1]
        slot = int(port["posted"])
        request = self.ports.requests[node, 1, slot]
        request["operation"], request["name"], request["segments"] = SEND, tag, 1
        request["cookie"] = slot
        self.ports.segments[node, 1, slot, 0] = (address, length, 0)
        pending = self.ports.pending[node, 1, slot]
        pending["busy"], pending["number"], pending["operation"] = 1, slot, SEND
        pending["status"] = DONE
        port["posted"] += 1
        self.ports.nodes[node]["attention"] = self.ports.nodes[node]["last_port"] = 1

    def have_queues(self, key: int) -> None:
        """Have the ports of both processes take a receive for each message.

        All that their processes map is registered as ``key``.
        """
        self.ports.table["takes"][:, 1] = WORK_QUEUE
        regions = self.ports.work.regions
        region = regions[:, key % regions.shape[1]]
        region["key"], region["length"] = key, 1 << 20
        region["rights"] = MAY_WRITE | MAY_FETCH
        self.ports.table["rights"][:, 1] = MAY_WRITE | MAY_FETCH

    def post_receive(self, node: int, pieces: Sequence[tuple[int, int, int]]) -> None:
        """Post a receive at the node's port, with its number for a cookie."""
        port, work = self.ports.table[node, 1], self.ports.work
        number = int(port["receives_posted"])
        work.pieces[node, 1, number, : len(pieces)] = pieces
        receive = work.receives[node, 1, number]
        receive["cookie"], receive["segments"] = number, len(pieces)
        receive["length"] = sum(length for _, length, _ in pieces)
        port["receives_posted"] += 1
        port["reserved"] += 1

    def post_gather(self, node: int, pieces: Sequence[tuple[int, int, int]]) -> None:
        """Post a send of several pieces of registered memory at the node's port."""
        slot = int(self.ports.table[node, 1]["posted"])
        self.post(node, 0, 0, 0)
        self.ports.requests[node, 1, slot]["segments"] = len(pieces)
        self.ports.segments[node, 1, slot, : len(pieces)] = pieces

    def post_remote(
        self, node: int, operation: int, pieces: Sequence[tuple[int, int, int]], address: int
    ) -> None:
        """Post a write or a fetch of the peer's memory, which is registered by the same key."""
        slot = int(self.ports.table[node, 1]["posted"])
        self.post_gather(node, pieces)
        request = self.ports.requests[node, 1, slot]
        request["operation"], request["name"], request["offset"] = operation, pieces[0][2], address
        self.ports.pending[node, 1, slot]["operation"] = operation

    def run(self) -> int:
        """Have both nodes do what there is to do; how many tasks that were."""
        tasks = 0
        while any([self._turn(0), self._turn(1)]):
            tasks += 1
            assert tasks < 10_000, "the firmware does not come to rest"
        return tasks

    def wait_long(self, node: int) -> None:
        """Let the node's earliest deadline pass."""
        calls.fire_timers(self.nics, node, int(self.ports.nodes[node]["deadline"]))

    def _turn(self, n: int) -> bool:
        """Do one of the tasks of the node that can be done; whether there was one."""
        endpoint = self.nics.endpoints[n]
        for _ in range(TASKS):
            settle(endpoint, self.nics.arrivals[n], False)
            endpoint["to_serve"] = calls.choose_source(self.nics, n)
            idle = Engines(True, -1, True, 0, int(endpoint["arrived"]))
            task = next_task(endpoint, self.nics.sends[n], self.nics.arrivals[n], idle)
            if task == NO_TASK:
                return False
            if task == SERVE:
                self.ports.nodes[n]["source"] = endpoint["to_serve"]
            if self._do(task, n):
                return True
        return False

    def _do(self, task: int, n: int) -> bool:
        endpoint = self.nics.endpoints[n]
        if task == SERVE:
            calls.serve(self.nics, n)
            self._follow(n)
        elif task == POST_CONTROL:
            endpoint["posted"] = CONTROL
        elif task == POST_PAYLOAD:
            self._find_place(n)
        elif task == HOST_TX:
            self._fetch(n)
        elif task == NET_TX:
            return self._send(n)
        elif task == FINISH:
            place = int(endpoint["finished"]) % int(endpoint["send_ring"])
            is_last = self.ports.send_heads[n, place]["last"] == 1
            on_packet_sent(self.nics, n, place, is_last, NOW)
            finish_message(endpoint, self.nics.sends[n])
        elif task == HOST_RCV:
            self._deliver(n)
        else:
            assert task == COMPLETE
            slot = int(endpoint["completed"]) % int(endpoint["receive_ring"])
            endpoint["dropped"] += 1
            calls.complete_arrival(self.nics, n, slot, NOW)
            complete_packet(endpoint, self.nics.arrivals[n])
        return True

    def _follow(self, n: int) -> None:
        """Serve at once what the action has missed."""
        serving = self.ports.nodes[n]
        if serving["outcome"] == NOTHING_LEFT:
            return
        assert serving["outcome"] == PAGE_MISS
        serving["outcome"] = NOTHING_LEFT
        self.misses += 1
        space, page = int(serving["miss_space"]), int(serving["miss_page"])
        note_read(self.nics, n, space, page)
        found = pages.serve_page(self.nics, n, space, page)
        pages.apply_pin_actions(self.nics, n, int(serving["miss_receive"]))
        frame = int(pages.table_frame(self.nics, n, space, page)) if found >= 0 else -1
        if frame > GARBAGE_FRAME:
            calls.resume_filled(self.nics, n, frame)
        else:
            calls.resume_failed(self.nics, n)
        self._follow(n)

    def _find_place(self, n: int) -> None:
        endpoint = self.nics.endpoints[n]
        last = (int(endpoint["accepted"]) - 1) % int(endpoint["receive_ring"])
        take_receive_buffer(endpoint, self.nics.arrivals[n, last])
        waits = calls.place_arrival(self.nics, n)
        self._follow(n)
        if not waits:
            endpoint["awaited"] = 0
            endpoint["posted"] = PAYLOAD

    def _fetch(self, n: int) -> None:
        endpoint, store = self.nics.endpoints[n], self.nics.store
        place = int(endpoint["taken"] % endpoint["send_ring"])
        packet = self.nics.sends[n, place]
        count = int(take_message(endpoint, self.nics.sends[n]))
        if count:
            target = store.send_buffers[n, packet["buffer"]]
            copy_bytes(target, 0, store.host[n], int(packet["address"]), count)
            put_atomic_result(self.nics, n, place)

    def _send(self, n: int) -> bool:
        """A header, or a whole payload, goes over the network if its receiver has asked for it."""
        endpoint, store = self.nics.endpoints[n], self.nics.store
        place = int(endpoint["sent"]) % int(endpoint["send_ring"])
        packet = self.nics.sends[n, place]
        d = int(packet["destination"])
        there = self.nics.endpoints[d]
        if endpoint["control_sent"] == 0:
            if there["posted"] != CONTROL:
                return False
            there["posted"] = NOTHING
            slot = int(accept_header(there, self.nics.arrivals[d], packet))
            copy_bytes(store.arriving[d, slot], 0, store.send_ring[n, place], 0, CONTROL_BYTES)
            endpoint["control_sent"] = 1
            self._meet(n, d, place)
        else:
            if there["posted"] != PAYLOAD:
                return False
            there["posted"] = NOTHING
            last = (int(there["accepted"]) - 1) % int(there["receive_ring"])
            count = int(send_bytes(endpoint, int(packet["payload"])))
            target = store.receive_buffers[d, self.nics.arrivals[d, last]["buffer"]]
            copy_bytes(target, 0, store.send_buffers[n, packet["buffer"]], 0, count)
            there["arrived"] += count
        if endpoint["sunk"] == packet["payload"]:
            there["open"] = 0
            end_transmission(endpoint)
        return True

    def _meet(self, n: int, d: int, place: int) -> None:
        head = self.ports.arrival_heads[
            d, int(record_header(self.nics, d, self.ports.send_heads[n, place]))
        ]
        if self.loses(self.frames):
            head["kind"] = VOIDED
        else:
            classify_packet(self.nics, d, head)
        self.frames += 1

    def _deliver(self, n: int) -> None:
        endpoint, store = self.nics.endpoints[n], self.nics.store
        packet = self.nics.arrivals[n, endpoint["drained"] % endpoint["receive_ring"]]
        slot = int(endpoint["drained"] % endpoint["receive_ring"])
        if acknowledges_on_nic(self.nics, n, slot):
            calls.acknowledge_on_nic(self.nics, n, slot, NOW)
        begin, whole = int(endpoint["drain_sunk"]), int(packet["payload"])
        if self.ports.arrival_heads[n, slot]["runs"] > 0:
            whole = int(calls.select_segment(self.nics, n, whole))
        count = int(drain_bytes(endpoint, whole))
        source = store.receive_buffers[n, packet["buffer"]]
        copy_bytes(store.host[n], int(packet["address"]) + begin, source, begin, count)
