"""The CPU's accesses: caches and combining buffers, in parts that run until they need the bus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.kernel.decorators import copy_bytes, routine, step
from nicscope.kernel.records import records
from nicscope.memory.coherence import layout
from nicscope.memory.coherence.bus import AGAIN, MADE, VOID, data_phase, lose, order

if TYPE_CHECKING:
    from numpy.typing import NDArray


@step
def run_of_words(host, address, count, ahead):
    """Bytes, and words, of the accesses that hit in the line and begin within ``ahead`` ps.

    The first word always does: it is what the line was fetched for.
    """
    config = host.config[0]
    word = config.word
    first = word - (address & (word - 1))
    left = (np.int64(1) << config.l1_shift) - (address & ((np.int64(1) << config.l1_shift) - 1))
    size = min(count, left)
    if size <= first:
        return size, np.int64(1)
    words = 1 + (size - first + word - 1) // word
    if ahead < words * config.l1_latency:
        words = max(np.int64(1), (ahead + config.l1_latency - 1) // config.l1_latency)
        size = min(size, first + (words - 1) * word)
    return size, words


@step
def fill_l1(host, l2_line, address, to_write):
    """The first level gets the line of ``address`` out of ``l2_line``, or the right to write it."""
    config = host.config[0]
    line = layout.find_l1(host, address)
    if line == layout.EMPTY:
        tag = address >> config.l1_shift
        line = layout.victim(host.l1, (tag & config.l1_mask) * config.l1_ways, config.l1_ways)
        if host.l1[line].state == layout.MODIFIED:
            evicted = host.l1[line].tag << config.l1_shift >> config.l2_shift
            layout.l1_to_l2(host, line, layout.find_l2(host, evicted))
        width = np.int64(1) << config.l1_shift
        within = (tag << config.l1_shift) & ((np.int64(1) << config.l2_shift) - 1)
        start = (l2_line << config.l2_shift) + within
        copy_bytes(host.l1_data, line * width, host.l2_data, start, width)
        host.l1[line].tag = tag
    host.l1[line].state = layout.MODIFIED if to_write != 0 else layout.SHARED


@step
def write_out(host, line, ordered):
    """When the block, whose write-back is ordered at ``ordered``, is in memory (ps)."""
    layout.gather(host, line, 1)
    layout.l2_to_memory(host, line)
    return data_phase(host, ordered, np.int64(1) << host.config[0].l2_shift, 0)


@step
def fill_l2(host, watcher, line, block, exclusive, ordered):
    """When the block, whose read is ordered at ``ordered``, is in ``line`` (ps); sets its state.

    A block that the agent watches comes SHARED, so that the write that follows shows on the bus.
    """
    config = host.config[0]
    ready = ordered + config.memory_latency
    place = np.int64(watcher.home[block])
    width = np.int64(1) << config.l2_shift
    if place != layout.EMPTY and watcher.copies[place].state == layout.MODIFIED:
        host.counts[layout.CPU, layout.INTERVENTION] += 1
        ready = ordered + config.device_latency
        copy_bytes(host.memory, block * width, watcher.memory, place * width, width)
        watcher.copies[place].state = layout.SHARED
    copy_bytes(host.l2_data, line * width, host.memory, block * width, width)
    end = data_phase(host, ready, width, 0)
    host.l2[line].tag = block
    host.l2[line].state = layout.EXCLUSIVE if place == layout.EMPTY else layout.SHARED
    if exclusive:
        host.l2[line].state = layout.EXCLUSIVE
        if place != layout.EMPTY:
            lose(watcher, place, end)
    return end


WIDEST = 8  # bytes of one uncached access


@step
def buffer_over(host, stretch):
    """The combining buffer that gathers the stretch which begins there, or ``EMPTY``."""
    chosen = np.int64(layout.EMPTY)
    for b in range(host.config[0].combine_buffers):
        if host.buffers[b].start == stretch:
            chosen = np.int64(b)
    return chosen


@step
def combine(host, chosen, place, count, source, start):
    """Put the store into the buffer; whether all of its stretch is there now."""
    whole = host.config[0].combine_bytes
    buffer = host.buffers[chosen]
    buffer.start = place // whole * whole
    host.registers[0].clock += 1
    buffer.used = host.registers[0].clock
    within = place - buffer.start
    copy_bytes(host.buffer_data, chosen * whole + within, source, start, count)
    buffer.mask |= ((np.int64(1) << count) - 1) << within
    return buffer.mask == (np.int64(1) << whole) - 1


@step
def oldest_buffer(host):
    """A free buffer, or the one that was used least recently."""
    chosen = np.int64(0)
    for b in range(host.config[0].combine_buffers):
        if host.buffers[b].start == layout.EMPTY:
            return np.int64(b)
        if host.buffers[b].used < host.buffers[chosen].used:
            chosen = np.int64(b)
    return chosen


@step
def oldest_with_bytes(host):
    """The buffer with bytes that was used least recently; any, if none has."""
    chosen = np.int64(0)
    for b in range(1, host.config[0].combine_buffers):
        if host.buffers[b].mask != 0 and (
            host.buffers[chosen].mask == 0 or host.buffers[b].used < host.buffers[chosen].used
        ):
            chosen = np.int64(b)
    return chosen


@step
def next_piece(host, chosen):
    """First byte and bytes of what leaves the buffer next: all of it, or up to 8 in a row."""
    mask = host.buffers[chosen].mask
    whole = host.config[0].combine_bytes
    if mask == (np.int64(1) << whole) - 1:
        return np.int64(0), whole
    first = np.int64(0)
    while (mask >> first) & 1 == 0:
        first += 1
    last = first
    limit = min(whole, (first // WIDEST + 1) * WIDEST)
    while last < limit and (mask >> last) & 1 != 0:
        last += 1
    return first, last - first


@step
def kind_of_piece(host, count):
    """The transaction that takes ``count`` bytes out of a buffer."""
    return layout.COMBINED_WRITE if count == host.config[0].combine_bytes else layout.UNCACHED_WRITE


@step
def send_piece(host, device, chosen, first, count, ordered):
    """When a piece of the buffer, which is ordered at ``ordered``, is at the device (ps)."""
    buffer = host.buffers[chosen]
    start = chosen * host.config[0].combine_bytes + first
    copy_bytes(device, buffer.start + first, host.buffer_data, start, count)
    buffer.mask &= ~(((np.int64(1) << count) - 1) << first)
    return data_phase(host, ordered, count, 0)


# What the CPU is to do.
LOAD = 0  # bytes at ``address`` into a buffer
STORE = 1  # bytes of a buffer to ``address``
FLUSH = 2  # every block of a range leaves both caches
COPY = 3  # from ``address`` to ``place`` of the same memory
TO_DEVICE = 4  # from ``address`` to ``place`` of the device, in uncached stores
TO_DEVICE_COMBINED = 5  # the same through combining buffers, which are empty at its end
FROM_DEVICE = 6  # from ``place`` of the device to ``address``, by uncached loads
DOORBELL = 7  # combining buffers leave, then ``count`` bytes to a register of the device
KINDS = 8

# In which buffer a load or a store has its other end.
WINDOW = 0  # what the program holds in registers
SCRATCH = 1  # a block's bytes, of the interface's library

# Parts.
NO_PART = 0
LOADING = 1
STORING = 2
FLUSHING = 3
FETCHING = 4  # an uncached load
SENDING = 5  # an uncached store
COMBINING = 6
DRAINING = 7
RINGING = 8

# Where a part is.
FRESH = 0  # the first level is looked at
MISSED = 1  # the second level is looked at
ASKED = 2  # it waits for the bus
SERVED = 3  # what it asked for has ended

ACCESS = np.dtype(
    [
        ("kind", "i8"),
        ("address", "i8"),  # of the host's memory
        ("place", "i8"),  # the other end: in a buffer, in the device's memory, or for COPY
        ("count", "i8"),  # bytes
        ("done", "i8"),  # of these
        ("phase", "i8"),  # of a kind whose parts take turns
        ("buffer", "i8"),  # WINDOW or SCRATCH
        # The part under way.
        ("part", "i8"),
        ("stage", "i8"),
        ("where", "i8"),  # byte of the host's memory, block (FLUSHING), or byte of the device's
        ("start", "i8"),  # in the buffer
        ("length", "i8"),
        ("gone", "i8"),
        ("leaving", "i8"),  # the combining buffer that leaves
    ],
    align=True,
)


def new_accesses(nodes: int) -> NDArray[Any]:
    """ACCESS of ``nodes`` CPUs that have nothing to do."""
    return records((nodes, 1), ACCESS)


@step
def begin_access(access, kind, address, place, count, buffer):
    """The CPU is to do this next."""
    access.kind = kind
    access.address = address
    access.place = place
    access.count = count
    access.done = 0
    access.phase = 0
    # Kinds of several parts hold their bytes in scratch between two of them.
    access.buffer = buffer if kind in (LOAD, STORE) else SCRATCH
    access.part = NO_PART
    access.stage = FRESH
    access.length = 0
    access.gone = 0


@step
def _take_part(access, part, where, start, length):
    access.part = part
    access.where = where
    access.start = start
    access.length = length
    access.gone = 0
    access.stage = FRESH
    return True


@step
def next_part(host, access, room):
    """Begin the next part; whether there is one.  ``room``: bytes of the scratch buffer."""
    if access.kind == LOAD or access.kind == STORE:
        return _whole(access)
    if access.kind == FLUSH:
        return _next_block(host, access)
    if access.kind == COPY:
        return _next_copied(access, room)
    if access.kind == DOORBELL:
        return _next_of_doorbell(access)
    return _next_moved(access)


@step
def _whole(access):
    if access.done == access.count:
        return False
    access.done = access.count
    part = LOADING if access.kind == LOAD else STORING
    return _take_part(access, part, access.address, access.place, access.count)


@step
def _next_block(host, access):
    """One block after the other; ``phase`` counts them."""
    shift = host.config[0].l2_shift
    block = (access.address >> shift) + access.phase
    if access.count == 0 or block > (access.address + access.count - 1) >> shift:
        return False
    access.phase += 1
    return _take_part(access, FLUSHING, block, np.int64(0), np.int64(1))


@step
def _next_copied(access, room):
    """As an unrolled loop does: up to a block's bytes into registers, then out of them."""
    size = min(room, access.count - access.done)
    if size == 0:
        return False
    access.phase = 1 - access.phase
    if access.phase == 1:
        return _take_part(access, LOADING, access.address + access.done, np.int64(0), size)
    access.done += size
    return _take_part(access, STORING, access.place + access.done - size, np.int64(0), size)


