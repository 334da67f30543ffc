"""Translation misses: who fetches the translation, what waits for it, and how that resumes.

The processor itself waits for entries that it reads from the host's table and for a kernel that
answers at once; a kernel thread serves the rest, and the port, or the packet's sender, comes again.
"""

import numpy as np

from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.flow import begin
from nicscope.drivers.simulate.ports.calls import begin_fetch as fetch_entries
from nicscope.drivers.simulate.ports.calls import (
    end_thread_step,
    fetch_descriptor,
    interrupt_cpu,
    queue_miss,
    scan_pins,
    serve_next_miss,
)
from nicscope.drivers.simulate.ports.calls import serve_miss as serve_further
from nicscope.drivers.simulate.ports.state import AWAIT_BUS
from nicscope.drivers.simulate.ports.thread import schedule_timer, schedule_timer_by
from nicscope.drivers.simulate.processor import occupy_cpu
from nicscope.drivers.simulate.records import IN_MISS, KINDS, PCI, PCI_IDLE, PCI_TABLE, PROCESSOR
from nicscope.drivers.simulate.traced.state import log_miss
from nicscope.host import pages
from nicscope.host.calls import apply_pin_actions, repin_page, serve_page
from nicscope.kernel.decorators import distant, routine, step
from nicscope.memory.paging.frames import could_take_frame
from nicscope.memory.paging.layout import COPY, DISK, GARBAGE_FRAME, ZERO
from nicscope.nic.delivery import MISSING
from nicscope.nic.handles import is_handle
from nicscope.nic.ports import calls, layout
from nicscope.nic.ports.arrivals import exceeds_drop_limit
from nicscope.nic.ports.lookup import is_entry_reserved, reserve_entry, yield_reservation
from nicscope.nic.ports.resume import wait_for_entry
from nicscope.nic.ports.streams import stream_to
from nicscope.nic.ports.transmit import release_idle_entries
from nicscope.nic.translate.book import REFUSED, REJECTED, UNET_MM

# What the processor does when it has waited.
FILL = 1  # the scheme's service takes effect
GO_ON = 2  # and what it unpinned has been paid for
DEFER = 3  # the page is not there: the kernel thread will bring it
FAIL = 4
REST = 6  # nothing: what read entries of regions has gone on


@distant
def serve_miss(machine, n, now):
    """Serves the miss that ended the firmware's action: the processor waits, or a port does."""
    ports = machine.ports
    serving = ports.nodes[n]
    outcome = serving.outcome
    serving.outcome = layout.NOTHING_LEFT
    if outcome == layout.DESCRIPTOR_MISS:
        fetch_descriptor(machine, n, now)
        return
    if outcome == layout.REGION_MISS:
        fetch_entries(machine, n, now)
        return
    if outcome == layout.HANDLE_MISS:
        queue_miss(machine, n, now)
        return
    service = ports.rules[0].service
    if service == layout.NO_ONE:
        _wait(machine, n, now, FAIL, 0)
    elif service == layout.FETCHES:
        if pages.is_table_swapped_out(machine, n, serving.miss_space, serving.miss_page):
            ask_for_table(machine, n, now)
        else:
            fetch_entries(machine, n, now)
    elif service == layout.KERNEL:
        _ask_kernel(machine, n, now, _charged(machine, n))
    else:
        queue_miss(machine, n, now)
        _wait(machine, n, now, DEFER, 0)


@step
def _charged(machine, n):
    """What of a miss has been charged already, as part of the hit it was looked up for.

    Table 1 of U-Net/MM times a whole miss.  The other papers' misses are charged on top of the
    check that finds them.
    """
    ports = machine.ports
    costs, serving = ports.costs[n], ports.nodes[n]
    if ports.rules[0].scheme != UNET_MM:
        return np.int64(0)
    if serving.miss_ahead == 1:
        return costs.lookup_free
    return costs.lookup_receive if serving.miss_receive == 1 else costs.lookup_send


@distant
def begin_fetch(machine, n, now):
    """Read entries of the host's table, as soon as the bus is free; the processor waits.

    The bus is taken for the DMA's part of the miss (UTLB, Table 2).  Entries of regions that the
    same action has missed are read one after the other, and a page's after them.
    """
    node = machine.nodes[n]
    serving = machine.ports.nodes[n]
    costs = machine.ports.costs[n]
    if node.pci != PCI_IDLE:
        serving.stage = AWAIT_BUS
        serving.missing = 1
        node.task = MISSING
        node.task_since = now
        return
    is_page = serving.miss_for != layout.ABANDONED
    reads = serving.region_reads + np.int64(is_page)
    serving.region_reads = 0
    since = node.task_since if node.task == MISSING else now
    node.processor_busy += now - since
    node.pci = PCI_TABLE
    begin(machine.pci_flows[n], now, reads * costs.table_dma, 0, 1)
    put(machine.agenda, n * KINDS + PCI, now + reads * costs.table_dma)
    _wait(machine, n, now, FILL if is_page else REST, reads * costs.fetch)
    node.task_since = since


