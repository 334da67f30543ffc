"""UTLB's tables and figures of programs over any traces, and what its text states of them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from nicscope.studies.reproduce.traced.measuring import (
    NO_OFFSET,
    OFFSET,
    Findings,
    Measured,
    Shown,
    Spec,
    Study,
    grid,
    pages_of,
    per_lookup,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from nicscope.studies.reproduce.verdict import Item, Outcome, Row

    Measure = Callable[..., Any]  # of findings, at a place on the axes

CACHE_ENTRIES = (1024, 2048, 4096, 8192, 16384)
SMALLEST, MIDDLE, LARGEST = 1024, 4096, 16384
SIZES = {"cache_entries": CACHE_ENTRIES}
UTLB, INTR, OWN = "utlb", "vmmc-interrupt", "utlb-process"
KINDS = ("compulsory", "capacity", "conflict")
FREE_CHECKS = "check_misses_without_limit_per_lookup"
CHECKS, UNPINS = "check_misses_utlb_per_lookup", "unpins_utlb_per_lookup"
NI, NI_INTR = "ni_misses_utlb_per_lookup", "ni_misses_intr_per_lookup"
UNPINS_INTR = "unpins_intr_per_lookup"
ALL, COST = "ni_misses_per_lookup", "cost_us_per_lookup"


def rate(scheme: str, count: str) -> Measure:
    """A count of a scheme per lookup."""
    return lambda found, *place: found.rate((scheme, *place), count)


def of_cache(offset: bool, ways: int, kind: str = "misses") -> Measure:
    """Misses of a kind per lookup of such a cache."""

    def measure(found: Findings, entries: int) -> float:
        point = found.cache(offset, entries, ways)
        return per_lookup(getattr(point, kind), found.measured.lookups)

    return measure


def cost(found: Findings, design: Hashable) -> float | None:
    """The price of a lookup, in us."""
    bounds = found.cost(design).per_lookup_us()
    return None if bounds is None else float(bounds[0])


def by_app(rows: Iterable[Row], **place: int) -> dict[str, Row]:
    """The row of each program at ``place``."""
    return {row["application"]: row for row in rows if all(row[key] == place[key] for key in place)}


def told(by_app: Mapping[str, Any]) -> str:
    """Evidence: each program with its numbers."""

    def words(value: Any) -> str:
        if isinstance(value, (tuple, list)):
            return " ".join(map(words, value))
        return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"

    return "; ".join(f"{app} {words(value)}" for app, value in by_app.items())


def every(
    outcome: Outcome,
    name: str,
    by_app: Mapping[str, tuple[float, ...]],
    holds: Callable[..., bool],
) -> None:
    """The statement holds if it does for the numbers of every program."""
    outcome.shape(name, all(holds(*numbers) for numbers in by_app.values()), told(by_app))


BY_PROCESS = "footprint_by_process_pages"
BY_NODE = "footprint_pages"
LOOKUPS = "communication_lookups"
FACTOR = 10**0.5  # half an order of magnitude


def _of_node(count: str) -> Measure:
    """The mean over the nodes that communicate."""

    def measure(found: Findings) -> float:
        footprint = found.measured.footprint
        assert footprint is not None
        whole: int = getattr(footprint, count)
        return whole / max(1, footprint.nodes)

    return measure


def state_table3(outcome: Outcome, shown: Shown) -> None:
    """Hold Table 3's statements."""
    ours = by_app(shown.rows)
    lookups = {app: row[LOOKUPS] for app, row in ours.items()}
    most = max(lookups, key=lambda app: lookups[app])
    outcome.shape("fft-communicates-most", most == "FFT", told(lookups))
    if not shown.are_the_papers:
        return
    table = shown.items["table3"].table
    assert table is not None
    ratios = {
        row["application"]: tuple(
            ours[row["application"]][name] / row[name] for name in (BY_PROCESS, LOOKUPS)
        )
        for row in table.printed_rows(shown.items, "table3")
        if row["application"] in ("Raytrace", "Volrend", "Water")
    }
    near = lambda *both: all(1 / FACTOR <= ratio <= FACTOR for ratio in both)  # noqa: E731
    every(outcome, "order-of-magnitude", ratios, near)


