"""EDT: what the interface reads of what is written, and writes back of what has come."""

from nicscope.memory.coherence.bus import watch_block
from nicscope.memory.coherence.layout import EMPTY
from nicscope.nic.coherent import BY_READING, COHERENT_METHOD, VALID, free_tag, set_tag, use_tag
from oracle.bytecopy import copy_bytes
from oracle.coherent_calls.devices import (
    Window,
    agent_write,
    agent_write_back,
    await_copies,
    catch_up,
)
from oracle.coherent_calls.processor import flush


def register(node, address, count, now):
    """When a buffer behind all others is the range's, of whole blocks: read, or flushed."""
    start, stop = address // node.block * node.block, -(-(address + count) // node.block)
    stop *= node.block
    tag = free_tag(node.nic)
    behind = [int(one["nic_end"]) for one in node.nic.tags if one["valid"]]
    place = max([int(node.nic.config[0].buffer_start), *behind])
    assert tag >= 0
    assert place + stop - start <= node.nic.config[0].memory_bytes
    set_tag(node.nic, tag, start, stop, place)
    use_tag(node.nic, tag, 1)
    first, home = start >> node.shift, place >> node.shift
    blocks = stop - start >> node.shift
    for b in range(blocks):
        watch_block(node.agent, first + b, home + b, node.nic.config[0].reaction)
    if node.nic.config[0].initialisation == BY_READING:
        return await_copies(node, home, home + blocks, now)
    return flush(node, start, stop - start, now)


def place_of(node, address):
    """Where the interface keeps the host's byte ``address``, or ``EMPTY``."""
    home = int(node.agent.home[address >> node.shift])
    return home if home == EMPTY else home * node.block + address % node.block


def is_registered(node, address, count):
    """Whether it keeps all of the range, in one buffer."""
    begin = place_of(node, address)
    return begin != EMPTY and all(
        place_of(node, address + offset) == begin + offset
        for offset in (*range(0, count, node.block), count - 1)
    )


def fetch(node, address, count, now):
    """When the interface has every block of the range."""
    first = place_of(node, address) >> node.shift
    return await_copies(node, first, (place_of(node, address + count - 1) >> node.shift) + 1, now)


def deliver(node, place, address, count, now):
    """When the host may read, at ``address``, what arrived at ``place``."""
    memory, done = node.agent.memory, 0
    coherent = node.nic.config[0].receive_method == COHERENT_METHOD
    while done < count:
        size = node.part(address + done, count - done)
        to = place_of(node, address + done)
        home = to >> node.shift
        if coherent:
            now = agent_write(node, to, size, memory, place + done, now)
        else:  # of parts, the rest is read
            catch_up(node, now)  # a read that is ordered by now was made, though nobody awaits it
            now = now if size == node.block else await_copies(node, home, home + 1, now)
            copy_bytes(memory, to, memory, place + done, size)
            node.agent.copies[home].state = VALID
            node.agent.copies[home].arrived = now
        done += size
    return now if coherent else _write_back(node, address, count, now)


def _write_back(node, address, count, now):
    window, end = Window(node), now
    last = place_of(node, address + count - 1) >> node.shift
    for home in range(place_of(node, address) >> node.shift, last + 1):
        end = agent_write_back(node, home, window.after(now))
        window.note(end)
    return end
