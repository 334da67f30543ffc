"""What UTLB names as limits of its own study (section 7), as tables over any traces.

Its traces are of parallel programs, balanced and alike, so they show little of what independent
programs do to each other in the shared cache; and it has not compared the UTLB per process with
the shared cache.
"""

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
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from nicscope.studies.reproduce.traced.measuring import Findings, Measured, Row, Spec

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
