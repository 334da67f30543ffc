"""A controller's send ring: its kernel puts frames there, and then asks it to look (U-Net/MM, 5.2).

A controller that has sent all that was there sleeps until it is asked, by a transmit-poll demand.
One that still works on its ring comes to what is put there meanwhile by itself.
"""

from __future__ import annotations

from nicscope.kernel.decorators import routine, step


@step
def hold_back(nics, n):
    """A frame was put on the ring: a trap asks for it with its last one, all else at once."""
    endpoint, serving = nics.endpoints[n], nics.ports.nodes[n]
    serving.undemanded += 1
    before = endpoint.written - 1
    if endpoint.held > 0 or endpoint.finished == before:
        endpoint.held += 1
    is_full = endpoint.written - endpoint.finished == endpoint.send_ring
    if serving.in_trap == 0 or is_full:
        demand(nics, n)


@routine
def demand(nics, n):
    """Ask the controller of ``n`` to look at its ring, if something was put there since."""
    serving = nics.ports.nodes[n]
    if serving.undemanded > 0:
        serving.undemanded = 0
        serving.demands += 1
        nics.endpoints[n].held = 0
