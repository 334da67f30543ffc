"""Free queues: buffers are translated ahead and kept until a message comes (U-Net/MM 4.1)."""

from __future__ import annotations

import numpy as np

from nicscope.drivers.simulate.ports.calls import (
    ask_page,
    begin_miss,
    keep_pages,
    report_received,
)
from nicscope.drivers.simulate.ports.holding import NO_KEY
from nicscope.drivers.simulate.ports.state import KERNEL
from nicscope.drivers.simulate.ports.translating import MISSED, NOT_THERE, memory_page_of
from nicscope.jit import distant, step
from nicscope.memory.paging.pins import pin_page, unpin_frame
from nicscope.nic.ports import BAD_DESCRIPTOR, NO_RIGHTS, NOBODY, RECEIVED, RETURNED


@distant
def take_buffer(machine, n, p, now):
    """Translate the next buffer of the free queue of port ``p``."""
    ports = machine.ports
    port = ports.table[n, p]
    if port.open == 0 or port.free_taken == port.free_posted:
        return
    # The queue is the process's to write to at any time: what was posted is what is used.
    port.provided = ports.provided[n, p, port.free_taken % ports.rules[0].ring]
    address = port.provided
    page = address >> ports.rules[0].page_bits
    if address < 0 or address >= ports.rules[0].space_bytes:
        return_buffer(machine, n, p, NO_RIGHTS)
        return
    frame = ask_page(machine, n, port.space, page, 1)
    if frame == MISSED:
        begin_miss(machine, n, p, port.space, page, 1, 1, now)
    elif frame == NOT_THERE:
        return_buffer(machine, n, p, NO_RIGHTS)
    else:
        keep_buffer(machine, n, p, frame)


@distant
def keep_buffer(machine, n, p, frame):
    """The buffer at the head of the free queue is translated: messages may have it."""
    ports = machine.ports
    port = ports.table[n, p]
    address = port.provided
    page = address >> ports.rules[0].page_bits
    # Its page stays, its entry need not: buffers that wait must not keep others off the NIC.
    if ports.rules[0].service == KERNEL:
        memory_page = memory_page_of(machine, n, port.space, page)
        frame = pin_page(ports.memory, n, port.space, memory_page, 1)
        if frame < 0:
            return_buffer(machine, n, p, NO_RIGHTS)
            return
    port.free_taken += 1
    put_ready(machine, n, p, address, frame, NO_KEY)


@step
def release_buffer(machine, n, p, buffer):
    """A ready buffer of port ``p`` is its process's again: its page may go."""
    ports = machine.ports
    space = ports.table[n, p].space
    if ports.rules[0].service == KERNEL:
        unpin_frame(ports.memory, n, space, buffer.frame)
    else:
        keep_pages(machine, n, space, buffer.address >> ports.rules[0].page_bits, 1, 0)


@distant
def put_ready(machine, n, p, address, frame, key):
    """A translated buffer of port ``p`` waits for a message."""
    ports = machine.ports
    port = ports.table[n, p]
    buffer = ports.ready[n, p, port.ready_in % ports.ready.shape[2]]
    buffer.address = address
    buffer.frame = frame
    buffer.key = key
    port.ready_in += 1


@distant
def return_buffer(machine, n, p, status):
    """Give the buffer at the head of the free queue back to its process, unfilled."""
    ports = machine.ports
    port = ports.table[n, p]
    port.free_taken += 1
    keep_pages(machine, n, port.space, port.provided >> ports.rules[0].page_bits, 1, 0)
    _report_returned(machine, n, p, port.provided, status)


@step
def _report_returned(machine, n, p, address, status):
    """Tell the process of a buffer that comes back, if a report of it has its place."""
    ports = machine.ports
    port = ports.table[n, p]
    if port.reserved - port.read == ports.rules[0].ring:
        return
    port.reserved += 1
    place = report_received(machine, n, p, RETURNED, NOBODY, n, 0, 1, 0)
    ports.reports[n, p, RECEIVED, place].status = status
    ports.report_buffers[n, p, place, 0] = address


@step
def has_ready(machine, n, p):
    """Whether port ``p`` has a translated buffer."""
    port = machine.ports.table[n, p]
    return port.ready_in > port.ready_out


