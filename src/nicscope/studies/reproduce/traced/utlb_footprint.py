"""UTLB's footprints (Table 3) and limits on pinned memory (Table 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.studies.reproduce.traced.measuring import (
    NO_OFFSET,
    OFFSET,
    Axis,
    Layout,
    Line,
    Study,
    per_lookup,
)
from nicscope.studies.reproduce.traced.utlb_statements import (
    state_independent,
    state_per_process,
    state_table3,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from nicscope.studies.reproduce.traced.measuring import Findings, Measured, Row, Spec
    from nicscope.studies.reproduce.verdict import Item


BY_PROCESS = "footprint_by_process_pages"
BY_NODE = "footprint_pages"
LOOKUPS = "communication_lookups"


def table3_rows(found: Findings) -> list[Row]:
    """One row: means over the nodes that communicate."""
    footprint = found.measured.footprint
    assert footprint is not None
    nodes = max(1, footprint.nodes)
    return [
        {
            BY_PROCESS: footprint.process_pages / nodes,
            BY_NODE: footprint.pages / nodes,
            LOOKUPS: footprint.lookups / nodes,
        }
    ]


def table3_printed(items: Mapping[str, Item]) -> list[Row]:
    """The paper's cells; whether a page that processes share counts once it does not say."""
    cells = items["table3"].printed
    columns = zip(cells["app"], cells["footprint_pages"], cells["lookups"], strict=True)
    return [
        {"application": app, BY_PROCESS: pages, LOOKUPS: lookups} for app, pages, lookups in columns
    ]


# Table 3: distinct pages that a node uses for communication, and lookups.
TABLE3 = Study(
    unit="pages and lookups of a node, on average",
    conditions="every page that a request touches is a lookup",
    layout=Layout(
        axes=(),
        columns=("",),
        lines=(
            Line("pages, by process", (BY_PROCESS,)),
            Line("pages, by node", (BY_NODE,)),
            Line("lookups", (LOOKUPS,)),
        ),
    ),
    rows=table3_rows,
    printed=table3_printed,
    printed_note="which of the two ways to count pages is meant is not said; held against the "
    "first, by which pages per lookup are Table 4's check misses for five of the seven",
    nodes=True,
    state=state_table3,
)


CACHE_ENTRIES = (1024, 2048, 4096, 8192, 16384)  # of Table 4
KINDS = ("compulsory", "capacity", "conflict")

ALONE, TOGETHER = "alone", "together"


def independent_rows(found: Findings) -> list[Row]:
    """One row per size: all programs, each with a cache of its own, and all in one cache."""
    parts, whole = found.measured.parts, (found.measured,)
    listed = []
    for entries in CACHE_ENTRIES:
        row: Row = {"cache_entries": entries}
        for name, measured in ((ALONE, parts), (TOGETHER, whole)):
            for kind in (*KINDS, "misses"):
                row[f"{kind}_{name}_per_lookup"] = _rate(measured, OFFSET, entries, kind)
            without = _rate(measured, NO_OFFSET, entries, "misses")
            row[f"without_offset_{name}_per_lookup"] = without
        listed.append(row)
    return listed


def _rate(measured: tuple[Measured, ...], offset: bool, entries: int, kind: str) -> float:
    misses = sum(getattr(each.caches[offset][entries, 1], kind) for each in measured)
    return per_lookup(misses, sum(each.lookups for each in measured))


# What independent programs do to each other in the shared cache: conflict and capacity.
SECTION7_INDEPENDENT = Study(
    unit="NI misses per lookup",
    conditions="UTLB, unlimited host memory, direct-mapped, no prefetch; all traces alone, and at "
    "the same time on the same nodes, each spread over the same span of time",
    layout=Layout(
        axes=(Axis("cache_entries", "entries"),),
        columns=(ALONE, TOGETHER),
        lines=tuple(
            Line(label, tuple(f"{key}_{name}_per_lookup" for name in (ALONE, TOGETHER)))
            for label, key in (
                *((kind, kind) for kind in KINDS),
                ("all", "misses"),
                ("without offset", "without_offset"),
            )
        ),
    ),
    caches=(OFFSET, NO_OFFSET),
    rows=independent_rows,
    state=state_independent,
    together=True,
)


SHARED, OWN = "utlb", "utlb-process"
TABLES = tuple(size for power in range(6, 15) for size in (1 << power, 3 << (power - 1)))
MEASURES = ("check_misses", "ni_misses", "unpins")
NAMES = {SHARED: "shared", OWN: "per_process"}


def per_process_designs(page_size: int) -> Mapping[Hashable, Spec]:  # noqa: ARG001 - no limit
    """Shared caches of Table 4's sizes, and tables per process of many."""
    return {
        (scheme, entries): (scheme, f"entries={entries}")
        for scheme, sizes in ((SHARED, CACHE_ENTRIES), (OWN, TABLES))
        for entries in sizes
    }


def per_process_rows(found: Findings) -> list[Row]:
    """One row per shared cache, beside the largest tables that fit in the memory it takes."""
    listed = []
    for entries in CACHE_ENTRIES:
        room = found.nic_bytes((SHARED, entries))
        fitting = [size for size in TABLES if found.nic_bytes((OWN, size)) <= room]
        row: Row = {
            "cache_entries": entries,
            "shared_nic_kib": room / 1024,
            "shared_entries": entries,
        }
        own = (OWN, max(fitting)) if fitting else None
        row["per_process_entries"] = own[1] if own else None
        row["per_process_nic_kib"] = found.nic_bytes(own) / 1024 if own else None
        for scheme, design in ((SHARED, (SHARED, entries)), (OWN, own)):
            name = NAMES[scheme]
            for measure in MEASURES:
                value = found.rate(design, measure) if design else None
                row[f"{measure}_{name}_per_lookup"] = value
            bounds = found.cost(design).per_lookup_us() if design else None
            row[f"cost_{name}_us_per_lookup"] = None if bounds is None else float(bounds[0])
        listed.append(row)
    return listed


# A table per process on the NIC against the shared cache, at equal memory of the NIC.
SECTION7_PER_PROCESS = Study(
    unit="entries and KiB of NIC memory; events per lookup; us per lookup",
    conditions="UTLB, unlimited host memory, no prefetch; tables per process: the largest, of "
    "powers of two and these and a half, that fit in as much memory of the NIC",
    layout=Layout(
        axes=(Axis("cache_entries", "entries"),),
        columns=("shared", "per process"),
        lines=(
            Line("entries, of each", ("shared_entries", "per_process_entries")),
            Line("NIC memory, KiB", ("shared_nic_kib", "per_process_nic_kib")),
            *(
                Line(label, tuple(f"{key}_{name}_per_lookup" for name in NAMES.values()))
                for label, key in (
                    ("check misses", "check_misses"),
                    ("NI misses", "ni_misses"),
                    ("unpins", "unpins"),
                )
            ),
            Line("us", tuple(f"cost_{name}_us_per_lookup" for name in NAMES.values())),
        ),
    ),
    designs=per_process_designs,
    rows=per_process_rows,
    state=state_per_process,
)
