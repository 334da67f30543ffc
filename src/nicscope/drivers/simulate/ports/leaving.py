"""Packets as they leave a node's NIC: what a driver that captures them links instead.

Where ``rules.captures`` is 1, each is shown when its last byte is on the link.
"""

from nicscope.kernel.decorators import distant


@distant
def capture_packet(machine, n, place, now):
    """Capture the packet at ``place`` of the send ring of ``n``, which has left at ``now``."""
