"""The kernel of a node: its timer, its thread, interrupts, and the scan for pinned pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.clock import NEVER
from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.ports.calls import interrupt_cpu
from nicscope.drivers.simulate.records import KINDS, TIMER
from nicscope.drivers.simulate.traced.state import log_miss
from nicscope.host.calls import apply_pin_actions, fault_in_page
from nicscope.kernel.decorators import distant, step
from nicscope.memory.paging.layout import (
    COPY,
    DISK,
    GARBAGE_FRAME,
    PRESENT,
    READY,
    ZERO,
    HostMemory,
)
from nicscope.memory.pinning import PINNED
from nicscope.nic.handles import is_handle
from nicscope.nic.ports import layout
from nicscope.nic.ports.arrivals import TAKEN
from nicscope.nic.ports.calls import (
    complete_arrival,
    defer_buffer,
    needed_for,
    resume_answer,
)
from nicscope.nic.ports.lookup import key_of
from nicscope.nic.ports.receive import place_message
from nicscope.nic.translate.handle import unpin_surplus
from nicscope.nic.translate.state import translation_of

if TYPE_CHECKING:
    from nicscope.drivers.simulate.machine import Machine


@step
def schedule_timer(machine, n):
    """Schedules the timer for when the firmware needs it, which may have become earlier."""
    when = machine.ports.nodes[n].deadline
    slot = n * KINDS + TIMER
    if when < machine.agenda.times[slot]:
        put(machine.agenda, slot, when)


@step
def schedule_timer_by(machine, n, when):
    """Schedules the timer for ``when`` at the latest."""
    serving = machine.ports.nodes[n]
    serving.deadline = min(serving.deadline, when)
    schedule_timer(machine, n)


# What the thread does.
ASLEEP = 0
RUNNABLE = 1  # it has a processor when its delay is over, or the next miss has been raised
READING = 2  # a page comes from the disk
WORKING = 3


@distant
def queue_miss(machine, n, when):
    """Queues the miss of the firmware at ``when``, unless it is queued; a port waits for it."""
    ports = machine.ports
    serving = ports.nodes[n]
    who, ahead = np.int64(serving.miss_for), serving.miss_ahead
    if ports.rules[0].service == layout.THREAD:
        serving.interrupts += 1
        interrupt_cpu(machine, n, ports.costs[n].interrupt, when)
        when += ports.costs[n].interrupt
    if who < 0 and _is_queued(machine, n, serving.miss_space, serving.miss_page):
        return
    if serving.queued - serving.handled >= _places_for(machine, who):
        serving.overflows += 1
        if who >= 0:  # it asks again when the thread has served one; so does the packet's sender
            serving.queue_blocked += 1
            ports.table[n, who].blocked = layout.AWAITS_QUEUE
            if _is_put_aside(ports, who):
                space, page = np.int64(serving.miss_space), np.int64(serving.miss_page)
                resume_answer(machine, n, space, page, np.int64(layout.MISSED), np.int64(0))
        return
    event = ports.events[n, serving.queued % ports.events.shape[1]]
    event.port = who if who >= 0 else layout.NOBODY
    if who < 0:
        endpoint = machine.endpoints[n]
        slot = (endpoint.accepted - 1) % endpoint.receive_ring
        event.sender = machine.ports.arrival_heads[n, slot].peer
        event.sequence = ports.arrival_heads[n, slot].sequence
    event.space = serving.miss_space
    event.page = serving.miss_page
    event.receive = serving.miss_receive
    event.ahead = ahead
    event.raised = when
    serving.queued += 1
    if who >= 0 and ahead == 1 and ports.rules[0].defers == 1:
        defer_buffer(machine, n, who)
    elif who >= 0 and not _is_put_aside(ports, who):
        ports.table[n, who].blocked = layout.AWAITS_KERNEL
    if serving.thread == ASLEEP:
        serving.thread = RUNNABLE
        _timer_delay(machine, n, when + ports.costs[n].thread_delay)


@step
def _is_put_aside(ports, who):
    """Whether what missed is an answer, which waits while the firmware's own port goes on."""
    return who == layout.OWN_PORT and ports.rules[0].service == layout.THREAD


