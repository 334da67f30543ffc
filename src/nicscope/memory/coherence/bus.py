"""The snooping split-transaction bus: requests, grants, what devices move, agents on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.decorators import copy_bytes, routine, step
from nicscope.kernel.records import records
from nicscope.memory.coherence import layout
from nicscope.memory.coherence.layout import clean, discard

if TYPE_CHECKING:
    from numpy.typing import NDArray


FAR = np.int64(1 << 62)  # as the watcher's: at no time

# Masters, in the order of ties: devices before the CPU.
AGENT = 0  # the interface's reads of what it watches
REPORT = 1  # the interface's writes of completions
ENGINE_OUT = 2  # the engine that moves out of the host's memory
ENGINE_IN = 3  # the engine that moves into it
OTHER = 4  # a device that is no interface
CACHE = 5  # write-backs that the cache owes a device which was told to retry
PROCESSOR = 6
MASTERS = 8  # a power of two

# How a grant went.
MADE = 0  # the transaction was made; its bytes have crossed at its end
VOID = 1  # there was nothing left to do, and no transaction
AGAIN = 2  # another had to come first: the master asks again

ASK = np.dtype(
    [
        ("at", "i8"),  # ps: since when it asks, or FAR if it does not
        ("kind", "i8"),  # of transaction; of the CPU settled when granted
        ("address", "i8"),  # of the host's memory
        ("count", "i8"),  # bytes, within one block
        ("place", "i8"),  # of the device's memory
        ("rate", "i8"),  # MB/s at which the device takes or gives them; 0: the bus's
        ("answer", "i8"),  # to a block that the cache has modified
    ],
    align=True,
)


def new_bus_requests(nodes: int) -> NDArray[Any]:
    """ASK of every master of ``nodes`` buses, none of which requests."""
    asks = records((nodes, MASTERS), ASK)
    asks["at"] = FAR
    return asks


@step
def first_requester(asks):
    """The master to be granted the bus next; its request is at ``FAR`` if there is none."""
    first = np.int64(0)
    for master in range(1, MASTERS):
        if asks[master].at < asks[first].at:
            first = np.int64(master)
    return first


MB = 1_000_000  # a byte takes that many ps at 1 MB/s
POINTS = 8  # of the background master's cycle
ORDER = 5  # has no divisor in common with them: all are met


@step
def edge(host, when):
    """The first edge of the bus clock at or after ``when`` (ps)."""
    cycle = host.config[0].bus_cycle
    return (when + cycle - 1) // cycle * cycle


@step
def ordered_at(host, asks):
    """When a transaction that asks for the bus at ``asks`` would be ordered (ps)."""
    config = host.config[0]
    cycle = config.bus_cycle
    start = max(edge(host, asks + config.arbitration * cycle), host.registers[0].address_free)
    return start + (config.address_phase + config.snoop) * cycle


@step
def order(host, master, kind, ordered):
    """Count a transaction that is ordered at ``ordered`` (ps); the address part was its."""
    config = host.config[0]
    registers = host.registers[0]
    registers.address_free = ordered - config.snoop * config.bus_cycle
    host.counts[master, kind] += 1


@step
def data_phase(host, ready, count, mbytes_s):
    """When the last of ``count`` bytes that are ready at ``ready`` has crossed (ps).

    A device that is slower than the bus (``mbytes_s``, 0 for one that is not) holds the data part
    for as long as it takes.
    """
    config = host.config[0]
    registers = host.registers[0]
    beats = (count + config.bus_bytes - 1) // config.bus_bytes
    taken = beats * config.bus_cycle
    if mbytes_s > 0:
        taken = max(taken, edge(host, (count * MB + mbytes_s - 1) // mbytes_s))
    start = max(edge(host, ready), registers.data_free)
    registers.data_free = start + taken
    return start + taken


@step
def burst_left(host, number):
    """How long (ps) the background master's burst still lasts when an engine's operation begins.

    Bursts are held to their end.  When operations begin has nothing to do with them: the
    ``number``-th finds their cycle at one of eight points, in a fixed order.  Eight operations meet
    them all; of operations in pairs the first and the second ones do, within sixteen.
    """
    config = host.config[0]
    if config.background_percent == 0:
        return np.int64(0)
    beats = (config.background_bytes + config.bus_bytes - 1) // config.bus_bytes
    burst = beats * config.bus_cycle
    cycle = burst * 100 // config.background_percent
    point = (number + number // POINTS) * ORDER % POINTS
    return max(np.int64(0), burst - cycle * (2 * point + 1) // (2 * POINTS))


# What happens when a device wants a block that the host's cache has modified.
UNSNOOPED = 0  # nothing: the device deals with memory alone
RETRIED = 1  # the device tries again until the cache has written the block back
INTERVENED = 2  # the cache supplies, or merges, the bytes on the bus


@step
def is_dirty(host, block):
    """Whether the host's cache has modified the block."""
    line = layout.find_l2(host, block)
    return line != layout.EMPTY and host.l2[line].state == layout.MODIFIED


