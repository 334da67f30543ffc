"""What a device and the interface's agent do on the bus: reads, writes, copies that are kept."""

from nicscope.memory.coherence.bus import (
    AT_NO_TIME,
    INTERVENED,
    NEVER,
    READS_AT_ONCE,
    RETRIED,
    UNSNOOPED,
    is_dirty,
    ordered_at,
    request_read,
)
from nicscope.memory.coherence.layout import (
    CPU,
    DEVICE,
    EMPTY,
    INTERVENTION,
    INVALID,
    MODIFIED,
    READ,
    RETRY,
    SHARED,
    UPGRADE,
    WRITE,
    WRITE_BACK,
    clean,
    discard,
    find_l2,
)
from oracle.bytecopy import copy_bytes


def written_back(node, block, asks):
    """The device is told to retry while the cache writes the block back; when it asks again."""
    config = node.host.config[0]
    told = node.address_phase(DEVICE, RETRY, asks)
    ordered = node.address_phase(CPU, WRITE_BACK, told)
    end = node.data_phase(ordered, node.block)
    clean(node.host, find_l2(node.host, block))
    pause = int(config.retry_delay * config.bus_cycle)
    asks = told + pause
    while asks < end:
        asks = node.address_phase(DEVICE, RETRY, asks) + pause
    return asks


def device_read(node, address, count, place, asks, mbytes_s, answer):
    """When ``count`` bytes, within a block, are at ``place`` of the interface's memory."""
    config = node.host.config[0]
    block = address >> node.shift
    if answer == RETRIED and is_dirty(node.host, block):
        asks = written_back(node, block, asks)
    ordered = node.address_phase(DEVICE, READ, asks)
    ready = ordered + int(config.memory_latency)
    line = find_l2(node.host, block)
    if answer != UNSNOOPED and line != EMPTY:
        if node.host.l2[line].state == MODIFIED:
            node.host.counts[DEVICE, INTERVENTION] += 1
            ready = ordered + int(config.cache_supply)
        clean(node.host, line)
    copy_bytes(node.agent.memory, place, node.host.memory, address, count)
    return node.data_phase(ready, count, mbytes_s)


def device_write(node, address, count, place, asks, mbytes_s, answer, kind):
    """When ``count`` bytes at ``place``, within a block, are in the host's memory.

    Copies in the host's caches go; the other bytes of one that was modified reach memory first.
    """
    block = address >> node.shift
    is_part = count != node.block
    if answer == RETRIED and is_part and is_dirty(node.host, block):
        asks = written_back(node, block, asks)
    ready = ordered = node.address_phase(DEVICE, kind, asks)
    line = find_l2(node.host, block)
    if answer != UNSNOOPED and line != EMPTY:
        if node.host.l2[line].state == MODIFIED and is_part:
            node.host.counts[DEVICE, INTERVENTION] += 1
            supplied = ordered + int(node.host.config[0].cache_supply)
            ready = node.data_phase(supplied, node.block)
            clean(node.host, line)
        discard(node.host, line)
    copy_bytes(node.host.memory, address, node.agent.memory, place, count)
    return node.data_phase(ready, count, mbytes_s)


# --- the agent's reads, in the order in which it lost the blocks -----------------------------


def first_read(node):
    """The agent's block whose read is the oldest that is pending, and when it asks for the bus."""
    watch = node.agent.watch[0]
    if watch.head == watch.tail:
        return EMPTY, AT_NO_TIME
    place = int(node.agent.pending[watch.head % node.agent.pending.size])
    before = node.agent.ends[(watch.reads - watch.window) % READS_AT_ONCE]
    return place, max(int(node.agent.copies[place].due), int(before))


def next_order(node):
    """When that read is ordered."""
    _, asks = first_read(node)
    return AT_NO_TIME if asks == AT_NO_TIME else int(ordered_at(node.host, asks))


def catch_up(node, now):
    """Do the pending reads that the bus has put in order by ``now``."""
    while next_order(node) <= now:
        _do_first(node)


