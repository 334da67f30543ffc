"""What the steps of a translation answer with, and the schemes as numbers that kernels compare."""

from __future__ import annotations

from nicscope.nic.cache import MISS

__all__ = [
    "ADMITTED",
    "HANDLE",
    "INTERRUPT",
    "MISS",
    "PINNED_AREA",
    "REFUSED",
    "REJECTED",
    "RNIC",
    "STATIC",
    "UNET_MM",
    "UNKNOWN",
    "UTLB",
    "UTLB_PROCESS",
    "UTLB_SHARED",
]

# In place of a frame, which is never negative; ``MISS`` is -1.
REFUSED = -2  # not now: transfers use what would have to go; nothing has changed
REJECTED = -3  # never as things stand: no room in the table, or nobody pinned the page
UNKNOWN = -4  # the page has no number: it is in no address space
ADMITTED = 0

PINNED_AREA = 0
STATIC = 1
INTERRUPT = 2
UNET_MM = 3
HANDLE = 4
RNIC = 5
# The three with a user library come last.
UTLB = 6
UTLB_SHARED = 7
UTLB_PROCESS = 8