@step
def _next_of_doorbell(access):
    access.phase += 1
    if access.phase == 1:
        return _take_part(access, DRAINING, np.int64(0), np.int64(0), np.int64(1))
    if access.phase == 2:
        return _take_part(access, RINGING, np.int64(0), np.int64(0), min(WIDEST, access.count))
    return False


@step
def _next_moved(access):
    """Up to eight bytes between host and device: in by one part, out by the other."""
    place = access.place + access.done
    size = min(WIDEST - (place & (WIDEST - 1)), access.count - access.done)
    zero = np.int64(0)
    if size == 0:
        if access.kind == TO_DEVICE_COMBINED and access.phase == 0 and access.part != DRAINING:
            return _take_part(access, DRAINING, zero, zero, np.int64(1))
        return False
    address = access.address + access.done
    access.phase = 1 - access.phase
    if access.phase == 1:
        if access.kind == FROM_DEVICE:
            return _take_part(access, FETCHING, place, zero, size)
        return _take_part(access, LOADING, address, zero, size)
    access.done += size
    if access.kind == FROM_DEVICE:
        return _take_part(access, STORING, address, zero, size)
    part = COMBINING if access.kind == TO_DEVICE_COMBINED else SENDING
    return _take_part(access, part, place, zero, size)


# What the CPU does after it has run.
GOES_ON = 0  # at the time that it named
ASKS = 1  # it waits for the bus, since that time
ENDED = 2