@step
def ask_for_table(machine, n, now):
    """Interrupts the host for a second-level table that is on the disk (UTLB 3.3)."""
    duration = machine.ports.costs[n].interrupt
    _interrupt(machine, n, duration, now)
    queue_miss(machine, n, now + duration)
    _wait(machine, n, now, DEFER, duration)


@step
def _ask_kernel(machine, n, now, spent):
    """The kernel answers, in the NIC's interrupt or in a trap, or says that the page is to come."""
    ports = machine.ports
    serving = ports.nodes[n]
    costs = ports.costs[n]
    receive = serving.miss_receive
    needed = calls.needed_for(machine, n, serving.miss_space, serving.miss_page, receive)
    asking = max(np.int64(0), costs.handshake + costs.interrupt - spent)
    if needed == DISK and (ports.rules[0].fresh == 0 or serving.miss_ahead == 0):
        _interrupt(machine, n, costs.interrupt, now)
        queue_miss(machine, n, now + asking)
        _wait(machine, n, now, DEFER, asking)
        return
    if needed < 0:
        _interrupt(machine, n, costs.interrupt, now)
        _wait(machine, n, now, FAIL, asking)
        return
    work = costs.pin_receive if receive == 1 else costs.pin_send
    if needed == COPY:
        work = costs.pin_shared
    elif needed in (ZERO, DISK):
        work = costs.zero
    _interrupt(machine, n, costs.interrupt + work, now)
    asking = costs.handshake + costs.interrupt + work - spent
    _wait(machine, n, now, FILL, max(np.int64(0), asking))


@step
def _interrupt(machine, n, duration, now):
    """The NIC interrupts its host for a miss, whose handler takes ``duration`` of the CPU.

    Not where the kernel serves ports: it misses in a trap, on the CPU (U-Net/MM, 5.2.1).
    """
    if machine.ports.rules[0].serves == 1:
        machine.ports.nodes[n].interrupts += 1
        interrupt_cpu(machine, n, duration, now)


@step
def _wait(machine, n, now, stage, duration):
    node = machine.nodes[n]
    machine.ports.nodes[n].stage = stage
    machine.ports.nodes[n].miss_time += duration
    if machine.ports.rules[0].serves == 0:
        machine.ports.nodes[n].kernel_time += duration
        node.cpu_since = now
        occupy_cpu(machine, n, now, IN_MISS, duration)
        return
    machine.ports.nodes[n].missing = 1
    node.task = MISSING
    node.task_since = now
    node.processor_busy += duration
    put(machine.agenda, n * KINDS + PROCESSOR, now + duration)


@distant
def end_miss(machine, n, now):
    """Ends the present stage of the miss for which the processor of ``n`` has waited."""
    endpoint = machine.endpoints[n]
    awaited = np.int64(endpoint.awaited)
    _end_stage(machine, n, now)
    if machine.ports.nodes[n].outcome != layout.NOTHING_LEFT:
        serve_further(machine, n, now)  # of a packet that goes to another page too
    schedule_timer(machine, n)
    if awaited == 1 and endpoint.awaited == 0:
        machine.nodes[n].receive_begun = now  # the firmware has posted netRcv for the packet


@step
def _end_stage(machine, n, now):
    serving = machine.ports.nodes[n]
    if serving.stage == FILL:
        if machine.traced.misses.size > 0:
            log_miss(machine, np.int64(0), now - machine.nodes[n].task_since)
        _fill(machine, n, now)
    elif serving.stage == DEFER:
        if serving.miss_for == layout.ARRIVAL:
            calls.drop_arrival(machine, n)
    elif serving.stage == FAIL:
        calls.resume_failed(machine, n, layout.NO_RIGHTS)
    elif serving.stage == REST:
        serving.attention = 1
    else:
        _resume_firmware(machine, n)


