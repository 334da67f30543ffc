"""Descriptors as the specification lays them out: what their bytes ask for."""

from __future__ import annotations

import struct
from typing import NamedTuple

SEND, RDMA_WRITE, RDMA_READ = 0, 1, 2
RESERVED = 0xFFF0  # bits of the control word
MOST = 63  # segments


class Asked(NamedTuple):
    control: int
    immediate: int
    remote: tuple | None  # address, handle
    data: list  # of (address, handle, length)

    @property
    def length(self):
        return sum(length for _, _, length in self.data)


def decode(raw, receive=False):
    """What ``raw``, a whole descriptor, asks for; None if its format is wrong.

    A descriptor of a receive queue asks for a message and nothing else.
    """
    _, _, count, control, _, immediate, _, _ = struct.unpack_from("<QIHHIIII", raw)
    operation = control & 3
    if control & RESERVED or operation > RDMA_READ or count > MOST or len(raw) < 32 + 16 * count:
        return None
    if operation != SEND and (count == 0 or receive):
        return None
    segments = [struct.unpack_from("<qII", raw, 32 + 16 * i) for i in range(count)]
    remote = None
    if operation != SEND:
        remote = segments.pop(0)[:2]
    return Asked(control, immediate, remote, segments)
