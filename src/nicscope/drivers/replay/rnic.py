"""An RDMA NIC replaying requests: memory registered ahead, or as the trace says itself.

For each request its region is looked up, then its pages line by line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.config.design import Design, Scheme
from nicscope.drivers import translation
from nicscope.drivers.replay import columns
from nicscope.drivers.replay.node import Bound, Notes
from nicscope.drivers.replay.page_numbering import (
    LookupArrays,
    Lookups,
    NumberedRequests,
    PageNumberer,
)
from nicscope.drivers.replay.schemes import note_lookups
from nicscope.errors import DesignError, MistakenRowError
from nicscope.kernel.decorators import kernel, step
from nicscope.kernel.entry import bound
from nicscope.kernel.records import longer, records
from nicscope.memory import numbering as numbers
from nicscope.memory import regions as table
from nicscope.memory.numbering import NONE, Numbering, capacity, process_of, unit_of
from nicscope.memory.regions import DENIED, Regions, new_regions, with_room
from nicscope.nic.layout import EMPTY
from nicscope.nic.translate.book import NOT_DONE, SEEN, Book, grown_book, new_book, note_pins
from nicscope.nic.translate.rnic import (
    KLM_BYTES,
    MPT_BYTES,
    MTT_BYTES,
    ask_line,
    ask_part,
    ask_regions,
    invalidate_line,
    invalidate_region,
    is_outside,
    new_rules,
    packets_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from nicscope.nic.translate.state import Rnic


REQUEST, REGISTER, DEREGISTER = range(3)  # kinds of rows
NO_REGION = 0  # whose requests are nobody's; regions are numbered from 1

HOST = np.dtype(
    [
        ("regions", "i8"),  # registered so far
        ("lines", "i8"),  # of the table of pages, given so far
        ("table_bytes", "i8"),  # of the tables of what is registered now
        ("page_bits", "i8"),  # of the host's pages, and of regions that do not say theirs
        ("line_bits", "i8"),
    ],
    align=True,
)
# Of a region that was given back: after how many requests of the piece.
GIVEN_BACK = np.dtype(
    [("after", "i8"), ("number", "i8"), ("line", "i8"), ("lines", "i8")], align=True
)


class HostRows(NamedTuple):
    """Rows of one node, each of shape (rows,)."""

    process: NDArray[np.int64]
    kind: NDArray[np.uint8]
    receive: NDArray[np.uint8]
    address: NDArray[np.uint64]
    length: NDArray[np.uint64]
    page_bits: NDArray[np.int64]  # of a registration; -1: not said
    rights: NDArray[np.uint8]  # that it gives, or that a request needs


class RegionCase(NamedTuple):
    """One node's regions, and the piece of its rows that is gone through."""

    host: NDArray[Any]  # HOST, shape (1,)
    live: Regions
    gone: Regions  # given back, but for those within another that was
    book: Book
    rows: HostRows
    stream: columns.Stream  # of the piece's requests: their region in place of the process
    given_back: NDArray[Any]  # GIVEN_BACK, shape (deregistrations + room,)
    found: NDArray[np.int64]  # shape (2,): requests in the stream, regions given back


@kernel
def replay_rows(case, begin, end):
    """Replays rows ``begin..end``, for which all arrays have space.

    Returns the first row that gives back what is not registered, or ``end``.
    """
    case.found[0] = 0
    case.found[1] = 0
    for row in range(begin, end):
        kind = case.rows.kind[row]
        if kind == REGISTER:
            _register(case, row)
        elif kind == REQUEST:
            _request(case, row)
        elif not _give_back(case, row):
            return np.int64(row)
    return np.int64(end)


@step
def _last_of(case, row):
    return case.rows.address[row] + (case.rows.length[row] - np.uint64(1))


