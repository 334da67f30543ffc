"""A miss has been served: what waited for the translation goes on."""

from __future__ import annotations

import numpy as np

from nicscope.drivers.simulate.ports.calls import (
    carry_out,
    drop_arrival,
    end_request,
    enter_page,
    fill_handle,
    give_way,
    keep_buffer,
    mend_page,
    needed_for,
    next_event,
    next_packet,
    reject_arrival,
    return_buffer,
    scan_pins,
    serve_page,
    settle_arrival,
    settle_buffer,
    thread_is_done,
    turn_away_arrival,
)
from nicscope.drivers.simulate.ports.choose import destination_of
from nicscope.drivers.simulate.ports.directory import is_away, note_read
from nicscope.drivers.simulate.ports.misses import (
    ARRIVAL,
    DEFER,
    FAIL,
    FILL,
    ask_for_table,
    wait_on,
)
from nicscope.drivers.simulate.ports.placing import is_too_often_unwanted
from nicscope.drivers.simulate.ports.promising import (
    is_promised,
    make_turn,
    promise,
    withdraw,
)
from nicscope.drivers.simulate.ports.reliable import may_send_to, set_deadline
from nicscope.drivers.simulate.ports.state import ABANDONED, KERNEL
from nicscope.drivers.simulate.ports.streams import stream_to
from nicscope.drivers.simulate.ports.translating import may_be_written, table_frame
from nicscope.drivers.simulate.ports.yielding import yield_entries
from nicscope.kernel.decorators import distant, routine, step
from nicscope.memory.paging.layout import DISK, GARBAGE_FRAME
from nicscope.memory.paging.swapper import could_take_frame
from nicscope.nic.handles import is_handle
from nicscope.nic.ports import (
    AWAITS_KERNEL,
    AWAITS_USE,
    FREE_TO_GO,
    NO_RIGHTS,
    NO_ROOM,
    NOBODY,
    PEER_DEAD,
    UNUSABLE,
)
from nicscope.nic.translate.codes import REFUSED, REJECTED


@distant
def end_miss(machine, n, now):
    """The processor of ``n`` has waited: effect of the miss's present stage."""
    ports = machine.ports
    serving = ports.nodes[n]
    if serving.stage == FILL:
        page = serving.miss_page
        if ports.rules[0].service == KERNEL and mend_page(
            machine, n, serving.miss_space, page, serving.miss_receive
        ):
            _go_on(machine, n, now)
            return
        if is_away(machine, n, serving.miss_space, page):
            ask_for_table(machine, n, now)  # it has gone while the NIC was reading
            return
        note_read(machine, n, serving.miss_space, page)
        arrives = serving.miss_for == ARRIVAL
        found = _serve(machine, n, serving.miss_space, serving.miss_page, arrives)
        if found == REJECTED and ports.rules[0].garbage == 1:
            serving.garbage += 1
            _go_on(machine, n, now)
            return
        if found < 0:
            _wait_for_room(machine, n, found, now)
            return
        unpinned = carry_out(machine, n, serving.miss_receive)
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


@routine
def _serve(machine, n, space, page, arrives):
    """What ``serve_page`` comes to; for a packet that arrives, what only waits makes room."""
    found = serve_page(machine, n, space, page)
    if found == REFUSED and arrives and yield_entries(machine, n, space, page):
        return serve_page(machine, n, space, page)
    return found


@step
def _go_on(machine, n, now):
    serving = machine.ports.nodes[n]
    frame = table_frame(machine, n, serving.miss_space, serving.miss_page)
    who = serving.miss_for
    if frame == GARBAGE_FRAME and machine.ports.rules[0].garbage == 0:
        _fail(machine, n, now)  # the host had no frame for it
    elif (
        frame != GARBAGE_FRAME
        and serving.miss_receive == 1
        and not may_be_written(machine, n, frame)
    ):
        _fail(machine, n, now)  # a user library may have had it pinned to be read
    elif who == ARRIVAL:
        settle_arrival(machine, n, frame, now)
    elif serving.miss_ahead == 1:
        keep_buffer(machine, n, who, frame)
    else:
        enter_page(machine, n, who, serving.miss_page, frame)
        d = destination_of(machine, n, who)
        if stream_to(machine.ports, n, d).dead == 1:
            end_request(machine, n, who, PEER_DEAD)  # it died over the miss
        elif may_send_to(machine, n, d):
            next_packet(machine, n, who)


@step
def _wait_for_room(machine, n, found, now):
    """No way of the set can be had while transfers use them all; or the table is full for good."""
    ports = machine.ports
    serving = ports.nodes[n]
    who = serving.miss_for
    if who == ARRIVAL:
        give_way(machine, n, serving.miss_space, serving.miss_page)
        turn_away_arrival(machine, n, now)
    elif found == REFUSED:
        _put_off(machine, n, who, serving.miss_space, serving.miss_page, serving.miss_ahead, now)
    elif serving.miss_ahead == 1:
        return_buffer(machine, n, who, NO_ROOM)
    else:
        end_request(machine, n, who, NO_ROOM)


@routine
def _put_off(machine, n, p, space, page, ahead, now):
    """Port ``p`` waits until transfers use one entry less, or its next buffer does."""
    serving = machine.ports.nodes[n]
    if ahead == 1 and not withdraw(machine, n):
        serving.use_blocked += 1
        machine.ports.table[n, p].ahead_waits = AWAITS_USE
    elif ahead == 0 and not give_way(machine, n, space, page):
        # What is promised to a packet is in the way once: then it is this port's turn.
        waited = machine.ports.table[n, p].until != 0
        if not (waited and withdraw(machine, n)):
            _await_use(machine, n, p, now)
    serving.attention = 1


