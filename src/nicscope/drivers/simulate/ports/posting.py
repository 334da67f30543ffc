"""Requests of processes to their ports: posts, waits; traps where the NIC cannot serve."""

import numpy as np

from nicscope.drivers.simulate import records
from nicscope.drivers.simulate.ports import reports
from nicscope.drivers.simulate.ports.calls import end_miss, serve_miss
from nicscope.drivers.simulate.ports.costs import service_time
from nicscope.drivers.simulate.processor import end_operation, occupy_cpu, process_of_second
from nicscope.host.calls import (
    admit,
    admit_piece,
    could_admit_piece,
    could_admit_pieces,
    unpin_pages,
)
from nicscope.kernel.decorators import copy_bytes, distant, step
from nicscope.nic.delivery import place_in
from nicscope.nic.ports import layout
from nicscope.nic.ports.calls import keep_pages, report_sent, serve
from nicscope.nic.ports.transmit import NO_SOURCE, index_of, ready_at_port
from nicscope.nic.ports.window import poll_demand


@step
def can_begin_in_trap(machine, n, p):
    """Whether port ``p`` has work that can be done now, or none left."""
    endpoint = machine.endpoints[n]
    if ready_at_port(machine, n, p) != NO_SOURCE:
        return endpoint.written - endpoint.finished < endpoint.send_ring
    port = machine.ports.table[n, p]
    if port.open == 0:
        return True
    return port.blocked == layout.FREE_TO_GO and port.busy == 0 and port.taken == port.posted


@step
def begin_in_trap(machine, n, process, now):
    """Have the CPU enter the kernel, do the next thing for the port, or return to the process."""
    serving = machine.ports.nodes[n]
    source = ready_at_port(machine, n, process.peer)
    duration = np.int64(process.duration)
    process.duration = 0
    if duration > 0:
        source = np.int64(NO_SOURCE)
    elif source == NO_SOURCE:
        occupy_cpu(machine, n, now, records.POSTING, 0)
        return
    else:
        duration = service_time(machine, n, source)
    serving.trap_source = source
    serving.kernel_time += duration
    occupy_cpu(machine, n, now, records.IN_TRAP, duration)


@distant
def serve_in_trap(machine, n, now):
    """Ends the step that the CPU has carried out in a trap."""
    serving = machine.ports.nodes[n]
    if serving.trap_source == NO_SOURCE:
        return
    others = serving.source
    serving.source = serving.trap_source
    serving.in_trap = 1
    serve(machine, n)
    serving.in_trap = 0
    if serving.outcome != layout.NOTHING_LEFT:
        serve_miss(machine, n, now)
    else:
        _demand_after_last(machine, n)
    serving.source = others


@distant
def end_miss_in_trap(machine, n, now):
    """Continues the trap: the kernel has served a miss, or knows what will."""
    machine.ports.nodes[n].in_trap = 1
    end_miss(machine, n, now)
    machine.ports.nodes[n].in_trap = 0
    if machine.nodes[n].cpu != records.IN_MISS:
        _demand_after_last(machine, n)


@step
def _demand_after_last(machine, n):
    """Has the controller poll, once for all posts that the trap found, if it finds no more now.

    A trap that has to wait, for a page or for what makes room, does not keep back what it has put
    on the ring.
    """
    p = index_of(machine.ports.nodes[n].trap_source)
    if ready_at_port(machine, n, p) == NO_SOURCE:
        poll_demand(machine, n)


# How a process learns of a report.
POLL = 0
BLOCK = 1
SIGNAL = 2
MODE_BITS = 2
# In ``own`` of a POST: operation, flags, and whether the descriptor was written beforehand.
FLAG_BITS = 8
PREPARED = 1 << (reports.KIND_BITS + FLAG_BITS)
GATHER = PREPARED << 1  # its segments, as many as the payload says, are in ``ports.gathers``
MORE = GATHER << 1  # of a POST or PROVIDE: the trap of one that follows is for this one too


