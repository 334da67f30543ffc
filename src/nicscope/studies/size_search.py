"""Searches for the best design of each family within a budget of NIC memory, and by page size."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from nicscope.config.design import SCHEMES, Design, Scheme, design_names, load_design, with_settings
from nicscope.config.platform import Platform, load_platform
from nicscope.drivers.replay import replay
from nicscope.errors import StudyError
from nicscope.nic.layout import new_cache, new_table, region_bytes
from nicscope.studies.replaying import Priced, Subject, with_price
from nicscope.studies.size_survey import MOST_WAYS, Extent, Grid, Grids, Passes, Whole
from nicscope.studies.sizing import (
    PageSize,
    Point,
    Sizing,
    SizingReport,
    answer,
    at_shape,
    best_within,
    grid_of,
    pareto_front,
    pick,
    replay_command,
)
from nicscope.studies.sources import chunks_until, named
from nicscope.studies.workers import Workers, threaded

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from nicscope.studies.sizing import Question, Setting
    from nicscope.traces.reader import Trace
    from nicscope.traces.schema import Requests

    Search = Generator["Ask", None, None]
    Wanted = tuple["Family", Setting]

# Where the catalog has several designs of a scheme and none is of the platform asked for: the one
# whose translations are on a NIC, and the one that has a platform.
_FIRST = {Scheme.UNET_MM: "unet-mm-pca200", Scheme.STATIC: "vmmc-static"}


def families(platform: Platform | None) -> list[Subject]:
    """A design of each scheme with its platform, in the order of schemes.

    That is ``platform``; without one, each design's own, as in ``nicscope replay``.  RDMA NICs are
    left out where ``platform`` does not price their fetches: with a family whose price is half
    known, nobody could say which is cheapest.
    """
    designs = [load_design(name) for name in design_names()]
    chosen = []
    for scheme in Scheme:
        if scheme is Scheme.RNIC and platform is not None and "icm_fetch" not in platform.costs:
            continue
        own = [design for design in designs if design.scheme is scheme]
        design = min(own, key=lambda design: _distance(design, platform))
        prices = platform
        if prices is None and design.platform is not None:
            prices = load_platform(design.platform)
        chosen.append(Subject(design, prices))
    return chosen


def _distance(design: Design, platform: Platform | None) -> int:
    if platform is not None and design.platform == platform.name:
        return 0
    return 1 if design.name == _FIRST.get(design.scheme) else 2


# Assumed: a translation cache of fewer entries is not built.
LEAST_ENTRIES = 16
ROOM = 2  # entries that are still of use, per page of a NIC: sets fill unevenly
LINES = (1, 2, 4, 8, 16, 32, 64, 128)  # of handle; to miNI's longest
VICTIMS = (0, 16, 64)  # U-Net/MM, section 5.1: 16
AHEAD = (1, 4, 16, 32)  # pages pinned or entries fetched at once; UTLB's Tables 1, 2 go to 32
FETCHED = 8  # page entries of an RDMA NIC's line, as in the catalog's design
MOST_REGIONS = 1024  # of an RDMA NIC at hand: as many as the catalog's design has
POLICIES = ("lru", "mru", "lfu", "mfu", "random")
LEAST_AREA = 1 << 20  # of pinned, where there is room: what the catalog assumes
# What the budget is worth in entries lies in between: from a 64th of it to 8 times as much.
SPAN = (1 / 512, 2)  # entries per byte
_WAYS = tuple(1 << bits for bits in range(MOST_WAYS.bit_length()))


class Room(NamedTuple):
    """The budgets of the search and the trace's footprint."""

    budgets: tuple[int, ...]  # bytes of NIC memory: half of it, what was asked for, twice as much
    pin_pages: int | None  # of each host
    page_size: int
    extent: Extent
    grids: Grids
    every_size: bool = False  # else those around the budget, and the smallest

    @property
    def most_entries(self) -> int:
        """The largest useful cache, a power of two."""
        return most_entries(self.extent)

    @property
    def limit(self) -> int | None:
        """The highest pin limit per process, if pinning is limited at all."""
        if self.pin_pages is None or self.extent.node_pages <= self.pin_pages:
            return None
        return min(_filled(pages, self.pin_pages) for pages in self.extent.pages.values())

    @property
    def share(self) -> int:
        """The pages that each process may always pin, whatever the others do."""
        assert self.pin_pages is not None
        return max(self.pin_pages // self.extent.processes, 1)


def most_entries(extent: Extent) -> int:
    """Entries of the largest useful cache for so many pages; a power of two."""
    return max(LEAST_ENTRIES, ROOM << max(extent.node_pages - 1, 0).bit_length())


def _filled(pages: Sequence[int], room: int) -> int:
    """The highest per-process limit at which processes touching ``pages`` pin ``room`` in all."""
    left, waiting = room, len(pages)
    for count in sorted(pages):
        if count * waiting > left:
            return max(left // waiting, 1)
        left -= count
        waiting -= 1
    return max(pages)


def shapes(scheme: Scheme, room: Room) -> list[Setting]:
    """The shapes of ``scheme`` to try."""
    if scheme is Scheme.PINNED:
        return [_text(area_bytes=size) for size in _areas(room)]
    if scheme is Scheme.STATIC:
        return [_text(entries=count) for count in _static_entries(room)]
    if scheme is Scheme.UTLB_PROCESS:
        return [_text(entries=count) for count in _process_entries(room)]
    if scheme is Scheme.UNET_MM:
        return [
            _text(entries=entries, victim_entries=victims)
            for entries in _powers(room)
            for victims in VICTIMS
        ]
    if scheme is Scheme.RNIC:
        return _of_rnic(room)
    if scheme is Scheme.HANDLE:
        return [shape for line in LINES for shape in _lined(line, room)]
    # Indices are handed out one after the other: they spread over the sets by themselves.
    widths = _WAYS[::2] if scheme is Scheme.UTLB_SHARED else _WAYS
    every = [(entries, ways) for entries in _powers(room) for ways in widths if ways <= entries]
    return [_text(entries=entries, ways=ways) for entries, ways in every]


def policies(scheme: Scheme, room: Room) -> list[Setting]:
    """Policies to try on the best shapes; the first ones, ``initial_policies``, on all."""
    first = initial_policies(scheme, room)
    found = list(first)
    if scheme in (Scheme.UTLB, Scheme.UTLB_SHARED):
        found += [
            (*_text(prefetch=fetched, prepin=pinned), *limit)
            for limit in first
            for fetched in AHEAD
            for pinned in AHEAD
        ]
    if scheme is Scheme.UTLB_PROCESS:
        found += [_text(prepin=pinned) for pinned in AHEAD]
    return found


def derivable_policies(scheme: Scheme, room: Room) -> list[Setting]:
    """Policies whose other shapes may be derived from one (``known``) if nothing is limited."""
    if scheme is not Scheme.UTLB or room.limit is not None:
        return initial_policies(scheme, room)
    return [_text(prefetch=1, prepin=pinned) for pinned in AHEAD]


def replacements(scheme: Scheme, room: Room) -> list[Setting]:
    """Replacement policies for pinned pages, where they matter."""
    limited = room.limit is not None and scheme in (Scheme.UTLB, Scheme.UTLB_SHARED)
    if limited or scheme is Scheme.UTLB_PROCESS:
        return [(("replacement", name),) for name in POLICIES]
    return []


def initial_policies(scheme: Scheme, room: Room) -> list[Setting]:
    """How the pinning budget is divided between processes, where that matters."""
    if room.limit is None:
        return [()]
    if scheme in (Scheme.UTLB, Scheme.UTLB_SHARED):
        return [_text(pin_limit=limit) for limit in sorted({room.limit, room.share})]
    if scheme is Scheme.INTERRUPT:
        return [(), *(_text(pin_limit=limit) for limit in sorted({room.limit, room.share}))]
    return [()]


def _text(**settings: int) -> Setting:
    return tuple((name, str(value)) for name, value in settings.items())


def _powers(room: Room) -> list[int]:
    low, high = LEAST_ENTRIES.bit_length() - 1, room.most_entries.bit_length() - 1
    every = [1 << bits for bits in range(low, high + 1)]
    if room.every_size:
        return every
    least, most = (each * room.budgets[1] for each in SPAN)
    return [count for count in every if count == LEAST_ENTRIES or least <= count <= most]


def _lined(line: int, room: Room) -> Iterator[Setting]:
    mark: dict[str, int] = {}
    if room.pin_pages is not None and room.extent.node_pages * line > room.pin_pages:
        # A line is pinned before the mark is looked at.
        mark = {"high_water": max(room.pin_pages - line, 0)}
    for entries in _powers(room):
        for ways in _WAYS:
            if ways * line <= entries:
                yield _text(entries=entries, ways=ways, line=line, **mark)


def _of_rnic(room: Room) -> list[Setting]:
    """Level 0 of every size, with one region per process."""
    most = 1 << max(room.extent.processes - 1, 0).bit_length()
    count = min(most, MOST_REGIONS)
    regions = {"mpt_entries": count, "mpt_ways": min(count, 4)}
    return [
        _text(entries=entries, ways=ways, line=FETCHED, **regions)
        for entries in _powers(room)
        for ways in _WAYS
        if ways * FETCHED <= entries
    ]


def cache_bytes(entries: int, ways: int, line: int) -> int:
    """NIC memory of a translation cache alone."""
    return sum(region_bytes(new_cache(entries, ways, line)).values())


def _areas(room: Room) -> list[int]:
    """One area that takes every request, and what the host may pin if that is less."""
    page = room.page_size
    needed = max(LEAST_AREA, -(-room.extent.longest_bytes // page) * page)
    if room.pin_pages is None:
        return [needed]
    return [min(needed, room.share * page)]


def _static_entries(room: Room) -> list[int]:
    """Tables for all pages, and for what fits if that is less."""
    fixed = sum(region_bytes(new_table(0)).values())
    each = sum(region_bytes(new_table(1)).values()) - fixed
    most = room.extent.node_pages
    if room.pin_pages is not None:
        most = min(most, room.pin_pages)
    fitting = {min(most, (budget - fixed) // each) for budget in room.budgets if budget > fixed}
    return sorted(count for count in {most, *fitting} if count > 0)


def _process_entries(room: Room) -> list[int]:
    """Tables for all pages of a process, powers of two below, and what fits the budgets."""
    each = new_table(1).frames.itemsize * room.extent.processes
    most = max(room.extent.process_pages, LEAST_ENTRIES)
    if room.limit is not None:
        most = min(most, max(room.limit, room.share))
    fitting = {min(most, budget // each) for budget in room.budgets}
    powers = {count for count in _powers(room) if count < most}
    shared = {min(most, room.share)} if room.pin_pages is not None else set()
    return sorted(count for count in {most, *powers, *fitting, *shared} if count > 0)


TABLE, CACHE = "vmmc-static", "utlb"
# Prices registration where no platform was asked for: a host of today, which we measured.
TODAY = "linux-host"
REGISTRATION = "registration"
# Assumed, for the time that is left: a survey's pass takes as long as that of so many designs, and
# each page size, its replays included.
SURVEY_WEIGHT = 5
LIKELY_PAGES = 2 * SURVEY_WEIGHT + 5


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
    """Entries and ways of the caches that miss least within ``budget``, and within parts of it.

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
    """Entries of the smallest cache that misses no more than the best of ``grid``."""
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


_SHAPE = ("area_bytes", "entries", "ways", "line", "victim_entries", "high_water")
_POLICY = ("pin_limit", "prefetch", "prepin", "replacement")
_CACHE = ("entries", "ways")  # of a shape: what grids tell
# What a sample decides for each size: it says little of how much must be held, or pinned.
_DECIDED = ("ways", "victim_entries")
POLICIES_KEPT = 2  # assumed: a sample may take the second best for the best
SHAPED = 2  # of what a search asks for: on the sample and in full


class Ask(NamedTuple):
    """Designs to be counted, on the whole trace or on its sample."""

    settings: list[Setting]
    sampled: bool = False


class Family:
    """The search state of one scheme: its base design, and all counts so far."""

    def __init__(self, subject: Subject, room: Room, question: Question, *, long: bool) -> None:
        self.subject = subject
        self.counted: dict[Setting, Priced] = {}
        self.replayed: set[Setting] = set()  # of what was counted; the rest is known without
        self.sampled: dict[Setting, Priced] = {}
        self._room = room
        self._question = question
        self._is_long = long

    def design(self, settings: Setting) -> Design:
        """The base design with ``settings``."""
        return with_settings(self.subject.design, [f"{key}={text}" for key, text in settings])

    def note(self, ask: Ask, found: Iterable[Priced]) -> None:
        """Store the counts of ``ask``."""
        kept = self.sampled if ask.sampled else self.counted
        kept.update(zip(ask.settings, found, strict=True))
        if not ask.sampled:
            self.replayed.update(ask.settings)

    @property
    def by_cost(self) -> bool:
        """Whether designs are ranked by cost: every step that happened has a price."""
        every = (*self.counted.values(), *self.sampled.values())
        priced = self._question.platform is not None
        return priced and not any(one.cost.is_lower_bound for one in every)

    @property
    def fitting(self) -> list[Point]:
        """The counted designs within the pinning budget."""
        most, by_cost = self._question.pin_bytes, self.by_cost
        points = [Point(one, priced, by_cost) for one, priced in self.counted.items()]
        return [point for point in points if most is None or point.pinned_bytes <= most]

    @property
    def steps(self) -> list[Point]:
        """The Pareto front by ascending NIC memory."""
        return pareto_front(self.fitting)

    def rounds(self) -> Search:
        """Yield what to count next, alternately on the sample and in full."""
        scheme, room = self.subject.design.scheme, self._room
        every = _cross_product(shapes(scheme, room), initial_policies(scheme, room))
        known = self._known(_cross_product(shapes(scheme, room), derivable_policies(scheme, room)))
        derived = {one for _, others in known for one in others}
        others = [one for one in map(self._without_defaults, every) if one not in derived]
        bases = [base for base, _ in known]
        yield from self._ask_best_of_sample(others, _DECIDED, 1, also=bases)
        self._derive(known)
        anchored = _cross_product(self._anchors(), policies(scheme, room))
        yield from self._ask_best_of_sample(anchored, ("prefetch", "prepin"), POLICIES_KEPT)
        choices = replacements(scheme, room)
        unpinning = [
            _merged(dict(a.settings), one) for a in self._best_candidates() for one in choices
        ]
        yield from self._ask_best_of_sample(unpinning, ("replacement",), POLICIES_KEPT)
        promising = _unique([_only_shape(step.settings) for step in self.steps])
        won = _unique([_only_policy(point.settings) for point in self._best_candidates()])
        yield from self._ask_best_of_sample(_cross_product(promising, won), _POLICY, 1)
        told = [point.settings for point in pick(self.steps, self._question).points()]
        yield from self._ask_best_of_sample([], (), 1, also=told)

    def _ask_best_of_sample(
        self,
        settings: Iterable[Setting],
        free: Sequence[str],
        keep: int,
        also: Sequence[Setting] = (),
    ) -> Search:
        """Ask for uncounted ``settings``; of a long trace only for the best on its sample.

        These are the ``keep`` best of those that differ in nothing but the settings ``free``.
        ``also`` is asked for unless it was replayed.
        """
        left = [
            one for one in _unique(map(self._without_defaults, settings)) if one not in self.counted
        ]
        groups: dict[Setting, list[Setting]] = {}
        for one in left:
            groups.setdefault(tuple(p for p in one if p[0] not in free), []).append(one)
        if self._is_long:
            large = [group for group in groups.values() if len(group) > keep]
            yield Ask([one for group in large for one in group], sampled=True)
            for group in large:
                group.sort(key=lambda one: Point(one, self.sampled[one], self.by_cost).rank)
                del group[keep:]
        else:
            yield Ask([], sampled=True)
        chosen = [one for group in groups.values() for one in group]
        yield Ask([one for one in _unique([*chosen, *also]) if one not in self.replayed])

    def _known(self, settings: Iterable[Setting]) -> list[tuple[Setting, list[Setting]]]:
        """Group ``settings`` into those to be replayed and those derived from them.

        It is the one that misses least within the budget, for that is likely to be told.
        """
        groups: dict[Setting, list[Setting]] = {}
        for one in _unique(map(self._without_defaults, settings)):
            groups.setdefault(tuple(p for p in one if p[0] not in _CACHE), []).append(one)
        found = []
        for group in groups.values():
            sized = {}
            for one in group:
                design = self.design(one)
                grid = grid_of(design, self._room.grids)
                shape = (design.entries or 1, design.ways or 1)
                misses = None if grid is None else grid.misses_of(*shape)
                if misses is not None:
                    taken = cache_bytes(*shape, design.line or 1)
                    sized[one] = (taken > self._question.nic_bytes, misses, taken, one)
            if sized:
                base = min(sized, key=sized.__getitem__)
                found.append((base, list(sized)))
        return found

    def _derive(self, known: Iterable[tuple[Setting, list[Setting]]]) -> None:
        for base, others in known:
            for one in others:
                design = self.design(one)
                grid = grid_of(design, self._room.grids)
                assert grid is not None
                found = at_shape(self.counted[base], design, grid, self.subject.platform)
                if found is not None and one not in self.replayed:
                    self.counted[one] = found

    def _without_defaults(self, settings: Setting) -> Setting:
        """``settings`` without those of the base design, in canonical order."""
        given = dict(settings)
        before = self.subject.design.to_json()
        return tuple(
            (key, given[key])
            for key in SCHEMES[self.subject.design.scheme].uses
            if key in given and given[key] != str(before[key])
        )

    def _best_candidates(self) -> list[Point]:
        """The best of each budget, and the cheapest of all; with a target, its neighbours too."""
        fitting = self.fitting
        if not fitting:
            return []
        sizes = [*self._room.budgets, max(point.nic_bytes for point in fitting)]
        found = [best_within(fitting, size) for size in sizes]
        target = self._question.target_us
        if target is not None:
            found += _around(self.steps, target)
        return list({point.settings: point for point in found if point is not None}.values())

    def _anchors(self) -> list[Setting]:
        return _unique([_only_shape(point.settings) for point in self._best_candidates()])


def _around(steps: Sequence[Point], target: float) -> list[Point]:
    """The smallest step that meets ``target``, and the two before it."""
    meeting = next((place for place, step in enumerate(steps) if step.value <= target), len(steps))
    return list(steps[max(meeting - 2, 0) : meeting + 1])


def _only_shape(settings: Setting) -> Setting:
    return tuple(pair for pair in settings if pair[0] in _SHAPE)


def _only_policy(settings: Setting) -> Setting:
    return tuple(pair for pair in settings if pair[0] not in _SHAPE)


def _merged(settings: dict[str, str], more: Setting) -> Setting:
    return tuple((settings | dict(more)).items())


def _cross_product(some: Iterable[Setting], others: Iterable[Setting]) -> list[Setting]:
    others = list(others)
    return [_merged(dict(one), other) for one in some for other in others]


def _unique(settings: Iterable[Setting]) -> list[Setting]:
    return list(dict.fromkeys(settings))


# Assumed: what replay keeps per page of a node for one design, at most, and what it may take.
BYTES_PER_PAGE = 64
MOST_PAGE_BYTES = 1 << 30
MOST_AT_ONCE = 64  # designs
# Assumed, for the time that is left: designs that the rounds of a search replay.
LIKELY_ROUNDS = (50, 20, 8, 20, 8)
MOST_WORKERS = 8  # threads; each reads the trace by itself


class Counter:
    """Counts designs on one trace, and on its sample if it has one."""

    def __init__(
        self,
        whole: Whole,
        sample: list[Requests] | None,
        extent: Extent,
        passes: Passes,
        likely: Sequence[int] = LIKELY_ROUNDS,
        after: int = 0,
    ) -> None:
        """How long it is likely to take, in designs: each round, and what comes ``after`` all."""
        self._trace = whole.trace
        self._whole = whole
        self._sample = sample
        self._passes = passes
        self._rounds = 0
        self._likely, self._after = likely, after
        most = MOST_PAGE_BYTES // (BYTES_PER_PAGE * max(extent.node_pages, 1))
        self._at_once = min(max(most, 4), MOST_AT_ONCE)
        self._workers = whole.hands or min(os.cpu_count() or 1, MOST_WORKERS)

    @property
    def has_sample(self) -> bool:
        """Whether the trace is long enough to be sampled."""
        return self._sample is not None

    def count(self, asked: Sequence[tuple[Family, Ask]]) -> None:
        """Count what each family asks for; either all ask for the sample, or none."""
        sampled = any(ask.sampled for _, ask in asked)
        wanted = [(family, one) for family, ask in asked for one in ask.settings]
        size = max(self._at_once // self._workers, 1)
        size = min(size, max(-(-len(wanted) // self._workers), 1))
        # Neighbours take about as long as each other: each pass gets some of all.
        parts = -(-len(wanted) // size)
        shares = [wanted[part::parts] for part in range(parts)]
        if not sampled:
            self._rounds += 1
            self._passes.expect(self._trace, len(wanted))
            self._passes.forecast(self._trace, sum(self._likely[self._rounds :]) + self._after)
        found = self._replay_all(shares, sampled)
        for family, ask in asked:
            family.note(ask, [found[family.subject.design.scheme, one] for one in ask.settings])

    def _replay_all(
        self, shares: Sequence[Sequence[Wanted]], sampled: bool
    ) -> dict[tuple[str, Setting], Priced]:
        """Replay each of ``shares`` in its own pass.

        What comes of it does not depend on how many threads there are, or who does it.
        """
        if self._whole.hands and not sampled:
            designs = [[family.design(one) for family, one in share] for share in shares]
            return {
                (family.subject.design.scheme, one): with_price(result, family.subject.platform)
                for share, part in zip(shares, self._whole.replayed(designs), strict=True)
                for (family, one), result in zip(share, part, strict=True)
            }

        def work(share: Sequence[Wanted], stopped: Callable[[], bool]) -> list[Priced]:
            return self._replay(share, sampled, stopped)

        return {
            (family.subject.design.scheme, one): priced
            for share, part in threaded(shares, work, self._workers)
            for (family, one), priced in zip(share, part, strict=True)
        }

    def _replay(
        self, share: Sequence[Wanted], sampled: bool, stopped: Callable[[], bool]
    ) -> list[Priced]:
        designs = [family.design(one) for family, one in share]
        batches: Iterable[Requests] = self._sample or ()
        if not sampled:
            batches = self._passes.over(self._trace, len(designs))
        page_size = self._trace.metadata.page_size
        results = replay(chunks_until(stopped, batches), designs, kinds=False, page_size=page_size)
        return [
            with_price(result, family.subject.platform)
            for (family, _), result in zip(share, results, strict=True)
        ]


def explore(
    subjects: Sequence[Subject],
    room: Room,
    question: Question,
    counter: Counter,
    check: Callable[[list[Family]], None],
) -> list[Family]:
    """Search every family of ``subjects``; ``counter`` replays.

    ``check`` may end the search after the first round, which has all shapes.  Errors: its own,
    and ``TraceError`` at the first row that the schema does not allow.
    """
    found = [Family(subject, room, question, long=counter.has_sample) for subject in subjects]
    searches = [family.rounds() for family in found]
    asked = [next(search, None) for search in searches]
    rounds = 0
    while any(asked):
        counter.count([(one, ask) for one, ask in zip(found, asked, strict=True) if ask])
        asked = [next(search, None) for search in searches]
        rounds += 1
        if rounds == SHAPED:
            check(found)
    return found


ONE_ROUND = {Scheme.PINNED, Scheme.STATIC}  # their few shapes are all replayed at once
# Assumed, for the time that is left: so many designs' time is what a pass of the survey takes.
EXTENT_WEIGHT, GRIDS_WEIGHT = 5, 2 * (len(LINES) + 1)


def report(
    traces: Sequence[tuple[str, Trace]],
    question: Question,
    watch: Callable[[int, int], None] | None = None,
    workers: Workers | None = None,
) -> SizingReport:
    """Sizings of ``traces``, each under the name by which ``nicscope replay`` finds it.

    The nodes of folders of files are shared out among ``workers``, if there are any.
    ``watch`` is told how many rows were replayed of those that are known to be needed.  Errors:
    ``TraceError`` at the first row that the schema does not allow, ``StudyError`` if nothing fits
    the budgets.
    """
    passes = Passes(watch)
    sizings = []
    for place, (name, trace) in enumerate(traces):
        later = sum(trace.rows for _, trace in traces[place + 1 :])
        passes.forecast_remaining_rows(later * _likely(question))
        sizings.append(size(name, trace, question, passes, workers))
    return SizingReport(
        question=question,
        traces=named(traces),
        sizings=sizings,
    )


def size(
    name: str,
    trace: Trace,
    question: Question,
    passes: Passes | None = None,
    workers: Workers | None = None,
) -> Sizing:
    """Size ``trace``, which ``nicscope replay`` opens as ``name``.

    Errors: as ``report``.
    """
    passes = passes or Passes()
    passes.forecast(trace, _likely(question))
    whole = Whole(trace, passes, workers)
    touched = whole.extent(trace.metadata.page_size, EXTENT_WEIGHT)
    found = _searched(name, whole, question, passes, touched)
    answers = [answer(name, family.subject, family.fitting, question) for family in found]
    return Sizing(
        trace=name,
        page_size=trace.metadata.page_size,
        extent=touched,
        answers=answers,
        page_sizes=in_page_sizes(name, whole, question, passes) if question.page_sizes else [],
        replayed=sum(len(family.replayed) for family in found),
        sampled=sum(len(family.sampled) for family in found),
    )


def _searched(
    name: str, whole: Whole, question: Question, passes: Passes, touched: Extent
) -> list[Family]:
    """Search every family that is asked for."""
    wanted = [one for one in families(question.platform) if question.sizes(one.design.scheme)]
    if not wanted:
        if question.only:
            assert question.platform is not None
            raise StudyError(
                f"--only {question.only[0]}: platform {question.platform.name!r} states no "
                "icm_fetch, so nothing is known of the family there; leave --platform out"
            )
        return []
    page_size = whole.trace.metadata.page_size
    most = most_entries(touched)
    budget = question.nic_bytes
    surveyed = whole.surveyed(page_size, LINES, most, GRIDS_WEIGHT, touched)
    room = Room(
        budgets=(budget // 2, budget, 2 * budget),
        pin_pages=None if question.pin_bytes is None else question.pin_bytes // page_size,
        page_size=page_size,
        extent=touched,
        every_size=question.target_us is not None,
        grids=surveyed.grids,
    )
    if room.pin_pages == 0:
        raise StudyError(
            f"--pin-memory {question.pin_bytes}B is less than one page of {page_size} bytes"
        )
    after = len(question.page_sizes) * LIKELY_PAGES
    return explore(
        wanted,
        room,
        question,
        Counter(whole, surveyed.sample, touched, passes, _likely_rounds(question), after),
        lambda found: _check_that_something_fits(name, found, question),
    )


def _likely(question: Question) -> int:
    """The likely cost of sizing a trace, in designs."""
    of_pages = len(question.page_sizes) * LIKELY_PAGES
    if question.only_pages and not question.only:
        return EXTENT_WEIGHT + of_pages
    return EXTENT_WEIGHT + GRIDS_WEIGHT + sum(_likely_rounds(question)) + of_pages


def _likely_rounds(question: Question) -> Sequence[int]:
    """The likely number of designs that each round of the search replays."""
    searched = {scheme for scheme in Scheme if question.sizes(scheme)}
    return LIKELY_ROUNDS if searched - ONE_ROUND else (len(searched),)


def _check_that_something_fits(name: str, found: Sequence[Family], question: Question) -> None:
    """Errors: ``StudyError`` unless some family carries out all requests within the budgets."""
    able = [
        (point.nic_bytes, family.subject.design.scheme.value)
        for family in found
        for point in family.steps
        if not point.rejected
    ]
    if not able:
        assert question.pin_bytes is not None  # without that limit, tables hold everything
        raise StudyError(
            f"{name}: no design carries out every request while it pins at most "
            f"{question.pin_bytes} bytes; give more --pin-memory"
        )
    needed, scheme = min(able)
    if needed > question.nic_bytes:
        raise StudyError(
            f"{name}: nothing that carries out every request fits in {question.nic_bytes} bytes "
            f"of NIC memory; the smallest design that does is of scheme {scheme!r} and takes "
            f"{needed}"
        )
