"""Spreading numbers over the places of a hash table."""

import numpy as np

from nicscope.kernel.decorators import step

LOW = 0xFFFFFFFF


@step
def place_of(number, salt, size):
    """Where (``number``, ``salt``), both int64, belongs in a table of ``size`` places.

    Numbers in a row are spread evenly, as by Fibonacci hashing: the high half of a product with
    2**32 over the golden ratio.  The constants of the other two products are xxHash's.  Nothing
    exceeds 64 bits.
    """
    mixed = np.uint64(number & LOW) * np.uint64(0x9E3779B1)
    mixed ^= np.uint64((number >> 32) & LOW) * np.uint64(0x85EBCA77)
    mixed ^= np.uint64(salt & LOW) * np.uint64(0xC2B2AE3D)
    return ((mixed & np.uint64(LOW)) * np.uint64(size)) >> np.uint64(32)
