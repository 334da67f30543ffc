"""Who asks for the bus and for what: one standing request per master, first come, first served.

A request is granted when it is ordered, and not before anybody who asked earlier; what it is for
is settled then.  Of two that ask at the same time the lower master goes first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.kernel.records import records

if TYPE_CHECKING:
    from numpy.typing import NDArray

FAR = np.int64(1 << 62)  # as the watcher's: at no time

# Masters, in the order of ties: devices before the CPU.
AGENT = 0  # the interface's reads of what it watches
REPORT = 1  # the interface's writes of completions
ENGINE_OUT = 2  # the engine that moves out of the host's memory
ENGINE_IN = 3  # the engine that moves into it
OTHER = 4  # a device that is no interface
CACHE = 5  # write-backs that the cache owes a device which was told to retry
PROCESSOR = 6
MASTERS = 8  # a power of two

# How a grant went.
MADE = 0  # the transaction was made; its bytes have crossed at its end
VOID = 1  # there was nothing left to do, and no transaction
AGAIN = 2  # another had to come first: the master asks again

ASK = np.dtype(
    [
        ("at", "i8"),  # ps: since when it asks, or FAR if it does not
        ("kind", "i8"),  # of transaction; of the CPU settled when granted
        ("address", "i8"),  # of the host's memory
        ("count", "i8"),  # bytes, within one block
        ("place", "i8"),  # of the device's memory
        ("rate", "i8"),  # MB/s at which the device takes or gives them; 0: the bus's
        ("answer", "i8"),  # to a block that the cache has modified
    ],
    align=True,
)


def new_asks(nodes: int) -> NDArray[Any]:
    """ASK of every master of ``nodes`` buses, none of which asks."""
    asks = records((nodes, MASTERS), ASK)
    asks["at"] = FAR
    return asks


@step
def first_asker(asks):
    """The master whose turn it is; its request stands at ``FAR`` if nobody asks."""
    first = np.int64(0)
    for master in range(1, MASTERS):
        if asks[master].at < asks[first].at:
            first = np.int64(master)
    return first
