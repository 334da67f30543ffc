"""Packets of queue pairs, captured as they leave their NICs: RoCE v2 frames in a pcapng file.

A frame says what the firmware's packet says, its number included.  Packets that have no counterpart
in InfiniBand are counted and left out.
"""

from __future__ import annotations

import ctypes
import struct
from collections import Counter
from typing import TYPE_CHECKING, Any, BinaryIO

from nicscope.drivers.simulate.ports.calls import DRIVER
from nicscope.interfaces.verbs_device import calls, roce
from nicscope.interfaces.verbs_device.fabric import address_like, addresses
from nicscope.kernel.distant import relink
from nicscope.kernel.loading import leave_pending, prototype
from nicscope.nic.ports import layout

if TYPE_CHECKING:
    from nicscope.interfaces.verbs_device.fabric import Fabric

PS_PER_NS = 1000
NUMBERS = 3  # of what ``capture_packet`` is given beside the state
# Added to the opcodes of reliable connections, and a datagram's two.
_TRANSPORTS = {calls.RC: 0x00, calls.UC: 0x20, calls.XRC_SEND: 0xA0, calls.XRC_RECV: 0xA0}
_DATAGRAM, _DATAGRAM_WITH_IMMEDIATE = 0x64, 0x65
_OF_MESSAGES = {
    layout.SEND: roce.SEND,
    layout.WRITE: roce.WRITE,
    layout.REPLY: roce.READ_RESPONSE,
}
_WORD, _HALF = (1 << 64) - 1, (1 << 32) - 1
_REQUESTS = (layout.SEND, layout.WRITE, layout.FETCH)
# Syndromes: of an acknowledgement that says nothing of credits, of one to wait, of refusals.
_ACK, _RNR = 0x1F, 0x20
_REFUSALS = {
    layout.REMOTE_INVALID: 0x61,
    layout.REMOTE_PROTECTION: 0x62,
    layout.REMOTE_FAILED: 0x63,
}
_KINDS = {
    layout.ACKNOWLEDGEMENT: "ends of connections",
    layout.PROBE: "probes",
    layout.CUT: "ends of messages cut short",
    layout.FETCH: "flushes",
    layout.REPLY: "answers without data",
}


def _immediate(head: Any) -> bytes:
    """The immediate data of a packet, which programs put down as it goes on the wire."""
    return struct.pack("=I", head.immediate & _HALF)


