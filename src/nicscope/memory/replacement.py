"""Which pinned page a process gives up first when it has reached its limit (UTLB 3.4)."""

from enum import IntEnum


class Replacement(IntEnum):
    """The five predefined policies; equals are decided for the least recently used."""

    LRU = 0
    MRU = 1
    LFU = 2
    MFU = 3
    RANDOM = 4