@routine
def run_access(host, access, window, scratch, now, horizon):
    """Run the access from ``now``; what comes next, and at which time (ps).

    Nothing that begins at ``horizon`` or later is done, but for what begins at ``now``.
    """
    while True:
        began = now
        is_done = access.gone == access.length and access.stage == FRESH
        if is_done and not next_part(host, access, scratch.size):
            return ENDED, now
        asks, now = _run_part(host, access, window, scratch, now, horizon)
        if asks:
            access.stage = ASKED
            return ASKS, now
        if now > began and now >= horizon:
            return GOES_ON, now


@step
def _run_part(host, access, window, scratch, now, horizon):
    """Whether the part needs the bus, and the CPU's time."""
    if access.part == LOADING or access.part == STORING:
        buffer = scratch if access.buffer == SCRATCH else window
        return _touch(host, access, buffer, now, horizon)
    if access.part == FLUSHING:
        return _flush(host, access, now)
    if access.part == COMBINING or access.part == DRAINING:
        return _gather_stores(host, access, scratch, now)
    if access.stage == SERVED:
        access.gone = access.length
        access.stage = FRESH
        return False, now
    return True, now


@step
def _touch(host, access, buffer, now, horizon):
    """Words of one line that hit; or a look at the second level, and at last the bus."""
    config = host.config[0]
    address = access.where + access.gone
    to_write = 1 if access.part == STORING else 0
    if access.stage == SERVED:  # its first word was there when the bus was granted
        access.stage = FRESH
        return False, now + config.l1_latency
    if access.stage == MISSED:
        line = layout.find_l2(host, address >> config.l2_shift)
        if line == layout.EMPTY or (to_write != 0 and host.l2[line].state == layout.SHARED):
            return True, now
        give_line(host, line, address, to_write)
        access.stage = FRESH
        return False, now
    line = layout.find_l1(host, address)
    if line == layout.EMPTY or (to_write != 0 and host.l1[line].state != layout.MODIFIED):
        host.registers[0].l1_misses += 1
        access.stage = MISSED
        return False, now + config.l2_latency
    size, words = run_of_words(host, address, access.length - access.gone, horizon - now)
    move_words(host, access, buffer, line, size, words)
    return False, now + words * config.l1_latency