# Table 3: distinct pages that a node uses for communication, and lookups; whether a page that
# processes share counts once the paper does not say.
TABLE3 = Study(
    rows=grid(
        {},
        {
            BY_PROCESS: _of_node("process_pages"),
            BY_NODE: _of_node("pages"),
            LOOKUPS: _of_node("lookups"),
        },
    ),
    nodes=True,
    state=state_table3,
)

OVERHEADS = {
    CHECKS: (UTLB, "check_misses"),
    NI: (UTLB, "ni_misses"),
    NI_INTR: (INTR, "ni_misses"),
    UNPINS: (UTLB, "unpins"),
    UNPINS_INTR: (INTR, "unpins"),
}
FREE = "free"  # of a limit


def overhead_study(limit_mbytes: int | None, state: Callable[[Outcome, Shown], None]) -> Study:
    """Both schemes at the five sizes; each process may pin ``limit_mbytes``, or all it likes."""
    measures = {name: rate(*counted) for name, counted in OVERHEADS.items()}
    if limit_mbytes is not None:
        measures[FREE_CHECKS] = lambda found, _: found.rate(FREE, "check_misses")

    def designs(page_size: int) -> Mapping[Hashable, Spec]:
        limit = () if limit_mbytes is None else (f"pin_limit={pages_of(limit_mbytes, page_size)}",)
        found: dict[Hashable, Spec] = {
            (scheme, entries): (scheme, f"entries={entries}", *limit)
            for scheme in (UTLB, INTR)
            for entries in CACHE_ENTRIES
        }
        return found | ({FREE: (UTLB, f"entries={CACHE_ENTRIES[0]}")} if limit else {})

    return Study(designs=designs, rows=grid(SIZES, measures), state=state)


SHARE = 0.15  # by which a lookup may cost more with the smallest cache


class _Costs:
    """Section 6.2's two formulas, with the paper's constants (us)."""

    def __init__(self, items: Mapping[str, Item]) -> None:
        told, derived = items["table6"].printed, items["table6"].derived
        self._check = float(told["user_check_us"] + told["ni_check_us"])
        self._ni_check = float(told["ni_check_us"])
        self._pin, self._unpin = float(told["user_pin_us"]), float(told["user_unpin_us"])
        self._miss = float(items["table2"].printed["miss_us"][0])
        self._interrupt = float(told["interrupt_us"] + derived["kernel_pin_us"])
        self._kernel_unpin = float(derived["kernel_unpin_us"])

    def pinning(self, row: Row) -> float:
        """What pinning and unpinning cost by lookup."""
        return float(self._pin * row[CHECKS] + self._unpin * row[UNPINS])

    def utlb(self, row: Row) -> float:
        """A lookup by UTLB."""
        return self._check + self.pinning(row) + float(self._miss * row[NI])

    def intr(self, row: Row) -> float:
        """A lookup by interrupts."""
        misses, unpins = row[NI_INTR], row[UNPINS_INTR]
        return self._ni_check + float(self._interrupt * misses + self._kernel_unpin * unpins)

    def both(self, rows: Mapping[str, Row]) -> dict[str, tuple[float, float]]:
        """Of each program by either scheme."""
        return {app: (self.utlb(row), self.intr(row)) for app, row in rows.items()}


def _less(one: float, other: float) -> bool:
    return one < other


