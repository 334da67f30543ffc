"""RoCE v2 frames, byte by byte: InfiniBand's transport headers in UDP, and pcapng files of frames.

After the InfiniBand Architecture Specification, volume 1, chapter 9, and its annex A17 (RoCE v2).
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from nicscope.interfaces.verbs_device.fabric import guid, header

if TYPE_CHECKING:
    from collections.abc import Sequence

UDP_PORT = 4791
PSN_MASK = QPN_MASK = (1 << 24) - 1
_P_KEY = 0xFFFF  # the default partition
_SOLICITED, _MIGRATED, _PAD_AT = 0x80, 0x40, 4  # in the byte behind the opcode
_ACK_REQUEST = 1 << 31
_IPV4, _IPV6, _UDP = 0x0800, 0x86DD, 17
_V6, _V4_BYTES, _V6_BYTES, _UDP_BYTES, _CRC_BYTES = 6, 20, 40, 8, 4
_RESERVED = 4  # where in a BTH the byte is that no CRC is about
# Bytes that change on the way: the invariant CRC is made as if all of their bits were 1.
_CHANGES_V4, _CHANGES_V6, _UDP_CHECKSUM = (1, 8, 10, 11), (1, 2, 3, 7), (6, 7)

# Opcodes of reliable connections, by what a packet is of its message: first, middle, last, only.
SEND, WRITE, READ_RESPONSE = (0x00, 0x01, 0x02, 0x04), (0x06, 0x07, 0x08, 0x0A), range(0x0D, 0x11)
SEND_INVALIDATE = (0x00, 0x01, 0x16, 0x17)
READ_REQUEST, ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE, COMPARE_SWAP, FETCH_ADD = 0x0C, *range(0x11, 0x15)
FIRST, MIDDLE, LAST, ONLY = range(4)
WITH_IMMEDIATE = 1  # more, of a last or only packet of sends and writes


def transport_packet(
    opcode: int,
    queue_pair: int,
    psn: int,
    extensions: bytes = b"",
    payload: bytes = b"",
    *,
    solicited: bool = False,
    asks_ack: bool = False,
) -> bytes:
    """A packet from its base transport header to its padded payload.

    ``extensions``: the headers that its opcode has behind the first, in their order.
    """
    pad = -len(payload) % 4
    flags = (_SOLICITED if solicited else 0) | _MIGRATED | pad << _PAD_AT
    numbered = psn & PSN_MASK | (_ACK_REQUEST if asks_ack else 0)
    bth = struct.pack(">BBHII", opcode, flags, _P_KEY, queue_pair & QPN_MASK, numbered)
    return b"".join((bth, extensions, payload, bytes(pad)))


def source_port(one: int, other: int) -> int:
    """The UDP port that packets of a queue pair to another come from, as Linux chooses it."""
    value = one * other
    value ^= value >> 20
    value ^= value >> 40
    return (value & 0x3FFF ^ (value & 0xFC000) >> 14) | 0xC000


def invariant_crc(datagram: bytes) -> bytes:
    """The invariant CRC behind a packet, given from its IP header to its payload (A17.3.3)."""
    masked = bytearray(datagram)
    if datagram[0] >> 4 == _V6:
        masked[0] |= 0x0F
        changes, udp = _CHANGES_V6, _V6_BYTES
    else:
        changes, udp = _CHANGES_V4, (datagram[0] & 0x0F) * 4
    behind = (*(udp + place for place in _UDP_CHECKSUM), udp + _UDP_BYTES + _RESERVED)
    for place in (*changes, *behind):
        masked[place] = 0xFF
    # In place of a local routing header: eight bytes of ones.
    return struct.pack("<I", zlib.crc32(masked, zlib.crc32(b"\xff" * 8)))


def ethernet_frame(
    nodes: tuple[int, int], gids: tuple[bytes, bytes], port: int, packet: bytes
) -> bytes:
    """The frame of a transport packet between two nodes, from one GID to another, without FCS."""
    size = _UDP_BYTES + len(packet) + _CRC_BYTES
    ip = header(*gids, size)
    if ip[0] >> 4 == _V6:
        ip, kind = ip[:6] + bytes((_UDP,)) + ip[7:], _IPV6
    else:
        ip, kind = ip[_V6_BYTES - _V4_BYTES :], _IPV4
    datagram = ip + struct.pack(">HHHH", port, UDP_PORT, size, 0) + packet
    source, destination = (_mac(node) for node in nodes)
    return destination + source + struct.pack(">H", kind) + datagram + invariant_crc(datagram)


def _mac(node: int) -> bytes:
    """The address of a node's port, of which its GUID is the EUI-64."""
    eui = guid(node).to_bytes(8, "big")
    return eui[:3] + eui[5:]


# Of pcapng (IETF draft-ietf-opsawg-pcapng).
_SECTION, _INTERFACE, _ENHANCED_PACKET = 0x0A0D0D0A, 1, 6
_MAGIC, _ETHERNET, _ANY_LENGTH = 0x1A2B3C4D, 1, -1
_APPLICATION, _NAME, _RESOLUTION = 4, 2, 9  # options
_NANOSECONDS = bytes((9,))  # of 10 to the power of -9 s


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _block(kind: int, body: bytes) -> bytes:
    size = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + size + body + size


def _options(options: dict[int, bytes]) -> bytes:
    parts = (
        struct.pack("<HH", code, len(value)) + _padded(value) for code, value in options.items()
    )
    return b"".join(parts) + bytes(4)


def pcapng_header(interfaces: Sequence[str]) -> bytes:
    """What a pcapng file begins with: the section, and its interfaces by name."""
    about = _options({_APPLICATION: b"nicscope"})
    parts = [_block(_SECTION, struct.pack("<IHHq", _MAGIC, 1, 0, _ANY_LENGTH) + about)]
    for name in interfaces:
        options = _options({_NAME: name.encode(), _RESOLUTION: _NANOSECONDS})
        parts.append(_block(_INTERFACE, struct.pack("<HHI", _ETHERNET, 0, 0) + options))
    return b"".join(parts)


def pcapng_packet(interface: int, time_ns: int, frame: bytes) -> bytes:
    """A frame as the next block of such a file."""
    size = len(frame)
    numbers = struct.pack("<IIIII", interface, time_ns >> 32, time_ns & 0xFFFFFFFF, size, size)
    return _block(_ENHANCED_PACKET, numbers + _padded(frame))