@step
def give_line(host, l2_line, address, to_write):
    """The first level gets the line of ``address``, to be written if ``to_write``."""
    if to_write != 0:
        host.l2[l2_line].state = layout.MODIFIED
    layout.note_use(host, host.l2, l2_line)
    fill_l1(host, l2_line, address, to_write)


@step
def move_words(host, access, buffer, line, size, words):
    """Move ``size`` bytes, of ``words`` words, between the line of the first level and a buffer."""
    layout.note_use(host, host.l1, line)
    shift = host.config[0].l1_shift
    address = access.where + access.gone
    within = (line << shift) + (address & ((np.int64(1) << shift) - 1))
    start = access.start + access.gone
    if access.part == STORING:
        host.registers[0].cpu_writes += words
        copy_bytes(host.l1_data, within, buffer, start, size)
    else:
        host.registers[0].cpu_reads += words
        copy_bytes(buffer, start, host.l1_data, within, size)
    access.gone += size


@step
def _flush(host, access, now):
    """One block leaves both levels; modified, it needs the bus."""
    config = host.config[0]
    if access.stage == FRESH:
        access.stage = MISSED
        return False, now + config.flush_instruction + config.l2_latency
    if access.stage == MISSED:
        line = layout.find_l2(host, access.where)
        if line != layout.EMPTY and host.l2[line].state == layout.MODIFIED:
            return True, now
        if line != layout.EMPTY:
            layout.discard(host, line)
    access.gone = access.length
    access.stage = FRESH
    return False, now


@step
def _gather_stores(host, access, scratch, now):
    """A store into a combining buffer, or the end of all of them; a buffer leaves by the bus."""
    if access.stage == MISSED:  # the store has made its buffer whole
        return True, now
    if access.stage == SERVED:
        if host.buffers[access.leaving].mask != 0:
            return True, now
        host.buffers[access.leaving].start = layout.EMPTY
        access.stage = FRESH
        return False, now
    if access.part == DRAINING:
        access.leaving = oldest_with_bytes(host)
        if host.buffers[access.leaving].mask != 0:
            return True, now
        access.gone = access.length
        return False, now
    return _combine(host, access, scratch, now)


