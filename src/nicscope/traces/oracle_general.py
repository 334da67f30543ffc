"""The record of libCacheSim's ``oracleGeneral`` files, and how pages are named as objects.

Source: libCacheSim, ``oracleGeneralBin.h`` (layout) and ``traceConvOracleGeneral.cpp`` (the next
access is counted in records from 1; -1 if there is none).
"""

from __future__ import annotations

import numpy as np

RECORD = np.dtype(
    [
        ("time_s", "<u4"),
        ("object_id", "<u8"),
        ("byte_count", "<u4"),
        ("next_access", "<i8"),
    ]
)
NEVER = -1


def page_bits(page_size: int) -> int:
    """How many low bits of an object id number the page; the rest number the process."""
    return 64 - (page_size.bit_length() - 1)