def state_table4(outcome: Outcome, shown: Shown) -> None:
    """Hold Table 4's statements."""
    costs, rows = _Costs(shown.items), shown.rows
    small, large = (by_app(rows, cache_entries=size) for size in (SMALLEST, LARGEST))
    pins = {app: (row[CHECKS], row[NI_INTR]) for app, row in small.items()}
    fewer = all(utlb < intr for utlb, intr in pins.values())
    never_more = all(row[CHECKS] <= row[NI_INTR] for row in rows)
    outcome.shape("fewer-pins", fewer and never_more, told(pins))
    unpins = {app: (row[UNPINS], row[UNPINS_INTR]) for app, row in small.items()}
    every(outcome, "fewer-unpins", unpins, lambda utlb, intr: utlb == 0 < intr)
    growth = {
        app: tuple(cost(small[app]) / cost(large[app]) - 1 for cost in (costs.utlb, costs.intr))
        for app in small
    }
    every(outcome, "less-sensitive", growth, _less)
    utlbs = {app: (each,) for app, (each, _) in growth.items()}
    every(outcome, "small-caches-work", utlbs, lambda utlb: utlb <= SHARE)
    every(outcome, "cheaper", costs.both(small), _less)
    barnes = {"Barnes": costs.both(large)["Barnes"]}
    every(outcome, "not-always-cheaper", barnes, lambda utlb, intr: utlb >= intr)


# Table 4: check misses, NIC misses and unpins per lookup, without a limit on pinned memory.  Both
# schemes miss equally often there.
TABLE4 = overhead_study(None, state_table4)

TABLE5_MBYTES = 4
MOST = 4  # programs
HALF_AS_MUCH, A_TENTH = 1.5, 1.1


def state_table5(outcome: Outcome, shown: Shown) -> None:
    """Hold Table 5's statements."""
    costs = _Costs(shown.items)
    small, large = (by_app(shown.rows, cache_entries=size) for size in (SMALLEST, LARGEST))
    before = {app: (row[FREE_CHECKS], row[CHECKS], row[UNPINS]) for app, row in small.items()}
    rising = [app for app, (free, checks, unpins) in before.items() if checks > free or unpins]
    outcome.shape("pinning-rises", len(rising) >= MOST, told(before))
    ratios = {app: before[app][1] / before[app][0] for app in ("FFT", "Barnes", "Water")}
    fft, *others = ratios.values()
    again = fft >= HALF_AS_MUCH and max(others) <= A_TENTH
    outcome.shape("fft-pins-anew", again, told(ratios))
    of_small, of_large = (
        {
            app: (row[CHECKS], row[NI_INTR], row[UNPINS], row[UNPINS_INTR])
            for app, row in rows.items()
        }
        for rows in (small, large)
    )
    every(
        outcome, "fewer-pins", of_small, lambda checks, ni, utlb, intr: checks < ni and utlb < intr
    )
    every(
        outcome,
        "not-always-fewer",
        {"FFT": of_large["FFT"]},
        lambda checks, ni, utlb, intr: ni <= checks and intr < utlb,
    )
    every(outcome, "still-cheaper", costs.both(small), _less)
    share = {"FFT": costs.pinning(small["FFT"]) / costs.utlb(small["FFT"])}
    outcome.shape("pinning-dominates", share["FFT"] > 1 / 2, told(share))


# Table 5: as Table 4, with 4 MB that each process may pin.
TABLE5 = overhead_study(TABLE5_MBYTES, state_table5)

TABLE7_MBYTES = 16
# How many pages of 16 at once, and as the paper's columns and our measures say it.
PIN_PAGES = {1: "1_page", 16: "16_pages"}
PIN_STEPS = {"pin": "user_pin", "unpin": "user_unpin"}  # of the cost model
PIN_KEYS = {
    (step, pages): f"{step}_{word}_us_per_lookup"
    for step in PIN_STEPS
    for pages, word in PIN_PAGES.items()
}
MUCH_WORSE = 3


def _pinning(step: str, pages: int) -> Measure:
    def measure(found: Findings) -> float:
        parts = found.cost(pages).components
        [total_ps] = [part.low_ps for part in parts if part.name == PIN_STEPS[step]]
        return per_lookup(total_ps / 1e6, found.measured.lookups)

    return measure