@step
def _register(case, row):
    host, counts = case.host[0], case.book.counts[0]
    first, last = case.rows.address[row], _last_of(case, row)
    bits = np.int64(case.rows.page_bits[row])
    bits = np.int64(host.page_bits) if bits < 0 else bits
    host.regions += 1
    at = table.add(case.live, np.int64(case.rows.process[row]), first, last)
    region = case.live.rows[at]
    region.number = host.regions
    region.page_bits = bits
    region.rights = np.int64(case.rows.rights[row])
    region.line = host.lines
    lines = _lines_of(host, region)
    host.lines += lines
    counts.regions += 1
    counts.pin_calls += 1
    counts.mtt_entries += _pages_between(first, last, bits)
    note_pins(case.book, _host_pages_of(host, region))
    host.table_bytes += MPT_BYTES + (lines << host.line_bits) * MTT_BYTES
    counts.icm_bytes = max(counts.icm_bytes, host.table_bytes)


@step
def _pages_between(first, last, bits):
    """Pages of 2**bits bytes that hold the bytes from ``first`` to ``last``."""
    shift = np.uint64(bits)
    return np.int64((last >> shift) - (first >> shift)) + 1


@step
def _lines_of(host, region):
    pages = _pages_between(region.first, region.last, region.page_bits)
    return (pages + (np.int64(1) << host.line_bits) - 1) >> host.line_bits


@step
def _host_pages_of(host, region):
    """Pages of the host that the region's own lie in: these are pinned."""
    within = (np.uint64(1) << np.uint64(region.page_bits)) - np.uint64(1)
    first = region.first - (region.first & within)
    return _pages_between(first, region.last | within, host.page_bits)


@step
def _give_back(case, row):
    """Deregisters a region; returns whether there is such a region."""
    host, counts = case.host[0], case.book.counts[0]
    process = np.int64(case.rows.process[row])
    first, last = case.rows.address[row], _last_of(case, row)
    at = table.find_exact(case.live, process, first, last, np.int64(case.rows.page_bits[row]))
    if at < 0:
        return False
    region = case.live.rows[at]
    lines = _lines_of(host, region)
    pages = _host_pages_of(host, region)
    given = case.given_back[case.found[1]]
    given.after = case.found[0]
    given.number = region.number
    given.line = region.line
    given.lines = lines
    case.found[1] += 1
    counts.unpin_calls += 1
    counts.unpins += pages
    counts.pinned_pages -= pages
    host.table_bytes -= MPT_BYTES + (lines << host.line_bits) * MTT_BYTES
    table.remove(case.live, at)
    if table.find(case.gone, process, first, last, 0) < 0:
        at = table.add(case.gone, process, first, last)
        case.gone.rows[at].rights = 0
    return True


@step
def _request(case, row):
    host, counts, stream = case.host[0], case.book.counts[0], case.stream
    process = np.int64(case.rows.process[row])
    first, last = case.rows.address[row], _last_of(case, row)
    to = case.found[0]
    case.found[0] += 1
    stream.receive[to] = case.rows.receive[row]
    stream.length[to] = case.rows.length[row]
    at = table.find(case.live, process, first, last, np.int64(case.rows.rights[row]))
    if at >= 0:
        region = case.live.rows[at]
        shift = np.uint64(region.page_bits)
        stream.process[to] = region.number
        page = np.int64((first >> shift) - (region.first >> shift))
        stream.first[to] = (np.int64(region.line) << host.line_bits) + page
        stream.pages[to] = _pages_between(first, last, region.page_bits)
        return
    stream.process[to] = NO_REGION
    stream.first[to] = np.int64(first >> np.uint64(host.page_bits))
    stream.pages[to] = _pages_between(first, last, host.page_bits)
    if at == DENIED:
        counts.rejected_rights += 1
    elif table.find(case.gone, process, first, last, 0) >= 0:
        counts.rejected_deregistered += 1
    else:
        counts.rejected_unregistered += 1


class Caches(NamedTuple):
    """The caches from which a deregistered region is dropped."""

    rnic: Rnic
    book: Book
    numbering: Numbering  # of lines


