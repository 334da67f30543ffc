"""Tables 4, 5, 7 and 8 and Figures 7 and 8 of the UTLB paper, over any traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.studies.reproduce.traced.measuring import (
    NO_OFFSET,
    OFFSET,
    Axis,
    Layout,
    Line,
    Study,
    pages_of,
    per_lookup,
)
from nicscope.studies.reproduce.traced.utlb_statements import (
    FREE_CHECKS,
    state_figure7,
    state_figure8,
    state_table4,
    state_table5,
    state_table7,
    state_table8,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from nicscope.studies.reproduce.traced.measuring import Findings, Row, Shown, Spec
    from nicscope.studies.reproduce.verdict import Item, Outcome

CACHE_ENTRIES = (1024, 2048, 4096, 8192, 16384)
ENTRIES = Axis("cache_entries", "entries")
UTLB, INTR = "utlb", "vmmc-interrupt"
LINES = (
    Line("check misses", ("check_misses_utlb_per_lookup", None)),
    Line("NI misses", ("ni_misses_utlb_per_lookup", "ni_misses_intr_per_lookup")),
    Line("unpins", ("unpins_utlb_per_lookup", "unpins_intr_per_lookup")),
)
FREE = "free"  # of a limit


def overhead_study(
    limit_mbytes: int | None,
    memory: str,
    printed: Callable[[Mapping[str, Item]], list[Row]],
    state: Callable[[Outcome, Shown], None],
) -> Study:
    """Both schemes at the five sizes; each process may pin ``limit_mbytes``, or all it likes."""
    has_limit = limit_mbytes is not None

    def designs(page_size: int) -> Mapping[Hashable, Spec]:
        limit = () if limit_mbytes is None else (f"pin_limit={pages_of(limit_mbytes, page_size)}",)
        return {
            (scheme, entries): (scheme, f"entries={entries}", *limit)
            for scheme in (UTLB, INTR)
            for entries in CACHE_ENTRIES
        } | ({FREE: (UTLB, f"entries={CACHE_ENTRIES[0]}")} if has_limit else {})

    free = Line("check misses, no limit", (FREE_CHECKS, None))
    return Study(
        unit="events per lookup",
        conditions=f"{memory}, direct-mapped cache with index offset, no prefetch",
        layout=Layout(
            axes=(ENTRIES,), columns=("UTLB", "Intr"), lines=(*LINES, *[free] * has_limit)
        ),
        designs=designs,
        rows=_rows,
        printed=printed,
        state=state,
    )


def _rows(found: Findings) -> list[Row]:
    has_limit = FREE in found.designs
    free = {FREE_CHECKS: found.rate(FREE, "check_misses")} if has_limit else {}
    return [
        {
            "cache_entries": entries,
            "check_misses_utlb_per_lookup": found.rate((UTLB, entries), "check_misses"),
            "ni_misses_utlb_per_lookup": found.rate((UTLB, entries), "ni_misses"),
            "ni_misses_intr_per_lookup": found.rate((INTR, entries), "ni_misses"),
            "unpins_utlb_per_lookup": found.rate((UTLB, entries), "unpins"),
            "unpins_intr_per_lookup": found.rate((INTR, entries), "unpins"),
            **free,
        }
        for entries in CACHE_ENTRIES
    ]


def _per_lookup(names: Mapping[str, str]) -> dict[str, str]:
    return {f"{measure}_per_lookup": name for measure, name in names.items()}


_MEASURES = ("check_misses_utlb", "ni_misses_utlb", "ni_misses_intr", "unpins_utlb", "unpins_intr")
_OWN_NAMES = _per_lookup({name: name for name in _MEASURES})


def _printed_grid(cells: Mapping[str, Any], measures: Mapping[str, str]) -> list[Row]:
    """A row for each application and size: of each measure the printed cell of that name.

    A column of the paper may hold a number for each size and application, for each application,
    or one for all.
    """

    def at(printed: Any, row: int, column: int) -> Any:
        if not isinstance(printed, list):
            return printed
        return printed[row][column] if isinstance(printed[0], list) else printed[column]

    return [
        {
            "application": app,
            "cache_entries": entries,
            **{measure: at(cells[name], row, column) for measure, name in measures.items()},
        }
        for column, app in enumerate(cells["app"])
        for row, entries in enumerate(cells["cache_entries"])
    ]


def table4_printed(items: Mapping[str, Item]) -> list[Row]:
    """The paper's cells; both schemes miss equally often there."""
    names = {"ni_misses_utlb": "ni_misses_both", "ni_misses_intr": "ni_misses_both"}
    return _printed_grid(items["table4"].printed, {**_OWN_NAMES, **_per_lookup(names)})