@step
def read_for_device(host, address, count, target, place, ordered, mbytes_s, answer):
    """When the bytes of a device's read that is ordered at ``ordered`` have crossed (ps).

    States and bytes change now; of a block that was RETRIED, nothing is modified any more.
    """
    config = host.config[0]
    block = address >> config.l2_shift
    ready = ordered + config.memory_latency
    if answer != UNSNOOPED:
        line = layout.find_l2(host, block)
        if line != layout.EMPTY:
            if host.l2[line].state == layout.MODIFIED:
                host.counts[layout.DEVICE, layout.INTERVENTION] += 1
                ready = ordered + config.cache_supply
            clean(host, line)
    copy_bytes(target, place, host.memory, address, count)
    return data_phase(host, ready, count, mbytes_s)


@step
def write_from_device(host, address, count, source, place, ordered, mbytes_s, answer):
    """When the bytes of a device's write that is ordered at ``ordered`` are in memory (ps)."""
    config = host.config[0]
    block = address >> config.l2_shift
    whole = count == np.int64(1) << config.l2_shift
    ready = ordered
    if answer != UNSNOOPED:
        line = layout.find_l2(host, block)
        if line != layout.EMPTY:
            if host.l2[line].state == layout.MODIFIED and not whole:
                host.counts[layout.DEVICE, layout.INTERVENTION] += 1
                ready = data_phase(
                    host, ordered + config.cache_supply, np.int64(1) << config.l2_shift, 0
                )
                clean(host, line)
            discard(host, line)
    copy_bytes(host.memory, address, source, place, count)
    return data_phase(host, ready, count, mbytes_s)


AT_NO_TIME = 1 << 62
NEVER = -1
READS_AT_ONCE = 8  # the most reads that an agent may have under way

COPY = np.dtype(
    [
        ("state", "i8"),  # INVALID, SHARED or MODIFIED
        ("block", "i8"),  # of the host, or EMPTY
        ("due", "i8"),  # ps: when its pending read asks for the bus; FAR if none is pending
        ("arrived", "i8"),  # ps: when its bytes had all come
        ("reaction", "i8"),  # ps from losing it to asking for the bus; NEVER: until it is wanted
    ],
    align=True,
)

WATCH = np.dtype(
    [
        ("head", "i8"),  # pending reads taken and added so far
        ("tail", "i8"),
        ("window", "i8"),  # reads that may be under way, 1 to WINDOW
        ("reads", "i8"),
        ("mbytes_s", "i8"),  # the rate at which the agent takes data; bounded by the bus
        ("writing_mbytes_s", "i8"),  # that at which it writes its copies to memory
    ],
    align=True,
)


class Watcher(NamedTuple):
    """One agent; of several hosts each array has one more axis in front."""

    watch: NDArray[Any]  # WATCH, shape (1,)
    home: NDArray[np.int32]  # shape (blocks of the host,): the agent's block, or EMPTY
    copies: NDArray[Any]  # COPY, shape (blocks of the agent,)
    pending: NDArray[np.int32]  # shape (blocks of the agent,): a ring of its blocks
    ends: NDArray[np.int64]  # shape (WINDOW,): when the last reads ended, ps
    memory: NDArray[np.uint8]  # shape (blocks of the agent * block,)


def new_watchers(
    nodes: int,
    host_blocks: int,
    blocks: int,
    block_bytes: int,
    window: int,
    mbytes_s: int,
) -> Watcher:
    """``nodes`` agents with memories of zeros that watch nothing."""
    watch = records((nodes, 1), WATCH)
    watch["window"] = window
    watch["mbytes_s"] = mbytes_s
    watch["writing_mbytes_s"] = mbytes_s
    copies = records((nodes, blocks), COPY)
    copies["block"] = layout.EMPTY
    copies["due"] = AT_NO_TIME
    return Watcher(
        watch=watch,
        home=np.full((nodes, host_blocks), layout.EMPTY, np.int32),
        copies=copies,
        pending=np.zeros((nodes, blocks), np.int32),
        ends=np.zeros((nodes, READS_AT_ONCE), np.int64),
        memory=np.zeros((nodes, blocks * block_bytes), np.uint8),
    )