@step
def _places_for(machine, who):
    """How many misses ``who`` may queue; the last place is kept for packets, if there are two.

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
def _unblock_ports(machine, n):
    """Has ports that found the queue full retry."""
    ports = machine.ports
    for p in range(ports.table.shape[1]):
        if ports.table[n, p].blocked == layout.AWAITS_QUEUE:
            ports.table[n, p].blocked = layout.FREE_TO_GO
    ports.nodes[n].queue_blocked = 0
    ports.nodes[n].attention = 1


@step
def _timer_delay(machine, n, when):
    machine.ports.nodes[n].thread_at = when
    schedule_timer_by(machine, n, when)


@distant
def end_thread_step(machine, n, now):
    """Ends the kernel thread's present step; returns whether its queue's head is to be filled.

    The caller fills it and calls ``serve_next_miss``.
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
        fault_in_page(machine, n, event.space, event.page, event.receive)
        serving.page_ins += 1
    # Also where programs compute on every processor: Linux 2.2 (miNI, Table II) has a thread that
    # is woken preempt a program that has less of its time slice left (kernel/sched.c,
    # ``reschedule_idle``), and one that sleeps between misses has more left than one that computes.
    if serving.thread != READING:
        event.begun = now
    needed = np.int64(READY)
    if not is_handle(event.space):
        needed = needed_for(machine, n, event.space, event.page, event.receive)
    # Once only: if the host has no frame for it, that does not become better.
    if needed == DISK and serving.thread != READING:
        serving.thread = READING
        _timer_delay(machine, n, now + ports.costs[n].page_in)
        return False
    serving.thread = WORKING
    work = ports.costs[n].thread_work
    if ports.rules[0].service == layout.THREAD and not is_handle(event.space):
        work += _pinning_time(machine, n, event)
    interrupt_cpu(machine, n, work, now)
    _timer_delay(machine, n, now + work)
    return False


@step
def _pinning_time(machine, n, event):
    """Time to pin the other pages of the missed line along with it (miNI, IV.B.2)."""
    ports = machine.ports
    nic, host, _ = translation_of(ports.translations, n)
    key = key_of(machine, n, event.space, event.page)
    if key < 0 or needed_for(machine, n, event.space, event.page, event.receive) < 0:
        return np.int64(0)
    # A line that was filled without its page is mended: with it comes what else is there by now.
    mends = _lacks_frame(machine, n, key) and host.pinning.state[key] & PINNED != 0
    first = event.page & ~(nic.config[0].line - 1)
    time = np.int64(0)
    for page in range(first, first + nic.config[0].line):
        number = key - event.page + page
        if _lacks_frame(machine, n, number) and (mends or host.pinning.state[number] & PINNED == 0):
            needed = needed_for(machine, n, event.space, page, event.receive)
            time += _time_to_pin(ports.costs[n], needed)
    return time


@step
def _lacks_frame(machine, n, key):
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
def serve_next_miss(machine, n, now):
    """Dequeues the miss that has been served; the thread takes the next one, or sleeps."""
    serving = machine.ports.nodes[n]
    events = machine.ports.events[n]
    events[serving.handled % events.size].ended = now
    if machine.traced.misses.size > 0:
        event = events[serving.handled % events.size]
        log_miss(machine, event.begun - event.raised, event.ended - event.begun)
    serving.handled += 1
    serving.thread_misses += 1
    if serving.queue_blocked > 0:
        _unblock_ports(machine, n)
    if serving.handled == serving.queued:
        serving.thread = ASLEEP
        return
    serving.thread = RUNNABLE
    event = machine.ports.events[n, serving.handled % machine.ports.events.shape[1]]
    _timer_delay(machine, n, max(now, np.int64(event.raised)))


@distant
def scan_pins(machine, n, now):
    """Unpins pages above the high water mark if a scan is due; schedules the next scan."""
    serving = machine.ports.nodes[n]
    if serving.scan_at <= now:
        serving.scan_at = NEVER
        _unpin(machine, n, now)
    schedule_scan(machine, n, now)