def state_table7(outcome: Outcome, shown: Shown) -> None:
    """Hold Table 7's statements."""
    sums = {
        app: tuple(
            row[PIN_KEYS["pin", pages]] + row[PIN_KEYS["unpin", pages]] for pages in PIN_PAGES
        )
        for app, row in by_app(shown.rows).items()
    }
    for name, apps, holds in (
        ("fft-suffers", ["FFT"], lambda one, many: many >= MUCH_WORSE * one),
        ("effective-for-most", ["Barnes", "LU", "Raytrace", "Water"], lambda one, many: many < one),
        ("radix-too", ["Radix"], _less),
    ):
        every(outcome, name, {app: sums[app] for app in apps}, holds)


# Table 7: what pinning and unpinning cost per lookup, on demand and with 16 pages pinned ahead.
# NIC misses cost neither, so the size of the cache does not matter; it is the prototype's.
TABLE7 = Study(
    designs=lambda page_size: {
        pages: (UTLB, f"pin_limit={pages_of(TABLE7_MBYTES, page_size)}", f"prepin={pages}")
        for pages in PIN_PAGES
    },
    rows=grid({}, {key: _pinning(*of) for of, key in PIN_KEYS.items()}),
    state=state_table7,
)

CACHES = {  # our name: the catalog's, the cache
    "direct": ("direct", (OFFSET, 1)),
    "two_way": ("two_way", (OFFSET, 2)),
    "four_way": ("four_way", (OFFSET, 4)),
    "direct_nohash": ("direct_without_offset", (NO_OFFSET, 1)),
}
CLOSE = 0.09  # misses per lookup
AS_PRINTED = 0.10  # the same of sorted rows
SELDOM = 0.25  # of the places of a table


def key_of(name: str) -> str:
    """The measure of that cache in a row."""
    return f"{name}_ni_misses_per_lookup"


def table8_printed(items: Mapping[str, Item]) -> list[Row]:
    """The paper's cells by their places: each row is sorted, so that its labels mean nothing."""
    cells = items["table8"].printed
    return [
        {
            "application": f"?{place + 1}",
            "cache_entries": entries,
            **{key_of(name): cells[theirs][row][place] for name, (theirs, _) in CACHES.items()},
        }
        for place in range(len(cells["direct"][0]))
        for row, entries in enumerate(cells["cache_entries"])
    ]


def state_table8(outcome: Outcome, shown: Shown) -> None:
    """Hold Table 8's statements."""
    rows, apps = shown.rows, by_app(shown.rows)

    def least(app: str, more: str, less: str) -> float:
        """The smallest of what one cache misses more than another, of all sizes."""
        own = [row for row in rows if row["application"] == app]
        return min(float(row[key_of(more)] - row[key_of(less)]) for row in own)

    gains = {app: (least(app, "direct_nohash", "direct"),) for app in apps}
    every(outcome, "offset-works", gains, lambda gain: gain > 0)
    above = {
        app: tuple(-least(app, ways, "direct") for ways in ("two_way", "four_way")) for app in apps
    }
    every(outcome, "direct-is-close", above, lambda two, four: max(two, four) <= CLOSE)
    lower = [
        row[key_of("direct")] < row[key_of(ways)]
        for row in rows
        for ways in ("two_way", "four_way")
    ]
    places = f"{sum(lower)} of {len(lower)} places"
    outcome.shape("seldom-lower", sum(lower) <= SELDOM * len(lower), places)
    if not shown.are_the_papers:
        return
    printed = shown.items["table8"].printed
    for name, key in (
        ("two-way", "two_way"),
        ("four-way", "four_way"),
        ("without-offset", "direct_nohash"),
    ):
        theirs, _ = CACHES[key]
        off = {}
        for entries, cells in zip(printed["cache_entries"], printed[theirs], strict=True):
            ours = sorted(row[key_of(key)] for row in rows if row["cache_entries"] == entries)
            gaps = (one - float(other) for one, other in zip(ours, cells, strict=True))
            off[f"{entries // 1024} K"] = (max(gaps, key=abs),)
        every(outcome, f"{name}-as-printed", off, lambda most: abs(most) <= AS_PRINTED)