@step
def request_read(watcher, place, when):
    """Queue a read of the agent's block ``place``, to request the bus at ``when``."""
    copy = watcher.copies[place]
    if copy.due != AT_NO_TIME:
        return
    watch = watcher.watch[0]
    copy.due = when
    watcher.pending[watch.tail % watcher.pending.size] = place
    watch.tail += 1


@step
def lose(watcher, place, when):
    """Invalidate the agent's copy at ``place``: the host takes the block, at ``when``."""
    watcher.copies[place].state = layout.INVALID
    if watcher.copies[place].reaction != NEVER:
        request_read(watcher, place, when + watcher.copies[place].reaction)


@step
def watch_block(watcher, block, place, reaction):
    """From now on the agent keeps ``block`` of the host at its block ``place``; it is INVALID."""
    copy = watcher.copies[place]
    copy.block = block
    copy.state = layout.INVALID
    copy.arrived = 0
    copy.reaction = reaction
    watcher.home[block] = place


@step
def unwatch_block(watcher, place):
    """The agent keeps nothing in its block ``place`` any more; no read of it may be pending."""
    copy = watcher.copies[place]
    watcher.home[copy.block] = layout.EMPTY
    copy.block = layout.EMPTY
    copy.state = layout.INVALID


@routine
def grant_agent(host, agent, now):
    """The agent's oldest pending read; VOID if it has the block, or keeps none there, by now."""
    watch = agent.watch[0]
    place = np.int64(agent.pending[watch.head % agent.pending.size])
    copy = agent.copies[place]
    watch.head += 1
    copy.due = FAR
    if copy.block == layout.EMPTY or copy.state != layout.INVALID:
        if watch.head < watch.tail:  # what stood behind it could not ask before
            behind = agent.copies[np.int64(agent.pending[watch.head % agent.pending.size])]
            behind.due = max(behind.due, now)
        return VOID, now
    width = np.int64(1) << host.config[0].l2_shift
    order(host, layout.DEVICE, layout.READ, now)
    memory, start = agent.memory, copy.block * width
    rate = watch.mbytes_s
    end = read_for_device(host, start, width, memory, place * width, now, rate, INTERVENED)
    copy.state = layout.SHARED
    copy.arrived = end
    agent.ends[watch.reads % READS_AT_ONCE] = end
    watch.reads += 1
    return MADE, end


@step
def agent_requests_at(agent):
    """When the agent's oldest pending read was requested, or ``FAR``."""
    watch = agent.watch[0]
    if watch.head == watch.tail:
        return FAR
    place = np.int64(agent.pending[watch.head % agent.pending.size])
    return max(agent.copies[place].due, agent.ends[(watch.reads - watch.window) % READS_AT_ONCE])


@routine
def grant_device(host, agent, memory, asks, master, now):
    """A read, write, write-back or upgrade of a device whose bytes are in ``memory``."""
    ask = asks[master]
    block = ask.address >> host.config[0].l2_shift
    home = np.int64(agent.home[block])
    if ask.kind == layout.UPGRADE:
        return _grant_upgrade(host, agent, ask, home, now)
    if ask.kind == layout.WRITE_BACK:
        return _grant_write_back(host, agent, home, now)
    if home != layout.EMPTY and agent.copies[home].state == layout.MODIFIED:
        # The interface's own copy reaches memory before a device uses the block.
        return AGAIN, _write_back_copy(host, agent, home, now)
    if ask.answer == RETRIED and _must_retry(host, asks, ask, block):
        return AGAIN, _nack_for_retry(host, asks, block, now)
    order(host, layout.DEVICE, ask.kind, now)
    address, count, place, rate = ask.address, ask.count, ask.place, ask.rate
    if ask.kind == layout.READ:
        return MADE, read_for_device(host, address, count, memory, place, now, rate, ask.answer)
    end = write_from_device(host, address, count, memory, place, now, rate, ask.answer)
    if home != layout.EMPTY:
        agent.copies[home].state = layout.INVALID
        if agent.copies[home].reaction != NEVER:
            request_read(agent, home, end)
    return MADE, end