def give_way(node, now):
    """Do the pending reads that have asked for the bus by ``now``: first come, first served."""
    while first_read(node)[1] <= now:
        _do_first(node)


def _do_first(node):
    place, asks = first_read(node)
    watch = node.agent.watch[0]
    copy = node.agent.copies[place]
    watch.head += 1
    copy.due = AT_NO_TIME
    if copy.block == EMPTY or copy.state != INVALID:
        behind, _ = first_read(node)
        if behind != EMPTY:  # what stood behind it could not ask before its turn
            turn = int(ordered_at(node.host, asks))
            node.agent.copies[behind].due = max(int(node.agent.copies[behind].due), turn)
        return
    start, rate = copy.block * node.block, watch.mbytes_s
    end = device_read(node, start, node.block, place * node.block, asks, rate, INTERVENED)
    copy.state = SHARED
    copy.arrived = end
    node.agent.ends[watch.reads % READS_AT_ONCE] = end
    watch.reads += 1


def await_copies(node, first, last, now):
    """When the agent's blocks ``first`` up to ``last`` have their bytes."""
    for place in range(first, last):
        if node.agent.copies[place].state == INVALID:
            request_read(node.agent, place, now)
    for place in range(first, last):
        while node.agent.copies[place].due != AT_NO_TIME:
            _do_first(node)
    return max(now, *(int(node.agent.copies[place].arrived) for place in range(first, last)))


# --- what the agent does to its own copies --------------------------------------------------


def agent_write(node, place, count, source, start, asks):
    """When the agent has written bytes within one of its blocks, which is then MODIFIED."""
    home = place >> node.shift
    copy = node.agent.copies[home]
    if copy.state != MODIFIED:
        if count < node.block:
            asks = await_copies(node, home, home + 1, asks)
        give_way(node, asks)
        asks = node.address_phase(DEVICE, UPGRADE, asks)
        line = find_l2(node.host, copy.block)
        if line != EMPTY:
            discard(node.host, line)
        copy.state = MODIFIED
        copy.arrived = asks
    copy_bytes(node.agent.memory, place, source, start, count)
    return asks


def agent_write_back(node, home, asks):
    """When the agent's whole block is in the host's memory; it stays, SHARED."""
    give_way(node, asks)
    copy = node.agent.copies[home]
    start, rate = copy.block * node.block, node.nic.config[0].dma_mbytes_s
    place = home * node.block
    end = device_write(node, start, node.block, place, asks, rate, INTERVENED, WRITE_BACK)
    copy.state = SHARED
    return end


# --- the engine ------------------------------------------------------------------------------


class Window:
    """When the engine may ask for its next block: so many may be under way."""

    def __init__(self, node):
        self._most = int(node.nic.config[0].dma_window)
        self._ends = []

    def after(self, now):
        return now if len(self._ends) < self._most else max(now, self._ends[-self._most])

    def note(self, end):
        self._ends.append(end)


def transfer(node, kind, answer, address, count, place, now):
    """When the engine has moved the bytes, block by block, and told of it."""
    config = node.nic.config[0]
    end = now = now + int(config.dma_init)
    window, done = Window(node), 0
    while done < count:
        at, size = address + done, node.part(address + done, count - done)
        asks = window.after(now)
        home = int(node.agent.home[at >> node.shift])
        if home != EMPTY and node.agent.copies[home].state == MODIFIED:
            asks = agent_write_back(node, home, asks)
        give_way(node, asks)
        more = asks, config.dma_mbytes_s, answer
        if kind == READ:
            end = device_read(node, at, size, place + done, *more)
        else:
            end = device_write(node, at, size, place + done, *more, WRITE)
            if home != EMPTY:
                node.agent.copies[home].state = INVALID
                if node.agent.copies[home].reaction != NEVER:
                    request_read(node.agent, home, end)
        window.note(end)
        done += size
    return end + int(config.dma_interrupt)
