"""What VIA and verbs have in common: pinned pages, ports of work queues, places for posts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.drivers.simulate.records import CHAIN
from nicscope.host.calls import deregister_pages
from nicscope.kernel.decorators import kernel
from nicscope.nic.ports.layout import IDLE, NOBODY, WORK_QUEUE
from nicscope.nic.ports.work_queues import ASYNC_ERRORS

if TYPE_CHECKING:
    from nicscope.drivers.simulate.ports.state import Ports
    from nicscope.drivers.simulate.process import Process as SimProcess


@kernel
def deregister(machine: Any, n: int, p: int, address: int, length: int) -> None:
    """Unpin the pages of a range that a port's process has registered."""
    deregister_pages(machine, n, p, address, length)


class PinnedPages(dict[int, int]):
    """How often each page of an address space is registered."""

    def __init__(self, page_size: int) -> None:
        super().__init__()
        self._size = page_size

    def pages(self, address: int, length: int) -> range:
        """The pages of a range, which is not empty."""
        return range(address // self._size, (address + length - 1) // self._size + 1)

    def note(self, address: int, length: int, change: int) -> list[int]:
        """Count a registration, or take one back; the pages that are no longer registered."""
        gone: list[int] = []
        for page in self.pages(address, length):
            left = self.get(page, 0) + change
            if left:
                self[page] = left
            else:
                del self[page]
                gone.append(page)
        return gone


def store(record: Any, **values: int) -> None:
    """Store values into the fields of a record of the NIC."""
    for name, value in values.items():
        record[name] = value


def open_port(record: Any, **values: int) -> None:
    """Make a port one of work queues, idle and without a peer; ``values``: its further fields."""
    record["given"] += record["takes"] == WORK_QUEUE  # else it is new
    store(record, takes=WORK_QUEUE, state=IDLE, channel=NOBODY, **values)


def open_completion_queue(record: Any, entries: int, notices: int = NOBODY) -> None:
    """Open a completion queue, empty; ``notices``: the queue that announces its entries too."""
    store(record, open=1, entries=entries, written=0, shown=0, read=0, notices=notices + 1)


def errors_since(ports: Ports, node: int, port: int, heard: int) -> tuple[list[int], int]:
    """The codes of a port's asynchronous errors after the first ``heard``, and how many all are.

    Of many the NIC keeps the last.
    """
    told = int(ports.table[node, port]["async_errors"])
    kept: Any = ports.work.async_errors[node, port]
    fresh = range(max(heard, told - ASYNC_ERRORS), told)
    return [int(kept[number % ASYNC_ERRORS]) for number in fresh], told


def posting_places(
    ports: Ports, sim_process: SimProcess
) -> tuple[list[memoryview], list[memoryview]]:
    """Where the driver reads segments and words of posts: of a chain's first, second and so on."""
    number = sim_process.number
    pieces: Any = (ports.gathers[number], *ports.gathered[number])
    words = sim_process.control_bytes, *(memoryview(one) for one in sim_process.inlined)
    return [memoryview(one.view(np.uint8)) for one in pieces[:CHAIN]], list(words)