# Table 8: NIC misses per lookup by associativity, and without the index offset.
# Without a pin limit nothing leaves UTLB's cache but by eviction, so that one pass over the trace
# tells all twenty caches exactly.  The cells of ``direct`` stand in Table 4 as well, under labels
# that are right.
TABLE8 = Study(
    caches=(OFFSET, NO_OFFSET),
    rows=grid(SIZES, {key_of(name): of_cache(*cache) for name, (_, cache) in CACHES.items()}),
    unlabelled=table8_printed,
    state=state_table8,
)


def state_figure7(outcome: Outcome, shown: Shown) -> None:
    """Hold Figure 7's statements."""
    small, large = (by_app(shown.rows, cache_entries=size) for size in (SMALLEST, LARGEST))
    fall = {
        app: tuple(
            rows[app][f"{kind}_per_lookup"]
            for kind in ("capacity", "conflict")
            for rows in (small, large)
        )
        for app in small
    }
    every(
        outcome,
        "they-fall",
        fall,
        lambda cap, cap_late, con, con_late: (
            cap_late <= cap and con_late <= con and cap_late + con_late < cap + con
        ),
    )
    shares = {
        app: tuple(
            row["compulsory_per_lookup"] / row[ALL]
            for row in shown.rows
            if row["application"] == app and row["cache_entries"] >= MIDDLE
        )
        for app in small
    }
    every(outcome, "compulsory-majority", shares, lambda *each: min(each) >= 1 / 2)
    first = {
        app: (small[app]["compulsory_per_lookup"] / small[app][ALL],) for app in ("Barnes", "Water")
    }
    every(outcome, "not-always-the-majority", first, lambda share: share < 1 / 2)


# Figure 7: NIC misses by kind, 1 K to 16 K entries; the plotted values are lost.  Table 4 tells of
# it that first touches are check misses, and all misses.  Exact from one pass, as Table 8.
FIGURE7 = Study(
    caches=(OFFSET,),
    rows=grid(
        SIZES,
        {f"{kind}_per_lookup": of_cache(OFFSET, 1, kind) for kind in KINDS}
        | {ALL: of_cache(OFFSET, 1)},
    ),
    state=state_figure7,
)

WIDTHS = (1, 2, 4, 8, 16, 32)
# Entries fetched ahead are to save first uses (6.4), whose pages have to be pinned by then, and
# "currently the UTLB uses a sequential pre-pinning policy" (6.5): of Table 7's 16 pages.
PINNED_AHEAD = max(PIN_PAGES)


def state_figure8(outcome: Outcome, shown: Shown) -> None:
    """Hold Figure 8's statements, which are of Radix."""
    for name, measure in (("misses-fall", ALL), ("cost-falls", COST)):
        by_size: dict[str, tuple[float, ...]] = {}
        for row in shown.rows:
            if row["application"] == "Radix":
                size = _size(row)
                by_size[size] = (*by_size.get(size, ()), row[measure])
        every(outcome, name, by_size, lambda *each: all(b < a for a, b in pairwise(each)))


def _size(row: Row) -> str:
    return f"{row['cache_entries'] // 1024} K"


# Figure 8: NIC misses and cost per lookup by the entries that a miss fetches.
# Its axes are lost.  The widths are those whose cost Table 2 prints, the caches those of Table 4.
FIGURE8 = Study(
    designs=lambda _: {
        (UTLB, entries, width): (
            UTLB,
            f"entries={entries}",
            f"prepin={PINNED_AHEAD}",
            *([f"prefetch={width}"] * (width > 1)),
        )
        for entries in CACHE_ENTRIES
        for width in WIDTHS
    },
    rows=grid(
        SIZES | {"entries_fetched": WIDTHS},
        {
            ALL: rate(UTLB, "ni_misses"),
            COST: lambda found, *place: cost(found, (UTLB, *place)),
        },
    ),
    state=state_figure8,
)

ALONE, TOGETHER = "alone", "together"


