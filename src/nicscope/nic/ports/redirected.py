"""Redirected stores: what comes for an exported buffer goes to another one, of any alignment.

A packet is cut where the buffer that its sender knows has pages.  In the other one its payload may
lie over the end of a page: then it goes to two places, each page translated and held by itself.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import distant
from nicscope.nic.ports.arrivals import last_arrival
from nicscope.nic.ports.scatter import place_over_pieces


@distant
def place_redirected(nics, d):
    """Find where the payload of the last packet, of a redirected store, goes over two pages.

    Whether a translation has to be waited for.  Where its export is redirected to has been written
    down for the packet: that may change while it waits.
    """
    slot = last_arrival(nics, d)
    owner = np.int64(nics.ports.shared.exports[d, nics.ports.arrival_heads[d, slot].name].port)
    return place_over_pieces(nics, d, slot, owner, nics.ports.work.redirected[d, slot], 1)
