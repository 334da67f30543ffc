"""What of a packet goes over a link of cells, and which packets are sent as one.

Of a U-Net message that is what the program sends and nothing else: its tag is in every cell's
header, its length in the trailer (U-Net/MM, 4: a VCI may be the tag; ITU-T I.363.5).  All that
others have in a header goes before the payload, as over every other link.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.nic.ports import layout
from nicscope.nic.ports.streams import is_reliable, stream_to

NUMBERS_BYTES = 8  # a sequence number and an acknowledgement (docs/reliability.md)
GOES_ON = -1


@step
def bytes_of_header(ports, n, head, others):
    """Bytes before the payload of a packet of node ``n``; ``others``: of what U-Net has not."""
    numbered = is_reliable(ports, stream_to(ports, n, head.own))
    kind = head.kind & ~layout.VOIDED
    if kind == layout.ACKNOWLEDGEMENT:
        return np.int64(NUMBERS_BYTES)
    if kind != layout.SEND:
        return np.int64(others)
    inline = head.length if head.options & layout.INLINE else np.int64(0)
    return inline + NUMBERS_BYTES if numbered else inline


@step
def pdu_bytes(ports, n, head, payload, others):
    """Bytes of what is sent as one and ends with this packet of node ``n``, or ``GOES_ON``.

    That is a message, or a packet where each may come again by itself.
    """
    is_message = head.kind & ~layout.VOIDED == layout.SEND
    if is_message and not is_reliable(ports, stream_to(ports, n, head.own)):
        return np.int64(head.total) if head.last == 1 else np.int64(GOES_ON)
    return bytes_of_header(ports, n, head, others) + payload
