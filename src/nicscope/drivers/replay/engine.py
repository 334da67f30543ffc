"""Replaying batches of requests through several designs at once.

Parting by node and numbering pages is done once per batch and shared by every design whose page
and line sizes allow it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nicscope.config.design import Design, Scheme
from nicscope.drivers.replay import columns, page_numbering, rnic
from nicscope.drivers.replay.node import Node, Notes, group_bits, joins
from nicscope.drivers.translation import OFFSET_STEP, line_bits_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


Counts = dict[str, int | None]
DEFAULT_PAGE_SIZE = 4096


class ReplayResult(NamedTuple):
    """Counts of one design over a trace."""

    design: Design  # its page size settled
    total: Counts  # sums over nodes
    nodes: list[dict[str, int | None]]  # each with its "node" number, ascending
    nic_memory_bytes: dict[str, int]  # of the NIC that takes most, by structure


class NodeResult(NamedTuple):
    """Counts of one design over the requests of one node."""

    number: int
    counts: Counts
    nic_memory_bytes: dict[str, int]


def replay(
    batches: Iterable[columns.RequestColumns],
    designs: Sequence[Design],
    kinds: bool = True,
    page_size: int = DEFAULT_PAGE_SIZE,
    alignments: Mapping[int, page_numbering.Alignment] | None = None,
    lowest: rnic.Lowest | None = None,
    by_region: bool = False,
) -> list[ReplayResult]:
    """Count what each of ``designs`` does with the requests, in the order of ``designs``.

    ``batches`` hold checked columns in the order of issue.  ``page_size`` is the trace's, used by
    designs that state none.  Without ``kinds`` the split of non-compulsory misses stays None,
    which is faster; so are known ``alignments`` of the requests by page size (``alignments_of``).
    ``lowest`` is what ``lowest_addresses`` found; without it, and if some design registers ahead,
    all batches are held at once.  ``by_region``: RDMA NICs follow what batches of ``Rows`` say is
    registered.  Source: docs/counts.md says what every count means.
    """
    if lowest is None and rnic.registers_ahead(designs):
        batches = list(batches)
        lowest = rnic.lowest_addresses(batches)
    replayer = Replayer(designs, kinds, page_size, alignments, lowest, by_region)
    for batch in batches:
        replayer.feed(batch)
    return replayer.results()


def alignments_for(
    batches: Iterable[columns.RequestColumns], designs: Sequence[Design], page_size: int
) -> dict[int, page_numbering.Alignment]:
    """The grains of ``batches`` for a replay of ``designs``; reads nothing if there is no use.

    ``page_size`` is the trace's.
    """
    joining = [design.at_page_size(page_size) for design in designs if joins(design)]
    if not joining:
        return {}
    spread = all(design.index_offset for design in joining)
    sizes = {1 << _page_bits(design) for design in joining}
    return page_numbering.alignments_of(batches, sorted(sizes), spread=spread)


class Replayer:
    """A replay in progress."""

    def __init__(
        self,
        designs: Sequence[Design],
        kinds: bool,
        page_size: int,
        alignments: Mapping[int, page_numbering.Alignment] | None = None,
        lowest: rnic.Lowest | None = None,
        by_region: bool = False,
    ) -> None:
        self._designs = [design.at_page_size(page_size) for design in designs]
        self._parter = columns.TracePartitioner()
        self._views = []
        self._followers: list[rnic.RegionView] = []
        ahead = list(self._designs)
        if by_region:
            ahead = [design for design in self._designs if design.scheme is not Scheme.RNIC]
            nics = [design for design in self._designs if design.scheme is Scheme.RNIC]
            self._followers = [rnic.RegionView(design, kinds) for design in nics]
        for page_bits in sorted({_page_bits(design) for design in ahead}):
            alignment = (alignments or {}).get(1 << page_bits, page_numbering.NO_GRAIN)
            those = [design for design in ahead if _page_bits(design) == page_bits]
            self._views.append(_View(page_bits, those, kinds, alignment, lowest))

    def feed(self, batch: columns.RequestColumns) -> None:
        """Replay one batch of any length; by region, of rows that say what is registered."""
        for follower in self._followers:
            follower.feed(batch)  # type: ignore[arg-type]
        if self._followers:
            batch = columns.requests_among(batch)  # type: ignore[arg-type]
        if not self._views:
            return
        for piece in columns.pieces(len(batch.node)):
            self._parter.owners(batch, piece)
            for view in self._views:
                shares = self._parter.shares(view.page_bits, view.lookup_arrays.stream)
                view.feed(self._parter.directory, shares)

    def results(self) -> list[ReplayResult]:
        """The counts so far, for every design."""
        every = zip(self._designs, self.node_results(), strict=True)
        return [result_of(design, nodes) for design, nodes in every]

    def node_results(self) -> list[list[NodeResult]]:
        """The counts so far on each node, for every design."""
        nodes: dict[int, Sequence[Node | rnic.RnicNode]]
        nodes = {id(design): found for view in self._views for design, found in view.nodes()}
        nodes |= {id(follower.design): follower.nodes() for follower in self._followers}
        return [
            [NodeResult(node.number, node.counts(), node.nic_memory_bytes()) for node in found]
            for found in (nodes[id(design)] for design in self._designs)
        ]


class _View:
    """The trace as pages of one size, for all designs with that page size."""

    def __init__(
        self,
        page_bits: int,
        designs: list[Design],
        kinds: bool,
        alignment: page_numbering.Alignment,
        lowest: rnic.Lowest | None,
    ) -> None:
        self.page_bits = page_bits
        told = any(design.scheme in (Scheme.PINNED, Scheme.RNIC) for design in designs)
        self.lookup_arrays = page_numbering.LookupArrays(
            columns.new_stream(columns.ROWS, lengths=told)
        )
        self._notes = Notes(columns.UNITS)
        self._kinds = kinds
        self._lowest = lowest
        by_units: dict[tuple[int, int, bool], list[Design]] = {}
        for design in designs:
            units = (line_bits_of(design), group_bits(design, alignment), joins(design))
            by_units.setdefault(units, []).append(design)
        self._groups = [_Group(*units, by_units[units]) for units in sorted(by_units)]

    def feed(self, directory: columns.Directory, shares: Iterable[columns.Share]) -> None:
        for share in shares:
            processes = int(directory.processes[share.place])
            for group in self._groups:
                if share.place == len(group.per_node):
                    self._add_node(group, int(directory.nodes[share.place]))
                self._feed_node(group.per_node[share.place], share, processes)

    def _feed_node(self, node: _NumberedNode, share: columns.Share, processes: int) -> None:
        for named in node.namer.named(self.lookup_arrays, share.begin, share.end):
            if named.lookups > len(self._notes.key):
                self._notes = Notes(named.lookups)
            for each in node.designs:
                each.replay(node.namer.numbering, self.lookup_arrays, self._notes, named, processes)

    def _add_node(self, group: _Group, number: int) -> None:
        nodes = [self._new_node(design, number, group) for design in group.designs]
        namer = page_numbering.PageNumberer(
            group.unit_bits, group.reach, OFFSET_STEP, group.grain_bits, joins=group.joins
        )
        group.per_node.append(_NumberedNode(nodes, namer))

    def _new_node(self, design: Design, number: int, group: _Group) -> Node | rnic.RnicNode:
        if design.scheme is not Scheme.RNIC:
            return Node(design, self.page_bits, self._kinds, number, group.grain_bits)

        pools = []
        if design.registered is not None:
            assert self._lowest is not None
            pools = self._lowest[len(group.per_node)]
        return rnic.RnicNode(design, self.page_bits, self._kinds, number, pools)

    def nodes(self) -> list[tuple[Design, list[Node | rnic.RnicNode]]]:
        return [
            (design, [numbered.designs[place] for numbered in group.per_node])
            for group in self._groups
            for place, design in enumerate(group.designs)
        ]


class _Group:
    """The designs that share lookups: the same page size, the same line, the same groups."""

    def __init__(self, unit_bits: int, grain_bits: int, joins: bool, designs: list[Design]) -> None:
        self.unit_bits = unit_bits
        self.grain_bits = grain_bits
        self.joins = joins
        self.designs = designs
        self.reach = max((design.prepin or 1) - 1 for design in designs)
        self.per_node: list[_NumberedNode] = []


class _NumberedNode(NamedTuple):
    """One node's numbering and its NIC under every design of a group."""

    designs: list[Node | rnic.RnicNode]
    namer: page_numbering.PageNumberer


def _page_bits(design: Design) -> int:
    assert design.page_size is not None
    return design.page_size.bit_length() - 1


def result_of(design: Design, nodes: Iterable[NodeResult]) -> ReplayResult:
    """What ``design``, its page size settled, made of a trace with ``nodes``, given in any order.

    Nodes are independent, so it does not matter who replayed which.
    """
    nodes = sorted(nodes, key=lambda node: node.number)
    each = [{"node": node.number, **node.counts} for node in nodes]
    total = {name: _sum([counts[name] for counts in each]) for name in each[0] if name != "node"}
    largest = max((node.nic_memory_bytes for node in nodes), key=lambda sizes: sum(sizes.values()))
    return ReplayResult(design, total, each, largest)


def _sum(values: list[int | None]) -> int | None:
    return None if None in values else sum(value or 0 for value in values)