@step
def _fill(machine, n, now):
    """Applies the scheme's service of the miss: fills in the translation."""
    ports = machine.ports
    serving = ports.nodes[n]
    space, page = serving.miss_space, serving.miss_page
    receive = np.int64(pages.TO_FILL) if serving.miss_ahead == 1 else np.int64(serving.miss_receive)
    if ports.rules[0].service == layout.KERNEL and repin_page(machine, n, space, page, receive):
        _resume_firmware(machine, n)
        return
    if pages.is_table_swapped_out(machine, n, space, page):
        ask_for_table(machine, n, now)  # it has gone while the NIC was reading
        return
    pages.note_read(machine, n, space, page)
    found = _serve(machine, n, space, page, serving.miss_for == layout.ARRIVAL)
    if found == REJECTED and ports.rules[0].garbage == 1:
        serving.garbage += 1
        _resume_firmware(machine, n)
        return
    if found < 0:
        calls.resume_without_entry(machine, n, found == REFUSED, now)
        return
    unpinned = apply_pin_actions(machine, n, receive)
    if unpinned < 0:
        unpinned = -1 - unpinned  # what has left is paid for, whether or not another page came
    if unpinned > 0 and ports.costs[n].unpin > 0:
        _wait(machine, n, now, GO_ON, unpinned * ports.costs[n].unpin)
        return
    _resume_firmware(machine, n)


@step
def _resume_firmware(machine, n):
    """Resumes the firmware with the frame from the host's table, or without one."""
    serving = machine.ports.nodes[n]
    frame = pages.table_frame(machine, n, serving.miss_space, serving.miss_page)
    why = np.int64(layout.NO_RIGHTS)
    if frame == GARBAGE_FRAME:
        usable = machine.ports.rules[0].garbage == 1
        if machine.ports.rules[0].service == layout.KERNEL:
            why = np.int64(layout.NO_ROOM)  # the host had no frame for it
    else:
        # A user library may have had it pinned to be read.
        usable = serving.miss_receive == 0 or pages.may_be_written(machine, n, frame)
    if usable:
        calls.resume_filled(machine, n, frame)
    else:
        calls.resume_failed(machine, n, why)


@routine
def _serve(machine, n, space, page, arrives):
    """Serves the page of a miss; an arriving packet may evict what only waits."""
    found = serve_page(machine, n, space, page)
    if found == REFUSED and arrives and release_idle_entries(machine, n, space, page):
        return serve_page(machine, n, space, page)
    return found


@distant
def run_kernel_thread(machine, n, now):
    """Runs the kernel thread of ``n``, whose timer has fired."""
    if not end_thread_step(machine, n, now):
        if machine.ports.nodes[n].scan_at <= now:
            scan_pins(machine, n, now)
        return
    ports = machine.ports
    event = ports.events[n, ports.nodes[n].handled % ports.events.shape[1]]
    if event.port == layout.ABANDONED:
        serve_next_miss(machine, n, now)  # nobody is left to use the page
    elif is_handle(event.space):
        _bring_handle(machine, n, event, now)
        serve_next_miss(machine, n, now)
    elif pages.is_table_swapped_out(machine, n, event.space, event.page):
        _retry_without_table(machine, n, event)
        serve_next_miss(machine, n, now)
    else:
        _bring_page(machine, n, event, now)
        serve_next_miss(machine, n, now)
        scan_pins(machine, n, now)


@step
def _bring_handle(machine, n, event, now):
    """Copies the record of a buffer or process to the NIC, for a port or a packet."""
    sender = np.int64(event.sender)
    if event.port < 0:
        yield_reservation(machine, n, sender)
    calls.fill_handle(machine, n, event.space, event.page)
    if event.port >= 0:
        _free(machine, n, event.port)
    elif reserve_entry(machine, n, sender, event.space, event.page, now):
        schedule_timer_by(machine, n, machine.ports.nodes[n].reserved_until)


@step
def _bring_page(machine, n, event, now):
    """Pins a page and fills its translation in, for a port or a packet."""
    sender = np.int64(event.sender if event.port < 0 else layout.NOBODY)
    if sender != layout.NOBODY:
        yield_reservation(machine, n, sender)
    needed = calls.needed_for(machine, n, event.space, event.page, event.receive)
    found = needed
    if needed >= 0 and not repin_page(machine, n, event.space, event.page, event.receive):
        found = _serve(machine, n, event.space, event.page, event.port < 0)
        apply_pin_actions(machine, n, event.receive)
        # The line was pinned already, but this page of it was not there to be pinned.
        repin_page(machine, n, event.space, event.page, event.receive)
    if event.port >= 0:
        _resume_port(machine, n, event, needed, found, now)
    elif found == REFUSED:
        if not is_entry_reserved(machine, n) and exceeds_drop_limit(
            machine, n, sender, np.int64(event.sequence)
        ):
            _fail_miss(machine, n, event)
    elif found >= 0 and pages.table_frame(machine, n, event.space, event.page) == GARBAGE_FRAME:
        _fail_miss(machine, n, event)
    elif found >= 0 and reserve_entry(machine, n, sender, event.space, event.page, now):
        schedule_timer_by(machine, n, machine.ports.nodes[n].reserved_until)