@step
def _await_use(machine, n, p, now):
    """Have port ``p`` wait for the end of a transfer, but not longer than for a dead peer.

    A message that arrives may hold what it waits for, and come from a node that waits likewise.
    """
    ports = machine.ports
    port = ports.table[n, p]
    if port.until == 0:
        port.until = now + (ports.rules[0].most_retries + 1) * ports.rules[0].time_out
    if port.until <= now:
        end_request(machine, n, p, NO_ROOM)
        return
    set_deadline(machine, n, port.until)
    ports.nodes[n].use_blocked += 1
    port.blocked = AWAITS_USE


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
        if machine.ports.nodes[n].scan_at <= now:
            scan_pins(machine, n, now)
        return
    ports = machine.ports
    serving = ports.nodes[n]
    event = ports.events[n, serving.handled % ports.events.shape[1]]
    if event.port == ABANDONED:
        next_event(machine, n, now)  # nobody is left to use the page
        return
    if is_handle(event.space):
        sender = np.int64(event.sender)
        if event.port < 0:
            make_turn(machine, n, sender)
        fill_handle(machine, n, event.space, event.page)
        if event.port >= 0:
            _free(machine, n, event.port)
        elif promise(machine, n, sender, event.space, event.page, now):
            set_deadline(machine, n, serving.promised_until)
        next_event(machine, n, now)
        return
    if is_away(machine, n, event.space, event.page):
        _ask_again(machine, n, event)
        next_event(machine, n, now)
        return
    sender = np.int64(event.sender if event.port < 0 else NOBODY)
    if sender != NOBODY:
        make_turn(machine, n, sender)
    needed = needed_for(machine, n, event.space, event.page, event.receive)
    found = needed
    if needed >= 0 and not mend_page(machine, n, event.space, event.page, event.receive):
        found = _serve(machine, n, event.space, event.page, event.port < 0)
        carry_out(machine, n, event.receive)
        # The line was pinned already, but this page of it was not there to be pinned.
        mend_page(machine, n, event.space, event.page, event.receive)
    if event.port >= 0:
        _tell(machine, n, event, needed, found, now)
    elif found == REFUSED:
        if not is_promised(machine, n) and is_too_often_unwanted(
            machine, n, sender, np.int64(event.sequence)
        ):
            _give_up_on(machine, n, event)
    elif needed == DISK or (
        found >= 0 and table_frame(machine, n, event.space, event.page) == GARBAGE_FRAME
    ):
        _give_up_on(machine, n, event)
    elif found >= 0 and promise(machine, n, sender, event.space, event.page, now):
        set_deadline(machine, n, ports.nodes[n].promised_until)
    next_event(machine, n, now)
    scan_pins(machine, n, now)


@step
def _ask_again(machine, n, event):
    """The table that was to be brought is not there: no frame was free, or it had to go again."""
    p = event.port
    hopeless = not could_take_frame(machine.ports.memory, n)
    if p < 0:
        if hopeless:
            _give_up_on(machine, n, event)
        return
    _free(machine, n, p)
    if machine.ports.table[n, p].open == 1 and hopeless:
        if event.ahead == 1:
            return_buffer(machine, n, p, NO_ROOM)
        else:
            end_request(machine, n, p, NO_ROOM)


@step
def _give_up_on(machine, n, event):
    """The host has no frame for what a packet misses.

    That need not become better while its sender waits: the packet is rejected when it comes again.
    """
    stream_to(machine.ports, n, event.sender).hopeless = event.sequence


@step
def _tell(machine, n, event, needed, found, now):
    """The port of ``event`` goes on: translated, with an error, or to ask once more."""
    ports = machine.ports
    p = event.port
    port = ports.table[n, p]
    if event.ahead == 1 and ports.rules[0].defers == 1:
        # The port did not wait for it; it may wait for another.
        _settle_ahead(machine, n, event, needed, found)
        return
    _free(machine, n, p)
    if port.open == 0:
        return
    if needed < 0:
        if event.ahead == 1:
            return_buffer(machine, n, p, NO_RIGHTS)
        else:
            end_request(machine, n, p, NO_RIGHTS)
    elif found >= 0:
        frame = table_frame(machine, n, event.space, event.page)
        if frame == GARBAGE_FRAME and event.ahead == 1:
            return_buffer(machine, n, p, NO_ROOM)
        elif frame == GARBAGE_FRAME:
            end_request(machine, n, p, NO_ROOM)
        elif event.ahead == 1:
            keep_buffer(machine, n, p, frame)
        else:
            # The descriptor is looked at again, and finds what has just been filled in.
            ports.nodes[n].repeated += 1
            enter_page(machine, n, p, event.page, frame)
    elif found == REFUSED:
        page = np.int64(event.page)
        _put_off(machine, n, p, np.int64(event.space), page, np.int64(event.ahead), now)


@step
def _settle_ahead(machine, n, event, needed, found):
    """The buffer that kept its turn while its page was brought is ready, or cannot be."""
    if machine.ports.table[n, event.port].open == 0 or (needed >= 0 and found < 0):
        return  # or no entry is to be had: it comes back when its turn comes
    frame = np.int64(GARBAGE_FRAME)
    if needed >= 0:
        frame = table_frame(machine, n, event.space, event.page)
    usable = frame if frame != GARBAGE_FRAME else np.int64(UNUSABLE)
    settle_buffer(machine, n, event.port, event.page, usable)
    machine.ports.nodes[n].attention = 1


@step
def _free(machine, n, p):
    port = machine.ports.table[n, p]
    if port.blocked == AWAITS_KERNEL:
        port.blocked = FREE_TO_GO
    machine.ports.nodes[n].attention = 1
