"""Valgrind's lackey with ``--trace-mem=yes``: every load and store of a program.

A load reads memory and becomes ``send``, a store writes it and becomes ``recv``; a modify does
both, in that order; an instruction fetch is no data transfer and is only counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.errors import TraceError
from nicscope.kernel.decorators import kernel
from nicscope.traces.files import ByteSource, Watch
from nicscope.traces.imported import Choices, Imported, filled, numbered
from nicscope.traces.schema import Op, TraceMetadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicscope.inputs import Input

NEWLINE, SPACE, EQUALS, COMMA = ord("\n"), ord(" "), ord("="), ord(",")
INSTRUCTION, LOAD, STORE, MODIFY = ord("I"), ord("L"), ord("S"), ord("M")
ZERO, NINE, SMALL_A, SMALL_F = ord("0"), ord("9"), ord("a"), ord("f")
SHORTEST_LINE = len(" L 0,1\n")
MOST_DIGITS = 15  # of an address: programs have less than 2^60 bytes
LONGEST = (1 << 32) - 1  # bytes of an access


@kernel
def number_at(text, start, base):
    """Parse an unsigned number from ``start`` on; its value, cut if too long, and its end."""
    value = 0
    end = start
    while end < text.size:
        byte = text[end]
        if ZERO <= byte <= NINE:
            digit = byte - ZERO
        elif base == 16 and SMALL_A <= byte <= SMALL_F:
            digit = byte - SMALL_A + 10
        else:
            break
        if end - start == MOST_DIGITS:
            return value, end + 1
        value = value * base + digit
        end += 1
    return value, end


@kernel
def access_at(text, start):
    """Parse the access of the line at ``start``: address, size and end; size 0 if it is none."""
    kind = text[start + 1] if text[start] == SPACE else text[start]
    first = start + 3
    if kind not in (INSTRUCTION, LOAD, STORE, MODIFY) or first >= text.size:
        return 0, 0, start
    address, end = number_at(text, first, 16)
    if end == first or end - first > MOST_DIGITS or text[end] != COMMA:
        return 0, 0, start
    size, stop = number_at(text, end + 1, 10)
    if text[stop] != NEWLINE or size > LONGEST:
        return 0, 0, start
    return address, size, stop


@kernel
def parse(text, rows, counts):
    """Fill ``rows`` (op, address, size, line) from whole lines; returns rows and a bad line or -1.

    ``counts`` adds up instruction fetches, loads, stores and modifies.
    """
    filled_rows, line, start = 0, 0, 0
    while start < text.size:
        if text[start] == EQUALS or text[start] == NEWLINE:
            while text[start] != NEWLINE:
                start += 1
        else:
            address, size, end = access_at(text, start)
            if size == 0:
                return filled_rows, line
            kind = text[start + 1] if text[start] == SPACE else text[start]
            filled_rows = store(rows, filled_rows, (kind, address, size, line), counts)
            start = end
        start += 1
        line += 1
    return filled_rows, -1


@kernel
def store(rows, row, access, counts):
    """Write the rows of one access from ``row`` on; returns the next free one."""
    kind, address, size, line = access
    counts[0] += kind == INSTRUCTION
    counts[1] += kind == LOAD
    counts[2] += kind == STORE
    counts[3] += kind == MODIFY
    if kind in (LOAD, MODIFY):
        rows[row, 0] = Op.SEND
        rows[row, 1] = address
        rows[row, 2] = size
        rows[row, 3] = line
        row += 1
    if kind in (STORE, MODIFY):
        rows[row, 0] = Op.RECV
        rows[row, 1] = address
        rows[row, 2] = size
        rows[row, 3] = line
        row += 1
    return row


def read_lackey(
    source: Input, choices: Choices, metadata: TraceMetadata, watch: Watch | None = None
) -> Iterator[Imported]:
    """Requests of a lackey log, all at time 0 in the process that ``choices`` name.

    Errors: ``TraceError`` naming the line that is neither an access nor valgrind's own.
    """
    counts = np.zeros(4, np.int64)
    metadata.origin["importer"] = "lackey"
    for first_line, block in ByteSource(source, watch).blocks():
        text = np.frombuffer(block, np.uint8).astype(np.int64)
        # Two rows for the shortest line at most.
        rows = np.empty((2 * (text.size // SHORTEST_LINE + 1), 4), np.int64)
        count, bad = parse(text, rows, counts)
        if bad >= 0:
            line = block.split(b"\n")[bad].decode(errors="replace")
            raise TraceError(
                f"{source.name}: line {first_line + bad}: {line[:60]!r} is no memory access; "
                "lackey writes lines such as ' L 1ffefff7e0,8'"
            )
        names = ("instruction_fetches", "loads", "stores", "modifies")
        metadata.observed.update(zip(names, counts.tolist(), strict=True))
        yield _imported(rows[:count], first_line, choices)


def _imported(rows: np.ndarray, first_line: int, choices: Choices) -> Imported:
    count = len(rows)
    columns = {
        "time_ns": filled(0, count, np.int64),
        "node": filled(choices.node, count, np.int32),
        "pid": filled(choices.pid, count, np.int32),
        "op": rows[:, 0].astype(np.uint8),
        "address": rows[:, 1].view(np.uint64).copy(),
        "length": rows[:, 2].astype(np.uint32),
    }
    return Imported(columns, numbered("line {}", rows[:, 3] + first_line))
