"""Spreading numbers over the places of a hash table."""

from __future__ import annotations

import numpy as np

from nicscope.jit import step

LOW = 0xFFFFFFFF


@step
def spread(number, salt):
    """A well-mixed uint64 of two numbers that are not negative; take bits from the 16th on.

    Products of 32-bit halves with odd constants (2**32 over the golden ratio, and two of
    xxHash's), so that nothing exceeds 64 bits.
    """
    mixed = np.uint64(number & LOW) * np.uint64(0x9E3779B1)
    mixed ^= np.uint64(number >> 32) * np.uint64(0x85EBCA77)
    mixed ^= np.uint64(salt & LOW) * np.uint64(0xC2B2AE3D)
    return mixed >> np.uint64(16)
