"""The CPU's loops over words: a program's stores and loads, and copies from buffer to buffer."""

from __future__ import annotations

from nicscope.jit import routine, step
from nicscope.memory.coherence.cpu import cpu_read, cpu_write
from nicscope.nic.coherent.layout import Component


@step
def piece(node, address, left):
    """Bytes of the next access: up to the end of the word at ``address``, at most ``left``."""
    word = node.host.config[0].word
    return min(word - (address & (word - 1)), left)


@routine
def store_words(node, address, source, start, count, now):
    """When the CPU has stored ``count`` bytes of ``source[start:]`` at ``address`` (ps)."""
    done = 0
    while done < count:
        size = piece(node, address + done, count - done)
        now = cpu_write(node.host, node.agent, address + done, size, source, start + done, now)
        done += size
    return now


@routine
def load_words(node, address, target, start, count, now):
    """When the CPU has the ``count`` bytes at ``address`` in ``target[start:]`` (ps)."""
    done = 0
    while done < count:
        size = piece(node, address + done, count - done)
        now = cpu_read(node.host, node.agent, address + done, size, target, start + done, now)
        done += size
    return now


@routine
def copy_words(node, to, start, count, now):
    """When the CPU has copied ``count`` bytes from ``start`` to ``to``, word by word (ps)."""
    scratch = node.nic.scratch
    done = 0
    while done < count:
        size = min(piece(node, to + done, count - done), piece(node, start + done, count - done))
        now = cpu_read(node.host, node.agent, start + done, size, scratch, 0, now)
        now = cpu_write(node.host, node.agent, to + done, size, scratch, 0, now)
        done += size
    return now


@step
def user_write(node, address, source, count, now):
    """``store_words``, as the program's own work."""
    end = store_words(node, address, source, 0, count, now)
    node.nic.times[Component.USER_WRITE] += end - now
    return end


@step
def user_read(node, address, target, count, now):
    """``load_words``, as the program's own work."""
    end = load_words(node, address, target, 0, count, now)
    node.nic.times[Component.USER_READ] += end - now
    return end
