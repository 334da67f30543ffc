"""One RDMA NIC replaying requests: memory registered ahead, or as the trace says itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.config.design import Design, Scheme
from nicscope.drivers.replay import columns
from nicscope.drivers.replay.columns import (
    RegionColumns,
    RegionRows,
    RequestColumns,
    TracePartitioner,
    new_stream,
)
from nicscope.drivers.replay.node import Notes
from nicscope.drivers.replay.page_numbering import (
    LookupArrays,
    Lookups,
    NumberedRequests,
    PageNumberer,
)
from nicscope.drivers.replay.schemes.cache_pass import note_lookups
from nicscope.drivers.replay.schemes.rnic import (
    DEREGISTER,
    GIVEN_BACK,
    HOST,
    REGISTER,
    Caches,
    Case,
    HostRows,
    RegionCase,
    forget,
    replay_rnic,
    replay_rows,
)
from nicscope.drivers.translation import (
    CODES,
    counts_of_book,
    line_bits_of,
    rnic_bytes,
    rnic_caches,
)
from nicscope.errors import DesignError, MistakenRowError
from nicscope.kernel.entry import bound
from nicscope.kernel.records import longer, records
from nicscope.memory.numbering import Numbering, capacity
from nicscope.memory.regions import new_regions, with_room
from nicscope.nic.translate.book import SEEN, grown_book, new_book
from nicscope.nic.translate.rnic import KLM_BYTES, MPT_BYTES, MTT_BYTES, new_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray


class RnicNode:
    """An RDMA NIC as ``design`` (its page size settled) has it, replaying requests."""

    by_region = False  # whether what has a process's place is a region's number

    def __init__(
        self, design: Design, page_bits: int, kinds: bool, number: int, pools: Sequence[int]
    ) -> None:
        """``pools``: the lowest address of each process, if it registered ahead from there on."""
        self.number = number
        self._design = design
        self._line = design.line or 1
        self._requests = self._lookups = self._received = self._processes = 0
        self._rnic = rnic_caches(design)
        self._pool_pages = -(-(design.registered or 0) >> page_bits)
        self._pools = np.array([low >> page_bits for low in pools], np.int64)
        self._part_bits = (design.indirect or 0).bit_length() - 1 - page_bits
        self._rules = new_rules(
            line_bits_of(design),
            design.mtu,
            design.indirect is not None,
            self._pool_pages,
            self.by_region,
        )
        self._parts = PageNumberer(self._part_bits) if design.indirect is not None else None
        self._part_desk: LookupArrays | None = None
        shadow = ((design.entries or 0) + (design.l1_entries or 0)) // self._line
        self._book = new_book(kinds, shadow)
        self._book.orders[0]["kinds_known"] = kinds
        self._book.orders[0]["cached"] = True
        self._book.orders[0]["scheme"] = CODES[design.scheme]
        self._touched_parts = np.zeros(0, np.bool_)
        self._bound: _Bound | None = None

    def replay(
        self,
        numbering: Numbering,
        lookup_arrays: LookupArrays,
        notes: Notes,
        named: NumberedRequests,
        processes: int,
    ) -> None:
        """Replays requests of this node, whose numbered lookups are in the arrays."""
        self._processes = processes
        if processes > len(self._pools):
            assert not self._pool_pages
            self._pools = np.zeros(2 * processes, np.int64)
            self._bound = None
        if capacity(numbering) > len(self._book.past):
            self._book = grown_book(self._book, capacity(numbering))
            self._bound = None
        parts = self._name_parts(lookup_arrays, named)
        if self._bound is None or not self._bound.is_of(lookup_arrays, parts, notes):
            self._bound = self._on(lookup_arrays, parts, notes)
        self._requests += named.end - named.begin
        self._lookups += named.pages
        self._received += named.received
        for do in self._bound.passes:
            do(named.begin, named.end, named.lookups)

    def _name_parts(self, lookup_arrays: LookupArrays, named: NumberedRequests) -> Lookups:
        """Numbers the parts of indirect regions that the piece's requests touch."""
        if self._parts is None:
            return lookup_arrays.lookups
        if self._part_desk is None or self._part_desk.stream is not lookup_arrays.stream:
            self._part_desk = LookupArrays(lookup_arrays.stream)
        own = self._part_desk
        if len(own.lookups.number) < len(lookup_arrays.lookups.number):
            own.make_room(len(lookup_arrays.lookups.number))
        # No more than lines: one piece has them all.
        [found] = self._parts.named(own, named.begin, named.end)
        room = capacity(self._parts.numbering)
        if room > len(self._touched_parts):
            self._touched_parts = np.append(
                self._touched_parts, np.zeros(room - len(self._touched_parts), np.bool_)
            )
        self._touched_parts[own.lookups.number[: found.lookups]] = True
        return own.lookups

    def _on(self, lookup_arrays: LookupArrays, parts: Lookups, notes: Notes) -> _Bound:
        lookups = lookup_arrays.lookups
        case = Case(
            rnic=self._rnic,
            book=self._book,
            rules=self._rules,
            pools=self._pools,
            stream=lookup_arrays.stream,
            key=lookups.number,
            set_index=lookups.set_index,
            receive=lookups.receive,
            outcome=notes.outcome,
            part=parts.number,
            part_index=parts.set_index,
            part_bits=np.array([self._part_bits], np.int64),
        )
        return _Bound(case, lookup_arrays, parts, notes)

    def counts(self) -> dict[str, int | None]:
        """Every count so far; the kinds are None where they were not told apart."""
        self._note_requests()
        record = self._book.counts[0]
        lines, pages, parts = self._registered()
        record["regions"] = self._processes + parts
        record["mtt_entries"] = record["pins"] = record["peak_pinned_pages"] = pages
        record["pin_calls"] = parts if self._design.indirect is not None else self._processes
        record["icm_bytes"] = (
            (self._processes + parts) * MPT_BYTES
            + lines * self._line * MTT_BYTES
            + parts * KLM_BYTES
        )
        return counts_of_book(self._book)

    def _note_requests(self) -> None:
        """Adds what is counted here to the book."""
        record = self._book.counts[0]
        record["requests"] = self._requests
        record["lookups"] = self._lookups
        record["lookups_receive"] = self._received
        record["lookups_send"] = self._lookups - self._received
        record["entries_fetched"] = int(record["ni_misses"]) * self._line

    def _registered(self) -> tuple[int, int, int]:
        """Lines, pages and parts of indirect regions that have entries in host memory."""
        if not self._pool_pages:
            lines = int(np.count_nonzero(self._book.past & SEEN))
            return lines, lines * self._line, int(np.count_nonzero(self._touched_parts))
        first = self._pools[: self._processes]
        last = first + self._pool_pages - 1
        bits = line_bits_of(self._design)
        lines = int(np.sum((last >> bits) - (first >> bits) + 1))
        parts = 0
        if self._design.indirect is not None:
            parts = int(np.sum((last >> self._part_bits) - (first >> self._part_bits) + 1))
        return lines, self._processes * self._pool_pages, parts

    def nic_memory_bytes(self) -> dict[str, int]:
        """Bytes of NIC memory that each cache takes, and the tags of all."""
        return rnic_bytes(self._design)