@step
def _must_retry(host, asks, ask, block):
    """Whether the cache has modified the block, of which more is wanted than to replace it."""
    if ask.kind != layout.READ and ask.count == np.int64(1) << host.config[0].l2_shift:
        return False
    if is_dirty(host, block):
        return True
    # ``place`` and ``count`` of the cache's own request: what it wrote back last, and until when.
    return asks[CACHE].place == block and ask.at < asks[CACHE].count


@step
def _nack_for_retry(host, asks, block, now):
    """When the device asks again; meanwhile the cache writes the block back, if it is free to."""
    config = host.config[0]
    order(host, layout.DEVICE, layout.RETRY, now)
    if asks[CACHE].at == FAR and is_dirty(host, block):
        asks[CACHE].at = now
        asks[CACHE].address = block << config.l2_shift
    return now + config.retry_delay * config.bus_cycle


@routine
def grant_cache(host, asks, now):
    """The write-back of a block that a device was told to retry."""
    ask = asks[CACHE]
    block = ask.address >> host.config[0].l2_shift
    if not is_dirty(host, block):
        return VOID, now
    order(host, layout.CPU, layout.WRITE_BACK, now)
    end = data_phase(host, now, np.int64(1) << host.config[0].l2_shift, 0)
    clean(host, layout.find_l2(host, block))
    ask.place = block
    ask.count = end
    return MADE, end


@routine
def _write_back_copy(host, agent, home, now):
    """When the agent's whole block is in memory (ps); it stays, SHARED.

    The interface's engine writes it, also where another device's use of the block makes it do so.
    """
    width = np.int64(1) << host.config[0].l2_shift
    start = agent.copies[home].block * width
    rate = agent.watch[0].writing_mbytes_s
    order(host, layout.DEVICE, layout.WRITE_BACK, now)
    end = write_from_device(host, start, width, agent.memory, home * width, now, rate, INTERVENED)
    agent.copies[home].state = layout.SHARED
    return end


@step
def _grant_write_back(host, agent, home, now):
    """VOID if the host has taken the block since: what it held is lost, or was read anew."""
    if home == layout.EMPTY or agent.copies[home].state in (layout.INVALID, layout.SHARED):
        return VOID, now
    return MADE, _write_back_copy(host, agent, home, now)


@step
def _grant_upgrade(host, agent, ask, home, now):
    """The block becomes the agent's alone; VOID if it would lack bytes that it does not write."""
    copy = agent.copies[home]
    width = np.int64(1) << host.config[0].l2_shift
    if copy.state == layout.INVALID and ask.count < width:
        return VOID, now
    order(host, layout.DEVICE, layout.UPGRADE, now)
    line = layout.find_l2(host, ask.address >> host.config[0].l2_shift)
    if line != layout.EMPTY:
        discard(host, line)
    copy.state = layout.MODIFIED
    copy.arrived = now
    return MADE, now


@step
def host_of(hosts, n):
    """Host ``n``: the same arrays, seen without their first axis."""
    return layout.Host(
        hosts.config[n],
        hosts.registers[n],
        hosts.counts[n],
        hosts.l1[n],
        hosts.l1_data[n],
        hosts.l2[n],
        hosts.l2_data[n],
        hosts.memory[n],
        hosts.buffers[n],
        hosts.buffer_data[n],
    )


@step
def watcher_of(watchers, n):
    """Agent ``n``, likewise."""
    return Watcher(
        watchers.watch[n],
        watchers.home[n],
        watchers.copies[n],
        watchers.pending[n],
        watchers.ends[n],
        watchers.memory[n],
    )


@step
def has_caches(hosts):
    """Whether there are caches before this memory."""
    return hosts.config.size > 0


@step
def settle(hosts, h, start, count):
    """What the caches of host ``h`` have modified of the range reaches memory, before it is read.

    The lines stay, SHARED.
    """
    if has_caches(hosts):
        _for_each_block(hosts, h, start, count, np.int64(1))


@step
def forget(hosts, h, start, count):
    """The range leaves the caches of host ``h``, before memory is overwritten."""
    if has_caches(hosts):
        _for_each_block(hosts, h, start, count, np.int64(0))


@routine
def _for_each_block(hosts, h, start, count, keep):
    """All blocks of the range; one that reaches beyond it loses nothing there."""
    host = host_of(hosts, h)
    shift = host.config[0].l2_shift
    for block in range(start >> shift, (start + count - 1 >> shift) + 1):
        line = layout.find_l2(host, block)
        if line != layout.EMPTY and host.l2[line].state == layout.MODIFIED:
            clean(host, line)
        if line != layout.EMPTY and keep == 0:
            discard(host, line)
