"""The same trace in pages of several sizes, for whoever registers memory with an RDMA NIC.

A table that holds a translation of every page, as registration fills it, beside a cache of as
many translations as the NIC memory has room for, filled by demand from tables in the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nicscope.config.design import load_design, with_settings
from nicscope.config.platform import load_platform
from nicscope.nic.layout import new_table, region_bytes
from nicscope.studies.pricing import Denominator
from nicscope.studies.replaying import Priced, Subject, with_price
from nicscope.studies.sizing.merit import Point, best_within
from nicscope.studies.sizing.result import replay_command
from nicscope.studies.sizing.shapes import cache_bytes, most_entries
from nicscope.studies.sizing.survey import MOST_WAYS

if TYPE_CHECKING:
    from nicscope.config.evidence import Evidence
    from nicscope.studies.sizing.counting import Passes
    from nicscope.studies.sizing.question import Question
    from nicscope.studies.sizing.survey import Grid
    from nicscope.studies.sizing.whole import Whole

TABLE, CACHE = "vmmc-static", "utlb"
# Prices registration where no platform was asked for: a host of today, which we measured.
TODAY = "linux-host"
REGISTRATION = "registration"


# Assumed, for the time that is left: a survey's pass takes as long as that of so many designs.
SURVEY_WEIGHT = 5
LIKELY = 2 * SURVEY_WEIGHT + 5  # so many designs' time for each page size, its replays included


class PageSize(NamedTuple):
    """What pages of one size would take."""

    page_size: int  # bytes
    lookups: int
    entries: int  # translations of all pages, on the node that has most
    table_bytes: int  # of NIC memory, for all of them
    pinned_bytes: int  # of the host that pins most
    calls: int  # that register, over all hosts
    registration_us: tuple[float, float] | None  # of all hosts; None: no price
    registration_platform: str
    registration_evidence: Evidence | None
    requests: int
    enough: int  # entries of the smallest cache that misses no more than any larger one
    cache: Point | None  # that misses least within the NIC memory; None: none fits
    table_command: list[str]  # repeats the table by ``nicscope replay``
    cache_command: list[str]  # likewise

    @property
    def misses(self) -> int | None:
        """Of the cache, in all: the same requests ask less often for larger pages."""
        return None if self.cache is None else self.cache.misses

    def count_of(self, denominator: Denominator) -> int:
        """How many of what rates are taken per there were."""
        return self.lookups if denominator is Denominator.LOOKUP else self.requests

    @property
    def misses_per_request(self) -> float | None:
        """Of the cache."""
        return None if self.misses is None else self.misses / self.requests


def in_page_sizes(
    name: str,
    whole: Whole,
    question: Question,
    passes: Passes,
) -> list[PageSize]:
    """A trace, the ``whole`` of it, in pages of each of the sizes asked for; it is called ``name``.

    Errors: ``TraceError`` at the first row that the schema does not allow.
    """
    platform = question.platform or load_platform(TODAY)
    tables, caches, enough = [], [], []
    for size in question.page_sizes:
        touched = whole.extent(size, SURVEY_WEIGHT)
        reached = whole.surveyed(size, (), most_entries(touched), SURVEY_WEIGHT).grids.offset
        enough.append(_enough(reached))
        settings = [f"entries={touched.node_pages}", f"page_size={size}"]
        tables.append(Subject(with_settings(load_design(TABLE), settings), platform))
        caches += [
            (("entries", str(entries)), ("ways", str(ways)), ("page_size", str(size)))
            for entries, ways in _promising(reached, most_entries(touched), question.nic_bytes)
        ]
    first = load_design(CACHE)
    designs = [with_settings(first, [f"{key}={text}" for key, text in one]) for one in caches]
    subjects = [*tables, *(Subject(design, platform) for design in designs)]
    passes.expect(whole.trace, len(subjects))
    [results] = whole.replayed([[subject.design for subject in subjects]])
    priced = [with_price(result, platform) for result in results]
    points = [
        Point(one, found, False) for one, found in zip(caches, priced[len(tables) :], strict=True)
    ]
    return [
        _row(
            name,
            size,
            table,
            [p for p in points if p.priced.result.design.page_size == size],
            question,
            most,
        )
        for size, table, most in zip(question.page_sizes, priced, enough, strict=False)
    ]


def _promising(grid: Grid, most: int, budget: int) -> list[tuple[int, int]]:
    """Entries and ways of the caches that miss least within ``budget``, and within less of it.

    For what a NIC keeps beside its cache is known only when it has run.
    """
    sized = []
    for ways in (1 << bits for bits in range(MOST_WAYS.bit_length())):
        entries = ways
        while entries <= most and (size := cache_bytes(entries, ways, 1)) <= budget:
            misses = grid.misses_of(entries, ways)
            if misses is not None:
                sized.append((size, misses, entries, ways))
            entries *= 2
    best = [
        min((misses, size, entries, ways) for size, misses, entries, ways in sized if size <= part)
        for part in (budget, budget * 7 // 8, budget // 2, budget // 4)
        if any(size <= part for size, *_ in sized)
    ]
    return list(dict.fromkeys((entries, ways) for _, _, entries, ways in best))


def _enough(grid: Grid) -> int:
    """Entries of the smallest cache that misses no more than any that ``grid`` has."""
    powers = [1 << bits for bits in range(grid.misses.shape[1].bit_length())]
    sized = [
        (int(misses[ways - 1]), ways << (grid.low + level))
        for level, misses in enumerate(grid.misses)
        for ways in powers
        if ways <= len(misses)
    ]
    return min(sized)[1]


def _row(
    name: str, size: int, table: Priced, caches: list[Point], question: Question, enough: int
) -> PageSize:
    entries = table.result.design.entries
    assert entries is not None
    part = next((one for one in table.cost.components if one.name == REGISTRATION), None)
    cache = best_within(caches, question.nic_bytes)
    by_replay = ["--platform", question.platform_given or TODAY]
    settings = (("entries", str(entries)), ("page_size", str(size)))
    return PageSize(
        page_size=size,
        lookups=table.cost.lookups,
        requests=table.cost.requests,
        entries=entries,
        table_bytes=sum(region_bytes(new_table(entries)).values()),
        pinned_bytes=Point((), table, False).pinned_bytes,
        calls=table.total("pin_calls") or 0,
        registration_us=None if part is None else (part.low_ps / 1e6, part.high_ps / 1e6),
        registration_platform=table.platform or "",
        registration_evidence=None if part is None else part.evidence,
        enough=enough,
        cache=cache,
        table_command=[*replay_command(name, TABLE, settings), *by_replay],
        cache_command=[]
        if cache is None
        else [*replay_command(name, CACHE, cache.settings), *by_replay],
    )