@distant
def can_begin_at_port(machine, n, p):
    """Whether what process ``p`` of node ``n`` waits for at its port can begin."""
    ports = machine.ports
    process = machine.processes[p]
    port = ports.table[n, process.peer]
    if cannot_complete(machine, n, p):
        return True
    if process.operation == records.POST:
        slot = place_in(port.posted, ports.rules[0].ring)
        if port.posted + port.refused - port.reaped == ports.rules[0].ring:
            return False
        if ports.pending[n, process.peer, slot].busy == 1 or _is_posting(machine, n, process.peer):
            return False
        _write_request(machine, n, p, slot)
        if port.open == 0:
            return True
        return could_admit_pieces(machine, n, process.peer, slot)
    if process.operation == records.TRAP:
        return process.duration > 0 or can_begin_in_trap(machine, n, process.peer)
    if process.operation == records.REGISTER:
        return _can_register(machine, n, p)
    if process.operation == records.PROVIDE and port.takes == layout.WORK_QUEUE:
        return reports.has_receive_room(machine, n, process.peer)
    if process.operation == records.PROVIDE:
        return _has_free_place(ports, n, process.peer)
    return True


@step
def cannot_complete(machine, n, p):
    """Whether process ``p``'s request must fail: its port has a new owner, or no report left."""
    operation = machine.processes[p].operation
    if reports.awaits_report(operation):
        return reports.will_get_no_report(machine, n, p)
    return operation in (records.POST, records.PROVIDE) and reports.has_new_owner(machine, n, p)


@step
def _can_register(machine, n, p):
    """Whether the pages of process ``p`` could be pinned now; registration is all or nothing."""
    ports = machine.ports
    process = machine.processes[p]
    if not _is_inside(machine, process.address, process.payload):
        return True
    bits = ports.rules[0].page_bits
    first = process.address >> bits
    pages = ((process.address + process.payload - 1) >> bits) - first + 1
    if pages > ports.rules[0].longest:
        return True
    return could_admit_piece(machine, n, process.peer, first, pages)


@step
def _is_posting(machine, n, p_port):
    """Whether the other processor posts at that port, for another task, and holds the slot."""
    p = process_of_second(machine.nodes[n])
    if p == records.NO_PROCESS:
        return False
    process = machine.processes[p]
    return process.operation == records.POST and process.peer == p_port


@step
def _write_request(machine, n, p, slot):
    """Write the descriptor that process ``p`` asks to be posted into its place of the queue."""
    ports = machine.ports
    process = machine.processes[p]
    if process.own & PREPARED:
        return
    p_port = process.peer
    request = ports.requests[n, p_port, slot]
    request.operation = process.own & ((1 << reports.KIND_BITS) - 1)
    request.options = (process.own >> reports.KIND_BITS) & ((1 << FLAG_BITS) - 1)
    request.name = process.tag
    request.offset = process.duration
    request.cookie = process.packet
    request.length = process.payload
    if ports.table[n, p_port].takes == layout.WORK_QUEUE:
        reports.write_words(machine, n, p, slot)
    if process.own & GATHER and ports.table[n, p_port].takes == layout.WORK_QUEUE:
        reports.write_gather(machine, n, p, slot)
        return
    if process.own & GATHER:
        request.segments = process.payload
        for i in range(process.payload):
            ports.segments[n, p_port, slot, i] = ports.gathers[p, i]
        return
    request.segments = 1
    segment = ports.segments[n, p_port, slot, 0]
    segment.address = process.address
    segment.length = process.payload
    if request.options & layout.INLINE:
        inline = ports.inline[n, p_port, slot]
        copy_bytes(inline, 0, machine.store.control[p], 0, layout.INLINE_BYTES)


@step
def _begin_post(machine, n, p):
    """Has the descriptor's pages pinned; returns the time (ps) that this takes."""
    ports = machine.ports
    port = ports.table[n, machine.processes[p].peer]
    which = machine.processes[p].peer
    slot = place_in(port.posted, ports.rules[0].ring)
    _write_request(machine, n, p, slot)  # another task of the process may have, for itself
    if port.open == 0:
        ports.pending[n, which, slot].status = layout.CLOSED
        ports.pending[n, which, slot].kept = 0
        return np.int64(0)
    duration = np.int64(admit(machine, n, which, slot))
    if port.takes == layout.WORK_QUEUE:
        reports.leave_check_to_nic(machine, n, which, slot)
    return duration


