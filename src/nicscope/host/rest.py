"""Whether anything still names a row of a node's tables that was given back.

The row of a tag, an export or an import that is given out again stands for something else.  So
first every descriptor that names it has to end, every packet for it has to be in or gone, and its
process has to have read what came for it.
"""

from __future__ import annotations

from nicscope.fabric.faults import is_dead
from nicscope.kernel.decorators import step
from nicscope.nic.ports.calls import give_up_message
from nicscope.nic.ports.layout import CUT, FETCH, NOBODY, RECEIVED, SEND, WRITE


@step
def is_tag_at_rest(machine, n, p, tag):
    """Whether nothing of node ``n`` names ``tag`` any more, which was port ``p``'s."""
    if is_dead(machine.ports.deaths.nodes, n, machine.tally[0].now):
        return True
    if _is_arriving(machine, n, tag, SEND) or _is_arriving(machine, n, tag, CUT):
        return False
    if machine.ports.channels[n, tag].port != p:
        return True  # the port has closed: what it posted has ended, and nobody reads its reports
    return not (_is_posted(machine, n, p, tag, SEND) or _is_unread(machine, n, p, tag, SEND))


@step
def let_tag_go(machine, n, tag):
    """``tag`` is nobody's any more; what had come of a message goes back to the free queue."""
    ports = machine.ports
    channel = ports.channels[n, tag]
    if channel.port == NOBODY:
        return
    give_up_message(machine, n, tag)
    if channel.cut != 0:
        channel.cut = 0
        ports.nodes[n].cuts -= 1
    channel.port = NOBODY


@step
def is_export_at_rest(machine, n, p, number):
    """Whether no store to export ``number`` of ``n`` is on its way in or yet to be heard of."""
    if is_dead(machine.ports.deaths.nodes, n, machine.tally[0].now):
        return True
    if _is_arriving(machine, n, number, WRITE):
        return False
    closed = machine.ports.table[n, p].open == 0  # which forgets what is unread if it opens again
    return closed or not _is_unread(machine, n, p, number, WRITE)


@step
def is_import_at_rest(machine, n, p, number):
    """Whether no descriptor of port ``p`` that names import ``number`` is still to end."""
    if is_dead(machine.ports.deaths.nodes, n, machine.tally[0].now):
        return True
    return not (
        _is_posted(machine, n, p, number, WRITE) or _is_posted(machine, n, p, number, FETCH)
    )


@step
def _is_posted(machine, n, p, name, operation):
    """Whether a descriptor of port ``p`` that has not ended names ``name``."""
    ports = machine.ports
    for slot in range(ports.rules[0].ring):
        request = ports.requests[n, p, slot]
        if ports.pending[n, p, slot].busy == 0:
            continue
        if request.operation == operation and request.name == name:
            return True
    return False


@step
def _is_arriving(machine, n, name, kind):
    """Whether a packet for ``name`` has come of which the bytes are not yet where they belong."""
    ports = machine.ports
    endpoint = machine.endpoints[n]
    begin = endpoint.completed if ports.rules[0].serves == 1 else ports.nodes[n].taken_in
    for i in range(begin, endpoint.accepted):
        head = ports.arrival_heads[n, i % endpoint.receive_ring]
        if head.kind == kind and head.name == name:
            return True
    return False


@step
def _is_unread(machine, n, p, name, operation):
    """Whether port ``p`` has a report of something for ``name`` that its process has not read."""
    ports = machine.ports
    port = ports.table[n, p]
    for i in range(port.read, port.received):
        report = ports.reports[n, p, RECEIVED, i % ports.rules[0].ring]
        if report.name == name and report.operation == operation:
            return True
    return False