@step
def has_fitting(machine, n, p, unit):
    """Whether port ``p`` has a translated buffer of ``unit`` bytes within its page.

    Those before it that are none go back to their process: a message must not run into the frame
    behind.
    """
    ports = machine.ports
    port = ports.table[n, p]
    page = np.int64(1) << ports.rules[0].page_bits
    while has_ready(machine, n, p):
        buffer = ports.ready[n, p, port.ready_out % ports.ready.shape[2]]
        if (buffer.address & (page - 1)) + unit <= page:
            return True
        port.ready_out += 1
        release_buffer(machine, n, p, buffer)
        _report_returned(machine, n, p, buffer.address, BAD_DESCRIPTOR)
        ports.nodes[n].rejected += 1
        ports.nodes[n].attention = 1
    return False


@step
def take_ready(machine, n, p, into):
    """The next translated buffer of port ``p``, as ``into``."""
    ports = machine.ports
    port = ports.table[n, p]
    buffer = ports.ready[n, p, port.ready_out % ports.ready.shape[2]]
    into.address = buffer.address
    into.frame = buffer.frame
    into.key = buffer.key
    port.ready_out += 1
    port.filling += 1
    ports.nodes[n].attention = 1


@distant
def give_up_message(machine, n, tag):
    """The message that arrives by ``tag`` will not be whole: its buffers wait for another."""
    ports = machine.ports
    channel = ports.channels[n, tag]
    for i in range(channel.buffers):
        put_back(machine, n, channel.port, ports.filling[n, tag, i])
    if channel.placed >= 0:
        ports.table[n, channel.port].reserved -= 1
    channel.buffers = 0
    channel.placed = -1


@step
def put_back(machine, n, p, buffer):
    """A buffer that was to be filled waits for another message."""
    machine.ports.table[n, p].filling -= 1
    put_ready(machine, n, p, buffer.address, buffer.frame, buffer.key)


@step
def keep_with_packet(machine, n, slot):
    """A message has all its buffers: they go with its last packet, and the tag is free for more."""
    ports = machine.ports
    head = ports.arrival_heads[n, slot]
    channel = ports.channels[n, head.name]
    for i in range(channel.buffers):
        ports.arrival_buffers[n, slot, i] = ports.filling[n, head.name, i]
    head.filled = channel.buffers
    channel.buffers = 0
    channel.placed = -1


@step
def let_buffers_go(machine, n, slot):
    """The message whose last packet is in ``slot`` is its process's now; so are its buffers."""
    ports = machine.ports
    head = ports.arrival_heads[n, slot]
    p = ports.channels[n, head.name].port
    for i in range(head.filled):
        release_buffer(machine, n, p, ports.arrival_buffers[n, slot, i])
    ports.table[n, p].filling -= head.filled


@step
def give_up_placed(machine, n, slot):
    """The message whose last packet is in ``slot`` is not whole: its buffers wait for another."""
    ports = machine.ports
    head = ports.arrival_heads[n, slot]
    p = ports.channels[n, head.name].port
    for i in range(head.filled):
        put_back(machine, n, p, ports.arrival_buffers[n, slot, i])
    ports.table[n, p].reserved -= 1


@distant
def go_back(machine, n, slot):
    """The piece in ``slot`` will come again: its message is as it was before that was placed.

    The pieces of its tag that were placed later have gone back before.
    """
    ports = machine.ports
    head = ports.arrival_heads[n, slot]
    channel = ports.channels[n, head.name]
    if head.filled < 0:
        return
    if head.last == 1:
        give_up_message(machine, n, head.name)
        for i in range(head.filled):
            ports.filling[n, head.name, i] = ports.arrival_buffers[n, slot, i]
        channel.buffers = head.filled
        channel.message = head.message
    elif channel.placed < 0 or channel.message != head.message:
        return  # given up meanwhile
    channel.placed = head.offset
    kept = (head.offset + channel.unit - 1) // channel.unit
    for i in range(kept, channel.buffers):
        put_back(machine, n, channel.port, ports.filling[n, head.name, i])
    channel.buffers = min(channel.buffers, kept)
    if head.offset == 0:
        give_up_message(machine, n, head.name)
