"""CRC-32 of IEEE 802.3, reflected, as Ethernet frames end in; by eight table look-ups per word.

The polynomial is that of AAL5 as well, which sends the bits the other way round (``aal5``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.kernel.decorators import step

if TYPE_CHECKING:
    from numpy.typing import NDArray

POLYNOMIAL = 0xEDB88320  # reflected
MASK = 0xFFFFFFFF
SLICES = 8  # bytes taken at once


def _tables() -> NDArray[np.uint32]:
    """What a byte does to the CRC when ``slice`` bytes follow it, shape (SLICES, 256)."""
    tables = np.zeros((SLICES, 256), np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (POLYNOMIAL if crc & 1 else 0)
        tables[0, byte] = crc
    for here, before in zip(tables[1:], tables[:-1], strict=True):
        here[:] = before >> 8 ^ tables[0][before & 0xFF]
    return tables


TABLES = _tables()


@step
def crc32(content, before):
    """The CRC of ``content`` (uint8, 1-D), int64 from 0 to 2**32 - 1.

    ``before`` is the CRC of the bytes before these, 0 if there are none.
    """
    crc = np.int64(before) ^ MASK
    whole = content.size - content.size % SLICES
    for i in range(0, whole, SLICES):
        crc ^= (
            np.int64(content[i])
            | np.int64(content[i + 1]) << 8
            | np.int64(content[i + 2]) << 16
            | np.int64(content[i + 3]) << 24
        )
        crc = (
            np.int64(TABLES[7, crc & 0xFF])
            ^ np.int64(TABLES[6, crc >> 8 & 0xFF])
            ^ np.int64(TABLES[5, crc >> 16 & 0xFF])
            ^ np.int64(TABLES[4, crc >> 24])
            ^ np.int64(TABLES[3, content[i + 4]])
            ^ np.int64(TABLES[2, content[i + 5]])
            ^ np.int64(TABLES[1, content[i + 6]])
            ^ np.int64(TABLES[0, content[i + 7]])
        )
    for i in range(whole, content.size):
        crc = crc >> 8 ^ np.int64(TABLES[0, (crc ^ np.int64(content[i])) & 0xFF])
    return crc ^ MASK
