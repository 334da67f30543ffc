"""CNI: entries that the CPU writes and the interface takes, and the other way round.

A queue that is full is emptied by the other side amid the call.
"""

from nicscope.memory.coherence.bus import AT_NO_TIME
from nicscope.memory.coherence.layout import INVALID
from nicscope.nic.coherent import (
    RECEIVE,
    SEND,
    WORD,
    credit_of,
    entry_place,
    payload_bytes,
    pointer_place,
    sense_of,
)
from oracle.coherent_calls.devices import agent_write, await_copies
from oracle.coherent_calls.processor import copy, load, store


class Queue:
    """The send or the receive queue of an interface, seen from both sides."""

    def __init__(self, node, which):
        self.node, self.which = node, which
        self.state = node.nic.queues[which]
        self.config = node.nic.config[0]
        self.room = int(payload_bytes(node.nic))

    def _pointer(self, is_head):
        return int(pointer_place(self.node.nic, self.which, is_head))

    def _entry(self, number):
        return int(entry_place(self.node.nic, self.which, number))

    def _word(self, number, size):
        """What stands behind ``size`` bytes in the ``number``-th entry."""
        return (2 * size + int(sense_of(self.node.nic, number))).to_bytes(WORD, "little")

    def _cpu_reads(self, offset, now):
        raw, now = load(self.node, int(self.config.queue_address) + offset, WORD, now)
        return int.from_bytes(raw, "little"), now

    def _cpu_stores(self, offset, raw, now):
        return store(self.node, int(self.config.queue_address) + offset, raw, now)

    def _nic_reads(self, offset, now):
        node, place = self.node, int(self.config.queue_start) + offset
        home = place >> node.shift
        found = node.agent.copies[home]
        if found.state == INVALID or found.due != AT_NO_TIME:
            now = await_copies(node, home, home + 1, now)
        raw = node.agent.memory[place : place + WORD].tobytes()
        return int.from_bytes(raw, "little"), max(now, int(found.arrived))

    def _nic_stores(self, offset, raw, now):
        place = int(self.config.queue_start) + offset
        return agent_write(self.node, place, len(raw), raw, 0, now)

    def _tells_tail(self):
        return self.config.valid_bits == 0

    def _tail(self):
        return int(self.state.tail).to_bytes(WORD, "little")

    def _head(self):
        return int(self.state.head).to_bytes(WORD, "little")


class Sends(Queue):
    """The CPU writes entries, and the interface takes them."""

    def __init__(self, node):
        super().__init__(node, SEND)
        self.taken = bytearray()  # and not fetched

    def publish(self, address, count, now):
        """When the CPU has copied the bytes into the queue."""
        done = 0
        while done < count:
            while self.state.credit == 0:
                self.state.shadow, now = self._cpu_reads(self._pointer(1), now)
                self.state.head_checks += 1
                self.state.credit = credit_of(self.node.nic, SEND)
                if self.state.credit == 0:
                    now = self._take(len(self.taken) + 1, self._cpu_tells(now))
            size = min(self.room, count - done)
            now = self._write_entry(address + done, size, now)
            done += size
        return self._cpu_tells(now)

    def _cpu_tells(self, now):
        return self._cpu_stores(self._pointer(0), self._tail(), now) if self._tells_tail() else now

    def _write_entry(self, address, size, now):
        raw, now = load(self.node, address, size, now)
        offset, word = self._entry(self.state.tail), self._word(int(self.state.tail), size)
        if size == self.room:
            now = self._cpu_stores(offset, raw + word, now)
        else:
            now = self._cpu_stores(offset, raw, now)
            now = self._cpu_stores(offset + self.room, word, now)
        self.state.tail += 1
        self.state.credit -= 1
        return now

    def fetch(self, count, place, now):
        """When the interface has the next bytes at ``place``."""
        now = self._take(count, now)
        self.node.agent.memory[place : place + count] = self.taken[:count]
        del self.taken[:count]
        return now

    def _take(self, count, now):
        """When the interface has taken so many bytes that nobody has fetched."""
        while len(self.taken) < count:
            if self._tells_tail() and self.state.seen_tail <= self.state.head:
                self.state.seen_tail, now = self._nic_reads(self._pointer(0), now)
            offset = self._entry(self.state.head)
            word, now = self._nic_reads(offset + self.room, now)
            start = int(self.config.queue_start) + offset
            self.taken += self.node.agent.memory[start : start + (word >> 1)].tobytes()
            if not self._tells_tail() and self.config.sense_reverse == 0:
                now = self._nic_stores(offset + self.room, bytes(WORD), now)
            self.state.head += 1
            now = self._nic_stores(self._pointer(1), self._head(), now)
        return now


class Receives(Queue):
    """The interface fills entries, and the CPU copies them out."""

    def __init__(self, node):
        super().__init__(node, RECEIVE)
        self.collected = 0  # of the message that arrives

    def deliver(self, place, address, count, now):
        """When the interface has put the bytes into the queue."""
        done = 0
        while done < count:
            while self.state.credit == 0:
                self.state.shadow, now = self._nic_reads(self._pointer(1), now)
                self.state.head_checks += 1
                self.state.credit = credit_of(self.node.nic, RECEIVE)
                if self.state.credit == 0:
                    now = self._copy(address, self.collected + 1, self._nic_tells(now))
            size = min(self.room, count - done)
            now = self._fill_entry(place + done, size, now)
            done += size
        return self._nic_tells(now)

    def _nic_tells(self, now):
        return self._nic_stores(self._pointer(0), self._tail(), now) if self._tells_tail() else now

    def _fill_entry(self, place, size, now):
        node = self.node
        entry = node.nic.scratch  # of which a short message leaves the rest as it was
        entry[:size] = node.agent.memory[place : place + size]
        entry[self.room :] = list(self._word(int(self.state.tail), size))
        to = int(self.config.queue_start) + self._entry(self.state.tail)
        now = agent_write(node, to, node.block, entry, 0, now)
        self.state.tail += 1
        self.state.credit -= 1
        return now

    def collect(self, address, count, now):
        """When the CPU has copied the oldest message to ``address``."""
        now = self._copy(address, count, now)
        self.collected = 0
        return now

    def _copy(self, address, count, now):
        while self.collected < count:
            if self._tells_tail() and self.state.seen_tail <= self.state.head:
                self.state.seen_tail, now = self._cpu_reads(self._pointer(0), now)
            offset = self._entry(self.state.head)
            word, now = self._cpu_reads(offset + self.room, now)
            start = int(self.config.queue_address) + offset
            now = copy(self.node, address + self.collected, start, word >> 1, now)
            self.collected += word >> 1
            if not self._tells_tail() and self.config.sense_reverse == 0:
                now = self._cpu_stores(offset + self.room, bytes(WORD), now)
            self.state.head += 1
            now = self._cpu_stores(self._pointer(1), self._head(), now)
        return now