@kernel
def forget(caches, region, line, lines):
    """Drop the entry of ``region`` and its ``lines`` lines from ``line`` on from all caches.

    Line by line, or by all that the caches hold, whichever is less.
    """
    rnic, book, known = caches.rnic, caches.book, caches.numbering
    invalidate_region(rnic, book, region)
    if lines <= rnic.pages.tags.size + rnic.pages_1.tags.size:
        for number in range(line, line + lines):
            key = numbers.find(known, region, np.int64(number))
            if key != NONE:
                invalidate_line(rnic, book, key, np.int64(number))
        return
    # Backwards: a tag that goes makes those behind it move.
    for place in range(rnic.pages.tags.size - 1, -1, -1):
        tag = np.int64(rnic.pages.tags[place])
        if tag != EMPTY and process_of(known, tag - 1) == region:
            invalidate_line(rnic, book, tag - 1, unit_of(known, tag - 1))
    for place in range(rnic.pages_1.tags.size - 1, -1, -1):
        tag = np.int64(rnic.pages_1.tags[place])
        key = (tag >> 1) - 1
        if tag != EMPTY and tag & 1 == 0 and process_of(known, key) == region:
            invalidate_line(rnic, book, key, unit_of(known, key))


class Case(NamedTuple):
    """One RDMA NIC; its requests and lookups are overwritten piece by piece."""

    rnic: Rnic
    book: Book
    rules: NDArray[Any]  # ``RULES`` of the firmware
    pools: NDArray[np.int64]  # shape (processes,): first page of what each registered ahead
    stream: columns.Stream  # shape (requests,)
    key: NDArray[np.uint32]  # shape (lookups,): names of lines, as all that follow
    set_index: NDArray[np.uint32]  # low bits of the line's number
    receive: NDArray[np.uint8]
    outcome: NDArray[np.uint8]  # as ``book`` has it
    part: NDArray[np.uint32]  # shape (parts,): of indirect regions, request after request
    part_index: NDArray[np.uint32]  # low bits of the part's number
    part_bits: NDArray[np.int64]  # shape (1,): log2 of the pages of a part


@kernel
def replay_rnic(case, begin, end, _count):
    """Replay requests ``begin..end``; lines are looked up once a request."""
    rules = case.rules[0]
    at = np.int64(0)
    part = np.int64(0)
    for row in range(begin, end):
        first, pages = case.stream.first[row], np.int64(case.stream.pages[row])
        lines = _units_of(first, pages, rules.line_bits)
        parts = _units_of(first, pages, case.part_bits[0]) if rules.is_indirect else np.int64(0)
        process = np.int64(case.stream.process[row])
        is_nobodys = rules.by_region == 1 and process == 0
        if is_nobodys or is_outside(rules, case.pools[process], first, pages):
            case.book.counts[0].rejected += 1
            for i in range(at, at + lines):
                case.outcome[i] = NOT_DONE
        else:
            _look_up_regions(case, rules, row, process, part, parts)
            _look_up_lines(case, at, lines)
            case.book.counts[0].mtt_l0_hits += pages
        at += lines
        part += parts


@step
def _units_of(first, pages, bits):
    return ((first + pages - 1) >> bits) - (first >> bits) + 1


@step
def _look_up_regions(case, rules, row, process, part, parts):
    """Look up the region of request ``row`` for each of its packets."""
    packets = packets_of(rules, np.int64(case.stream.length[row]))
    if not rules.is_indirect:
        ask_regions(case.rnic, case.book, process, packets)
        return
    for packet in range(max(packets, parts)):
        at = part + min(packet, parts - 1)
        key, number = np.int64(case.part[at]), np.int64(case.part_index[at])
        ask_part(case.rnic, case.book, process, key, number)


