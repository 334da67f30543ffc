"""Host memory that stands for a real process's: what a driver of such processes links instead.

Where ``rules.mirrors`` is 1, a transfer that reads the host's memory has the bytes brought there
first, and one that writes it has them taken along to the process.  Nothing else asks for it.
"""

from __future__ import annotations

from nicscope.kernel.decorators import distant


@distant
def load_from_program(nics, n, address, count, is_answer):
    """Bring ``count`` bytes at physical ``address`` of node ``n`` from the process they are of.

    What answers a peer's request is read as it is now.  What the process sends itself may have been
    read before: it changes nothing that it has posted.
    """


@distant
def store_to_program(nics, n, address, count):
    """Take them along to that process: it sees what the NIC has written."""