# Table 4: check misses, NIC misses and unpins per lookup, without a limit on pinned memory.
TABLE4 = overhead_study(None, "unlimited host memory", table4_printed, state_table4)


TABLE5_MBYTES = 4


def table5_printed(items: Mapping[str, Item]) -> list[Row]:
    """The paper's cells."""
    return _printed_grid(items["table5"].printed, _OWN_NAMES)


# Table 5: as Table 4, with 4 MB that each process may pin.
TABLE5 = overhead_study(
    TABLE5_MBYTES, f"{TABLE5_MBYTES} MB pinned per process", table5_printed, state_table5
)


TABLE7_MBYTES = 16
PIN_PAGES = (1, 16)
PIN_STEPS = {"pin": "user_pin", "unpin": "user_unpin"}  # of the cost model
PIN_KEYS = {
    (step, pages): f"{step}_{pages}_page{'s' * (pages > 1)}_us_per_lookup"
    for step in PIN_STEPS
    for pages in PIN_PAGES
}


def table7_designs(page_size: int) -> Mapping[Hashable, Spec]:
    """One design for each number of pages pinned ahead."""
    limit = f"pin_limit={pages_of(TABLE7_MBYTES, page_size)}"
    return {pages: ("utlb", limit, f"prepin={pages}") for pages in PIN_PAGES}


def table7_rows(found: Findings) -> list[Row]:
    """One row: pin and unpin, each with 1 and with 16 pages."""
    row: Row = {}
    for (step, pages), key in PIN_KEYS.items():
        parts = found.cost(pages).components
        [total_ps] = [part.low_ps for part in parts if part.name == PIN_STEPS[step]]
        row[key] = per_lookup(total_ps / 1e6, found.measured.lookups)
    return [row]


def table7_printed(items: Mapping[str, Item]) -> list[Row]:
    """The paper's cells, of six applications."""
    cells = items["table7"].printed
    return [
        {
            "application": app,
            **{
                key: cells[f"{step}_us_{pages}_page{'s' * (pages > 1)}"][column]
                for (step, pages), key in PIN_KEYS.items()
            },
        }
        for column, app in enumerate(cells["app"])
    ]


# Table 7: what pinning and unpinning cost per lookup, on demand and with 16 pages pinned ahead.
# NIC misses cost neither, so the size of the cache does not matter; it is the prototype's.
TABLE7 = Study(
    unit="us per lookup",
    conditions=f"UTLB, {TABLE7_MBYTES} MB pinned per process, unpinning page by page, costs of "
    "Table 1",
    layout=Layout(
        axes=(),
        columns=("",),
        lines=tuple(
            Line(f"{step}, {pages} page{'s' * (pages > 1)}", (key,))
            for (step, pages), key in PIN_KEYS.items()
        ),
    ),
    designs=table7_designs,
    rows=table7_rows,
    printed=table7_printed,
    state=state_table7,
)


# As the paper calls them: our name, the catalog's, the cache.
CACHES = {
    "direct": ("direct", "direct", (OFFSET, 1)),
    "2-way": ("two_way", "two_way", (OFFSET, 2)),
    "4-way": ("four_way", "four_way", (OFFSET, 4)),
    "direct-nohash": ("direct_nohash", "direct_without_offset", (NO_OFFSET, 1)),
}


def key_of(name: str) -> str:
    """The measure of that cache in a row."""
    return f"{name}_ni_misses_per_lookup"


def table8_rows(found: Findings) -> list[Row]:
    """One row per size."""
    lookups = found.measured.lookups
    return [
        {
            "cache_entries": entries,
            **{
                key_of(name): per_lookup(found.cache(offset, entries, ways).misses, lookups)
                for name, _, (offset, ways) in CACHES.values()
            },
        }
        for entries in CACHE_ENTRIES
    ]


def table8_printed(items: Mapping[str, Item]) -> list[Row]:
    """The paper's cells by their places: each row is sorted, so that its labels mean nothing."""
    cells = items["table8"].printed
    return [
        {
            "application": f"?{place + 1}",
            "cache_entries": entries,
            **{key_of(name): cells[theirs][row][place] for name, theirs, _ in CACHES.values()},
        }
        for place in range(len(cells["direct"][0]))
        for row, entries in enumerate(cells["cache_entries"])
    ]


