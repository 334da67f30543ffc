"""What the CPU does: words through both caches, flushes, and stores past them."""

import numpy as np

from nicscope.memory.coherence.bus import lose
from nicscope.memory.coherence.layout import (
    COMBINED_WRITE,
    CPU,
    EMPTY,
    EXCLUSIVE,
    INTERVENTION,
    MODIFIED,
    READ,
    READ_EXCLUSIVE,
    SHARED,
    UNCACHED_READ,
    UNCACHED_WRITE,
    UPGRADE,
    WRITE_BACK,
    discard,
    find_l1,
    find_l2,
    gather,
    l1_to_l2,
    l2_to_memory,
    note_use,
    victim,
)
from oracle.bytecopy import copy_bytes
from oracle.coherent_calls.devices import catch_up, give_way, next_order

WIDEST = 8  # bytes of an uncached access


def store(node, address, raw, now):
    """When the CPU has stored ``raw``, word by word."""
    return _touch_words(node, address, np.frombuffer(raw, np.uint8).copy(), now, to_write=True)


def load(node, address, count, now):
    """``count`` bytes as the CPU reads them, word by word, and when it has them."""
    bytes_ = np.zeros(count, np.uint8)
    end = _touch_words(node, address, bytes_, now, to_write=False)
    return bytes_.tobytes(), end


def copy(node, to, start, count, now):
    """When the CPU has copied the bytes, a block's at a time through registers."""
    for done in range(0, count, node.block):
        size = min(node.block, count - done)
        raw, now = load(node, start + done, size, now)
        now = store(node, to + done, raw, now)
    return now


def _touch_words(node, address, bytes_, now, *, to_write):
    """Each line in turn, in runs of words that end where the agent's next read is ordered."""
    host = node.host
    width = 1 << int(host.config[0].l1_shift)
    done = 0
    while done < len(bytes_):
        at = address + done
        catch_up(node, now)
        line = find_l1(host, at)
        if line == EMPTY or (to_write and host.l1[line].state != MODIFIED):
            now = _obtain(node, at, now, to_write=to_write)
            line = find_l1(host, at)
        note_use(host, host.l1, line)
        size, words = _run(node, at, len(bytes_) - done, next_order(node) - now)
        within = line * width + at % width
        if to_write:
            host.registers[0].cpu_writes += words
            copy_bytes(host.l1_data, within, bytes_, done, size)
        else:
            host.registers[0].cpu_reads += words
            copy_bytes(bytes_, done, host.l1_data, within, size)
        now += words * int(host.config[0].l1_latency)
        done += size
    return now


