"""A packet in cells, by ATM's adaptation layer 5: padding, trailer, and the CRC-32 over all of it.

What is sent as one (a PDU) is padded so that it fills whole cells with the trailer at its end:
2 bytes that nobody uses here, its length in 2, and the CRC of all before it in 4.  The CRC is made
by the NIC's hardware as the cells pass (U-Net/MM, 5.1: an AAL5 CRC generator), so that it takes no
time of its own.  A cell that was damaged is found at the PDU's end, and the PDU dropped (ITU-T
I.363.5).  How many bytes cells and trailer have is the platform's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.kernel.decorators import step

if TYPE_CHECKING:
    from numpy.typing import NDArray

POLYNOMIAL = 0x04C11DB7  # as Ethernet's, but a byte's highest bit goes first
MASK = 0xFFFFFFFF
CRC_BYTES = 4
LENGTH_BYTES = 2  # before the CRC
INTACT = -1


def _table() -> NDArray[np.int64]:
    """What the highest byte of a CRC does to it, shape (256,)."""
    table = np.zeros(256, np.int64)
    for byte in range(256):
        crc = byte << 24
        for _ in range(8):
            crc = (crc << 1 ^ (POLYNOMIAL if crc >> 31 else 0)) & MASK
        table[byte] = crc
    return table


TABLE = _table()


@step
def framing_of(data, cell, trailer):
    """Bytes of padding and trailer behind ``data`` bytes, in cells of ``cell`` bytes."""
    return (data + trailer + cell - 1) // cell * cell - data


@step
def checksum(content, length, framing, damaged):
    """The CRC of a PDU that ends in ``content`` (uint8, 1-D), int64.

    Behind it come ``framing`` bytes of padding and trailer, which tells the PDU's ``length``.
    ``damaged``: the bit of these that is inverted, its lowest bit first; ``INTACT`` if none is.
    """
    crc = np.int64(MASK)
    for i in range(content.size):
        crc = (crc << 8 & MASK) ^ TABLE[crc >> 24 ^ np.int64(content[i])]
    end = framing - CRC_BYTES
    for i in range(end):
        byte = np.int64(0)
        if i >= end - LENGTH_BYTES:
            byte = np.int64(length) >> 8 * (end - 1 - i) & 0xFF
        if damaged >> 3 == i:
            byte ^= 1 << (damaged & 7)
        crc = (crc << 8 & MASK) ^ TABLE[crc >> 24 ^ byte]
    return crc ^ MASK


@step
def is_whole(content, length, framing, sent, damaged):
    """Whether a PDU that was sent with the CRC ``sent`` is taken for what was sent.

    ``content``, ``length`` and ``framing`` as it came, ``damaged`` as of ``checksum``: the CRC
    itself, which is the last of the framing, may be what is damaged.
    """
    came = np.int64(sent)
    place = damaged - 8 * (framing - CRC_BYTES)
    if damaged != INTACT and place >= 0:
        came ^= 1 << place
    return checksum(content, length, framing, damaged) == came
