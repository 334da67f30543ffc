"""One trace measured for several studies: a replay of all their designs, and one-pass caches."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nicscope.config.design import load_design, with_settings
from nicscope.config.platform import load_platform
from nicscope.studies.pricing import price
from nicscope.studies.reproduce.traced.study import NO_OFFSET, OFFSET

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterator, Mapping

    from nicscope.config.design import Design
    from nicscope.drivers.replay import ReplayResult
    from nicscope.studies.curve_result import Point
    from nicscope.studies.pricing import Cost
    from nicscope.studies.reproduce.traced.study import Spec
    from nicscope.traces.reader import Trace
    from nicscope.traces.schema import Requests

    Caches = Mapping[tuple[int, int], Point]  # by entries and ways

WAYS = {OFFSET: (1, 2, 4), NO_OFFSET: (1,)}  # of Table 8
SPAN = (1024, 16384)  # entries


class Measured(NamedTuple):
    """What came of one trace."""

    lookups: int
    results: Mapping[Spec, ReplayResult]
    caches: Mapping[bool, Caches]


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

    def cache(self, offset: bool, entries: int, ways: int) -> Point:
        """The misses of such a cache on every node, by kind; nothing is ever unpinned."""
        return self.measured.caches[offset][entries, ways]


def per_lookup(count: float, lookups: int) -> float:
    """``count`` per lookup; 0 of none."""
    return count / lookups if lookups else 0.0


def measure(
    name: str,
    trace: Trace,
    specs: Collection[Spec],
    caches: Collection[bool],
    watch: Callable[[int], None],
) -> Measured:
    """What each design of ``specs``, and the one-pass ``caches``, make of ``trace``.

    ``watch`` hears how many more rows are done.  Errors: ``TraceError`` at the first row that the
    schema does not allow.
    """
    from nicscope.drivers.replay import replay
    from nicscope.studies.curve_question import Question
    from nicscope.studies.curves import curves_of

    page_size = trace.metadata.page_size
    lookups = 0
    results: dict[Spec, ReplayResult] = {}
    if specs:
        designs = [built(spec) for spec in specs]
        found = replay(_watched(trace, watch), designs, kinds=False, page_size=page_size)
        results = dict(zip(specs, found, strict=True))
        lookups = found[0].total["lookups"] or 0
    grids: dict[bool, Caches] = {}
    for offset in caches:
        question = Question(ways=WAYS[offset], entries=SPAN, offset=offset)
        [curve] = curves_of(name, lambda: _watched(trace, watch), question, page_size)
        lookups = curve.lookups
        grids[offset] = {(point.entries, point.ways): point for point in curve.points}
    return Measured(lookups, results, grids)


def built(spec: Spec) -> Design:
    """The design that ``spec`` names, as ``replay --design NAME --set ...`` would have it."""
    name, *assignments = spec
    return with_settings(load_design(name), assignments)


def _watched(trace: Trace, watch: Callable[[int], None]) -> Iterator[Requests]:
    for batch in trace.batches():
        yield batch
        watch(len(batch.length))
