"""State of the objects that programs have open, for the compiled message path."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.drivers.simulate.advance import advance
from nicscope.drivers.simulate.machine import make_what_is_wanted
from nicscope.interfaces.verbs_device import calls
from nicscope.interfaces.verbs_device.queues import OPERATIONS
from nicscope.kernel.distant import new_calls, relink
from nicscope.kernel.entry import Entry, bound
from nicscope.kernel.layout import handed
from nicscope.kernel.loading import leave_pending, prototype
from nicscope.kernel.records import records
from nicscope.live import layout, message_path
from nicscope.live.message_path import NODES, RINGS, Live
from nicscope.nic.ports.layout import RECEIVED, STATUS_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nicscope.interfaces.verbs_device.fabric import Pair
    from nicscope.live.device import LiveDevice, LiveFabric
    from nicscope.live.rings import Ring

NUMBERS = {  # of what C functions are given beside the state
    "has_rung": 1, "waiting": 2, "take": 5, "room": 2, "put": 3, "give_up": 2, "put_header": 7,
    "settle": 0, "clock": 0, "is_asked": 0, "yield_processor": 0, "show_time": 2, "note_shown": 0,
    "waits": 1, "sleeps": 1, "ran": 1, "has_any_rung": 0,
}  # fmt: skip
_Long = ctypes.c_int64
_Address = ctypes.c_void_p
_BYTES = 8  # of a word


def new_live(machine: Any, pace: Any) -> Live:
    """State with nothing open on ``machine``; ``pace``: bytes of programs' clocks, or None."""
    words = layout.DTYPES["pace"].itemsize // _BYTES
    clocks = np.zeros(0, np.int64) if pace is None else pace.view(np.int64)[words:]
    ports = machine.ports
    _, most_ports = ports.table.shape
    _, queues = ports.work.queues.shape
    regions = ports.work.regions.shape[1]
    depth = int(ports.rules[0]["ring"])
    requests = most_ports * 2 * depth
    at_once = layout.CONSTANTS["AT_ONCE"]
    segments = layout.CONSTANTS["SEGMENTS"]
    kinds = layout.DTYPES
    operations = np.full((16, 3), -1, np.int64)
    for opcode, (operation, options) in OPERATIONS.items():
        if opcode not in (calls.WR_BIND, calls.WR_FLUSH):
            operations[opcode] = operation, options, calls.OF_REQUEST[opcode]
    said = [calls.STATUSES.get(status, calls.GENERAL_ERR) for status in range(len(STATUS_NAMES))]
    return Live(
        machine=machine,
        calls=new_calls(len(RINGS)),
        state=records(1, message_path.STATE),
        nodes=records(NODES, message_path.NODE),
        work=records((NODES, 2 * most_ports), message_path.WORK),
        queues=records((NODES, queues), message_path.QUEUE),
        ports=records((NODES, most_ports), message_path.PORT),
        regions=records((NODES, regions), message_path.REGION),
        pool=records((NODES, requests), message_path.REQUEST),
        headers=records((NODES, requests, segments), kinds["gathered"]),
        ways=np.zeros((NODES, NODES), np.int64),
        operations=operations,
        statuses=np.array(said, np.int64),
        taken=records(at_once, kinds["taken"]),
        gathered=records((at_once, segments), kinds["gathered"]),
        inlined=np.zeros((at_once, layout.CONSTANTS["INLINE_BYTES"]), np.uint8),
        ended=records(at_once, kinds["ended"]),
        clocks=np.asarray(clocks).reshape(-1, 2),
    )


