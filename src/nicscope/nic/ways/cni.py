"""CNI: cacheable queues of entries that CPU and NIC write and the other reads as they change.

``nic/coherent.py`` has the rules of an entry and of the credit.  A step that finds no entry,
or no room for one, is REFUSED, and looks again when something has crossed the bus.
"""

import numpy as np

from nicscope.kernel.decorators import copy_bytes, routine, step
from nicscope.memory.coherence.bus import ENGINE_IN, ENGINE_OUT
from nicscope.memory.coherence.processor import COPY, LOAD, SCRATCH, STORE, begin_access
from nicscope.nic import coherent
from nicscope.nic.ways import state
from nicscope.nic.ways.edt import own_block

# Stages of the CPU's sides.
_CHECK = 0  # whether there is credit, or something to copy
_HEAD = 1  # the head was read
_TAIL = 2  # the tail was read
_LOADED = 3  # an entry's bytes are in scratch, or its word
_PAYLOAD = 4  # its bytes are stored
_ENTRY = 5  # the whole entry is there, or copied
_CLEARED = 6
_LAST = 7  # what tells the other side


@step
def _cpu_moves(ways, n, m, stage, kind, offset, place, count):
    """The CPU loads or stores bytes of scratch, at ``offset`` of the queues."""
    m.stage = stage
    address = ways.nics.config[n, 0].queue_address + offset
    begin_access(ways.access[n, 0], kind, address, place, count, SCRATCH)
    return state.ACCESS


@step
def _cpu_word(ways, n, m, stage, kind, offset):
    return _cpu_moves(ways, n, m, stage, kind, offset, np.int64(0), np.int64(coherent.WORD))


@routine
def publish(ways, n, m):
    """The CPU copies the message into the send queue, each entry's last word last."""
    nic = state.nic_of(ways.nics, n)
    queue = nic.queues[coherent.SEND]
    if m.stage == _HEAD:
        queue.shadow = coherent.get_word(nic.scratch, 0)
        queue.head_checks += 1
        queue.credit = coherent.credit_of(nic, coherent.SEND)
        m.stage = _CHECK
        if queue.credit == 0:
            return _publish_partial_tail(ways, n, m, nic)
    if m.stage == _TAIL:
        m.stage = _CHECK
        return state.REFUSED
    if m.stage == _LOADED or m.stage == _PAYLOAD:
        return _store_entry(ways, n, m, nic)
    if m.stage == _ENTRY:
        queue.tail += 1
        queue.credit -= 1
        m.done += m.length
        m.stage = _CHECK
    if m.stage == _CHECK and m.done < m.count:
        if queue.credit == 0:
            return _cpu_word(ways, n, m, _HEAD, LOAD, coherent.pointer_place(nic, coherent.SEND, 1))
        m.length = min(coherent.payload_bytes(nic), m.count - m.done)
        m.stage = _LOADED
        zero = np.int64(0)
        begin_access(ways.access[n, 0], LOAD, m.address + m.done, zero, m.length, SCRATCH)
        return state.ACCESS
    if m.stage == _LAST or nic.config[0].valid_bits != 0 or m.count == 0:
        return state.FINISHED
    coherent.put_word(nic.scratch, 0, queue.tail)
    return _cpu_word(ways, n, m, _LAST, STORE, coherent.pointer_place(nic, coherent.SEND, 0))


@step
def _publish_partial_tail(ways, n, m, nic):
    """Publish the tail of a full queue to a NIC that polls the tail."""
    tail = nic.queues[coherent.SEND].tail
    if nic.config[0].valid_bits != 0 or m.told == tail:
        return state.REFUSED
    m.told = tail
    coherent.put_word(nic.scratch, 0, tail)
    return _cpu_word(ways, n, m, _TAIL, STORE, coherent.pointer_place(nic, coherent.SEND, 0))


@step
def _store_entry(ways, n, m, nic):
    """A payload that fills its entry goes in one run with the word behind it."""
    queue = nic.queues[coherent.SEND]
    room = coherent.payload_bytes(nic)
    offset = coherent.entry_place(nic, coherent.SEND, queue.tail)
    zero, word = np.int64(0), np.int64(coherent.WORD)
    if m.stage == _PAYLOAD:
        return _cpu_moves(ways, n, m, _ENTRY, STORE, offset + room, m.length, word)
    # The word goes to the entry's end.
    coherent.put_word(nic.scratch, m.length, 2 * m.length + coherent.sense_of(nic, queue.tail))
    if m.length < room:
        return _cpu_moves(ways, n, m, _PAYLOAD, STORE, offset, zero, m.length)
    return _cpu_moves(ways, n, m, _ENTRY, STORE, offset, zero, room + coherent.WORD)