@distant
def begin_at_port(machine, n, p, now):
    """Has the CPU of ``n`` carry out what process ``p`` asks of its port."""
    ports = machine.ports
    process = machine.processes[p]
    costs = ports.costs[n]
    duration = costs.post
    if cannot_complete(machine, n, p):
        occupy_cpu(machine, n, now, records.POLLING, costs.poll)
    elif process.operation == records.POST:
        occupy_cpu(machine, n, now, records.POSTING, duration + _begin_post(machine, n, p))
    elif process.operation == records.PROVIDE:
        if ports.table[n, process.peer].takes == layout.WORK_QUEUE:
            duration += _have_pieces_pinned(machine, n, p)
        elif ports.table[n, process.peer].open == 1:
            duration += _have_pinned(machine, n, process.peer, process.address, 1)
        occupy_cpu(machine, n, now, records.POSTING, duration)
    elif process.operation == records.TRAP:
        begin_in_trap(machine, n, process, now)
    elif process.operation == records.REGISTER:
        duration = _have_pinned(machine, n, process.peer, process.address, process.payload)
        process.own = ports.nodes[n].admitted
        if process.own != layout.DONE:
            _give_up(machine, n, process.peer, process.address, process.payload)
        occupy_cpu(machine, n, now, records.POSTING, duration + costs.system_call)
    elif process.operation == records.UNPIN:
        duration = unpin_pages(machine, n, process.peer, process.address, process.payload)
        process.own = ports.nodes[n].admitted
        occupy_cpu(machine, n, now, records.POSTING, duration)
    elif process.operation == records.GIVE_UP:
        occupy_cpu(machine, n, now, records.POSTING, costs.system_call)
    else:
        occupy_cpu(machine, n, now, records.POLLING, _poll_time(process, costs))


@step
def _poll_time(process, costs):
    """How long a process takes to find a report that has arrived.

    Who slept, because there was nothing when it asked, has to be woken; who found the CPU busy has
    not.
    """
    mode = (process.own >> 1) & ((1 << MODE_BITS) - 1)
    duration = costs.poll
    if mode == BLOCK and process.duration == 0:
        duration += costs.wake
    elif mode == SIGNAL and process.duration == 0:
        duration += costs.signal
    return duration


@step
def _have_pinned(machine, n, p, address, length):
    """Have the library pin what lies there, and keep it; the time of it.

    ``SERVING.admitted`` says whether all of it is pinned; it is kept, as far as there is such
    memory, in any case.
    """
    ports = machine.ports
    if not _is_inside(machine, address, length):
        ports.nodes[n].admitted = layout.NO_RIGHTS
        return np.int64(0)
    bits = ports.rules[0].page_bits
    end = ((address + length - 1) >> bits) + 1
    space = ports.table[n, p].space
    spent = np.int64(0)
    found = np.int64(layout.DONE)
    for begin in range(address >> bits, end, ports.rules[0].longest):
        count = min(ports.rules[0].longest, end - begin)
        spent += admit_piece(machine, n, space, begin, count)
        if ports.nodes[n].admitted != layout.DONE:
            found = ports.nodes[n].admitted
        keep_pages(machine, n, space, begin, count, 1)
    ports.nodes[n].admitted = found
    return spent


@step
def _have_pieces_pinned(machine, n, p):
    """Have the library pin the pieces of a receive; the time of it.

    Its ``duration`` says whether all of them are pinned.
    """
    ports = machine.ports
    process = machine.processes[p]
    spent = np.int64(0)
    found = np.int64(layout.DONE)
    if ports.table[n, process.peer].open == 1:
        for i in range(process.payload):
            piece = ports.gathers[p, i]
            if piece.length == 0:
                continue
            spent += _have_pinned(machine, n, process.peer, piece.address, piece.length)
            if ports.nodes[n].admitted != layout.DONE:
                found = ports.nodes[n].admitted
    process.duration = found
    return spent


