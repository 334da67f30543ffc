"""What RDMA NICs asked of each level of their caches, and the counters that show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nicscope.config.scheme import Scheme
from nicscope.reports.table import Rows, rows_of
from nicscope.reports.wording import byte_size, in_words, listed, whole

if TYPE_CHECKING:
    from nicscope.studies.nic_counters import Counter
    from nicscope.studies.replaying import Comparison, Priced


class _Table(NamedTuple):
    """One of the two tables of one design's NICs."""

    design: str
    name: str
    entries: int
    lookups: int
    missed: int
    missed_again: int | None  # None: there is no level 1
    fetched: int


def level_rows(comparison: Comparison) -> Rows | None:
    """A row for each table of each RDMA NIC; None if there is none."""
    rows = [row for priced in comparison.priced for row in _tables_of(priced)]
    if not rows:
        return None
    return rows_of(
        "Tables in host memory, and what levels on the NIC had of them",
        rows,
        {
            "design": lambda one: one.design,
            "table": lambda one: one.name,
            "entries": lambda one: whole(one.entries),
            "lookups": lambda one: whole(one.lookups),
            "missed at L0": lambda one: whole(one.missed),
            "missed at L1": lambda one: (
                "none" if one.missed_again is None else whole(one.missed_again)
            ),
            "fetched": lambda one: whole(one.fetched),
        },
        words=("design", "table"),
        key=2,
        least=("entries",),
    )


def _tables_of(priced: Priced) -> list[_Table]:
    design, total = priced.result.design, priced.result.total
    if design.scheme is not Scheme.RNIC:
        return []
    counts = {name: count or 0 for name, count in total.items()}
    has_level = {
        "mtt": design.l1_entries is not None,
        "mpt": bool(design.l1_shared) or design.mpt_l1_entries is not None,
    }
    entries = {"mtt": counts["mtt_entries"], "mpt": counts["regions"]}
    fetched = {"mtt": counts["ni_misses"], "mpt": counts["icm_fetches"] - counts["ni_misses"]}
    return [
        _Table(
            *(priced.name, called, entries[table]),
            counts[f"{table}_l0_hits"] + counts[f"{table}_l0_misses"],
            counts[f"{table}_l0_misses"],
            counts[f"{table}_l1_misses"] if has_level[table] else None,
            fetched[table],
        )
        for table, called in (("mtt", "pages"), ("mpt", "regions"))
    ]


def registered_notes(comparison: Comparison) -> list[str]:
    """What the tables of each RDMA NIC take in host memory."""
    lines = []
    for priced in comparison.priced:
        if priced.result.design.scheme is Scheme.RNIC:
            size = byte_size(priced.total("icm_bytes") or 0)
            lines.append(f"{priced.name}: the tables take {size} of host memory")
    return lines


# Why a request is no access that a region allows, by what is counted of it.
_REFUSED = {
    "rejected_unregistered": "outside of any region",
    "rejected_rights": "against a region's rights",
    "rejected_deregistered": "after deregistration",
}


def registration_notes(comparison: Comparison) -> list[str]:
    """What came of a trace's own registrations, and for which designs they are nothing."""
    if not comparison.registrations:
        return []
    lines, ignoring = [], []
    for priced in comparison.priced:
        if priced.result.design.scheme is not Scheme.RNIC:
            ignoring.append(priced.name)
            continue
        counts = {name: count or 0 for name, count in priced.result.total.items()}
        lines.append(
            f"{priced.name}: {in_words(counts['pin_calls'], 'region')} registered as the trace "
            f"says, {whole(counts['unpin_calls'])} deregistered, which emptied "
            f"{whole(counts['entries_invalidated'])} places of the NIC's caches"
        )
        if counts["rejected"]:
            reasons = (
                f"{whole(counts[name])} {why}" for name, why in _REFUSED.items() if counts[name]
            )
            lines.append(
                f"{priced.name}: {in_words(counts['rejected'], 'request')} refused for protection: "
                f"{', '.join(reasons)}"
            )
    if ignoring:
        lines.append(
            f"{listed(ignoring)}: no regions; what the trace registers "
            f"({in_words(comparison.registrations, 'row')}) changes nothing there"
        )
    return lines


def counter_rows(title: str, counters: list[Counter]) -> Rows:
    """A row for each counter of each design."""
    return rows_of(
        f"Counters by the names of {title}",
        counters,
        {
            "design": lambda one: one.design,
            "counter": lambda one: one.name,
            "counted": lambda one: whole(one.value),
        },
        words=("design", "counter"),
        key=2,
    )