class Capture:
    """Writes each packet that leaves a NIC of a fabric to a file, with its virtual time."""

    def __init__(self, file: BinaryIO) -> None:
        self.frames = 0
        self.left_out: Counter[str] = Counter()
        self._file = file
        self._parts: dict[tuple[int, int, int], bytes] = {}  # of datagrams that are leaving

    def begin(self, fabric: Fabric) -> None:
        """Have the machine of ``fabric`` show the packets that leave its nodes' NICs."""
        machine: Any = fabric.begun().machine
        self._fabric, self._machine, self._ports = fabric, machine, machine.ports
        nodes = range(fabric.topology.nodes)
        self._file.write(roce.pcapng_header([f"nicscope0 of node {node}" for node in nodes]))

        def answer(result: int, excinfo: int, _table: int, n: int, place: int, now: int) -> int:
            status = 0
            try:
                self._capture(n, place, now)
                ctypes.c_int64.from_address(result).value = 0
            except BaseException as error:
                status = leave_pending(error)
            ctypes.c_int64.from_address(excinfo).value = 0
            return status

        self._callback = prototype(NUMBERS)(answer)
        address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0
        place = DRIVER.place_of("capture_packet")
        relink(machine, place, address, lambda _machine, *given: self._capture(*given))
        machine.ports.rules["captures"] = 1

    def summary(self) -> str:
        """How many frames there are, and what was left out."""
        left = "".join(f"; without {count:,} {what}" for what, count in self.left_out.items())
        return f"{self.frames:,} frames{left}"

    def _capture(self, n: int, place: int, now: int) -> None:
        """Write the packet at ``place`` of the send ring of ``n``, which has left."""
        head, packet = self._ports.send_heads[n, place], self._machine.sends[n, place]
        if head.copied == 1:
            return  # made by the network, behind the port that is watched
        size = int(packet.payload)
        buffers = self._machine.store.send_buffers
        payload = bytes(buffers[n, int(packet.buffer), :size]) if size else b""
        if head.datagram == 1:
            frame = self._datagram(n, head, int(packet.destination), payload)
        else:
            frame = self._of_connection(n, head, int(packet.destination), payload)
        if frame:
            self.frames += 1
            self._file.write(roce.pcapng_packet(n, now // PS_PER_NS, frame))

    def _datagram(self, n: int, head: Any, d: int, payload: bytes) -> bytes:
        """The frame of a datagram, whose packets are one on a wire; none before its last."""
        whose = n, int(head.from_port), int(head.cookie)
        whole = self._parts.pop(whose, b"") + payload
        if head.last == 0:
            self._parts[whose] = whole
            return b""
        pair = self._fabric.devices[n]._by_port.get(whose[1])
        there = self._fabric.devices[d]._by_port.get(int(head.name))
        if pair is None or there is None:
            return self._leave_out("datagrams for no queue pair")
        is_immediate = head.options & layout.IMMEDIATE != 0
        extensions = struct.pack(">II", head.swap & _HALF, pair.number)
        if is_immediate:
            extensions += _immediate(head)
        made = roce.transport_packet(
            _DATAGRAM_WITH_IMMEDIATE if is_immediate else _DATAGRAM,
            there.number,
            int(head.sequence),
            extensions,
            whole,
            solicited=head.options & layout.SOLICITED != 0,
        )
        is_v4 = head.options & layout.OF_V4 != 0
        gids = addresses(n)[is_v4], addresses(d)[is_v4]
        port = roce.source_port(pair.number, there.number)
        return roce.ethernet_frame((n, d), gids, port, made)

    def _of_connection(self, n: int, head: Any, d: int, payload: bytes) -> bytes:
        """The frame of a packet of a connection, or of an acknowledgement."""
        stream = self._ports.pools.streams[int(self._ports.stream_of[n, int(head.own)])]
        pair = self._fabric.devices[n]._by_port.get(int(stream.port))
        if pair is None or pair.peer is None:
            return self._leave_out("packets of queue pairs that have gone")
        kind = int(head.kind)
        has_data = kind in _OF_MESSAGES and (
            kind != layout.REPLY or (head.atomic == 0 and head.options == layout.DONE)
        )
        said = self._of_message(kind, head) if has_data else self._without_data(kind, head)
        if said is None:
            return self._leave_out(_KINDS.get(kind, "other packets"))
        opcode, psn, extensions = said
        if pair.kind == calls.XRC_SEND and kind in _REQUESTS:
            extensions = struct.pack(">I", head.swap & roce.QPN_MASK) + extensions
        is_request = kind in _REQUESTS
        asks_event = is_request and head.last == 1 and head.options & layout.SOLICITED != 0
        asks_ack = is_request and pair.kind != calls.UC and head.unasked == 0
        made = roce.transport_packet(
            _TRANSPORTS[pair.kind] + opcode,
            pair.peer,
            psn,
            extensions,
            payload if has_data else b"",
            solicited=asks_event,
            asks_ack=asks_ack,
        )
        there = pair.attributes.dgid
        here = address_like(there, n)
        port = roce.source_port(pair.number, pair.peer)
        return roce.ethernet_frame((n, d), (here, there), port, made)

    def _leave_out(self, what: str) -> bytes:
        self.left_out[what] += 1
        return b""

    def _without_data(self, kind: int, head: Any) -> tuple[int, int, bytes] | None:
        """Opcode, number and headers of an acknowledgement, or of a request to read and its like.

        None where InfiniBand has no such packet.
        """
        number = int(head.sequence)
        if kind == layout.ACKNOWLEDGEMENT:
            number = int(head.acknowledged)  # of the packet that its sender wants next
            if head.verdict != layout.DONE:
                if head.verdict not in _REFUSALS:
                    return None
                syndrome = _REFUSALS[int(head.verdict)]
            elif head.rnr_delay > 0:
                syndrome = _RNR | calls.RNR_PS.index(int(head.rnr_delay))
            else:
                syndrome, number = _ACK, number - 1
            return roce.ACKNOWLEDGE, number, struct.pack(">I", syndrome << 24)
        if kind == layout.REPLY and head.options == layout.DONE:
            found = struct.pack(">IQ", _ACK << 24, head.swap & _WORD)
            return roce.ATOMIC_ACKNOWLEDGE, number, found
        is_flush = head.atomic == 0 and head.total == 0 and head.immediate > 0
        if kind != layout.FETCH or is_flush:
            return None
        where = struct.pack(">QI", head.remote & _WORD, head.remote_key & _HALF)
        if head.atomic == 0:
            return roce.READ_REQUEST, number, where + struct.pack(">I", head.total)
        swap, compare = head.swap & _WORD, head.immediate & _WORD
        if head.atomic == layout.FETCH_ADD:
            return roce.FETCH_ADD, number, where + struct.pack(">QQ", compare, 0)
        return roce.COMPARE_SWAP, number, where + struct.pack(">QQ", swap, compare)

    def _of_message(self, kind: int, head: Any) -> tuple[int, int, bytes]:
        """Opcode, number and headers of a part of a send, a write or what a read answers."""
        ends = head.last == 1
        if head.offset == 0:
            part = roce.ONLY if ends else roce.FIRST
        else:
            part = roce.LAST if ends else roce.MIDDLE
        opcodes = _OF_MESSAGES[kind]
        extensions = b""
        if kind == layout.REPLY:
            if part != roce.MIDDLE:
                extensions = struct.pack(">I", _ACK << 24)
            return opcodes[part], int(head.sequence), extensions
        if kind == layout.WRITE and head.offset == 0:
            place = head.remote & _WORD, head.remote_key & _HALF, head.total
            extensions = struct.pack(">QII", *place)
        opcode = opcodes[part]
        if ends and head.options & layout.INVALIDATES:
            opcode = roce.SEND_INVALIDATE[part]
            extensions += struct.pack(">I", head.immediate & _HALF)
        elif ends and head.options & layout.IMMEDIATE:
            opcode += roce.WITH_IMMEDIATE
            extensions += _immediate(head)
        return opcode, int(head.sequence), extensions
