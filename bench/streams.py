"""The generated page accesses as what each simulator reads: requests, addresses, a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from workload import workload

from nicscope.drivers.translation import OFFSET_STEP
from nicscope.traces.objects import NEVER, RECORD

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

ACCESSES = 20_000_000
PAGES = 50_000
PROCESSES = 4
PAGE_BITS = 12


class Columns(NamedTuple):
    """Requests in the order of issue, as ``nicscope.drivers.replay.replay`` takes them."""

    node: NDArray[np.int32]
    pid: NDArray[np.int32]
    receive: NDArray[np.uint8]
    address: NDArray[np.uint64]
    length: NDArray[np.uint32]


class Accesses(NamedTuple):
    """Page accesses, one after the other."""

    process: NDArray[np.int32]  # ordinal, in the order of appearance
    page: NDArray[np.int64]  # below PAGES / PROCESSES: every process has pages 0, 1, ...
    number: NDArray[np.uint32]  # one name per (process, page)


def accesses(count: int = ACCESSES) -> Accesses:
    """``count`` accesses of 50 k pages by four processes; always the same."""
    own = PAGES // PROCESSES
    number = workload(count, PAGES, PROCESSES).numbers
    process, page = np.divmod(number.astype(np.int64), own)
    _, first = np.unique(process, return_index=True)
    ordinal = np.empty(PROCESSES, np.int32)
    ordinal[process[np.sort(first)]] = np.arange(len(first))
    return Accesses(ordinal[process], page, number)


def as_requests(some: Accesses, pages: int = 1) -> Columns:
    """One request per access of the ``pages`` pages (a power of two) around it, all of one node."""
    first = (some.page & ~np.int64(pages - 1)).astype(np.uint64)
    rows = len(first)
    return Columns(
        np.zeros(rows, np.int32),
        some.process + np.int32(100),
        (np.arange(rows) % 4 == 3).astype(np.uint8),
        first << np.uint64(PAGE_BITS),
        np.full(rows, pages << PAGE_BITS, np.uint32),
    )


def as_addresses(some: Accesses) -> list[int]:
    """Byte addresses whose line of one page falls into the set that nicscope's cache uses.

    The step between processes exceeds their pages, so no two share a line.  Equal numbers are one
    object: a list of them is what pycachesim iterates over fastest.
    """
    assert PAGES // PROCESSES < OFFSET_STEP
    lines = np.add.outer(np.arange(PROCESSES) * OFFSET_STEP, np.arange(PAGES // PROCESSES))
    known = np.array((lines << PAGE_BITS).tolist(), dtype=object)
    found: list[int] = known[some.process, some.page].tolist()
    return found


def write_objects(path: Path, some: Accesses) -> None:
    """Write the accesses as an ``oracleGeneral`` file of objects of one byte, without futures."""
    rows = np.zeros(len(some.number), RECORD)
    rows["object_id"], rows["byte_count"], rows["next_access"] = some.number, 1, NEVER
    rows.tofile(path)
