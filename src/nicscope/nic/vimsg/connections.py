"""VIs on the NIC: made, connected, given receives, and what is left when a connection is lost."""

from __future__ import annotations

from nicscope.kernel.decorators import kernel
from nicscope.nic.transport import meet
from nicscope.nic.vimsg.layout import NOWHERE
from nicscope.nic.vimsg.outcomes import CONNECTED, ERROR
from nicscope.nic.vimsg.rooms import leave_room


@kernel
def open_vi(vimsg, v, level, tag, longest, rights):
    """VI ``v`` is idle, with nothing posted."""
    vi = vimsg.vis[v]
    vi.state = 0
    vi.level = level
    vi.tag = tag
    vi.longest = longest
    vi.rights = rights
    vi.peer_node = NOWHERE
    vi.peer = NOWHERE
    vi.sent = 0
    vi.expected = 0
    vi.fragment = 0
    vi.assembly = NOWHERE
    forget(vimsg, v)


@kernel
def connect(vimsg, v, node, peer, expected, epoch):
    """VI ``v`` has VI ``peer`` of ``node`` as its other end, whose next message is ``expected``.

    ``epoch`` is newer than that of any connection before at either place: by it frames of those
    that are still on their way are told from this one's.
    """
    vi = vimsg.vis[v]
    vi.state = CONNECTED
    vi.peer_node = node
    vi.peer = peer
    vi.expected = expected
    vi.fragment = 0
    meet(vimsg.links[v], epoch)


@kernel
def take_receive(vimsg, v, request):
    """Whether the receive waits for a message now; not on a VI whose connection is lost."""
    vi = vimsg.vis[v]
    if vi.state == ERROR:
        return False
    vimsg.requests[request].next = NOWHERE
    if vi.last == NOWHERE:
        vi.first = request
    else:
        vimsg.requests[vi.last].next = request
    vi.last = request
    return True


@kernel
def forget(vimsg, v):
    """Of the VI's posted descriptors and of its half a message nothing is left."""
    vi = vimsg.vis[v]
    vi.first = NOWHERE
    vi.last = NOWHERE
    vi.reading = NOWHERE
    if vi.assembly != NOWHERE:
        leave_room(vimsg, vi.assembly)
        vi.assembly = NOWHERE


@kernel
def lose_connection(vimsg, v):
    """Whether VI ``v`` was not in the error state before; now it is, and has forgotten all."""
    if vimsg.vis[v].state == ERROR:
        return False
    vimsg.vis[v].state = ERROR
    forget(vimsg, v)
    return True