def table8_labelled(items: Mapping[str, Item]) -> list[Row]:
    """The cells of ``direct``: they stand in Table 4 as well, under labels that are right."""
    return _printed_grid(items["table4"].printed, {key_of("direct"): "ni_misses_both"})


# Table 8: NIC misses per lookup by associativity, and without the index offset.
# Without a pin limit nothing leaves UTLB's cache but by eviction, so that one pass over the trace
# tells all twenty caches exactly.
TABLE8 = Study(
    unit="NI misses per lookup",
    conditions="UTLB, unlimited host memory, no prefetch; with index offset but for direct-nohash",
    layout=Layout(
        axes=(ENTRIES,),
        columns=("",),
        lines=tuple(Line(label, (key_of(name),)) for label, (name, _, _) in CACHES.items()),
    ),
    caches=(OFFSET, NO_OFFSET),
    rows=table8_rows,
    printed=table8_printed,
    printed_note="each of its rows is sorted, so whose cell is which is not known: ?1 to ?7",
    labelled=table8_labelled,
    state=state_table8,
)


KINDS = ("compulsory", "capacity", "conflict")
ALL = "ni_misses_per_lookup"


def figure7_rows(found: Findings) -> list[Row]:
    """One row per size; the kinds add up to all misses."""
    lookups = found.measured.lookups
    points = {entries: found.cache(OFFSET, entries, 1) for entries in CACHE_ENTRIES}
    return [
        {
            "cache_entries": entries,
            **{f"{kind}_per_lookup": per_lookup(getattr(point, kind), lookups) for kind in KINDS},
            ALL: per_lookup(point.misses, lookups),
        }
        for entries, point in points.items()
    ]


def figure7_printed(items: Mapping[str, Item]) -> list[Row]:
    """What Table 4 tells of it: first touches are check misses, and all misses are printed."""
    names = {"compulsory_per_lookup": "check_misses_utlb", ALL: "ni_misses_both"}
    return _printed_grid(items["table4"].printed, names)


# Figure 7: NIC misses by kind, 1 K to 16 K entries; the plotted values are lost.
# Exact from one pass over the trace, as Table 8.
FIGURE7 = Study(
    unit="NI misses per lookup",
    conditions="UTLB, unlimited host memory, direct-mapped cache with index offset, no prefetch",
    layout=Layout(
        axes=(ENTRIES,),
        columns=("",),
        lines=(*(Line(kind, (f"{kind}_per_lookup",)) for kind in KINDS), Line("all", (ALL,))),
    ),
    caches=(OFFSET,),
    rows=figure7_rows,
    printed=figure7_printed,
    printed_note="from Table 4: check misses are the compulsory ones; the rest was only plotted",
    state=state_figure7,
)


WIDTHS = (1, 2, 4, 8, 16, 32)
MISSES, COST = "ni_misses_per_lookup", "cost_us_per_lookup"


def figure8_designs(page_size: int) -> Mapping[Hashable, Spec]:  # noqa: ARG001 - no limit in pages
    """A design for each size and width; without prefetch it is Table 4's."""
    return {
        (entries, width): (UTLB, f"entries={entries}", *([f"prefetch={width}"] * (width > 1)))
        for entries in CACHE_ENTRIES
        for width in WIDTHS
    }


def figure8_rows(found: Findings) -> list[Row]:
    """One row per size and width."""
    listed = []
    for entries in CACHE_ENTRIES:
        for width in WIDTHS:
            bounds = found.cost((entries, width)).per_lookup_us()
            listed.append(
                {
                    "cache_entries": entries,
                    "entries_fetched": width,
                    MISSES: found.rate((entries, width), "ni_misses"),
                    COST: None if bounds is None else float(bounds[0]),
                }
            )
    return listed


# Figure 8: NIC misses and cost per lookup by the entries that a miss fetches.
# Its axes are lost.  The widths are those whose cost Table 2 prints, the caches those of Table 4.
FIGURE8 = Study(
    unit="NI misses per lookup; us per lookup",
    conditions="UTLB, unlimited host memory, direct-mapped cache with index offset, costs of "
    "section 6.2 and Tables 1 and 2",
    layout=Layout(
        axes=(ENTRIES, Axis("entries_fetched", "fetched")),
        columns=("misses", "us"),
        lines=(Line("", (MISSES, COST)),),
    ),
    designs=figure8_designs,
    rows=figure8_rows,
    state=state_figure8,
)
