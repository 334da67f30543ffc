"""One RDMA NIC under one design, replaying requests whose memory was registered ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.drivers.replay.naming import Desk, Namer
from nicscope.drivers.replay.schemes.noting import note_lookups
from nicscope.drivers.replay.schemes.rnic import Case, replay_rnic
from nicscope.drivers.translation.build import CODES, counts_of_book, line_bits_of
from nicscope.drivers.translation.rnic import rnic_bytes, rnic_caches
from nicscope.kernel.entering import bound
from nicscope.memory.numbering import capacity
from nicscope.nic.translate.book import SEEN, grown_book, new_book
from nicscope.nic.translate.rnic import KLM_BYTES, MPT_BYTES, MTT_BYTES, new_rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.config.design import Design
    from nicscope.drivers.replay.naming import Lookups, Named
    from nicscope.drivers.replay.node import Notes
    from nicscope.memory.numbering import Numbering


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
        self._parts = Namer(self._part_bits) if design.indirect is not None else None
        self._part_desk: Desk | None = None
        shadow = ((design.entries or 0) + (design.l1_entries or 0)) // self._line
        self._book = new_book(kinds, shadow)
        self._book.orders[0]["kinds_known"] = kinds
        self._book.orders[0]["cached"] = True
        self._book.orders[0]["scheme"] = CODES[design.scheme]
        self._touched_parts = np.zeros(0, np.bool_)
        self._bound: _Bound | None = None

    def replay(
        self, numbering: Numbering, desk: Desk, notes: Notes, named: Named, processes: int
    ) -> None:
        """Carry out requests of this node, whose lookups ``numbering`` named, on the ``desk``."""
        self._processes = processes
        if processes > len(self._pools):
            assert not self._pool_pages
            self._pools = np.zeros(2 * processes, np.int64)
            self._bound = None
        if capacity(numbering) > len(self._book.past):
            self._book = grown_book(self._book, capacity(numbering))
            self._bound = None
        parts = self._name_parts(desk, named)
        if self._bound is None or not self._bound.is_of(desk, parts, notes):
            self._bound = self._on(desk, parts, notes)
        self._requests += named.end - named.begin
        self._lookups += named.pages
        self._received += named.received
        for do in self._bound.passes:
            do(named.begin, named.end, named.lookups)

    def _name_parts(self, desk: Desk, named: Named) -> Lookups:
        """The parts of indirect regions that the piece's requests touch."""
        if self._parts is None:
            return desk.lookups
        if self._part_desk is None or self._part_desk.stream is not desk.stream:
            self._part_desk = Desk(desk.stream)
        own = self._part_desk
        if len(own.lookups.number) < len(desk.lookups.number):
            own.make_room(len(desk.lookups.number))
        # No more than lines: one piece has them all.
        [found] = self._parts.named(own, named.begin, named.end)
        room = capacity(self._parts.numbering)
        if room > len(self._touched_parts):
            self._touched_parts = np.append(
                self._touched_parts, np.zeros(room - len(self._touched_parts), np.bool_)
            )
        self._touched_parts[own.lookups.number[: found.lookups]] = True
        return own.lookups

    def _on(self, desk: Desk, parts: Lookups, notes: Notes) -> _Bound:
        lookups = desk.lookups
        case = Case(
            rnic=self._rnic,
            book=self._book,
            rules=self._rules,
            pools=self._pools,
            stream=desk.stream,
            key=lookups.number,
            set_index=lookups.set_index,
            receive=lookups.receive,
            outcome=notes.outcome,
            part=parts.number,
            part_index=parts.set_index,
            part_bits=np.array([self._part_bits], np.int64),
        )
        return _Bound(case, desk, parts, notes)

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
        """Put into the book what is counted here."""
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
    """The kernels of a design, for one node and one desk as they are."""

    def __init__(self, case: Case, desk: Desk, parts: Lookups, notes: Notes) -> None:
        self._desk, self._lookups, self._parts, self._notes = desk, desk.lookups, parts, notes
        self.passes = [bound(each, case) for each in (replay_rnic, note_lookups)]

    def is_of(self, desk: Desk, parts: Lookups, notes: Notes) -> bool:
        same_desk = desk is self._desk and desk.lookups is self._lookups
        return same_desk and parts is self._parts and notes is self._notes