@step
def _combine(host, access, scratch, now):
    config = host.config[0]
    chosen = buffer_over(host, access.where // config.combine_bytes * config.combine_bytes)
    if chosen == layout.EMPTY:
        chosen = oldest_buffer(host)
        if host.buffers[chosen].mask != 0:
            access.leaving = chosen
            return True, now
    if combine(host, chosen, access.where, access.length, scratch, access.start):
        access.leaving = chosen
        access.stage = MISSED
    access.gone = access.length
    return False, now + config.l1_latency


@routine
def grant_processor(host, agent, access, window, scratch, at, now):
    """What the CPU waited for is ordered now, asked for at ``at``; likewise how it went, and when.

    The first word of a miss is moved now: it is what the line was fetched for, and nobody takes
    the line before.
    """
    if access.part == LOADING or access.part == STORING:
        buffer = window if access.buffer == 0 else scratch
        return _grant_line(host, agent, access, buffer, at, now)
    access.stage = SERVED
    if access.part == FLUSHING:
        return _grant_flush(host, access.where, now)
    if access.part == FETCHING:
        order(host, layout.CPU, layout.UNCACHED_READ, now)
        copy_bytes(scratch, access.start, agent.memory, access.where, access.length)
        return MADE, data_phase(host, now + host.config[0].device_latency, access.length, 0)
    if access.part == SENDING or access.part == RINGING:
        order(host, layout.CPU, layout.UNCACHED_WRITE, now)
        if access.part == SENDING:  # a register is no part of the device's memory
            copy_bytes(agent.memory, access.where, scratch, access.start, access.length)
        return MADE, data_phase(host, now, access.length, 0)
    first, count = next_piece(host, access.leaving)
    order(host, layout.CPU, kind_of_piece(host, count), now)
    return MADE, send_piece(host, agent.memory, access.leaving, first, count, now)


@step
def _grant_flush(host, block, now):
    line = layout.find_l2(host, block)
    if line == layout.EMPTY:
        return VOID, now
    made, end = VOID, now
    if host.l2[line].state == layout.MODIFIED:
        order(host, layout.CPU, layout.WRITE_BACK, now)
        made, end = MADE, write_out(host, line, now)
    layout.discard(host, line)
    return made, end


@step
def _grant_line(host, agent, access, buffer, at, now):
    """A line for the CPU: read, read to write, or the right to write what it has."""
    address = access.where + access.gone
    block = address >> host.config[0].l2_shift
    to_write = 1 if access.part == STORING else 0
    line = layout.find_l2(host, block)
    end = now
    if line == layout.EMPTY:
        line = _free_line(host, block, now)
        if line == layout.EMPTY:
            return AGAIN, at  # a victim went first; the read stands as before
        end = _read_line(host, agent, line, block, to_write, now)
        if to_write != 0 and host.l2[line].state == layout.SHARED:
            return AGAIN, end
    elif to_write != 0 and host.l2[line].state == layout.SHARED:
        order(host, layout.CPU, layout.UPGRADE, now)
        home = np.int64(agent.home[block])
        if home != layout.EMPTY:
            lose(agent, home, now)
    give_line(host, line, address, to_write)
    size, words = run_of_words(host, address, access.length - access.gone, np.int64(0))
    move_words(host, access, buffer, layout.find_l1(host, address), size, words)
    access.stage = SERVED
    return MADE, end


@step
def _free_line(host, block, now):
    """A free line of the second level for ``block``, or ``EMPTY`` if one is written back now."""
    config = host.config[0]
    line = layout.victim(host.l2, (block & config.l2_mask) * config.l2_ways, config.l2_ways)
    if host.l2[line].tag == layout.EMPTY:
        return line
    host.registers[0].evictions += 1
    modified = host.l2[line].state == layout.MODIFIED
    if modified:
        order(host, layout.CPU, layout.WRITE_BACK, now)
        write_out(host, line, now)
    layout.discard(host, line)
    return np.int64(layout.EMPTY) if modified else line


@step
def _read_line(host, agent, line, block, to_write, now):
    """When the block is in ``line`` (ps)."""
    exclusive = to_write != 0 and host.config[0].fill_then_invalidate == 0
    host.registers[0].l2_misses += 1
    order(host, layout.CPU, layout.READ_EXCLUSIVE if exclusive else layout.READ, now)
    return fill_l2(host, agent, line, block, exclusive, now)
