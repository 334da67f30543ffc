"""Pages between scheme and memory: pinned, filled, unpinned; UTLB's second-level tables (3.3)."""

import numpy as np

from nicscope.host import calls
from nicscope.kernel.decorators import distant, kernel, routine, step
from nicscope.memory.paging.frames import (
    evict_page,
    need,
    need_to_pin,
    note_access,
    pin_page,
    provide,
    provide_zeroed,
    unpin_frame,
)
from nicscope.memory.paging.layout import (
    DISK,
    GARBAGE_FRAME,
    NOT_MAPPED,
    PRESENT,
    READY,
    SWAPPED,
    WRITE,
)
from nicscope.memory.pinning import PINNED
from nicscope.nic.layout import IN_USE
from nicscope.nic.ports import layout
from nicscope.nic.ports.lookup import key_of
from nicscope.nic.ports.traffic import count_looked
from nicscope.nic.translate.book import (
    FILL,
    MISS,
    PIN,
    PINNED_AREA,
    REJECTED,
    RNIC,
    UNPIN,
    clear_pin_actions,
    note_lookup,
    write_frame,
)
from nicscope.nic.translate.requests import (
    ask,
    frame_on_nic,
    key_of_page,
    page_of_key,
    serve,
)
from nicscope.nic.translate.rnic import ask_level_1, put_line
from nicscope.nic.translate.state import entry_of, levels_of, translation_of
from nicscope.nic.translate.utlb import place_in_table
from nicscope.nic.victim import ABSENT, find_victim

TABLE_PAGES = 1024  # entries of a table (UTLB 3.3)
ENTRY_BYTES = 4  # so a table is a page


@step
def has_tables(machine):
    """Whether there are second-level tables."""
    return machine.ports.rules[0].table_space != 0


@step
def tables_of(machine):
    """How many tables a process has."""
    return (machine.ports.memory.entries.shape[2] + TABLE_PAGES - 1) // TABLE_PAGES


@step
def _entry(machine, n, space, number):
    return machine.ports.memory.entries[n, machine.ports.rules[0].table_space + space, number]


