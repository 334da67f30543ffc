"""Second-level tables of UTLB: each fills a page of the host, which may be on the disk (UTLB 3.3).

The NIC's directory says so by one bit per table, and keeps the disk block then.  The NIC never
waits for the disk: it interrupts the host, and the kernel thread brings the table.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.simulate.ports.state import ENTRY_BYTES
from nicscope.drivers.translation.asking import key_of_page
from nicscope.drivers.translation.cluster import translation_of
from nicscope.jit import kernel, routine, step
from nicscope.memory.paging.frames import drop_block, pop_block
from nicscope.memory.paging.layout import GARBAGE_FRAME

TABLE_PAGES = 1024  # entries of a table (UTLB 3.3)
NO_BLOCK = -1


@step
def is_away(machine, n, space, page):
    """Whether the entry of ``page`` is in a table that is on the disk."""
    directory = machine.ports.directory
    if directory.shape[1] == 0 or page >= directory.shape[2] * TABLE_PAGES:
        return False
    return directory[n, space, page // TABLE_PAGES].away == 1


@routine
def bring_table(machine, n, space, number):
    """Read a table back from its disk block, which is free again."""
    ports = machine.ports
    memory = ports.memory
    _, host, book = translation_of(ports.translations, n)
    table = ports.directory[n, space, number]
    start = table.block * memory.config[0].page_size
    for place in range(min(TABLE_PAGES, memory.entries.shape[2] - number * TABLE_PAGES)):
        frame = np.int64(0)
        for i in range(ENTRY_BYTES):
            byte = np.int64(memory.block_bytes[n, start + place * ENTRY_BYTES + i])
            frame |= byte << (8 * i)
        ports.frames[n, key_of_page(host, book, space, number * TABLE_PAGES + place)] = frame
    memory.blocks[n, table.block].references = 1
    drop_block(memory, n, table.block)
    table.block = NO_BLOCK
    table.away = 0
    ports.nodes[n].table_ins += 1


@routine
def bring_tables(machine, n, space):
    """Have every table of the process in memory, for its driver to write to; the time of it."""
    ports = machine.ports
    spent = np.int64(0)
    if ports.directory.shape[1] == 0:
        return spent
    for number in range(ports.directory.shape[2]):
        if ports.directory[n, space, number].away == 1:
            bring_table(machine, n, space, number)
            spent += ports.costs[n].page_in
    return spent


@kernel
def swap_table(machine, n, space, number):
    """Write a table to the disk; False if it is there, if there is none, or if no block is free.

    Its pages stay pinned, and what the NIC has cached of it stays true.
    """
    ports = machine.ports
    memory = ports.memory
    directory = ports.directory
    if directory.shape[1] == 0 or number < 0 or number >= directory.shape[2]:
        return False
    table = directory[n, space, number]
    if table.away == 1 or memory.hosts[n].free_blocks == 0:
        return False
    _, host, book = translation_of(ports.translations, n)
    table.block = pop_block(memory, n)
    memory.blocks[n, table.block].references = 1
    start = table.block * memory.config[0].page_size
    for place in range(min(TABLE_PAGES, memory.entries.shape[2] - number * TABLE_PAGES)):
        key = key_of_page(host, book, space, number * TABLE_PAGES + place)
        frame = ports.frames[n, key]
        for i in range(ENTRY_BYTES):
            memory.block_bytes[n, start + place * ENTRY_BYTES + i] = (frame >> (8 * i)) & 0xFF
        ports.frames[n, key] = GARBAGE_FRAME
    table.away = 1
    return True