@step
def _is_inside(machine, address, length):
    """Whether a process can have memory there."""
    room = machine.ports.rules[0].space_bytes
    return 0 <= address < room and 1 <= length <= room - address


@distant
def end_at_port(machine, n, p, now):
    """Completes what the CPU of ``n`` has done for process ``p`` at its port."""
    process = machine.processes[p]
    if cannot_complete(machine, n, p):
        process.own = process.packet = reports.GONE
        end_operation(machine, p, now)
        return
    if process.operation == records.POST:
        reports.note_posted_descriptor(machine, n, process)
        _post(machine, n, process.peer)
    elif process.operation == records.PROVIDE:
        _provide(machine, n, p)
    elif process.operation == records.TRAP:
        pass
    elif process.operation in (records.REGISTER, records.UNPIN):
        process.address = process.own
    elif process.operation == records.GIVE_UP:
        _give_up(machine, n, process.peer, process.address, process.payload)
    elif not reports.has_awaited_report(machine, n, p):
        process.own = process.packet = reports.LATE
    elif process.operation == records.AWAIT_QUEUE:
        reports.take_completion(machine, n, process)
    elif process.operation == records.ANY_REPORT:
        reports.read_any(machine, n, p)
    elif process.own & 1 == layout.SENT:
        reports.reap(machine, n, p)
    else:
        reports.read_report(machine, n, p)
    if machine.ports.rules[0].serves == 0 and _traps(machine, n, process):
        machine.ports.nodes[n].traps += 1
        process.operation = records.TRAP
        process.duration = machine.ports.costs[n].trap
    else:
        end_operation(machine, p, now)


@step
def _traps(machine, n, process):
    """Whether to trap into the kernel now: after the last of several posts, not for each.

    No more buffers can follow into a free queue that is full: it has to be looked at first.
    """
    if process.operation == records.PROVIDE and not _has_free_place(machine.ports, n, process.peer):
        return True
    return process.operation in (records.POST, records.PROVIDE) and process.own & MORE == 0


@step
def _has_free_place(ports, n, p):
    """Whether port ``p`` has a place for one more buffer in its free queue."""
    port = ports.table[n, p]
    return port.free_posted - port.free_taken < ports.rules[0].ring


@step
def _post(machine, n, p):
    ports = machine.ports
    port = ports.table[n, p]
    slot = place_in(port.posted, ports.rules[0].ring)
    pending = ports.pending[n, p, slot]
    pending.busy = 1
    pending.number = port.posted
    pending.cookie = ports.requests[n, p, slot].cookie
    pending.operation = ports.requests[n, p, slot].operation
    pending.options = ports.requests[n, p, slot].options
    if pending.status != layout.DONE:
        # The library could not have the pages pinned, or the port has closed: the descriptor never
        # reaches the NIC.
        port.refused += 1
        report_sent(machine, n, p, slot, pending.status)
        return
    port.posted += 1
    _wake_firmware(ports.nodes[n], p)


@step
def _give_up(machine, n, p, address, length):
    if not _is_inside(machine, address, length):
        return
    bits = machine.ports.rules[0].page_bits
    pages = ((address + length - 1) >> bits) - (address >> bits) + 1
    space = machine.ports.table[n, p].space
    keep_pages(machine, n, space, address >> bits, pages, 0)


@step
def _provide(machine, n, p):
    ports = machine.ports
    process = machine.processes[p]
    port = ports.table[n, process.peer]
    if port.open == 0:
        return
    if port.takes == layout.WORK_QUEUE:
        reports.post_receive(machine, n, p, process.duration)
        return
    place = place_in(port.free_posted, ports.rules[0].ring)
    ports.free[n, process.peer, place].address = process.address
    ports.provided[n, process.peer, place] = process.address
    port.free_posted += 1
    _wake_firmware(ports.nodes[n], process.peer)


@step
def _wake_firmware(serving, p):
    """Has the firmware poll port ``p``, at which something was posted."""
    serving.attention = 1
    serving.last_port = max(serving.last_port, p)