@step
def is_table_swapped_out(machine, n, space, page):
    """Whether the second-level table of ``page`` is swapped out."""
    if not has_tables(machine) or page < 0 or page >= machine.ports.memory.entries.shape[2]:
        return False
    return _entry(machine, n, space, page // TABLE_PAGES).state == SWAPPED


@step
def note_read(machine, n, space, page):
    """The NIC has read the entry of ``page``: the table is in use, as the swapper sees it."""
    if has_tables(machine):
        entry = _entry(machine, n, space, page // TABLE_PAGES)
        if entry.state == PRESENT:
            note_access(machine.ports.memory, n, np.int64(entry.frame), 0)


@routine
def write_entry(machine, n, key, frame):
    """The driver writes to the process's table, which is there, that ``key`` is in ``frame``."""
    memory = machine.ports.memory
    _, host, book = translation_of(machine.ports.translations, n)
    space, page = page_of_key(host, book, key)
    table = np.int64(_entry(machine, n, space, page // TABLE_PAGES).frame)
    start = table * memory.config[0].page_size + page % TABLE_PAGES * ENTRY_BYTES
    for i in range(ENTRY_BYTES):
        memory.bytes[n, start + i] = (frame >> (8 * i)) & 0xFF
    note_access(memory, n, table, 1)


@routine
def bring_table(machine, n, space, number, write):
    """Whether the table is in memory now, read from its disk block if it was there."""
    ports = machine.ports
    memory = ports.memory
    was_away = _entry(machine, n, space, number).state == SWAPPED
    frame = provide(memory, n, ports.rules[0].table_space + space, number, write)
    if frame < 0:
        return False
    if was_away:
        _, host, book = translation_of(ports.translations, n)
        start = frame * memory.config[0].page_size
        for place in range(min(TABLE_PAGES, memory.entries.shape[2] - number * TABLE_PAGES)):
            entry = np.int64(0)
            for i in range(ENTRY_BYTES):
                byte = np.int64(memory.bytes[n, start + place * ENTRY_BYTES + i])
                entry |= byte << (8 * i)
            key = key_of_page(host, book, space, number * TABLE_PAGES + place)
            ports.frames[n, key] = entry
        ports.nodes[n].table_ins += 1
    return True


@routine
def lock_tables(machine, n, space, first, last):
    """Bring in and lock the tables that a call of the driver may write to; the time of it.

    Those of pages ``first..last``, and all that are on the disk: pages of theirs may have to go.
    They stay until ``unlock_tables``.  Negative if the host has no frame: nothing is to be let go.
    """
    spent = np.int64(0)
    if not has_tables(machine):
        return spent
    for number in range(tables_of(machine)):
        state = np.int64(_entry(machine, n, space, number).state)
        if state == SWAPPED or first // TABLE_PAGES <= number <= last // TABLE_PAGES:
            if not bring_table(machine, n, space, number, 1):
                _hold_tables(machine, n, space, number, -1)
                return np.int64(-1)
            if state == SWAPPED:
                spent += machine.ports.costs[n].page_in
        _hold_table(machine, n, space, number, 1)
    return spent


@routine
def unlock_tables(machine, n, space):
    """Unlock the tables: the driver's call has written its entries."""
    if has_tables(machine):
        _hold_tables(machine, n, space, tables_of(machine), -1)


@routine
def _hold_tables(machine, n, space, count, change):
    for number in range(count):
        _hold_table(machine, n, space, number, change)


@step
def _hold_table(machine, n, space, number, change):
    """Lock the table's frame, if it has one, against the swapper, or unlock it."""
    entry = _entry(machine, n, space, number)
    if entry.state == PRESENT:
        machine.ports.memory.frames[n, entry.frame].pins += change


@kernel
def swap_table(machine, n, space, number):
    """Write a table to the disk; False if it is there, if there is none, or if no block is free.

    Its pages stay pinned, and what the NIC has cached of it stays true.
    """
    if not has_tables(machine) or number < 0 or number >= tables_of(machine):
        return False
    if _entry(machine, n, space, number).state == SWAPPED:
        return False
    if not bring_table(machine, n, space, number, 1):
        return False
    of_tables = machine.ports.rules[0].table_space + space
    return evict_page(machine.ports.memory, n, of_tables, number)


TO_FILL = 2  # in place of 1, a receive, where it is a buffer of which no byte is needed


@distant
def ask_page(machine, n, p, space, page, receive):
    """Frame of ``page`` if the NIC has its translation, else ``MISSED`` or ``NOT_THERE``.

    ``p``: the port that it is looked up for.
    """
    ports = machine.ports
    scheme = ports.rules[0].scheme
    nic, host, book = translation_of(ports.translations, n)
    if ports.rules[0].by_request == 0:  # a trace's were counted with its requests
        note_lookup(book, receive)
    if scheme == PINNED_AREA:
        count_looked(machine, n, p, receive, np.int64(0))
        return _area_frame(machine, n, space, page)
    before = np.int64(book.counts[0].ni_misses)
    frame = ask(scheme, nic, host, book, space, page, receive)
    if scheme == RNIC and frame == MISS:
        frame = _ask_level_1(machine, n, space, page, receive)
    count_looked(machine, n, p, receive, np.int64(book.counts[0].ni_misses - before))
    if frame == MISS:
        return np.int64(layout.MISSED)
    if frame == REJECTED and ports.rules[0].garbage == 1:
        if ports.rules[0].service == layout.FETCHES:
            return np.int64(layout.MISSED)  # the table has an entry for every address
        ports.nodes[n].garbage += 1
        return np.int64(GARBAGE_FRAME)
    if frame < 0:
        return np.int64(layout.NOT_THERE)
    if frame == GARBAGE_FRAME or (receive == 1 and not may_be_written(machine, n, frame)):
        # It was not mapped when it was to be pinned, or was pinned to be read.
        ports.nodes[n].mended += frame == GARBAGE_FRAME
        kernel_can_help = ports.rules[0].service in (layout.KERNEL, layout.THREAD)
        return np.int64(layout.MISSED if kernel_can_help else layout.NOT_THERE)
    if is_table_swapped_out(machine, n, space, page):
        return frame  # the table is on the disk, but what the NIC has of it holds
    if frame != ports.frames[n, key_of(machine, n, space, page)]:
        ports.nodes[n].stale += 1
    return frame


@step
def _ask_level_1(machine, n, space, page, receive):
    """Frame of ``page`` if an RDMA NIC's second level has its line, else ``MISS``."""
    translations = machine.ports.translations
    nic, host, book = translation_of(translations, n)
    key = key_of_page(host, book, space, page)
    if not ask_level_1(levels_of(translations, n), book, page, key, receive):
        return np.int64(MISS)
    if put_line(nic, host, book, space, page, key) < 0:
        return np.int64(MISS)
    calls.apply_pin_actions(machine, n, receive)
    return frame_on_nic(nic, host, book, space, page, key)


@step
def _area_frame(machine, n, space, page):
    """U-Net's own: the NIC adds an offset to the base of an area that is pinned for good."""
    ports = machine.ports
    if ports.rules[0].sparse == 1:
        return np.int64(GARBAGE_FRAME)  # of a trace nothing is kept: any page of the area will do
    _, host, book = translation_of(ports.translations, n)
    key = key_of_page(host, book, space, page)
    if key < 0 or page >= book.orders[0].area_pages:
        return np.int64(layout.NOT_THERE)
    frame = ports.frames[n, key]
    return frame if frame != GARBAGE_FRAME else np.int64(layout.NOT_THERE)


@step
def may_be_written(machine, n, frame):
    """Whether the frame was pinned to be written: another process may read what only is read."""
    return machine.ports.memory.frames[n, frame].pinned_to_write != 0


@distant
def translated_frame(machine, n, space, page, receive):
    """Frame of ``page`` if it is translated and fit for use, else ``MISSED``; nothing is noted."""
    nic, host, book = translation_of(machine.ports.translations, n)
    key = key_of_page(host, book, space, page)
    if key < 0:
        return np.int64(layout.MISSED)
    frame = frame_on_nic(nic, host, book, space, page, key)
    if frame < 0 or frame == GARBAGE_FRAME:
        return np.int64(layout.MISSED)
    if receive == 1 and not may_be_written(machine, n, frame):
        return np.int64(layout.MISSED)
    return frame


@distant
def needed_for(machine, n, space, page, receive):
    """What the kernel must do before the NIC may have ``page``, as ``memory.paging`` names it."""
    if machine.ports.rules[0].service == layout.FETCHES:  # the library has pinned it
        return np.int64(DISK if is_table_swapped_out(machine, n, space, page) else READY)
    memory_page = memory_page_of(machine, n, space, page)
    if memory_page < 0:
        return np.int64(NOT_MAPPED)
    return need_to_pin(machine.ports.memory, n, _memory_space(machine, space), memory_page, receive)


@step
def memory_page_of(machine, n, space, page):
    """The page of the host's memory that stands for ``page``: of traces, its number."""
    if machine.ports.rules[0].sparse == 1:
        return key_of(machine, n, space, page)
    return page if page < machine.ports.memory.entries.shape[2] else np.int64(-1)


@step
def is_mapped(machine, n, space, page):
    """Whether ``page`` is the process's to read."""
    memory_page = memory_page_of(machine, n, space, page)
    if memory_page < 0:
        return False
    return need(machine.ports.memory, n, _memory_space(machine, space), memory_page, 0) >= 0


@step
def _memory_space(machine, space):
    """The space of the host's memory that has it: the numbers of a trace's pages share one."""
    return np.int64(0) if machine.ports.rules[0].sparse == 1 else np.int64(space)


@distant
def serve_page(machine, n, space, page):
    """Do what the scheme does about a miss; negative if it cannot, as ``translation.codes`` says.

    ``apply_pin_actions`` must follow.
    """
    ports = machine.ports
    nic, host, book = translation_of(ports.translations, n)
    return serve(ports.rules[0].scheme, nic, host, book, space, page)


@distant
def repin_page(machine, n, space, page, receive):
    """Repin ``page`` as it must be, if it was not; whether it was repinned.

    It was not mapped when it was to be pinned, or was pinned only to be read.  With it every page
    of its line that has become valid since is pinned (miNI leaves partly valid lines open); what
    is on disk stays there.
    """
    ports = machine.ports
    nic, host, book = translation_of(ports.translations, n)
    key = key_of_page(host, book, space, page)
    if key < 0 or host.pinning.state[key] & PINNED == 0:
        return False
    place = _place_on_nic(nic, host, book, space, page, key)
    victim = find_victim(nic, key + 1) if place < 0 else np.int64(ABSENT)
    if place < 0 and victim == ABSENT and ports.rules[0].service in (layout.KERNEL, layout.THREAD):
        return False  # to be served like any other
    if ports.frames[n, key] != GARBAGE_FRAME:
        return receive >= 1 and _make_writable(machine, n, space, key, page)
    if not calls.pin_key(machine, n, key, receive):
        return False
    if place >= 0:
        write_frame(nic, place, ports.frames[n, key])
        _repin_line(machine, n, space, page, key, receive)
    elif victim != ABSENT:
        nic.victims[victim].frame = (nic.victims[victim].frame & IN_USE) | ports.frames[n, key]
    return True


@step
def _repin_line(machine, n, space, page, key, receive):
    """Pin what else of the line of ``page`` can be pinned now, and write its entries."""
    ports = machine.ports
    nic, host, book = translation_of(ports.translations, n)
    line = nic.config[0].line
    first = page & ~(line - 1)
    for other in range(first, first + line):
        number = key - page + other
        if other == page or ports.frames[n, number] != GARBAGE_FRAME:
            continue
        needed = needed_for(machine, n, space, other, receive)
        if needed >= 0 and needed != DISK and calls.pin_key(machine, n, number, receive):
            place = _place_on_nic(nic, host, book, space, other, number)
            write_frame(nic, place, ports.frames[n, number])


@step
def _place_on_nic(nic, host, book, space, page, key):
    """Where the frame of ``page``, which is pinned, stands among the NIC's entries, or ``MISS``."""
    if not book.orders[0].cached:
        if host.indices.tables.size > 0:
            return place_in_table(host, space, key)
        return np.int64(host.table_entries[key])
    entry = entry_of(nic, host, book, space, page, key)
    if entry == MISS:
        return np.int64(MISS)
    line = nic.config[0].line
    return np.int64(entry * line + (page & (line - 1)))


@step
def _make_writable(machine, n, space, key, page):
    """Have what is pinned to be read pinned to be written; whether it was and is."""
    ports = machine.ports
    memory = ports.memory
    frame = ports.frames[n, key]
    if memory.frames[n, frame].pinned_to_write != 0:
        return False
    memory_page = memory_page_of(machine, n, space, page)
    owner = _memory_space(machine, space)
    found = pin_page(memory, n, owner, memory_page, 1)
    if found < 0:
        return False
    # The pin that was there goes; or the new one, if the page has another frame meanwhile.
    unpin_frame(memory, n, owner, found)
    return found == frame


@step
def table_frame(machine, n, space, page):
    """Frame that the host's table has for ``page``."""
    return machine.ports.frames[n, key_of(machine, n, space, page)]


@distant
def apply_pin_actions(machine, n, receive):
    """Apply the scheme's pin actions to the memory; how many pages were unpinned.

    As much less than -1 if a page could not be pinned: the garbage page stands in for it.
    """
    ports = machine.ports
    nic, host, _ = translation_of(ports.translations, n)
    unpinned = np.int64(0)
    failed = False
    for i in range(host.pin_action_count[0]):
        deed = host.pin_actions[i]
        if deed.what == PIN:
            failed = not calls.pin_key(machine, n, deed.key, receive) or failed
        elif deed.what == UNPIN:
            _unpin(machine, n, deed.key)
            unpinned += 1
        elif deed.what == FILL:
            write_frame(nic, deed.place, ports.frames[n, deed.key])
    clear_pin_actions(host)
    return -1 - unpinned if failed else unpinned


@distant
def pin_key(machine, n, key, receive):
    """Pin the page of ``key``; one that cannot be had has the garbage page in the host's table."""
    ports = machine.ports
    memory = ports.memory
    _, host, book = translation_of(ports.translations, n)
    space, page = page_of_key(host, book, key)
    if ports.rules[0].sparse == 1:
        page = key
    space = _memory_space(machine, space)
    frame = np.int64(-1)
    is_out = (
        ports.rules[0].service == layout.THREAD
        and page < memory.entries.shape[2]
        and need_to_pin(memory, n, space, page, receive) == DISK
    )
    if page < memory.entries.shape[2] and not is_out:  # of a line, only what was missed is read
        write = np.int64(receive > 0)
        if ports.rules[0].pins_by_access == 0:
            write = np.int64(memory.entries[n, space, page].rights & WRITE != 0)
        if receive == TO_FILL and ports.rules[0].fresh == 1:
            provide_zeroed(memory, n, space, page)
        frame = pin_page(memory, n, space, page, write)
    _write_host_table(machine, n, key, frame if frame >= 0 else np.int64(GARBAGE_FRAME))
    if frame >= 0 and ports.rules[0].registers == 1:
        calls.register_frame(machine, n, frame)
    return frame >= 0


@step
def _unpin(machine, n, key):
    ports = machine.ports
    _, host, book = translation_of(ports.translations, n)
    if ports.frames[n, key] != GARBAGE_FRAME:
        space, _ = page_of_key(host, book, key)
        frame = ports.frames[n, key]
        left = unpin_frame(ports.memory, n, _memory_space(machine, space), frame)
        if left == 0 and ports.rules[0].registers == 1:
            calls.deregister_frame(machine, n, frame)
        _write_host_table(machine, n, key, np.int64(GARBAGE_FRAME))


@step
def _write_host_table(machine, n, key, frame):
    machine.ports.frames[n, key] = frame
    if has_tables(machine):
        write_entry(machine, n, key, frame)


@distant
def fault_in_page(machine, n, space, page, receive):
    """Fault in ``page``, which the kernel thread has waited for."""
    if is_table_swapped_out(machine, n, space, page):
        bring_table(machine, n, space, page // TABLE_PAGES, 0)
        return
    memory_page = memory_page_of(machine, n, space, page)
    if memory_page >= 0:
        provide(machine.ports.memory, n, _memory_space(machine, space), memory_page, receive)


@distant
def add_frame_pin(machine, n, frame):
    """One more pin of its own on a frame whose page has left the NIC."""
    machine.ports.memory.frames[n, frame].pins += 1


@distant
def drop_frame_pin(machine, n, space, frame):
    """Drop such a pin: after the last one the frame may move."""
    left = unpin_frame(machine.ports.memory, n, space, frame)
    if left == 0 and machine.ports.rules[0].registers == 1:
        calls.deregister_frame(machine, n, frame)