class _Bound:
    """The kernels of a design, bound to one node and one set of lookup arrays."""

    def __init__(
        self, case: Case, lookup_arrays: LookupArrays, parts: Lookups, notes: Notes
    ) -> None:
        self._lookup_arrays, self._lookups, self._parts, self._notes = (
            lookup_arrays,
            lookup_arrays.lookups,
            parts,
            notes,
        )
        self.passes = [bound(each, case) for each in (replay_rnic, note_lookups)]

    def is_of(self, lookup_arrays: LookupArrays, parts: Lookups, notes: Notes) -> bool:
        same_desk = lookup_arrays is self._lookup_arrays and lookup_arrays.lookups is self._lookups
        return same_desk and parts is self._parts and notes is self._notes


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
        self._lookup_arrays = LookupArrays()
        self._nodes: dict[int, _Host] = {}

    def feed(self, batch: RegionColumns) -> None:
        """Replay one batch of any length."""
        every = [getattr(batch, name) for name in RegionRows._fields]
        for node in np.unique(batch.node).tolist():
            if node not in self._nodes:
                self._nodes[node] = _Host(self.design, self._kinds, node, self._lookup_arrays)
            chosen = np.flatnonzero(batch.node == node)
            own = [column[chosen] for column in every]
            for piece in columns.pieces(len(chosen)):
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

    def caches(self, namer: PageNumberer) -> Caches:
        """What regions leave that are given back."""
        return Caches(self._rnic, self._book, namer.numbering)

    @property
    def book(self) -> Any:
        """Where counts are written."""
        return self._book


class _Given(NamedTuple):
    """A region deregistered after so many requests of a piece."""

    after: int
    number: int
    line: int
    lines: int