def _run(node, address, count, ahead):
    """Bytes and words of one line that begin within ``ahead``; the first always does."""
    config = node.host.config[0]
    word, width, latency = int(config.word), 1 << int(config.l1_shift), int(config.l1_latency)
    last = min(address + count, (address // width + 1) * width)
    size = words = 0
    while address + size < last and (words == 0 or words * latency < ahead):
        size = min((address + size) // word * word + word, last) - address
        words += 1
    return size, words


def _obtain(node, address, now, *, to_write):
    """When the first level has the line, MODIFIED if it is to be written."""
    host, config = node.host, node.host.config[0]
    host.registers[0].l1_misses += 1
    now += int(config.l2_latency)
    catch_up(node, now)
    block = address >> node.shift
    line = find_l2(host, block)
    if line == EMPTY or (to_write and host.l2[line].state == SHARED):
        give_way(node, now)
    if line == EMPTY:
        host.registers[0].l2_misses += 1
        line = _room(node, block, now)
        now = _read_block(node, line, block, now, exclusive=to_write)
    if to_write:
        if host.l2[line].state == SHARED:
            give_way(node, now)
            now = node.address_phase(CPU, UPGRADE, now)
            if node.agent.home[block] != EMPTY:
                lose(node.agent, int(node.agent.home[block]), now)
        host.l2[line].state = MODIFIED
    note_use(host, host.l2, line)
    _fill_l1(node, line, address, to_write=to_write)
    return now


def _fill_l1(node, below, address, *, to_write):
    host, config = node.host, node.host.config[0]
    width = 1 << int(config.l1_shift)
    line = find_l1(host, address)
    if line == EMPTY:
        tag = address >> config.l1_shift
        line = victim(host.l1, (tag & config.l1_mask) * config.l1_ways, config.l1_ways)
        if host.l1[line].state == MODIFIED:
            evicted = host.l1[line].tag * width >> node.shift
            l1_to_l2(host, line, find_l2(host, evicted))
        start = below * node.block + tag * width % node.block
        copy_bytes(host.l1_data, line * width, host.l2_data, start, width)
        host.l1[line].tag = tag
    host.l1[line].state = MODIFIED if to_write else SHARED


def _room(node, block, now):
    """A free line of the second level; what was there is written back if it must."""
    host, config = node.host, node.host.config[0]
    line = victim(host.l2, (block & config.l2_mask) * config.l2_ways, config.l2_ways)
    if host.l2[line].tag != EMPTY:
        host.registers[0].evictions += 1
        if host.l2[line].state == MODIFIED:
            _write_back(node, line, now)
        discard(host, line)
    return line


def _write_back(node, line, now):
    """When the block's modified bytes are in memory."""
    ordered = node.address_phase(CPU, WRITE_BACK, now)
    gather(node.host, line, 1)
    l2_to_memory(node.host, line)
    return node.data_phase(ordered, node.block)


def _read_block(node, line, block, now, *, exclusive):
    """When the block is in ``line``: SHARED if the agent watches it, who answers if it has it."""
    host, config = node.host, node.host.config[0]
    exclusive = exclusive and config.fill_then_invalidate == 0
    ordered = node.address_phase(CPU, READ_EXCLUSIVE if exclusive else READ, now)
    ready = ordered + int(config.memory_latency)
    home = int(node.agent.home[block])
    if home != EMPTY and node.agent.copies[home].state == MODIFIED:
        host.counts[CPU, INTERVENTION] += 1
        ready = ordered + int(config.device_latency)
        memory = node.agent.memory
        copy_bytes(host.memory, block * node.block, memory, home * node.block, node.block)
        node.agent.copies[home].state = SHARED
    copy_bytes(host.l2_data, line * node.block, host.memory, block * node.block, node.block)
    end = node.data_phase(ready, node.block)
    host.l2[line].tag = block
    host.l2[line].state = EXCLUSIVE if exclusive or home == EMPTY else SHARED
    if exclusive and home != EMPTY:
        lose(node.agent, home, end)
    return end


def flush(node, address, count, now):
    """When no block of the range is in the caches, and what was modified is in memory."""
    config = node.host.config[0]
    for block in range(address >> node.shift, (address + count - 1 >> node.shift) + 1):
        now += int(config.flush_instruction + config.l2_latency)
        line = find_l2(node.host, block)
        if line != EMPTY:
            if node.host.l2[line].state == MODIFIED:
                now = _write_back(node, line, now)
            discard(node.host, line)
    return now


# --- past the caches -------------------------------------------------------------------------


def to_device(node, address, count, place, now, *, combined):
    """When the CPU has moved the bytes to ``place`` of the interface, at most 8 at a time."""
    done = 0
    while done < count:
        size = min(WIDEST - (place + done) % WIDEST, count - done)
        raw, now = load(node, address + done, size, now)
        if combined:
            now = _combine(node, place + done, raw, now)
        else:
            now = _uncached_write(node, place + done, raw, now)
        done += size
    return drain(node, now) if combined else now


def from_device(node, place, address, count, now):
    """When the CPU has moved the bytes at ``place`` to its memory."""
    done = 0
    while done < count:
        size = min(WIDEST - (place + done) % WIDEST, count - done)
        raw = node.agent.memory[place + done : place + done + size].tobytes()
        ordered = node.address_phase(CPU, UNCACHED_READ, now)
        now = node.data_phase(ordered + int(node.host.config[0].device_latency), size)
        now = store(node, address + done, raw, now)
        done += size
    return now


def doorbell(node, token, now):
    """When ``token`` is in the register; combining buffers leave before it."""
    give_way(node, now)
    now = drain(node, now)
    give_way(node, now)
    ordered = node.address_phase(CPU, UNCACHED_WRITE, now)
    node.nic.registers[0].token = token
    node.nic.registers[0].doorbells += 1
    return node.data_phase(ordered, min(WIDEST, int(node.nic.config[0].doorbell_bytes)))


def _uncached_write(node, place, raw, now):
    node.agent.memory[place : place + len(raw)] = np.frombuffer(raw, np.uint8)
    return node.data_phase(node.address_phase(CPU, UNCACHED_WRITE, now), len(raw))


def _combine(node, place, raw, now):
    """When the store is in the buffer of its stretch, which leaves when all of it is there."""
    host, config = node.host, node.host.config[0]
    whole = int(config.combine_bytes)
    stretch = place // whole * whole
    mine = [buffer for buffer in host.buffers if buffer.start == stretch]
    if not mine:
        free = [buffer for buffer in host.buffers if buffer.start == EMPTY]
        mine = free or [min(host.buffers, key=lambda buffer: buffer.used)]
        now = _leave(node, mine[0], now)
    buffer = mine[0]
    host.registers[0].clock += 1
    buffer.start, buffer.used = stretch, host.registers[0].clock
    data = _data_of(node, buffer)
    data[place - stretch : place - stretch + len(raw)] = np.frombuffer(raw, np.uint8)
    buffer.mask |= ((1 << len(raw)) - 1) << (place - stretch)
    now += int(config.l1_latency)
    return _leave(node, buffer, now) if buffer.mask == (1 << whole) - 1 else now


def _data_of(node, buffer):
    whole = int(node.host.config[0].combine_bytes)
    place = next(i for i, one in enumerate(node.host.buffers) if one.start == buffer.start)
    return node.host.buffer_data[place * whole : (place + 1) * whole]


def drain(node, now):
    """When all combining buffers have left, the least recently used first."""
    held = [buffer for buffer in node.host.buffers if buffer.mask]
    for buffer in sorted(held, key=lambda buffer: buffer.used):
        now = _leave(node, buffer, now)
    return now


def _leave(node, buffer, now):
    """As one burst if it is whole, else in rows of up to 8 bytes."""
    whole = int(node.host.config[0].combine_bytes)
    while buffer.mask:
        is_there = [bool(int(buffer.mask) >> i & 1) for i in range(whole)]
        first, last = 0, whole
        if not all(is_there):
            first = is_there.index(True)
            last = first
            while last < min(whole, (first // WIDEST + 1) * WIDEST) and is_there[last]:
                last += 1
        kind = COMBINED_WRITE if last - first == whole else UNCACHED_WRITE
        ordered = node.address_phase(CPU, kind, now)
        start = int(buffer.start)
        node.agent.memory[start + first : start + last] = _data_of(node, buffer)[first:last]
        buffer.mask &= ~(((1 << (last - first)) - 1) << first)
        now = node.data_phase(ordered, last - first)
    buffer.start = EMPTY
    return now
