"""What a table over any traces is made of, and what is read of one trace for it."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.config.design import Design, load_design, with_settings
from nicscope.config.platform import load_platform
from nicscope.studies.pricing import Cost, price

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence

    from nicscope.drivers.replay import ReplayResult
    from nicscope.studies.curves import Point
    from nicscope.studies.reproduce.verdict import Item, Layout, Outcome, Row
    from nicscope.traces.schema import Requests

    Caches = Mapping[tuple[int, int], Point]  # by entries and ways

# A catalog design's name and what is set on it: ("utlb", "entries=1024").
Spec = tuple[str, ...]

OFFSET, NO_OFFSET = True, False  # of the caches that one pass simulates


class Study(NamedTuple):
    """One table or figure of a paper, for any traces."""

    unit: str
    conditions: str
    layout: Layout
    rows: Callable[[Findings], list[Row]]  # of one application, without its name
    # Designs to replay, by what ``rows`` calls them; the page size (bytes) is the trace's.
    designs: Callable[[int], Mapping[Hashable, Spec]] = lambda _: {}
    # Direct-mapped, 2- and 4-way caches of Table 4's sizes from one pass, by index offset.
    caches: tuple[bool, ...] = ()
    # What the paper prints of it, from its items; each row with its ``application``.
    printed: Callable[[Mapping[str, Item]], list[Row]] = lambda _: []
    printed_note: str | None = None  # what one has to know to read it
    # As far as it is known whose cells they are; None: of all of them.
    labelled: Callable[[Mapping[str, Item]], list[Row]] | None = None
    # One block of rows, of all traces running at the same time: ``Measured.parts`` has each alone.
    together: bool = False
    # Whether pages and lookups of nodes are counted.
    nodes: bool = False
    # What the rows of the paper's programs show of the item's statements; those that hold only at
    # the paper's sizes are to be left out unless the rows are of these.
    state: Callable[[Outcome, Shown], None] | None = None


class Shown(NamedTuple):
    """What statements are held against: rows of the paper's programs, and what was printed.

    Caches in ``rows`` are told by the paper's sizes, also where they were made smaller.
    """

    rows: list[Row]
    items: Mapping[str, Item]
    are_the_papers: bool  # the problem sizes

    def by_application(self) -> dict[str, list[Row]]:
        """Rows of each, in their order."""
        names = dict.fromkeys(row["application"] for row in self.rows)
        return {name: [row for row in self.rows if row["application"] == name] for name in names}


def grid(
    axes: Mapping[str, Sequence[int]], measures: Mapping[str, Callable[..., Any]]
) -> Callable[[Findings], list[Row]]:
    """Rows of every place on ``axes``; a measure is asked of findings and the place."""

    def rows(found: Findings) -> list[Row]:
        return [
            {
                **dict(zip(axes, place, strict=True)),
                **{name: of(found, *place) for name, of in measures.items()},
            }
            for place in product(*axes.values())
        ]

    return rows


def printed_of(
    item: str, measures: Mapping[str, str], axis: str = "cache_entries"
) -> Callable[[Mapping[str, Item]], list[Row]]:
    """Rows of what ``item`` prints: of each measure the column of that name.

    A column holds a number for each place on ``axis``, if it has one, and application, for each
    application, or one for all.
    """

    def rows(items: Mapping[str, Item]) -> list[Row]:
        cells = items[item].printed

        def at(name: str, row: int, column: int) -> Any:
            printed = cells[name]
            if not isinstance(printed, list):
                return printed
            return printed[row][column] if isinstance(printed[0], list) else printed[column]

        return [
            {
                "application": app,
                **({axis: place} if axis in cells else {}),
                **{measure: at(name, row, column) for measure, name in measures.items()},
            }
            for column, app in enumerate(cells["app"])
            for row, place in enumerate(cells.get(axis, [None]))
        ]

    return rows


def pages_of(mbytes: int, page_size: int) -> int:
    """Pages of ``page_size`` bytes in so many MB of 2**20 bytes, at least one."""
    return max(1, (mbytes << 20) // page_size)


WAYS = {OFFSET: (1, 2, 4), NO_OFFSET: (1,)}  # of Table 8
SPAN = (1024, 16384)  # entries


class Footprint(NamedTuple):
    """Pages that are used on some nodes, and how often one is looked up."""

    nodes: int
    pages: int  # distinct ones of a node, added up
    process_pages: int  # distinct ones of a process of a node, added up
    lookups: int


class Measured(NamedTuple):
    """What came of one trace."""

    lookups: int
    results: Mapping[Spec, ReplayResult]
    caches: Mapping[bool, Caches]
    parts: tuple[Measured, ...] = ()  # of traces that run at the same time: each by itself
    footprint: Footprint | None = None
    reduction: int = 1  # of the caches and pin limits that a study names
    timed: list[Row] | None = None  # of its timed runs, one for each cache


# What a design's setting is divided by where programs and caches are smaller than the paper's.
REDUCED_SETTINGS = ("entries", "pin_limit")
# The same of what a row tells.
REDUCED_MEASURES = ("cache_entries", "shared_entries", "per_process_entries")


def reduced(spec: Spec, reduction: int) -> Spec:
    """``spec`` with caches and pin limits that are as many times smaller; one entry at least."""
    name, *assignments = spec
    settings = [each.partition("=") for each in assignments]
    return (
        name,
        *(
            f"{key}={max(1, int(value) // reduction)}"
            if key in REDUCED_SETTINGS
            else key + is_ + value
            for key, is_, value in settings
        ),
    )


def as_run(row: Row, reduction: int) -> Row:
    """``row`` with the sizes that its caches really had."""
    return {
        key: max(1, value // reduction) if key in REDUCED_MEASURES and value is not None else value
        for key, value in row.items()
    }


class Findings(NamedTuple):
    """What one study gets of it: its designs under the names that it gave them."""

    measured: Measured
    designs: Mapping[Hashable, Spec]

    def result(self, design: Hashable) -> ReplayResult:
        """What came of it."""
        return self.measured.results[reduced(self.designs[design], self.measured.reduction)]

    def total(self, design: Hashable, name: str) -> int:
        """Total of that count over all nodes."""
        count = self.result(design).total[name]
        assert count is not None
        return count

    def rate(self, design: Hashable, name: str) -> float:
        """That count per lookup."""
        return per_lookup(self.total(design, name), self.measured.lookups)

    def cost(self, design: Hashable) -> Cost:
        """Its counts priced on the platform that its paper measured on."""
        result = self.result(design)
        assert result.design.platform is not None
        counts = {name: count for name, count in result.total.items() if count is not None}
        return price(counts, result.design, load_platform(result.design.platform))

    def nic_bytes(self, design: Hashable) -> int:
        """Memory of the NIC that takes most."""
        return sum(self.result(design).nic_memory_bytes.values())

    def cache(self, offset: bool, entries: int, ways: int) -> Point:
        """The misses of such a cache on every node, by kind; nothing is ever unpinned."""
        return self.measured.caches[offset][entries, ways]


def per_lookup(count: float, lookups: int) -> float:
    """``count`` per lookup; 0 of none."""
    return count / lookups if lookups else 0.0


class Asked(NamedTuple):
    """What studies want to know of a trace."""

    specs: Collection[Spec]  # designs to replay, as large as the paper's
    caches: Collection[bool]  # one-pass caches, by index offset
    nodes: bool = False  # pages and lookups of nodes
    reduction: int = 1


def measure(
    name: str, read: Callable[[], Iterable[Requests]], page_size: int, asked: Asked
) -> Measured:
    """What each design, and the one-pass caches, make of the trace ``name``.

    ``read`` gives its requests, each time it is called.  Errors: ``TraceError`` at the first row
    that the schema does not allow.
    """
    from nicscope.drivers.replay import replay
    from nicscope.drivers.replay.page_numbering import NO_GRAIN
    from nicscope.studies.curves import Question, curves_of

    lookups = 0
    results: dict[Spec, ReplayResult] = {}
    if asked.specs:
        specs = list(dict.fromkeys(reduced(spec, asked.reduction) for spec in asked.specs))
        designs = [built(spec) for spec in specs]
        found = replay(read(), designs, kinds=False, page_size=page_size)
        results = dict(zip(specs, found, strict=True))
        lookups = found[0].total["lookups"] or 0
    grids: dict[bool, Caches] = {}
    span = (SPAN[0] // asked.reduction, SPAN[1] // asked.reduction)
    for offset in asked.caches:
        question = Question(ways=WAYS[offset], entries=span, offset=offset)
        [curve] = curves_of(name, read, question, page_size, NO_GRAIN)
        lookups = curve.lookups
        grids[offset] = {
            (point.entries * asked.reduction, point.ways): point for point in curve.points
        }
    footprint = footprint_of(read(), page_size) if asked.nodes else None
    if footprint is not None:
        lookups = footprint.lookups
    return Measured(lookups, results, grids, footprint=footprint, reduction=asked.reduction)


def footprint_of(batches: Iterable[Requests], page_size: int) -> Footprint:
    """Distinct pages by node and by process, and lookups: a request has one for each page."""
    import numpy as np

    by_process = np.empty((0, 3), np.uint64)  # node, process, page
    lookups = 0
    nodes: set[int] = set()
    for batch in batches:
        first = batch.address // np.uint64(page_size)
        last = (batch.address + batch.length - np.uint64(1)) // np.uint64(page_size)
        counts = (last - first).astype(np.int64) + 1
        lookups += int(counts.sum())
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        pages = np.repeat(first, counts) + within.astype(np.uint64)
        owners = (np.repeat(column.astype(np.uint64), counts) for column in (batch.node, batch.pid))
        rows = np.stack([*owners, pages], axis=1)
        by_process = np.unique(np.concatenate([by_process, rows]), axis=0)
        nodes.update(np.unique(batch.node).tolist())
    by_node = np.unique(by_process[:, [0, 2]], axis=0)
    return Footprint(len(nodes), len(by_node), len(by_process), lookups)


def built(spec: Spec) -> Design:
    """The design that ``spec`` names, as ``replay --design NAME --set ...`` would have it."""
    name, *assignments = spec
    return with_settings(load_design(name), assignments)
