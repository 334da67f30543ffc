"""RDMA NICs replaying a trace that says itself what is registered when.

A request has its region's number in place of its process, and the region's own pages, so that all
else is as with memory that was registered ahead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.config.scheme import Scheme
from nicscope.drivers.replay import parting
from nicscope.drivers.replay.columns import RegionRows
from nicscope.drivers.replay.naming import Desk, Namer
from nicscope.drivers.replay.node import Notes
from nicscope.drivers.replay.rnic import RnicNode
from nicscope.drivers.replay.schemes.regions import (
    DEREGISTER,
    GIVEN_BACK,
    HOST,
    REGISTER,
    Caches,
    Case,
    HostRows,
    forget,
    go_through,
)
from nicscope.drivers.translation.build import counts_of_book, line_bits_of
from nicscope.errors import DesignError, MistakenRowError
from nicscope.kernel.entering import bound
from nicscope.kernel.records import longer, records
from nicscope.memory.regions import new_regions, with_room

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from nicscope.config.design import Design
    from nicscope.drivers.replay.columns import RegionColumns


def follows_registrations(designs: Sequence[Design], registrations: int) -> bool:
    """Whether a replay of ``designs`` follows the ``registrations`` of its trace.

    Errors: ``DesignError`` if one that would says itself what is registered.
    """
    nics = [design for design in designs if design.scheme is Scheme.RNIC]
    if not registrations or not nics:
        return False
    for design in nics:
        for name in ("registered", "indirect"):
            if getattr(design, name) is not None:
                raise DesignError(
                    f"design {design.name!r}: {name} is set, but the trace says itself what is "
                    f"registered when; leave {name} out"
                )
    return True


class RegionView:
    """The nodes of one design."""

    def __init__(self, design: Design, kinds: bool) -> None:
        self.design = design
        self._kinds = kinds
        self._desk = Desk()
        self._nodes: dict[int, _Host] = {}

    def feed(self, batch: RegionColumns) -> None:
        """Replay one batch of any length."""
        every = [getattr(batch, name) for name in RegionRows._fields]
        for node in np.unique(batch.node).tolist():
            if node not in self._nodes:
                self._nodes[node] = _Host(self.design, self._kinds, node, self._desk)
            chosen = np.flatnonzero(batch.node == node)
            own = [column[chosen] for column in every]
            for piece in parting.pieces(len(chosen)):
                rows = slice(piece.start, piece.stop)
                self._nodes[node].feed(RegionRows._make(column[rows] for column in own))

    def nodes(self) -> list[RegionNode]:
        """The NICs, node by node."""
        return [host.nic for host in self._nodes.values()]


class RegionNode(RnicNode):
    """An RDMA NIC whose host registers on the way; what it registered stands in the book."""

    by_region = True

    def counts(self) -> dict[str, int | None]:
        """Every count so far; the kinds are None where they were not told apart."""
        self._note_requests()
        return counts_of_book(self._book)

    def caches(self, namer: Namer) -> Caches:
        """What regions leave that are given back."""
        return Caches(self._rnic, self._book, namer.numbering)

    @property
    def book(self) -> Any:
        """Where counts are written."""
        return self._book


class _Given(NamedTuple):
    """A region that was given back after so many requests of a piece."""

    after: int
    number: int
    line: int
    lines: int


class _Host:
    """One node: what is registered on it, and its NIC."""

    def __init__(self, design: Design, kinds: bool, number: int, desk: Desk) -> None:
        assert design.page_size is not None
        page_bits = design.page_size.bit_length() - 1
        self.nic = RegionNode(design, page_bits, kinds, number, ())
        self._number = number
        self._rows = 0  # that were carried out
        self._desk = desk
        self._namer = Namer(line_bits_of(design))
        self._notes = Notes(parting.UNITS)
        self._host = records(1, HOST)
        self._host[0]["page_bits"] = page_bits
        self._host[0]["line_bits"] = line_bits_of(design)
        self._live, self._gone = new_regions(), new_regions()
        self._given_back = records(0, GIVEN_BACK)
        self._found = np.zeros(2, np.int64)
        self._caches: Caches | None = None
        self._forget: Callable[..., None] | None = None

    def feed(self, rows: RegionRows) -> None:
        """Carry out one piece of this node's rows.  Errors: ``MistakenRowError``."""
        case = self._case(rows)
        end = go_through(case, 0, len(rows.pid))
        if end < len(rows.pid):
            nth = self._rows + int(end)
            raise MistakenRowError(_not_registered(rows, int(end)), self._number, nth)
        self._rows += len(rows.pid)
        begin = 0
        for given in self._given():
            self._look_up(begin, given.after)
            self._forgetting()(given.number, given.line, given.lines)
            begin = given.after
        self._look_up(begin, int(self._found[0]))

    def _forgetting(self) -> Callable[..., None]:
        """The kernel that drops what is given back, for the node as it is."""
        caches = self.nic.caches(self._namer)
        known = self._caches
        if known is None or any(one is not other for one, other in zip(caches, known, strict=True)):
            self._caches = caches
            self._forget = bound(forget, caches)
        assert self._forget is not None
        return self._forget

    def _case(self, rows: RegionRows) -> Case:
        kinds = rows.kind
        self._live = with_room(self._live, int(np.count_nonzero(kinds == REGISTER)))
        leaving = int(np.count_nonzero(kinds == DEREGISTER))
        self._gone = with_room(self._gone, leaving)
        self._given_back = longer(self._given_back, leaving)
        return Case(
            host=self._host,
            live=self._live,
            gone=self._gone,
            book=self.nic.book,
            rows=_host_rows(rows, kinds),
            stream=self._desk.stream,
            given_back=self._given_back,
            found=self._found,
        )

    def _given(self) -> Iterator[_Given]:
        for row in self._given_back[: int(self._found[1])].tolist():
            yield _Given(*row)

    def _look_up(self, begin: int, end: int) -> None:
        """Have the NIC look up what requests ``begin..end`` of the stream touch."""
        owners = int(self._host[0]["regions"]) + 1
        for named in self._namer.named(self._desk, begin, end):
            if named.lookups > len(self._notes.key):
                self._notes = Notes(named.lookups)
            self.nic.replay(self._namer.numbering, self._desk, self._notes, named, owners)


def _host_rows(rows: RegionRows, kinds: NDArray[np.uint8]) -> HostRows:
    # log2 of a power of two is exact; 0 stands for a size that is not said.
    bits = np.frexp(rows.page_size.astype(np.float64))[1].astype(np.int64) - 1
    return HostRows(
        process=rows.pid.astype(np.int64),
        kind=kinds,
        receive=np.ascontiguousarray(rows.receive),
        address=np.ascontiguousarray(rows.address),
        length=np.ascontiguousarray(rows.region_bytes),
        page_bits=np.where(rows.page_size > 0, bits, -1),
        rights=np.ascontiguousarray(rows.rights),
    )


def _not_registered(rows: RegionRows, row: int) -> str:
    size = int(rows.page_size[row])
    of_pages = f" in pages of {size} bytes" if size else ""
    return (
        f"process {rows.pid[row]} of node {rows.node[row]} deregisters "
        f"{int(rows.region_bytes[row]):,} bytes at {int(rows.address[row]):#x}{of_pages} (at "
        f"{rows.time_ns[row]} ns), where no such region is registered; a region is given back as "
        "it was registered"
    )
