"""What the first bytes of a datagram's receive say: from which address to which it came."""

from __future__ import annotations

HEADER = 40  # bytes
_NEXT_IS_BTH, _UDP = 0x1B, 17  # what follows the header (InfiniBand Architecture, 8.3; IANA)
_MAPPED = bytes(10) + b"\xff\xff"  # how the address of a version 4 begins as one of version 6
NIC_ID = 0x020000FFFE000000  # an EUI-64 of locally administered addresses, below which nodes count
_HOPS = 64
_OF_V4 = 20  # bytes of a header of version 4, which is the latter half


def addresses(node: int) -> tuple[bytes, bytes]:
    """The addresses of a node's port: of its link, and of IPv4."""
    local = (0xFE80 << 112) | (guid(node) ^ (1 << 57))
    return local.to_bytes(16, "big"), _MAPPED + bytes([10, 0, 0, node + 1])


def guid(node: int) -> int:
    """What its NIC is known by in the whole world."""
    return NIC_ID + node + 1


def address_like(other: bytes, node: int) -> bytes:
    """The address of a node that is of the same kind as another's."""
    return addresses(node)[other.startswith(_MAPPED)]


def header(source: bytes, destination: bytes, length: int) -> bytes:
    """The 40 bytes before a datagram of ``length`` bytes between two GIDs of 16 bytes."""
    if destination.startswith(_MAPPED):
        head = bytearray(bytes((0x45, 0)) + (_OF_V4 + length).to_bytes(2, "big") + bytes(4))
        head += bytes((_HOPS, _UDP, 0, 0)) + source[12:] + destination[12:]
        head[10:12] = _checksum(head).to_bytes(2, "big")
        return bytes(HEADER - _OF_V4) + bytes(head)
    first = bytes((0x60, 0, 0, 0)) + length.to_bytes(2, "big")
    return first + bytes((_NEXT_IS_BTH, _HOPS)) + source + destination


def _checksum(head: bytes | bytearray) -> int:
    """The complement of the sum of its words, with ends carried around (RFC 791)."""
    total = sum(int.from_bytes(head[at : at + 2], "big") for at in range(0, len(head), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF
