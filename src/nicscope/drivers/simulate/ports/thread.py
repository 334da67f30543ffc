"""The kernel thread of a node: it brings pages that are out, and serves misses from their queue.

miNI IV.A: the interrupt handler appends an event and wakes the thread.  U-Net/MM 5.1.1: a page-in
cannot begin in the handler, so a thread does it.
"""

from __future__ import annotations

import numpy as np

from nicscope.clock import NEVER
from nicscope.drivers.simulate.machine import CPU, KINDS
from nicscope.drivers.simulate.ports.calls import steal_cpu
from nicscope.drivers.simulate.ports.timers import fire_by
from nicscope.drivers.simulate.traced.misses import log_miss
from nicscope.drivers.simulate.two_processors import all_compute
from nicscope.host.calls import provide_for
from nicscope.kernel.decorators import distant, step
from nicscope.memory.paging.layout import COPY, DISK, GARBAGE_FRAME, READY, ZERO
from nicscope.memory.pinning import PINNED
from nicscope.nic.handles import is_handle
from nicscope.nic.ports.calls import defer_buffer, needed_for
from nicscope.nic.ports.layout import AWAITS_KERNEL, AWAITS_QUEUE, FREE_TO_GO, NOBODY, THREAD
from nicscope.nic.ports.lookup import key_of
from nicscope.nic.translate.nodes import translation_of

# What the thread does.
ASLEEP = 0
WAKING = 1
READING = 2  # a page comes from the disk
WORKING = 3
RUNNABLE = 4  # awake; it has the CPU next
# Assumed: a kernel thread that is woken while programs compute on every CPU runs when one of them
# leaves its own, at the latest at the next tick of the clock (Linux 2.2 ticks 100 times a second).
TICK = 10_000_000_000  # ps


@distant
def raise_event(machine, n, who, space, page, receive, ahead, when):
    """Append a miss to the queue at ``when``, unless it is there; ``who`` waits if it is a port."""
    ports = machine.ports
    serving = ports.nodes[n]
    if ports.rules[0].service == THREAD:
        serving.interrupts += 1
        steal_cpu(machine, n, ports.costs[n].interrupt, when)
        when += ports.costs[n].interrupt
    if who < 0 and _is_queued(machine, n, space, page):
        return
    if serving.queued - serving.handled >= _places_for(machine, who):
        serving.overflows += 1
        if who >= 0:  # it asks again when the thread has served one; so does the packet's sender
            serving.queue_blocked += 1
            ports.table[n, who].blocked = AWAITS_QUEUE
        return
    event = ports.events[n, serving.queued % ports.events.shape[1]]
    event.port = who if who >= 0 else NOBODY
    if who < 0:
        endpoint = machine.endpoints[n]
        slot = (endpoint.accepted - 1) % endpoint.receive_ring
        event.sender = machine.ports.arrival_heads[n, slot].peer
        event.sequence = ports.arrival_heads[n, slot].sequence
    event.space = space
    event.page = page
    event.receive = receive
    event.ahead = ahead
    event.raised = when
    serving.queued += 1
    if who >= 0 and ahead == 1 and ports.rules[0].defers == 1:
        defer_buffer(machine, n, who)
    elif who >= 0:
        ports.table[n, who].blocked = AWAITS_KERNEL
    if serving.thread == ASLEEP:
        serving.thread = WAKING
        _until(machine, n, when + ports.costs[n].thread_delay)


@step
def _places_for(machine, who):
    """Events that ``who`` may find in the queue; its last place is for packets, if it has two.

    Ports ask at once whenever the thread has served one, and packets only now and then.
    """
    places = machine.ports.events.shape[1]
    return places - 1 if who >= 0 and places > 1 else places


@step
def _is_queued(machine, n, space, page):
    serving = machine.ports.nodes[n]
    for i in range(serving.handled, serving.queued):
        event = machine.ports.events[n, i % machine.ports.events.shape[1]]
        if event.space == space and event.page == page:
            return True
    return False


@step
def _unblock(machine, n):
    """Ports that found the queue full ask again."""
    ports = machine.ports
    for p in range(ports.table.shape[1]):
        if ports.table[n, p].blocked == AWAITS_QUEUE:
            ports.table[n, p].blocked = FREE_TO_GO
    ports.nodes[n].queue_blocked = 0
    ports.nodes[n].attention = 1


@step
def _until(machine, n, when):
    machine.ports.nodes[n].thread_at = when
    fire_by(machine, n, when)


@distant
def thread_is_done(machine, n, now):
    """Let the thread go on at ``now``; whether the event at the head of its queue is to be filled.

    The caller fills it and calls ``next_event``.
    """
    ports = machine.ports
    serving = ports.nodes[n]
    if serving.thread_at > now:
        return False
    serving.thread_at = NEVER
    event = ports.events[n, serving.handled % ports.events.shape[1]]
    if serving.thread == WORKING:
        return True
    if serving.thread == READING:
        provide_for(machine, n, event.space, event.page, event.receive)
        serving.page_ins += 1
    if serving.thread == WAKING and all_compute(machine.nodes[n]):
        serving.thread = RUNNABLE
        ends = min(machine.agenda.times[n * KINDS + CPU], machine.nodes[n].other_until)
        _until(machine, n, min(ends, (now // TICK + 1) * TICK))
        return False
    if serving.thread != READING:
        event.begun = now
    needed = np.int64(READY)
    if not is_handle(event.space):
        needed = needed_for(machine, n, event.space, event.page, event.receive)
    # Once only: if the host has no frame for it, that does not become better.
    if needed == DISK and serving.thread != READING:
        serving.thread = READING
        _until(machine, n, now + ports.costs[n].page_in)
        return False
    serving.thread = WORKING
    work = ports.costs[n].thread_work
    if ports.rules[0].service == THREAD and not is_handle(event.space):
        work += _pinning_time(machine, n, event)
    steal_cpu(machine, n, work, now)
    _until(machine, n, now + work)
    return False


@step
def _pinning_time(machine, n, event):
    """What the missed line's pages take that will be pinned with it (miNI, IV.B.2)."""
    ports = machine.ports
    nic, host, _ = translation_of(ports.translations, n)
    key = key_of(machine, n, event.space, event.page)
    if key < 0 or needed_for(machine, n, event.space, event.page, event.receive) < 0:
        return np.int64(0)
    # A line that was filled without its page is mended: with it comes what else is there by now.
    mends = _lacks(machine, n, key) and host.pinning.state[key] & PINNED != 0
    first = event.page & ~(nic.config[0].line - 1)
    time = np.int64(0)
    for page in range(first, first + nic.config[0].line):
        number = key - event.page + page
        if _lacks(machine, n, number) and (mends or host.pinning.state[number] & PINNED == 0):
            needed = needed_for(machine, n, event.space, page, event.receive)
            time += _time_to_pin(ports.costs[n], needed)
    return time


@step
def _lacks(machine, n, key):
    """Whether the host's table has no frame for the page of ``key``."""
    return machine.ports.frames[n, key] == GARBAGE_FRAME


@step
def _time_to_pin(costs, needed):
    """What it takes to pin a page of which so much is ``needed``; 0 if it will not be pinned."""
    if needed == READY:
        return costs.pin_send
    if needed == ZERO:
        return costs.zero
    return costs.pin_shared if needed == COPY else np.int64(0)


@distant
def next_event(machine, n, now):
    """The event at the head of the queue is served; the thread turns to the next, or sleeps."""
    serving = machine.ports.nodes[n]
    events = machine.ports.events[n]
    events[serving.handled % events.size].ended = now
    if machine.traced.misses.size > 0:
        _log_miss(machine, events[serving.handled % events.size])
    serving.handled += 1
    serving.thread_misses += 1
    if serving.queue_blocked > 0:
        _unblock(machine, n)
    if serving.handled == serving.queued:
        serving.thread = ASLEEP
        return
    serving.thread = RUNNABLE
    event = machine.ports.events[n, serving.handled % machine.ports.events.shape[1]]
    _until(machine, n, max(now, np.int64(event.raised)))


@step
def _log_miss(machine, event):
    """Keep how long the event waited for the thread, and how long that was at it."""
    log_miss(machine, event.begun - event.raised, event.ended - event.begun)