@step
def _look_up_lines(case, at, lines):
    """Look up ``lines`` lines, whose names begin at ``at``."""
    counts = case.book.counts[0]
    misses = counts.mtt_l0_misses
    for i in range(at, at + lines):
        key, number = np.int64(case.key[i]), np.int64(case.set_index[i])
        case.outcome[i] = ask_line(case.rnic, case.book, key, number)
    counts.mtt_l0_hits -= counts.mtt_l0_misses - misses


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
        self.rnic = translation.rnic_caches(design)
        self._pool_pages = -(-(design.registered or 0) >> page_bits)
        self._pools = np.array([low >> page_bits for low in pools], np.int64)
        self._part_bits = (design.indirect or 0).bit_length() - 1 - page_bits
        self._rules = new_rules(
            translation.line_bits_of(design),
            design.mtu,
            design.indirect is not None,
            self._pool_pages,
            self.by_region,
        )
        self._parts = PageNumberer(self._part_bits) if design.indirect is not None else None
        self._part_arrays: LookupArrays | None = None
        shadow = ((design.entries or 0) + (design.l1_entries or 0)) // self._line
        self.book = new_book(kinds, shadow)
        self.book.orders[0]["kinds_known"] = kinds
        self.book.orders[0]["cached"] = True
        self.book.orders[0]["scheme"] = translation.CODES[design.scheme]
        self._touched_parts = np.zeros(0, np.bool_)
        self._bound: Bound | None = None

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
        if capacity(numbering) > len(self.book.past):
            self.book = grown_book(self.book, capacity(numbering))
            self._bound = None
        parts = self._name_parts(lookup_arrays, named)
        made_of = lookup_arrays, lookup_arrays.lookups, parts, notes
        if self._bound is None or not self._bound.is_of(*made_of):
            case = self._case(lookup_arrays, parts, notes)
            self._bound = Bound((replay_rnic, note_lookups), case, *made_of)
        self._requests += named.end - named.begin
        self._lookups += named.pages
        self._received += named.received
        for do in self._bound.passes:
            do(named.begin, named.end, named.lookups)

    def _name_parts(self, lookup_arrays: LookupArrays, named: NumberedRequests) -> Lookups:
        """Numbers the parts of indirect regions that the piece's requests touch."""
        if self._parts is None:
            return lookup_arrays.lookups
        if self._part_arrays is None or self._part_arrays.stream is not lookup_arrays.stream:
            self._part_arrays = LookupArrays(lookup_arrays.stream)
        own = self._part_arrays
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

    def _case(self, lookup_arrays: LookupArrays, parts: Lookups, notes: Notes) -> Case:
        lookups = lookup_arrays.lookups
        return Case(
            rnic=self.rnic,
            book=self.book,
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

    def counts(self) -> dict[str, int | None]:
        """Every count so far; the kinds are None where they were not told apart."""
        self._note_requests()
        record = self.book.counts[0]
        lines, pages, parts = self._registered()
        record["regions"] = self._processes + parts
        record["mtt_entries"] = record["pins"] = record["peak_pinned_pages"] = pages
        record["pin_calls"] = parts if self._design.indirect is not None else self._processes
        record["icm_bytes"] = (
            (self._processes + parts) * MPT_BYTES
            + lines * self._line * MTT_BYTES
            + parts * KLM_BYTES
        )
        return translation.counts_of_book(self.book)

    def _note_requests(self) -> None:
        """Adds what is counted here to the book."""
        record = self.book.counts[0]
        record["requests"] = self._requests
        record["lookups"] = self._lookups
        record["lookups_receive"] = self._received
        record["lookups_send"] = self._lookups - self._received
        record["entries_fetched"] = int(record["ni_misses"]) * self._line

    def _registered(self) -> tuple[int, int, int]:
        """Lines, pages and parts of indirect regions that have entries in host memory."""
        if not self._pool_pages:
            lines = int(np.count_nonzero(self.book.past & SEEN))
            return lines, lines * self._line, int(np.count_nonzero(self._touched_parts))
        first = self._pools[: self._processes]
        last = first + self._pool_pages - 1
        bits = translation.line_bits_of(self._design)
        lines = int(np.sum((last >> bits) - (first >> bits) + 1))
        parts = 0
        if self._design.indirect is not None:
            parts = int(np.sum((last >> self._part_bits) - (first >> self._part_bits) + 1))
        return lines, self._processes * self._pool_pages, parts

    def nic_memory_bytes(self) -> dict[str, int]:
        """Bytes of NIC memory that each cache takes, and the tags of all."""
        return translation.rnic_bytes(self._design)


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

    def feed(self, batch: columns.RegionColumns) -> None:
        """Replay one batch of any length."""
        every = [getattr(batch, name) for name in columns.RegionRows._fields]
        for node in np.unique(batch.node).tolist():
            if node not in self._nodes:
                self._nodes[node] = _Host(self.design, self._kinds, node, self._lookup_arrays)
            chosen = np.flatnonzero(batch.node == node)
            own = [column[chosen] for column in every]
            for piece in columns.pieces(len(chosen)):
                rows = slice(piece.start, piece.stop)
                self._nodes[node].feed(columns.RegionRows._make(column[rows] for column in own))

    def nodes(self) -> list[RegionNode]:
        """The NICs, node by node."""
        return [host.nic for host in self._nodes.values()]


class RegionNode(RnicNode):
    """An RDMA NIC whose host registers on the way; what it registered stands in the book."""

    by_region = True

    def counts(self) -> dict[str, int | None]:
        """Every count so far; the kinds are None where they were not told apart."""
        self._note_requests()
        return translation.counts_of_book(self.book)


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
        self._namer = PageNumberer(translation.line_bits_of(design))
        self._notes = Notes(columns.UNITS)
        self._host = records(1, HOST)
        self._host[0]["page_bits"] = page_bits
        self._host[0]["line_bits"] = translation.line_bits_of(design)
        self._live, self._gone = new_regions(), new_regions()
        self._given_back = records(0, GIVEN_BACK)
        self._found = np.zeros(2, np.int64)
        self._caches: Caches | None = None
        self._forget: Callable[..., None] | None = None

    def feed(self, rows: columns.RegionRows) -> None:
        """Replays one piece of this node's rows.  Errors: ``MistakenRowError``."""
        case = self._case(rows)
        end = replay_rows(case, 0, len(rows.pid))
        if end < len(rows.pid):
            nth = self._rows + int(end)
            raise MistakenRowError(_not_registered(rows, int(end)), self._number, nth)
        self._rows += len(rows.pid)
        begin = 0
        for after, number, line, lines in self._given_back[: int(self._found[1])].tolist():
            self._look_up(begin, after)
            self._drop_kernel()(number, line, lines)
            begin = after
        self._look_up(begin, int(self._found[0]))

    def _drop_kernel(self) -> Callable[..., None]:
        """The kernel that drops deregistered regions from the caches, for the node as it is."""
        caches = Caches(self.nic.rnic, self.nic.book, self._namer.numbering)
        known = self._caches
        if known is None or any(one is not other for one, other in zip(caches, known, strict=True)):
            self._caches = caches
            self._forget = bound(forget, caches)
        assert self._forget is not None
        return self._forget

    def _case(self, rows: columns.RegionRows) -> RegionCase:
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

    def _look_up(self, begin: int, end: int) -> None:
        """Have the NIC look up what requests ``begin..end`` of the stream touch."""
        owners = int(self._host[0]["regions"]) + 1
        for named in self._namer.named(self._lookup_arrays, begin, end):
            if named.lookups > len(self._notes.key):
                self._notes = Notes(named.lookups)
            self.nic.replay(self._namer.numbering, self._lookup_arrays, self._notes, named, owners)


def _host_rows(rows: columns.RegionRows, kinds: NDArray[np.uint8]) -> HostRows:
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


def _not_registered(rows: columns.RegionRows, row: int) -> str:
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


def lowest_addresses(batches: Iterable[columns.RequestColumns]) -> Lowest:
    """The lowest address of each process, rounded down to the smallest page."""
    parter, stream = columns.TracePartitioner(), columns.new_stream(columns.ROWS)
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
