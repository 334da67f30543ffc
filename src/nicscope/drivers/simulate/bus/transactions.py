"""The CPU's and the NIC's parts of a post and a report over the bus: descriptors, bytes."""

import numpy as np

from nicscope.drivers.simulate import records
from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.bus import payloads
from nicscope.drivers.simulate.bus.completion_writes import (
    BYTES,
    ENTRY_BYTES,
    entry_address,
    report_address,
)
from nicscope.drivers.simulate.bus.moves import is_engine_free, start_move, wait_for_engine
from nicscope.drivers.simulate.bus.state import AWAITING_ENGINE
from nicscope.drivers.simulate.flow import begin
from nicscope.drivers.simulate.observe import log_work
from nicscope.drivers.simulate.ports.posting import FLAG_BITS, cannot_complete
from nicscope.drivers.simulate.ports.reports import KIND_BITS, awaits_report, has_awaited_report
from nicscope.kernel.decorators import distant, routine, step
from nicscope.memory.coherence.bus import ENGINE_IN, ENGINE_OUT, PROCESSOR
from nicscope.memory.coherence.processor import DOORBELL, LOAD, SCRATCH, STORE, WINDOW, begin_access
from nicscope.memory.paging.layout import PRESENT
from nicscope.nic.coherent import NOWHERE
from nicscope.nic.ports import layout
from nicscope.nic.ports.descriptor import address_of, bytes_of
from nicscope.nic.ports.layout import FETCH as READ
from nicscope.nic.ports.lookup import bytes_in_page
from nicscope.nic.ports.receive import segment_at
from nicscope.nic.ports.transmit import next_token
from nicscope.nic.ways.state import (
    CNI,
    COLLECT,
    DELIVER,
    DMA,
    EDT,
    FETCH,
    HELPED_BY_HOST,
    INTERVENING,
    NO_CALL,
    PUBLISH,
    RETRYING,
    begin_move,
)

OUT = -1  # in place of a physical address
NO_WORK = -1


@step
def switch_work(machine, n, work, now):
    """Switches the CPU's transaction to another kind of work and logs the one that ends."""
    transaction = machine.bus.cpu_transactions[n]
    if transaction.work not in (NO_WORK, work):
        machine.nodes[n].cpu_busy += now - machine.nodes[n].cpu_since
        log_work(machine, n, transaction.work, now)
        machine.nodes[n].cpu_since = now
    transaction.work = work


@step
def begin_segment(machine, n, call, address, place, count, now):
    """Begins the CPU's part of ``call`` for ``count`` bytes, at ``now``."""
    switch_work(machine, n, records.COPYING, now)
    ways = machine.bus.ways
    way = machine.bus.rules[n].way
    begin_move(ways.moves[n, PROCESSOR], way, call, address, place, count)
    # Of nothing: then the way says what first.
    begin_access(ways.access[n, 0], LOAD, address, 0, 0, WINDOW)
    put(machine.agenda, n * records.KINDS + records.CPU, now)
    if way == CNI:
        machine.nodes[n].pci = records.PCI_QUEUE
        machine.bus.cpu_transactions[n].moving = 1
        if call == PUBLISH:
            start_move(machine, n, ENGINE_OUT, way, FETCH, address, place, count, now)
        else:
            start_move(machine, n, ENGINE_IN, way, DELIVER, address, place, count, now)


@step
def physical_of(machine, n, space, address):
    """The physical address of ``address`` in an address space, or ``OUT``."""
    memory = machine.ports.memory
    shift = memory.config[0].page_shift
    if address < 0 or address >> shift >= memory.entries.shape[2]:
        return np.int64(OUT)
    entry = memory.entries[n, space, address >> shift]
    if entry.state != PRESENT:
        return np.int64(OUT)
    return (np.int64(entry.frame) << shift) + (address & (memory.config[0].page_size - 1))


WORD = 8
CONTROL_WORDS = 4
# Of a descriptor's control word (VIA Specification 1.0).
TO_WRITE, TO_READ, HAS_IMMEDIATE, HAS_FENCE = 1, 2, 4, 8


@step
def write_descriptor(machine, n, p, now):
    """Whether the CPU has more to do with the descriptor of process ``p``, which it begins."""
    token = _posted(machine, n, p)
    transaction = machine.bus.cpu_transactions[n]
    count = bytes_of(token)
    if transaction.written < count:
        return _store(machine, n, p, token, now)
    if transaction.handed < count and machine.bus.rules[n].way in HELPED_BY_HOST:
        return _flush_descriptor(machine, n, p, token, now)
    return False