class _Host:
    """One node: what is registered on it, and its NIC."""

    def __init__(
        self, design: Design, kinds: bool, number: int, lookup_arrays: LookupArrays
    ) -> None:
        assert design.page_size is not None
        page_bits = design.page_size.bit_length() - 1
        self.nic = RegionNode(design, page_bits, kinds, number, ())
        self._number = number
        self._rows = 0  # that were carried out
        self._lookup_arrays = lookup_arrays
        self._namer = PageNumberer(line_bits_of(design))
        self._notes = Notes(columns.UNITS)
        self._host = records(1, HOST)
        self._host[0]["page_bits"] = page_bits
        self._host[0]["line_bits"] = line_bits_of(design)
        self._live, self._gone = new_regions(), new_regions()
        self._given_back = records(0, GIVEN_BACK)
        self._found = np.zeros(2, np.int64)
        self._caches: Caches | None = None
        self._forget: Callable[..., None] | None = None

    def feed(self, rows: RegionRows) -> None:
        """Replays one piece of this node's rows.  Errors: ``MistakenRowError``."""
        case = self._case(rows)
        end = replay_rows(case, 0, len(rows.pid))
        if end < len(rows.pid):
            nth = self._rows + int(end)
            raise MistakenRowError(_not_registered(rows, int(end)), self._number, nth)
        self._rows += len(rows.pid)
        begin = 0
        for given in self._given():
            self._look_up(begin, given.after)
            self._drop_kernel()(given.number, given.line, given.lines)
            begin = given.after
        self._look_up(begin, int(self._found[0]))

    def _drop_kernel(self) -> Callable[..., None]:
        """The kernel that drops deregistered regions from the caches, for the node as it is."""
        caches = self.nic.caches(self._namer)
        known = self._caches
        if known is None or any(one is not other for one, other in zip(caches, known, strict=True)):
            self._caches = caches
            self._forget = bound(forget, caches)
        assert self._forget is not None
        return self._forget

    def _case(self, rows: RegionRows) -> RegionCase:
        kinds = rows.kind
        self._live = with_room(self._live, int(np.count_nonzero(kinds == REGISTER)))
        leaving = int(np.count_nonzero(kinds == DEREGISTER))
        self._gone = with_room(self._gone, leaving)
        self._given_back = longer(self._given_back, leaving)
        return RegionCase(
            host=self._host,
            live=self._live,
            gone=self._gone,
            book=self.nic.book,
            rows=_host_rows(rows, kinds),
            stream=self._lookup_arrays.stream,
            given_back=self._given_back,
            found=self._found,
        )

    def _given(self) -> Iterator[_Given]:
        for row in self._given_back[: int(self._found[1])].tolist():
            yield _Given(*row)

    def _look_up(self, begin: int, end: int) -> None:
        """Have the NIC look up what requests ``begin..end`` of the stream touch."""
        owners = int(self._host[0]["regions"]) + 1
        for named in self._namer.named(self._lookup_arrays, begin, end):
            if named.lookups > len(self._notes.key):
                self._notes = Notes(named.lookups)
            self.nic.replay(self._namer.numbering, self._lookup_arrays, self._notes, named, owners)


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


Lowest = list[list[int]]  # by node, then by process, in order of appearance: bytes
LEAST_BITS = 9  # of a page: the lowest address is told in these
_NONE = np.iinfo(np.int64).max


def registers_ahead(designs: Iterable[Design]) -> bool:
    """Whether some design needs to know where the memory of processes begins."""
    return any(design.registered is not None for design in designs)


def lowest_addresses(batches: Iterable[RequestColumns]) -> Lowest:
    """The lowest address of each process, rounded down to the smallest page."""
    parter, stream = TracePartitioner(), new_stream(columns.ROWS)
    found: list[np.ndarray] = []
    for batch in batches:
        for piece in columns.pieces(len(batch.node)):
            parter.owners(batch, piece)
            for share in parter.shares(LEAST_BITS, stream):
                if share.place == len(found):
                    found.append(np.zeros(0, np.int64))
                processes = int(parter.directory.processes[share.place])
                missing = processes - len(found[share.place])
                found[share.place] = np.append(found[share.place], np.full(missing, _NONE))
                rows = slice(share.begin, share.end)
                np.minimum.at(found[share.place], stream.process[rows], stream.first[rows])
    return [[int(low) << LEAST_BITS for low in node] for node in found]
