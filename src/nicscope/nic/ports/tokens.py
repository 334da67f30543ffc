"""Tokens: one number says where in its process's memory a descriptor is, and how long it is.

That is its address, which is aligned to 64, and below that how many units of 16 bytes it has.
"""

from __future__ import annotations

from nicscope.kernel.decorators import step

UNIT = 16  # bytes
ALIGNMENT = 64
MOST_BYTES = UNIT * (ALIGNMENT - 1)  # of a descriptor


@step
def bytes_of(token):
    """Of the descriptor that a token names."""
    return UNIT * (token & (ALIGNMENT - 1))


@step
def address_of(token):
    """Where the descriptor begins that a token names."""
    return token - (token & (ALIGNMENT - 1))