@step
def _posted(machine, n, p):
    """The token of what process ``p`` posts; 0 if its descriptor is not in memory."""
    process = machine.processes[p]
    if process.operation not in (records.POST, records.PROVIDE):
        return np.int64(0)
    takes = machine.ports.table[n, process.peer].takes
    return np.int64(process.address) if takes == layout.WORK_QUEUE else np.int64(0)


@step
def descriptor_segment(machine, n, port, token, done, most):
    """Physical address of the descriptor's bytes behind ``done``, and how many are contiguous.

    At most ``most``, and all in one page.
    """
    address = address_of(token) + done
    page = np.int64(1) << machine.ports.rules[0].page_bits
    size = min(min(bytes_of(token) - done, most), page - (address & (page - 1)))
    return physical_of(machine, n, machine.ports.table[n, port].space, address), size


@step
def _store(machine, n, p, token, now):
    """Stores the next part of the descriptor, at most as much as scratch holds."""
    transaction = machine.bus.cpu_transactions[n]
    scratch = machine.bus.ways.nics.scratch[n]
    port = machine.processes[p].peer
    physical, size = descriptor_segment(machine, n, port, token, transaction.written, scratch.size)
    if physical == OUT:  # not registered any more: there is nothing to be written to
        transaction.written = transaction.handed = bytes_of(token)
        return False
    for at in range(0, size, WORD):
        word = _word_of(machine, p, (transaction.written + at) // WORD)
        for i in range(WORD):
            scratch[at + i] = (word >> (WORD * i)) & 255
    transaction.written += size
    switch_work(machine, n, records.ACCESSING, now)
    machine.bus.ways.moves[n, PROCESSOR].call = NO_CALL
    begin_access(machine.bus.ways.access[n, 0], STORE, physical, 0, size, SCRATCH)
    put(machine.agenda, n * records.KINDS + records.CPU, now)
    return True


@step
def _flush_descriptor(machine, n, p, token, now):
    """Flushes the next part of the descriptor, or moves it to the NIC."""
    transaction = machine.bus.cpu_transactions[n]
    if machine.bus.rules[n].way == CNI and not is_engine_free(machine, n):
        wait_for_engine(machine, n)
        return True
    port, most = machine.processes[p].peer, bytes_of(token)
    physical, size = descriptor_segment(machine, n, port, token, transaction.handed, most)
    place = machine.bus.rules[n].descriptor + transaction.handed
    transaction.handed += size
    begin_segment(machine, n, PUBLISH, physical, place, size, now)
    return True


@step
def _word_of(machine, p, number):
    """Word ``number`` of the descriptor of process ``p``, as VIPL's header lays it out.

    A control segment of four words, for remote memory an address segment, then data segments.
    """
    process = machine.processes[p]
    operation = process.own & ((1 << KIND_BITS) - 1) if process.operation == records.POST else 0
    remote = 1 if operation in (layout.WRITE, READ) else 0
    if number < CONTROL_WORDS:
        return _control_word(machine, p, number, operation, remote)
    place = (number - CONTROL_WORDS) // 2 - remote
    second = number % 2
    if place < 0:
        return np.int64(process.tag if second == 1 else process.duration)
    if place >= process.payload:
        return np.int64(0)
    piece = machine.ports.gathers[p, place]
    return np.int64(piece.key + (piece.length << 32) if second == 1 else piece.address)


@step
def _control_word(machine, p, number, operation, remote):
    process = machine.processes[p]
    if number == 1:
        control = TO_WRITE * (operation == layout.WRITE) + TO_READ * (operation == READ)
        flags = (process.own >> KIND_BITS) & ((1 << FLAG_BITS) - 1)
        if process.operation == records.POST and flags & layout.IMMEDIATE:
            control += HAS_IMMEDIATE
        if process.operation == records.POST and flags & layout.FENCED:
            control += HAS_FENCE
        return np.int64(((process.payload + remote) << 32) + (control << 48))
    total = np.int64(0)
    if number == CONTROL_WORDS - 1:
        for i in range(process.payload):
            total += machine.ports.gathers[p, i].length
    return total


@distant
def on_engine_free(machine, n, now):
    """Starts what waits for the engine, if that is free: a descriptor fetch, or a CPU."""
    if not is_engine_free(machine, n):
        return
    if machine.ports.rules[0].fetches == 1:
        _fetch(machine, n, now)
    waits = machine.bus.timing[n, PROCESSOR].state == AWAITING_ENGINE
    if waits and is_engine_free(machine, n):
        put(machine.agenda, n * records.KINDS + records.CPU, now)


@distant
def fetch_descriptor(machine, n, now):
    """Fetches the descriptor of the port in ``SERVING.bringing`` once the engine is free."""
    if is_engine_free(machine, n):
        _fetch(machine, n, now)


@step
def _fetch(machine, n, now):
    """Begins to fetch the next part of the descriptor that the NIC needs, if it needs one."""
    serving = machine.ports.nodes[n]
    if serving.bringing == layout.NOBODY:
        return
    p = np.int64(serving.bringing)
    token = _wanted_token(machine, n)
    most = bytes_of(token)
    physical, size = np.int64(OUT), np.int64(0)
    if serving.brought < most:
        physical, size = descriptor_segment(machine, n, p, token, serving.brought, most)
    if physical == OUT:  # all is there, or what was posted has ended meanwhile
        _end(machine, n)
        return
    machine.nodes[n].pci = records.PCI_DESCRIPTOR
    begin(machine.pci_flows[n], now, 0, size, 1)  # for the log
    rules = machine.bus.rules[n]
    place = rules.descriptor + serving.brought
    serving.brought += size
    start_move(machine, n, ENGINE_OUT, rules.way, FETCH, physical, place, size, now)


@step
def _wanted_token(machine, n):
    """Which descriptor the NIC fetches, or 0: it has ended meanwhile, with its connection.

    Its port may have the next one posted already, which is another.
    """
    serving = machine.ports.nodes[n]
    p = np.int64(serving.bringing)
    if machine.ports.table[n, p].taken != serving.wanted:
        return np.int64(0)
    return next_token(machine.ports, n, p)


@step
def _end(machine, n):
    """Ends the fetch: the descriptor is on the NIC, or not needed there any more."""
    serving = machine.ports.nodes[n]
    if _wanted_token(machine, n) != 0:
        place = serving.wanted % machine.ports.rules[0].ring
        machine.ports.work.tokens[n, serving.bringing, place] = 0
    serving.bringing = layout.NOBODY
    serving.brought = 0
    serving.attention = 1


@distant
def end_descriptor_fetch(machine, n):
    """Ends the fetch of a descriptor, or of a part of it, by the NIC of ``n``."""
    if machine.ports.nodes[n].brought >= bytes_of(_wanted_token(machine, n)):
        _end(machine, n)


NO_MORE = -1


@distant
def begin_bus_transaction(machine, n, p, now):
    """Begins the CPU's bus work that precedes the operation of ``p``; False if there is none."""
    if cannot_complete(machine, n, p):
        return False
    transaction = machine.bus.cpu_transactions[n]
    transaction.piece = 0
    transaction.done = 0
    transaction.told = 0
    transaction.written = 0
    transaction.handed = 0
    transaction.rung = 0
    transaction.work = NO_WORK
    if not _moves(machine, n, p):
        transaction.piece = NO_MORE
    if not next_transaction_part(machine, n, p, now):
        return False
    machine.nodes[n].cpu = records.ACCESSING
    machine.nodes[n].cpu_since = now
    return True


@step
def _moves(machine, n, p):
    """Whether this operation may have the CPU flush or move bytes."""
    way = machine.bus.rules[n].way
    if machine.processes[p].operation == records.AWAIT_QUEUE:
        return False
    if way == DMA:
        return True
    return way not in (RETRYING, INTERVENING, EDT) and _has_nic_buffer(machine, n, p)


@routine
def next_transaction_part(machine, n, p, now):
    """Begins the CPU's next piece of bus work for process ``p``; False if none is left.

    A report to read, pieces to move, the doorbell to ring.
    """
    transaction = machine.bus.cpu_transactions[n]
    if transaction.rung == 0 and awaits_report(machine.processes[p].operation):
        transaction.rung = 1
        switch_work(machine, n, records.ACCESSING, now)
        _read_word(machine, n, p, now)
        return True
    if write_descriptor(machine, n, p, now):
        return True
    if transaction.piece != NO_MORE and _next_piece(machine, n, p, now):
        return True
    transaction.piece = NO_MORE
    if transaction.rung == 1 or not _rings_doorbell(machine, n, p):
        return False
    transaction.rung = 1
    switch_work(machine, n, records.ACCESSING, now)
    ways = machine.bus.ways
    zero, count = np.int64(0), ways.nics.config[n, 0].doorbell_bytes
    ways.moves[n, PROCESSOR].call = NO_CALL
    begin_access(ways.access[n, 0], DOORBELL, zero, zero, count, SCRATCH)
    put(machine.agenda, n * records.KINDS + records.CPU, now)
    return True


@step
def _read_word(machine, n, p, now):
    """Loads a word that the NIC has written, or will; no program sees its value."""
    process = machine.processes[p]
    count = np.int64(BYTES)
    if process.operation == records.AWAIT_QUEUE:
        number = machine.ports.work.queues[n, process.peer].read
        address = entry_address(machine, n, process.peer, number)
        count = np.int64(ENTRY_BYTES)
    else:
        port = machine.ports.table[n, process.peer]
        ring = process.own & 1
        number = port.read if ring == layout.RECEIVED else port.reaped
        address = report_address(machine, n, process.peer, ring, number)
    machine.bus.ways.moves[n, PROCESSOR].call = NO_CALL
    begin_access(machine.bus.ways.access[n, 0], LOAD, address, 0, count, SCRATCH)
    put(machine.agenda, n * records.KINDS + records.CPU, now)


@step
def _rings_doorbell(machine, n, p):
    """Whether the doorbell is to be rung: not for what the library could not have pinned."""
    ports = machine.ports
    process = machine.processes[p]
    port = ports.table[n, process.peer]
    if port.open == 0 or process.operation not in (records.POST, records.PROVIDE):
        return False
    slot = port.posted % ports.rules[0].ring
    return (
        process.operation == records.PROVIDE
        or ports.pending[n, process.peer, slot].status == layout.DONE
    )


@step
def _has_nic_buffer(machine, n, p):
    """Whether what is posted has a NIC buffer now, or what is reported may lie in some."""
    operation = machine.processes[p].operation
    if operation == records.POST:
        port = machine.processes[p].peer
        total = _message_bytes(machine, n, port)
        return total > 0 and payloads.reserve_request_buffer(machine, n, port, total)
    return operation == records.REPORT


@step
def _message_bytes(machine, n, p):
    """Bytes of the descriptor that port ``p`` posts next, if they are read from memory."""
    total = np.int64(0)
    for i in range(machine.ports.segments.shape[3]):
        _, count = _segment(machine, n, p, i)
        total += max(count, 0)
    return total


@routine
def _next_piece(machine, n, p, now):
    """Begins the CPU's work on process ``p``'s next segment; False if there is no other."""
    transaction = machine.bus.cpu_transactions[n]
    port = machine.ports.table[n, machine.processes[p].peer]
    page_size = np.int64(1) << machine.ports.rules[0].page_bits
    while True:
        address, count = _piece_of(machine, n, p)
        if count == NO_MORE:
            return False
        if transaction.done == count:
            _end_piece(machine, n, p, address)
            transaction.piece += 1
            transaction.told += count
            transaction.done = 0
            continue
        at = address + transaction.done
        size = min(count - transaction.done, page_size - (at & (page_size - 1)))
        begun = transaction.told + transaction.done
        transaction.done += size
        physical = physical_of(machine, n, port.space, at)
        if machine.bus.rules[n].way == CNI and not is_engine_free(machine, n):
            transaction.done -= size
            wait_for_engine(machine, n)
            return True
        if machine.bus.rules[n].way == DMA:
            if physical != OUT:
                begin_segment(machine, n, PUBLISH, physical, np.int64(0), size, now)
                return True
        elif machine.processes[p].operation == records.REPORT:
            place = _staged_at(machine, n, p, physical)
            if place != NOWHERE:
                begin_segment(machine, n, COLLECT, physical, place, size, now)
                return True
        elif physical == OUT:  # the NIC asks for it when it is there
            payloads.free_descriptor_buffer(
                machine, n, machine.processes[p].peer, _slot(machine, port)
            )
            return False
        else:
            place = payloads.request_buffer_start(machine, n, machine.processes[p].peer) + begun
            begin_segment(machine, n, PUBLISH, physical, place, size, now)
            return True


@step
def _staged_at(machine, n, p, physical):
    """Where on the NIC that waits what is reported next to process ``p`` and belongs there."""
    if physical == OUT:
        return np.int64(NOWHERE)
    port = machine.processes[p].peer
    if not _has_receive_queue(machine, n, p):
        return payloads.staged_buffer(machine, n, physical)
    serial = payloads.serial_of(machine, n, port, machine.ports.table[n, port].read)
    return payloads.staged_piece(machine, n, port, serial, physical)


@step
def _slot(machine, port):
    return port.posted % machine.ports.rules[0].ring


@step
def _end_piece(machine, n, p, address):
    """The CPU is done with a piece: what it collected need not wait on the NIC any more."""
    if _has_receive_queue(machine, n, p):
        return  # all of its receive when that has been read
    if machine.bus.rules[n].way != DMA and machine.processes[p].operation == records.REPORT:
        space = machine.ports.table[n, machine.processes[p].peer].space
        physical = physical_of(machine, n, space, address)
        if physical != OUT:
            payloads.free_staged_buffer(machine, n, physical)


@step
def _piece_of(machine, n, p):
    """Address and bytes of the present segment; ``NO_MORE`` bytes behind the last."""
    operation = machine.processes[p].operation
    if operation == records.POST:
        return _segment(
            machine, n, machine.processes[p].peer, machine.bus.cpu_transactions[n].piece
        )
    if operation == records.PROVIDE and _has_receive_queue(machine, n, p):
        return _gathered(machine, p, machine.bus.cpu_transactions[n].piece)
    if operation == records.PROVIDE and machine.bus.cpu_transactions[n].piece == 0:
        return machine.processes[p].address, machine.ports.rules[0].buffer
    if (
        operation == records.REPORT
        and machine.processes[p].own & 1 == layout.RECEIVED
        and has_awaited_report(machine, n, p)
    ):
        if _has_receive_queue(machine, n, p):
            return _scattered(machine, n, machine.processes[p].peer)
        return _filled(machine, n, machine.processes[p].peer)
    return np.int64(0), np.int64(NO_MORE)


@step
def _segment(machine, n, p, piece):
    """Of the descriptor that is posted next, if its bytes are read from memory."""
    ports = machine.ports
    slot = ports.table[n, p].posted % ports.rules[0].ring
    request = ports.requests[n, p, slot]
    is_read = (
        request.operation in (layout.SEND, layout.WRITE) and request.options & layout.INLINE == 0
    )
    most = min(request.segments, ports.segments.shape[3])
    is_good = ports.pending[n, p, slot].status == layout.DONE and piece < most
    if is_read and is_good:
        segment = ports.segments[n, p, slot, piece]
        room = ports.rules[0].space_bytes
        if 0 <= segment.address < room and 0 <= segment.length <= room - segment.address:
            return segment.address, segment.length
    return np.int64(0), np.int64(NO_MORE)


@step
def _has_receive_queue(machine, n, p):
    """Whether the port that process ``p`` uses takes one posted receive for each message."""
    return machine.ports.table[n, machine.processes[p].peer].takes == layout.WORK_QUEUE


@step
def _gathered(machine, p, piece):
    """Of the receive that process ``p`` posts."""
    if piece < machine.processes[p].payload:
        room = machine.ports.rules[0].space_bytes
        given = machine.ports.gathers[p, piece]
        if 0 <= given.address < room and 0 <= given.length <= room - given.address:
            return given.address, given.length
    return np.int64(0), np.int64(NO_MORE)


@step
def _scattered(machine, n, p):
    """Of the message in the report that is read next, what its receive's pieces have of it.

    Page by page, as each may have its room.
    """
    ports = machine.ports
    number = ports.table[n, p].read
    report = ports.reports[n, p, layout.RECEIVED, number % ports.rules[0].ring]
    told = machine.bus.cpu_transactions[n].told
    if report.operation != layout.SEND or told >= report.length:
        return np.int64(0), np.int64(NO_MORE)
    place = number % ports.work.receives.shape[2]
    pieces = ports.work.pieces[n, p, place]
    i, within = segment_at(pieces, ports.work.receives[n, p, place].segments, told)
    address = pieces[i].address + within
    left = min(pieces[i].length - within, report.length - told)
    return address, bytes_in_page(machine, address, left)


@step
def _filled(machine, n, p):
    """Of the message in the report that is read next, what each buffer has of it."""
    ports = machine.ports
    place = ports.table[n, p].read % ports.rules[0].ring
    report = ports.reports[n, p, layout.RECEIVED, place]
    transaction = machine.bus.cpu_transactions[n]
    left = report.length - transaction.told
    if (
        report.operation != layout.SEND
        or transaction.piece >= min(report.buffers, layout.BUFFERS)
        or left <= 0
    ):
        return np.int64(0), np.int64(NO_MORE)
    address = ports.report_buffers[n, p, place, transaction.piece]
    return address, min(left, ports.rules[0].buffer)
