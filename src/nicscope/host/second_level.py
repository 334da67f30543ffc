"""Second-level tables of UTLB: each fills a page of the host, which may be on the disk (UTLB 3.3).

The pages are of spaces of their own, one for each process's, and the host's swapper takes their
frames like any others.  The NIC's directory says by one bit per table whether it is there, and
keeps its disk block if not; the host's page table of these spaces stands for it here.  The NIC
never waits for the disk: it interrupts the host, and the kernel thread brings the table.

``Ports.frames`` has the entries of all tables; those of a table that comes back are read from it.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import kernel, routine, step
from nicscope.memory.paging.faults import provide
from nicscope.memory.paging.frames import note_access
from nicscope.memory.paging.layout import PRESENT, SWAPPED
from nicscope.memory.paging.swapper import evict_page
from nicscope.nic.translate.asking import key_of_page, page_of_key
from nicscope.nic.translate.nodes import translation_of

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
def is_away(machine, n, space, page):
    """Whether the entry of ``page`` is in a table that is on the disk."""
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
def take_tables(machine, n, space, first, last):
    """Have the tables in memory to which a call of the driver may write; the time of it.

    Those of pages ``first..last``, and all that are on the disk: pages of theirs may have to go.
    They stay until ``let_tables_go``.  Negative if the host has no frame: nothing is to be let go.
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
def let_tables_go(machine, n, space):
    """The driver's call has written what it had to."""
    if has_tables(machine):
        _hold_tables(machine, n, space, tables_of(machine), -1)


@routine
def _hold_tables(machine, n, space, count, change):
    for number in range(count):
        _hold_table(machine, n, space, number, change)


@step
def _hold_table(machine, n, space, number, change):
    """Keep the swapper from the table's frame, if it has one, or not any more."""
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
