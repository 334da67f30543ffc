"""Messages cut short: of one that will not be whole, its receiver is told that no more comes."""

from __future__ import annotations

from nicscope.kernel.decorators import step
from nicscope.nic.ports.layout import CUT
from nicscope.nic.ports.streams import is_reliable, peer_of, stream_to
from nicscope.nic.ports.window import clear, may_send_to, send_numbered, send_once


@step
def cut_short(nics, n, tag, message):
    """A part of that message has gone by ``tag``: its receiver is to be told that no more will.

    Or the buffers that it fills would wait for the rest until another message comes by the tag.
    """
    channel = nics.ports.channels[n, tag]
    nics.ports.nodes[n].cuts += channel.cut == 0
    channel.cut = message


@step
def tell_of_cut(nics, n, tag):
    """Tell the peer of ``tag`` that the rest of a message will not come."""
    ports = nics.ports
    channel = ports.channels[n, tag]
    if channel.cut == 0 or not may_send_to(nics, n, peer_of(channel)):
        return
    packet = ports.blank[0]
    head = ports.blank_head[0]
    clear(packet, head)
    d = peer_of(channel)
    head.kind = CUT
    head.name = channel.tag
    head.from_name = tag
    head.message = channel.cut
    channel.cut = 0
    ports.nodes[n].cuts -= 1
    if stream_to(ports, n, d).dead == 1:
        return
    if is_reliable(ports, stream_to(ports, n, d)):
        send_numbered(nics, n, d, packet, head, ports.blank_bytes)
    else:
        send_once(nics, n, d, packet, head, ports.blank_bytes)