class Serving:
    """Serves the rings of all attached programs."""

    def __init__(self, fabric: LiveFabric, poll: int, pace: Any = None) -> None:
        """``poll``: the descriptor to wait on for sockets.

        ``pace``: the bytes from which programs' clocks read virtual time, or None.
        """
        self._fabric = fabric
        self._simulation = fabric.begun()
        self._machine = self._simulation.machine
        self._so: Any = fabric.engine.so
        self.live = live = new_live(self._machine, pace)
        for process in self._simulation.processes:
            live.nodes[process.node]["process"] = process.number
        self._so.live_stage.argtypes = [_Address] * 4 + [_Long]
        staged = live.taken, live.gathered, live.inlined, live.ended
        self._so.live_stage(*(each.ctypes.data for each in staged), poll)
        for name, numbers in (
            *(("live_attach", 2), ("live_detach", 1), ("live_open_ring", 7), ("live_skip", 2)),
            *(("live_close_ring", 2), ("live_announce", 4), ("live_move_ring", 4)),
            ("live_join", 5),
        ):
            getattr(self._so, name).argtypes = [_Long] * numbers
        self._so.live_link_advance.argtypes = [_Address, _Address]
        self._so.live_unheard.restype = _Long
        self._kept: list[Any] = []  # callbacks, as long as compiled code may call them
        for name, numbers in NUMBERS.items():
            self._link_c(name, numbers)
        self._link_python("fire", self._simulation.enter, 2)
        self._link_python("supply", self._supply, 0)
        self._link_python("keep_values", self._keep_values, 2)
        self._is_direct = False
        self._pace: Any = pace  # which C code reads and writes
        live.state["paced"] = pace is not None
        if pace is not None:
            self._so.live_set_pace.argtypes = [_Address]
            self._so.live_set_pace(pace.ctypes.data)
        self.serve = bound(message_path.serve if pace is None else message_path.serve_paced, live)
        self.begin_round = bound(message_path.begin_round, live)
        self.let_packets_move = bound(message_path.let_packets_move, live)
        self._forget = bound(message_path.forget_requests, live)

    # What the kernels call.

    def _link_c(self, name: str, numbers: int) -> None:
        function = getattr(self._so, f"live_{name}")
        function.argtypes = [_Address] * 3 + [_Long] * numbers
        result = _Long()

        def plain(_live: Any, *given: int) -> int:
            function(ctypes.byref(result), None, None, *given)
            return result.value

        address = ctypes.cast(function, _Address).value or 0
        relink(self.live, RINGS.place_of(name), address, plain)

    def _link_python(self, name: str, function: Callable[..., Any], numbers: int) -> None:
        def answer(result: int, excinfo: int, _table: int, *given: int) -> int:
            status = 0
            try:
                _Long.from_address(result).value = int(function(*given) or 0)
            except BaseException as error:
                status = leave_pending(error)
            _Long.from_address(excinfo).value = 0
            return status

        callback = prototype(numbers)(answer)
        self._kept.append(callback)
        address = ctypes.cast(callback, _Address).value or 0
        relink(self.live, RINGS.place_of(name), address, lambda _live, *given: function(*given))

    def link_directly(self) -> None:
        """Have the message path enter the event loop without Python, once both are compiled."""
        if self._is_direct or not isinstance(advance, Entry):
            return
        whole = handed(self._machine)
        code = advance.version(whole.kind).code_now()
        if code is not None:
            self._is_direct = True
            self._so.live_link_advance(code.call_address, whole.address)
            address = ctypes.cast(self._so.live_fire, _Address).value or 0
            place = RINGS.place_of("fire")
            enter = self._simulation.enter
            relink(self.live, place, address, lambda _live, *given: enter(*given))

    def _supply(self) -> None:
        make_what_is_wanted(self._machine, self._simulation.topology)

    def _keep_values(self, node: int, port: int) -> None:
        """Allocate memory for the inline data of a queue pair's requests."""
        device: Any = self._fabric.devices[node]
        pair = device._by_port[port]
        try:
            room, places = device.keep_values(pair)
        except calls.Refused:
            return
        row = self.live.ports[node, port]
        row["inline_at"], row["inline_key"] = pair.inline_at, pair.inline_key
        row["inline_room"], row["inline_places"], row["inlined"] = room, places, 0

    def is_rung(self) -> bool:
        """Whether a program has posted something that is not handled yet."""
        return bool(self._so.live_is_rung())

    # What programs have.

    def attach(self, node: int, segment: int, pid: int) -> None:
        """Attach a process; ``segment``: descriptor of its shared memory.  Errors: ``OSError``."""
        wrong = self._so.live_attach(node, segment)
        if wrong:
            raise OSError(wrong, "cannot map a program's shared memory")
        record = self.live.nodes[node]
        for name in ("works", "queues", "left", "drains", "free", "fresh"):
            record[name] = 0
        # What the one before has left, which ended with it.
        self._machine.ports.reports["cookie"][node, :, RECEIVED] = 0
        record["troubles"] = self._machine.ports.nodes[node]["async_errors"]
        found = np.flatnonzero(self.live.clocks[:, 0] == pid)
        record["clock"] = found[0] + 1 if len(found) else 0
        record["attached"] = 1

    def detach(self, node: int) -> None:
        """Detach the program of ``node``."""
        self.live.nodes[node]["attached"] = 0
        self.live.ports[node] = np.zeros((), message_path.PORT)
        self._so.live_detach(node)

    def open_ring(self, node: int, ring: Ring, sges: int = 0, inline: int = 0) -> None:
        """Open a ring: of completions, or of requests of so many elements or inline bytes."""
        numbers = ring.number, ring.at, ring.stride, ring.slots, sges, inline
        self._so.live_open_ring(node, *numbers)

    def announce(self, node: int, ring: Ring, channel: int, cookie: int) -> None:
        """Send events of a completion queue to the descriptor ``channel``."""
        word = cookie - (cookie >> 63 << 64)
        self._so.live_announce(node, ring.number, channel, word)

    def move_ring(self, node: int, ring: Ring) -> None:
        """Move what waits in a ring of completions to where it is now."""
        self._so.live_move_ring(node, ring.number, ring.at, ring.slots)

    def join(self, node: int, number: int, group: tuple[int, int], joins: bool) -> int:
        """Have a queue pair be in a multicast group, or not any more; an errno, or 0."""
        high, low = (word - (word >> 63 << 64) for word in group)
        return int(self._so.live_join(node, number, high, low, joins))

    def close_ring(self, node: int, ring: Ring) -> None:
        """Close a ring."""
        self._so.live_close_ring(node, ring.number)

    def list_rings(
        self,
        node: int,
        work: Iterable[tuple[int, int, int]],
        queues: Iterable[tuple[int, int]],
    ) -> None:
        """Set all rings of requests (ring, port, kind) and completions (the NIC's queue, ring)."""
        record = self.live.nodes[node]
        for name, rows, table in (
            ("works", [*work], self.live.work),
            ("queues", [*queues], self.live.queues),
        ):
            for place, row in enumerate(rows):
                table[node, place] = row
            record[name] = len(rows)
        record["left"] = 1

    def note_pair(self, device: LiveDevice, pair: Pair) -> None:
        """Follow a queue pair that was created or modified."""
        row = self.live.ports[device.node, pair.port]
        row["number"], row["kind"], row["peer"] = pair.number, pair.kind, pair.peer or 0
        row["sends"] = pair.state >= calls.RTS and pair.kind != calls.XRC_RECV
        row["receives"] = pair.state != calls.RESET
        row["held"], row["qkey"] = pair.state == calls.SQD, pair.attributes.qkey
        self.live.nodes[device.node]["drains"] = bool(device._draining)
        self.live.nodes[device.node]["left"] = 1
        if pair.kind == calls.UD:
            for other in range(NODES):
                if not self.live.ways[device.node, other]:
                    way = self._fabric.ways.between(device.node, other)
                    self.live.ways[device.node, other] = way

    def reset_port(self, node: int, port: int, rings: Iterable[Ring]) -> None:
        """Forget what was posted at a port, and what is in its rings."""
        self._forget(node, port)
        for ring in rings:
            self._so.live_skip(node, ring.number)

    def forget_pair(self, node: int, port: int) -> None:
        """Forget a queue pair that was destroyed."""
        self._forget(node, port)
        self.live.ports[node, port] = np.zeros((), message_path.PORT)

    def note_region(self, node: int, row: int, key: int, shift: int, real: int) -> None:
        """Enter a region, or remove one (a key of 0)."""
        self.live.regions[node, row] = key, shift, real

    @property
    def unheard(self) -> int:
        """Events for which a channel had no room."""
        return int(self._so.live_unheard())