@routine
def collect(ways, n, m):
    """The CPU copies the oldest message of the receive queue out to the program's buffer."""
    nic = state.nic_of(ways.nics, n)
    queue = nic.queues[coherent.RECEIVE]
    entry = coherent.entry_place(nic, coherent.RECEIVE, queue.head)
    if m.stage == _TAIL:
        queue.seen_tail = coherent.get_word(nic.scratch, 0)
        m.stage = _CHECK
        if queue.seen_tail <= queue.head:
            return state.REFUSED
    if m.stage == _LOADED:
        return _copy_out(ways, n, m, nic, entry)
    if m.stage == _ENTRY:
        nic.registers[0].taken += m.length
        m.stage = _CLEARED
        if nic.config[0].valid_bits != 0 and nic.config[0].sense_reverse == 0:
            coherent.put_word(nic.scratch, 0, np.int64(0))
            return _cpu_word(ways, n, m, _CLEARED, STORE, entry + coherent.payload_bytes(nic))
    if m.stage == _CLEARED:
        queue.head += 1
        coherent.put_word(nic.scratch, 0, queue.head)
        return _cpu_word(ways, n, m, _LAST, STORE, coherent.pointer_place(nic, coherent.RECEIVE, 1))
    if nic.registers[0].taken >= m.count:
        nic.registers[0].taken = 0
        return state.FINISHED
    if nic.config[0].valid_bits == 0 and queue.seen_tail <= queue.head:
        return _cpu_word(ways, n, m, _TAIL, LOAD, coherent.pointer_place(nic, coherent.RECEIVE, 0))
    return _cpu_word(ways, n, m, _LOADED, LOAD, entry + coherent.payload_bytes(nic))


@step
def _copy_out(ways, n, m, nic, entry):
    """Copy the entry whose word was read, if that says that it is one."""
    word = coherent.get_word(nic.scratch, 0)
    queue = nic.queues[coherent.RECEIVE]
    if nic.config[0].valid_bits != 0 and (word & 1) != coherent.sense_of(nic, queue.head):
        m.stage = _CHECK
        return state.REFUSED
    m.length = word >> 1
    m.stage = _ENTRY
    to = m.address + nic.registers[0].taken
    start = nic.config[0].queue_address + entry
    begin_access(ways.access[n, 0], COPY, start, to, m.length, SCRATCH)
    return state.ACCESS


# Stages of the NIC's sides.
_LOOKING = 0
_POINTER = 1  # the other side's pointer has come
_WORD = 2  # the entry has come
_CLEARING = 3
_FILLING = 4
_TELLING = 5


@step
def _nic_reads(ways, n, m, stage, offset):
    """The NIC reads the block at ``offset`` of the queues before it goes on at ``stage``."""
    config = ways.nics.config[n, 0]
    home = (config.queue_start + offset) // config.block
    m.stage = stage
    return state.await_blocks(m, home, home + 1)


@step
def _nic_word(ways, n, offset):
    return coherent.get_word(ways.agents.memory[n], ways.nics.config[n, 0].queue_start + offset)


@step
def _nic_stores(ways, n, m, master, offset, value):
    """What is needed before the NIC has stored a word at ``offset``; FINISHED when it has."""
    place = ways.nics.config[n, 0].queue_start + offset
    needed = own_block(ways, n, m, master, place, coherent.WORD)
    if needed == state.FINISHED:
        coherent.put_word(ways.agents.memory[n], place, value)
    return needed


@routine
def fetch(ways, n, m):
    """The NIC takes entries out of the send queue until the message is at its place."""
    nic = state.nic_of(ways.nics, n)
    queue = nic.queues[coherent.SEND]
    while True:
        entry = coherent.entry_place(nic, coherent.SEND, queue.head)
        if m.stage == _POINTER:
            queue.seen_tail = _nic_word(ways, n, coherent.pointer_place(nic, coherent.SEND, 0))
            m.stage = _LOOKING
            if queue.seen_tail <= queue.head:
                return state.REFUSED
        if m.stage == _LOOKING:
            return _look_for_entry(ways, n, m, nic, entry)
        if m.stage == _WORD:
            word = _nic_word(ways, n, entry + coherent.payload_bytes(nic))
            m.stage = _LOOKING
            if nic.config[0].valid_bits != 0 and (word & 1) != coherent.sense_of(nic, queue.head):
                return state.REFUSED
            _assemble(ways, n, nic, nic.config[0].queue_start + entry, word >> 1)
            m.stage = _CLEARING
        if m.stage == _CLEARING:
            if nic.config[0].valid_bits != 0 and nic.config[0].sense_reverse == 0:
                word_place = entry + coherent.payload_bytes(nic)
                needed = _nic_stores(ways, n, m, ENGINE_OUT, word_place, np.int64(0))
                if needed != state.FINISHED:
                    return needed
            queue.head += 1
            m.stage = _TELLING
        needed = _nic_stores(
            ways, n, m, ENGINE_OUT, coherent.pointer_place(nic, coherent.SEND, 1), queue.head
        )
        if needed != state.FINISHED:
            return needed
        m.stage = _LOOKING


