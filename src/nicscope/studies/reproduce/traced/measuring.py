"""What a table over any traces is made of, and what is read of one trace for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.config.design import load_design, with_settings
from nicscope.config.platform import load_platform
from nicscope.studies.pricing import price

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping

    from nicscope.config.design import Design
    from nicscope.drivers.replay import ReplayResult
    from nicscope.studies.curve_result import Point
    from nicscope.studies.pricing import Cost
    from nicscope.studies.reproduce.verdict import Item
    from nicscope.traces.schema import Requests

    Caches = Mapping[tuple[int, int], Point]  # by entries and ways

# A catalog design's name and what is set on it: ("utlb", "entries=1024").
Spec = tuple[str, ...]
# One line of a table as plain values, units in the names of its measures.
Row = dict[str, Any]

OFFSET, NO_OFFSET = True, False  # of the caches that one pass simulates


class Axis(NamedTuple):
    """What rows differ in: its name in a row, and its heading."""

    key: str
    heading: str


class Line(NamedTuple):
    """A printed line: its label and the measure in each of an application's columns."""

    label: str
    measures: tuple[str | None, ...]  # None: the paper prints a dash


class Layout(NamedTuple):
    """A table as it is printed: a block of lines per row, columns per application."""

    axes: tuple[Axis, ...]
    columns: tuple[str, ...]  # of each application; one without a name if there is but one
    lines: tuple[Line, ...]

    @property
    def measures(self) -> list[str]:
        """Every measure, once, in the order of the lines."""
        found = (name for line in self.lines for name in line.measures if name is not None)
        return list(dict.fromkeys(found))


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


def pages_of(mbytes: int, page_size: int) -> int:
    """Pages of ``page_size`` bytes in so many MB of 2**20 bytes, at least one."""
    return max(1, (mbytes << 20) // page_size)


WAYS = {OFFSET: (1, 2, 4), NO_OFFSET: (1,)}  # of Table 8
SPAN = (1024, 16384)  # entries


class Measured(NamedTuple):
    """What came of one trace."""

    lookups: int
    results: Mapping[Spec, ReplayResult]
    caches: Mapping[bool, Caches]
    parts: tuple[Measured, ...] = ()  # of traces that run at the same time: each by itself


class Findings(NamedTuple):
    """What one study gets of it: its designs under the names that it gave them."""

    measured: Measured
    designs: Mapping[Hashable, Spec]

    def total(self, design: Hashable, name: str) -> int:
        """Total of that count over all nodes."""
        count = self.measured.results[self.designs[design]].total[name]
        assert count is not None
        return count

    def rate(self, design: Hashable, name: str) -> float:
        """That count per lookup."""
        return per_lookup(self.total(design, name), self.measured.lookups)

    def cost(self, design: Hashable) -> Cost:
        """Its counts priced on the platform that its paper measured on."""
        result = self.measured.results[self.designs[design]]
        assert result.design.platform is not None
        counts = {name: count for name, count in result.total.items() if count is not None}
        return price(counts, result.design, load_platform(result.design.platform))

    def nic_bytes(self, design: Hashable) -> int:
        """Memory of the NIC that takes most."""
        return sum(self.measured.results[self.designs[design]].nic_memory_bytes.values())

    def cache(self, offset: bool, entries: int, ways: int) -> Point:
        """The misses of such a cache on every node, by kind; nothing is ever unpinned."""
        return self.measured.caches[offset][entries, ways]


def per_lookup(count: float, lookups: int) -> float:
    """``count`` per lookup; 0 of none."""
    return count / lookups if lookups else 0.0


def measure(
    name: str,
    read: Callable[[], Iterable[Requests]],
    page_size: int,
    specs: Collection[Spec],
    caches: Collection[bool],
) -> Measured:
    """What each design of ``specs``, and the one-pass ``caches``, make of the trace ``name``.

    ``read`` gives its requests, each time it is called.  Errors: ``TraceError`` at the first row
    that the schema does not allow.
    """
    from nicscope.drivers.replay import replay
    from nicscope.studies.curve_question import Question
    from nicscope.studies.curves import curves_of

    lookups = 0
    results: dict[Spec, ReplayResult] = {}
    if specs:
        designs = [built(spec) for spec in specs]
        found = replay(read(), designs, kinds=False, page_size=page_size)
        results = dict(zip(specs, found, strict=True))
        lookups = found[0].total["lookups"] or 0
    grids: dict[bool, Caches] = {}
    for offset in caches:
        question = Question(ways=WAYS[offset], entries=SPAN, offset=offset)
        [curve] = curves_of(name, read, question, page_size)
        lookups = curve.lookups
        grids[offset] = {(point.entries, point.ways): point for point in curve.points}
    return Measured(lookups, results, grids)


def built(spec: Spec) -> Design:
    """The design that ``spec`` names, as ``replay --design NAME --set ...`` would have it."""
    name, *assignments = spec
    return with_settings(load_design(name), assignments)