@step
def _retry_without_table(machine, n, event):
    """Has the lookup repeated or failed: the table was not brought in, or was evicted again."""
    p = event.port
    hopeless = not could_take_frame(machine.ports.memory, n)
    if p < 0:
        if hopeless:
            _fail_miss(machine, n, event)
        return
    _free(machine, n, p)
    if machine.ports.table[n, p].open == 1 and hopeless:
        if event.ahead == 1:
            calls.return_buffer(machine, n, p, layout.NO_ROOM)
        else:
            calls.end_descriptor(machine, n, p, layout.NO_ROOM)


@step
def _fail_miss(machine, n, event):
    """Fails the miss of a packet for which the host has no frame.

    That need not become better while its sender waits: the packet is rejected when it comes again.
    """
    stream_to(machine.ports, n, event.sender).hopeless = event.sequence


@step
def _resume_port(machine, n, event, needed, found, now):
    """Resumes the port of ``event``: translated, with an error, or to look up once more."""
    ports = machine.ports
    p = event.port
    port = ports.table[n, p]
    if event.ahead == 1 and ports.rules[0].defers == 1:
        # The port did not wait for it; it may wait for another.
        _end_prefetched_buffer(machine, n, event, needed, found)
        return
    _free(machine, n, p)
    if p == layout.OWN_PORT and ports.rules[0].service == layout.THREAD:
        _resume_answer(machine, n, event, needed, found)
        return
    if port.open == 0:
        return
    if needed < 0:
        if event.ahead == 1:
            calls.return_buffer(machine, n, p, layout.NO_RIGHTS)
        else:
            calls.end_descriptor(machine, n, p, layout.NO_RIGHTS)
    elif found >= 0:
        frame = pages.table_frame(machine, n, event.space, event.page)
        if frame == GARBAGE_FRAME and event.ahead == 1:
            calls.return_buffer(machine, n, p, layout.NO_ROOM)
        elif frame == GARBAGE_FRAME:
            calls.end_descriptor(machine, n, p, layout.NO_ROOM)
        elif event.ahead == 1:
            calls.accept_buffer(machine, n, p, frame)
        else:
            # The descriptor is looked at again, and finds what has just been filled in.
            ports.nodes[n].repeated += 1
            calls.set_send_page(machine, n, p, event.page, frame)
    elif found == REFUSED:
        page = np.int64(event.page)
        wait_for_entry(machine, n, p, np.int64(event.space), page, np.int64(event.ahead), now)


@step
def _resume_answer(machine, n, event, needed, found):
    """Resumes the answer that awaits the page of ``event``; without an entry it asks again."""
    frame = np.int64(GARBAGE_FRAME)
    status = np.int64(layout.NO_RIGHTS if needed < 0 else layout.MISSED)
    if needed >= 0 and found >= 0:
        frame = pages.table_frame(machine, n, event.space, event.page)
        status = np.int64(layout.NO_ROOM if frame == GARBAGE_FRAME else layout.DONE)
    calls.resume_answer(machine, n, np.int64(event.space), np.int64(event.page), status, frame)


@step
def _end_prefetched_buffer(machine, n, event, needed, found):
    """Completes the buffer whose page was fetched ahead of its turn: ready, or failed."""
    if machine.ports.table[n, event.port].open == 0 or (needed >= 0 and found < 0):
        return  # or no entry is to be had: it comes back when its turn comes
    frame = np.int64(layout.UNUSABLE)
    if needed >= 0:
        frame = pages.table_frame(machine, n, event.space, event.page)
    usable = frame if frame != GARBAGE_FRAME else np.int64(layout.FRAMELESS)
    calls.resolve_deferred_buffer(machine, n, event.port, event.page, usable)
    machine.ports.nodes[n].attention = 1


@step
def _free(machine, n, p):
    port = machine.ports.table[n, p]
    if port.blocked == layout.AWAITS_KERNEL:
        port.blocked = layout.FREE_TO_GO
    machine.ports.nodes[n].attention = 1
