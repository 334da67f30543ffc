"""The Pkt-to-Addr table: where in the host's memory, and so in which buffer, a packet belongs."""

from __future__ import annotations

from nicscope.kernel.decorators import step
from nicscope.nic.coherent.layout import NOWHERE
from nicscope.nic.coherent.tags import nic_address


@step
def map_packets(interface, key, address):
    """Packets with ``key`` belong at ``address`` of the host from now on; ``NOWHERE``: nowhere."""
    interface.packets[key] = address


@step
def buffer_of(interface, key):
    """Where in NIC memory a packet with ``key`` goes, or ``NOWHERE`` if it has no buffer there."""
    address = interface.packets[key]
    return address if address == NOWHERE else nic_address(interface, address)