def _of_all(name: str, offset: bool, kind: str) -> Measure:
    """Misses of a kind per lookup: each program with a cache of its own, or all in one cache."""

    def measure(found: Findings, entries: int) -> float:
        run_of: tuple[Measured, ...]
        run_of = found.measured.parts if name == ALONE else (found.measured,)
        misses = sum(getattr(each.caches[offset][entries, 1], kind) for each in run_of)
        return per_lookup(misses, sum(each.lookups for each in run_of))

    return measure


def state_independent(outcome: Outcome, shown: Shown) -> None:
    """Hold what is said of independent programs on one NIC."""
    for name, *keys in (
        ("they-disturb-each-other", "misses_alone_per_lookup", "misses_together_per_lookup"),
        (
            "offset-keeps-them-apart",
            "misses_together_per_lookup",
            "without_offset_together_per_lookup",
        ),
    ):
        both = {_size(row): tuple(row[key] for key in keys) for row in shown.rows}
        every(outcome, name, both, _less)


# What independent programs do to each other in the shared cache: conflict and capacity.
SECTION7_INDEPENDENT = Study(
    caches=(OFFSET, NO_OFFSET),
    rows=grid(
        SIZES,
        {
            f"{key}_{name}_per_lookup": _of_all(name, offset, kind)
            for name in (ALONE, TOGETHER)
            for key, offset, kind in (
                *((kind, OFFSET, kind) for kind in (*KINDS, "misses")),
                ("without_offset", NO_OFFSET, "misses"),
            )
        },
    ),
    state=state_independent,
    together=True,
)

TABLES = tuple(size for power in range(6, 15) for size in (1 << power, 3 << (power - 1)))
MEASURES = {"check misses": "check_misses", "NI misses": "ni_misses", "unpins": "unpins"}
NAMES = ("shared", "per_process")


def per_process_rows(found: Findings) -> list[Row]:
    """One row per shared cache, beside the largest tables that fit in the memory it takes."""
    listed = []
    for entries in CACHE_ENTRIES:
        shared = (UTLB, entries)
        room = found.nic_bytes(shared)
        fitting = [size for size in TABLES if found.nic_bytes((OWN, size)) <= room]
        own = (OWN, max(fitting)) if fitting else None
        row: Row = {
            "cache_entries": entries,
            "shared_nic_kib": room / 1024,
            "shared_entries": entries,
            "per_process_entries": own[1] if own else None,
            "per_process_nic_kib": found.nic_bytes(own) / 1024 if own else None,
        }
        for name, design in zip(NAMES, (shared, own), strict=True):
            for count in MEASURES.values():
                row[f"{count}_{name}_per_lookup"] = found.rate(design, count) if design else None
            row[f"cost_{name}_us_per_lookup"] = cost(found, design) if design else None
        listed.append(row)
    return listed


def state_per_process(outcome: Outcome, shown: Shown) -> None:
    """Hold what is said of tables per process against the shared cache."""
    misses: dict[str, float] = {}
    for row in shown.rows:
        if row["per_process_entries"] is not None:
            app, found = row["application"], row["ni_misses_per_process_per_lookup"]
            misses[app] = max(found, misses.get(app, found))
    outcome.shape("tables-never-miss", not any(misses.values()), told(misses))
    small = by_app(shown.rows, cache_entries=SMALLEST)
    for name, apps, key, holds in (
        (
            "large-footprints-need-the-cache",
            ("FFT", "LU", "Radix"),
            "unpins_{}_per_lookup",
            lambda shared, own: shared == 0 < own,
        ),
        ("and-cost-more", ("FFT",), "cost_{}_us_per_lookup", _less),
    ):
        both = {app: tuple(small[app][key.format(one)] for one in NAMES) for app in apps}
        every(outcome, name, both, holds)


# A table per process on the NIC against the shared cache, at equal memory of the NIC.
SECTION7_PER_PROCESS = Study(
    designs=lambda _: {
        (scheme, entries): (scheme, f"entries={entries}")
        for scheme, sizes in ((UTLB, CACHE_ENTRIES), (OWN, TABLES))
        for entries in sizes
    },
    rows=per_process_rows,
    state=state_per_process,
)
