"""A miss has been served: what waited for the translation goes on."""

from __future__ import annotations

from nicscope.drivers.simulate.ports.calls import (
    carry_out,
    drop_arrival,
    end_request,
    enter_page,
    give_way,
    keep_buffer,
    mend_page,
    needed_for,
    next_event,
    next_packet,
    reject_arrival,
    return_buffer,
    serve_page,
    settle_arrival,
    settle_buffer,
    thread_is_done,
)
from nicscope.drivers.simulate.ports.choose import destination_of
from nicscope.drivers.simulate.ports.misses import ARRIVAL, DEFER, FAIL, FILL, wait_on
from nicscope.drivers.simulate.ports.reliable import may_send_to
from nicscope.drivers.simulate.ports.state import ABANDONED, QUEUE
from nicscope.drivers.simulate.ports.translating import table_frame, upgrade
from nicscope.drivers.translation.codes import REFUSED
from nicscope.jit import distant, step
from nicscope.nic.ports import AWAITS_KERNEL, AWAITS_USE, FREE_TO_GO, NO_RIGHTS, NO_ROOM, UNUSABLE


@distant
def end_miss(machine, n, now):
    """The processor of ``n`` has waited: effect of the miss's present stage."""
    ports = machine.ports
    serving = ports.nodes[n]
    if serving.stage == FILL:
        found = serve_page(machine, n, serving.miss_space, serving.miss_page)
        if found < 0:
            _wait_for_room(machine, n, found, now)
            return
        unpinned = carry_out(machine, n, serving.miss_receive)
        upgrade(machine, n, serving.miss_space, serving.miss_page, serving.miss_receive)
        if unpinned > 0 and ports.costs[n].unpin > 0:
            wait_on(machine, n, now, unpinned * ports.costs[n].unpin)
            return
        _go_on(machine, n, now)
    elif serving.stage == DEFER:
        if serving.miss_for == ARRIVAL:
            drop_arrival(machine, n, now)
    elif serving.stage == FAIL:
        _fail(machine, n, now)
    else:
        _go_on(machine, n, now)


@step
def _go_on(machine, n, now):
    serving = machine.ports.nodes[n]
    frame = table_frame(machine, n, serving.miss_space, serving.miss_page)
    who = serving.miss_for
    if who == ARRIVAL:
        settle_arrival(machine, n, frame, now)
    elif serving.miss_ahead == 1:
        keep_buffer(machine, n, who, frame)
    else:
        enter_page(machine, n, who, serving.miss_page, frame)
        if may_send_to(machine, n, destination_of(machine, n, who)):
            next_packet(machine, n, who)


@step
def _wait_for_room(machine, n, found, now):
    """No way of the set can be had while transfers use them all; or the table is full for good."""
    ports = machine.ports
    serving = ports.nodes[n]
    who = serving.miss_for
    if who == ARRIVAL:
        drop_arrival(machine, n, now)
    elif found != REFUSED and serving.miss_ahead == 1:
        return_buffer(machine, n, who, NO_ROOM)
    elif found == REFUSED and serving.miss_ahead == 1:
        ports.table[n, who].ahead_blocked = AWAITS_USE
        serving.use_blocked += 1
    elif found == REFUSED:
        if not give_way(machine, n, serving.miss_page):
            ports.table[n, who].blocked = AWAITS_USE
            serving.use_blocked += 1
        serving.attention = 1
    else:
        end_request(machine, n, who, NO_ROOM)


@step
def _fail(machine, n, now):
    serving = machine.ports.nodes[n]
    who = serving.miss_for
    if who == ARRIVAL:
        reject_arrival(machine, n, now)
    elif serving.miss_ahead == 1:
        return_buffer(machine, n, who, NO_RIGHTS)
    else:
        end_request(machine, n, who, NO_RIGHTS)


@distant
def go_on_with_thread(machine, n, now):
    """Effect of the kernel thread's timer at ``n``."""
    if not thread_is_done(machine, n, now):
        return
    ports = machine.ports
    serving = ports.nodes[n]
    event = ports.events[n, serving.handled % QUEUE]
    if event.port == ABANDONED:
        next_event(machine, n, now)  # nobody is left to use the page
        return
    needed = needed_for(machine, n, event.space, event.page, event.receive)
    found = needed
    if needed >= 0 and not mend_page(machine, n, event.space, event.page, event.receive):
        found = serve_page(machine, n, event.space, event.page)
        carry_out(machine, n, event.receive)
        upgrade(machine, n, event.space, event.page, event.receive)
    if event.port >= 0:
        _tell(machine, n, event, needed, found)
    next_event(machine, n, now)


@step
def _tell(machine, n, event, needed, found):
    """The port of ``event`` goes on: translated, with an error, or to ask once more."""
    ports = machine.ports
    p = event.port
    port = ports.table[n, p]
    if port.blocked == AWAITS_KERNEL:
        port.blocked = FREE_TO_GO
    ports.nodes[n].attention = 1
    if port.open == 0:
        return
    if needed < 0:
        if event.ahead == 1 and ports.rules[0].serves == 0:
            return_buffer(machine, n, p, NO_RIGHTS)
        elif event.ahead == 1:
            settle_buffer(machine, n, p, event.page, UNUSABLE)
        else:
            end_request(machine, n, p, NO_RIGHTS)
    elif found >= 0:
        frame = table_frame(machine, n, event.space, event.page)
        if event.ahead == 1 and ports.rules[0].serves == 0:
            keep_buffer(machine, n, p, frame)
        elif event.ahead == 1:
            settle_buffer(machine, n, p, event.page, frame)
        else:
            enter_page(machine, n, p, event.page, frame)