@step
def schedule_scan(machine, n, now):
    """Schedules a scan if there is something to unpin, which a request may have kept until now."""
    serving = machine.ports.nodes[n]
    if serving.scan_at == NEVER and _has_surplus(machine, n):
        period = machine.ports.rules[0].scan_period
        serving.scan_at = (now // period + 1) * period
        schedule_timer_by(machine, n, serving.scan_at)


@step
def _unpin(machine, n, now):
    """As much as there is room to write down at a time, until all is done."""
    _, host, book = translation_of(machine.ports.translations, n)
    unpinned = np.int64(0)
    while _has_surplus(machine, n):
        before = book.counts[0].unpins
        unpin_surplus(host, book)
        apply_pin_actions(machine, n, 0)
        if book.counts[0].unpins == before:
            break
        unpinned += book.counts[0].unpins - before
    if unpinned > 0:
        interrupt_cpu(machine, n, unpinned * machine.ports.costs[n].unpin, now)


@step
def _has_surplus(machine, n):
    _, host, book = translation_of(machine.ports.translations, n)
    mark = book.orders[0].high_water
    return mark >= 0 and book.counts[0].pinned_pages > mark and host.lines.counts[1] > 0


def is_busy(machine: Machine, node: int) -> bool:
    """Whether the rings of the node hold any packets."""
    endpoint = machine.endpoints[node]
    return bool(
        endpoint["completed"] != endpoint["accepted"] or endpoint["finished"] != endpoint["written"]
    )


def is_moving(
    machine: Machine, memory: HostMemory, node: int, space: int, first: int, last: int
) -> bool:
    """Whether a packet in its rings comes from or goes to one of these pages, or waits for one."""
    ports, endpoint = machine.ports, machine.endpoints[node]
    entries = memory.entries[node, space, first : last + 1]
    frames = entries["frame"][entries["state"] == PRESENT]
    slots = _places(endpoint["completed"], endpoint["accepted"], endpoint["receive_ring"])
    heads = ports.arrival_heads[node, slots]
    if np.isin(heads["frame"], frames).any():
        return True
    if ((heads["space"] == space) & (heads["page"] >= first) & (heads["page"] <= last)).any():
        return True
    for slot, runs in zip(slots.tolist(), heads["runs"].tolist(), strict=True):
        if runs > 0 and np.isin(ports.work.runs[node, slot, :runs]["frame"], frames).any():
            return True
    places = _places(endpoint["finished"], endpoint["written"], endpoint["send_ring"])
    leaving = ports.send_heads[node, places]
    return bool(np.isin(leaving["frame"][leaving["kind"] & layout.VOIDED == 0], frames).any())


def _places(begin: int, end: int, size: int) -> Any:
    return np.arange(int(begin), int(end)) % int(size)


@distant
def begin_handler(machine, n, now):
    """Raises an interrupt for a packet in the kernel's memory, unless the handler runs."""
    serving = machine.ports.nodes[n]
    if serving.handler_at == NEVER:
        serving.interrupts += 1
        _take_next(machine, n, now, np.int64(machine.ports.costs[n].interrupt_entry))


@step
def _take_next(machine, n, now, entry):
    serving = machine.ports.nodes[n]
    slot = serving.taken_in % machine.endpoints[n].receive_ring
    duration = entry + _handler_time(machine, n, slot)
    serving.kernel_time += duration
    interrupt_cpu(machine, n, duration, now)
    serving.handler_at = now + duration
    timer = n * KINDS + TIMER
    if serving.handler_at < machine.agenda.times[timer]:
        put(machine.agenda, timer, serving.handler_at)


@distant
def end_handler(machine, n, now):
    """Ends the handler's work on one packet, if that is over, and takes the next."""
    serving = machine.ports.nodes[n]
    if serving.handler_at > now:
        return
    endpoint = machine.endpoints[n]
    serving.handler_at = NEVER
    complete_arrival(machine, n, serving.taken_in % endpoint.receive_ring, now)
    endpoint.dropped += 1
    serving.taken_in += 1
    if serving.taken_in < endpoint.completed:
        _take_next(machine, n, now, np.int64(0))


@step
def _handler_time(machine, n, slot):
    """How long the handler takes for the packet in ``slot``, its entry aside."""
    costs = machine.ports.costs[n]
    head = machine.ports.arrival_heads[n, slot]
    if head.status != TAKEN or head.kind != layout.SEND:
        return np.int64(0)
    payload = np.int64(machine.arrivals[n, slot].payload)
    length = payload if payload > 0 else np.int64(head.total)
    duration = costs.copy_start + costs.copy_per_byte * length
    if payload > 0:
        duration += costs.lookup_buffer
    return duration + (costs.receive_message if head.last == 1 else np.int64(0))


@distant
def copy_from_kernel(machine, d, slot):
    """Copy the packet in ``slot`` from the kernel's buffer to where its message goes."""
    ports = machine.ports
    head = ports.arrival_heads[d, slot]
    packet = machine.arrivals[d, slot]
    begin = packet.address
    place_message(machine, d, packet, head, slot)
    if packet.broken == 0:
        host = machine.store.host
        for i in range(packet.payload):
            host[d, packet.address + i] = host[d, begin + i]
        ports.nodes[d].copied += packet.payload