@step
def _look_for_entry(ways, n, m, nic, entry):
    """The next entry is read, or the message is whole and goes to its place."""
    queue = nic.queues[coherent.SEND]
    registers = nic.registers[0]
    if registers.assembled >= registers.fetched + m.count:
        _hand_out(ways, n, nic, m.place, m.count)
        return state.FINISHED
    if nic.config[0].valid_bits == 0 and queue.seen_tail <= queue.head:
        return _nic_reads(ways, n, m, _POINTER, coherent.pointer_place(nic, coherent.SEND, 0))
    return _nic_reads(ways, n, m, _WORD, entry)


@step
def _assemble(ways, n, nic, start, count):
    """Put ``count`` bytes of NIC memory behind those taken out before, in the ring."""
    ring = nic.assembly
    at = nic.registers[0].assembled % ring.size
    straight = min(count, ring.size - at)
    copy_bytes(ring, at, ways.agents.memory[n], start, straight)
    copy_bytes(ring, 0, ways.agents.memory[n], start + straight, count - straight)
    nic.registers[0].assembled += count


@step
def _hand_out(ways, n, nic, place, count):
    """Move the oldest ``count`` bytes of the ring to ``place`` of NIC memory."""
    ring = nic.assembly
    at = nic.registers[0].fetched % ring.size
    straight = min(count, ring.size - at)
    copy_bytes(ways.agents.memory[n], place, ring, at, straight)
    copy_bytes(ways.agents.memory[n], place + straight, ring, 0, count - straight)
    nic.registers[0].fetched += count


@routine
def deliver(ways, n, m):
    """The NIC fills entries of the receive queue with what arrived at ``place``."""
    nic = state.nic_of(ways.nics, n)
    queue = nic.queues[coherent.RECEIVE]
    while m.done < m.count:
        if m.stage == _POINTER:
            queue.shadow = _nic_word(ways, n, coherent.pointer_place(nic, coherent.RECEIVE, 1))
            queue.head_checks += 1
            queue.credit = coherent.credit_of(nic, coherent.RECEIVE)
            m.stage = _LOOKING
            if queue.credit == 0:
                m.stage = _TELLING
        if m.stage == _TELLING:
            needed = _publish_tail(ways, n, m, nic)
            if needed == state.FINISHED:
                m.stage = _LOOKING
                return state.REFUSED
            return needed
        if queue.credit == 0:
            return _nic_reads(
                ways, n, m, _POINTER, coherent.pointer_place(nic, coherent.RECEIVE, 1)
            )
        needed = _fill_entry(ways, n, m, nic)
        if needed != state.FINISHED:
            return needed
    return _publish_tail(ways, n, m, nic)


@step
def _publish_tail(ways, n, m, nic):
    """What is needed before the CPU sees the tail, if it polls the tail."""
    tail = nic.queues[coherent.RECEIVE].tail
    if nic.config[0].valid_bits != 0 or m.told == tail:
        return state.FINISHED
    needed = _nic_stores(
        ways, n, m, ENGINE_IN, coherent.pointer_place(nic, coherent.RECEIVE, 0), tail
    )
    if needed == state.FINISHED:
        m.told = tail
    return needed


@step
def _fill_entry(ways, n, m, nic):
    """What is needed before the next entry is filled; FINISHED when it is."""
    queue = nic.queues[coherent.RECEIVE]
    config = nic.config[0]
    memory = ways.agents.memory[n]
    to = config.queue_start + coherent.entry_place(nic, coherent.RECEIVE, queue.tail)
    needed = own_block(ways, n, m, ENGINE_IN, to, config.block)
    if needed == state.FINISHED:
        size = min(coherent.payload_bytes(nic), m.count - m.done)
        copy_bytes(memory, to, memory, m.place + m.done, size)
        coherent.put_word(
            memory, to + coherent.payload_bytes(nic), 2 * size + coherent.sense_of(nic, queue.tail)
        )
        queue.tail += 1
        queue.credit -= 1
        m.done += size
    return needed
