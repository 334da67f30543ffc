"""What RDMA NICs sustain: rates by queue pairs, of descriptors of a trace, of paths to memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nicscope.reports.printing import Printed, Rows, heading, remark, rows_of
from nicscope.reports.result import Column, Report, table_of, table_of_rows
from nicscope.reports.wording import (
    between,
    byte_size,
    evidence_classes,
    in_words,
    listed,
    of_trace,
    per_hundred,
    significant,
    whole,
)
from nicscope.studies.rates import BOUNDS, COMMON, ENOUGH, EQUAL, RELAXED, best_of, cliff_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nicscope.config.costs import NicCosts
    from nicscope.studies.rates import (
        Asked,
        ConnectionReport,
        DescriptorReport,
        Found,
        Host,
        Path,
        PathReport,
        Transfer,
    )

RATE_BINDING = {
    "NIC": "the NIC's execution units are the bottleneck",
    "work requests": "the NIC fetches evicted work requests again",
    "contexts": "queue pair contexts miss in the NIC's cache",
    "doorbells": "threads wait for doorbell locks",
    "read window": "the limit of outstanding reads per queue pair is the bottleneck",
    "outstanding": "more outstanding operations would raise it",
}
AXES = {"queue_pairs": "queue pairs", "outstanding": "outstanding operations of a thread"}


class ShownConnections(Report):
    """Rates of several ways to post to one NIC."""

    found: ConnectionReport
    topic = "connections"
    drawn: ClassVar = {"connections": "rdma.draw_connections"}

    def summary(self) -> list[str]:
        """Which way has the highest rate, what binds it, and where the cliff is along each axis."""
        every = self.found.found
        best = best_of(every)
        asked = best.asked
        told = [
            f"{in_words(asked.queue_pairs, 'queue pair').capitalize()} and "
            f"{'up to ' * (asked.sharing == COMMON)}{whole(asked.share)} outstanding "
            f"{asked.operation}s of each of {in_words(asked.threads, 'thread')}"
            f"{_of_the_sum(asked)} reach {_millions(best)} million operations a second: "
            f"{RATE_BINDING[best.low.bound_by]}."
        ]
        told += _other_sums(every, best)
        for axis, name in AXES.items():
            line = _line(every, best, axis)
            if len(line) > 1:
                told.append(_cliff(line, axis, name))
        return told

    def parts(self) -> Iterator[Printed]:
        """A table: each way."""
        nic = self.found.nic
        yield heading(f"{nic.name}: {nic.title}")
        yield way_rows(self.found)
        yield remark(
            f"Ranges: from the highest costs and smallest caches to the lowest and largest "
            f"that are known.  Numbers that went in are {_evidence_of(nic)}."
        )
        yield remark(
            "On the machine: ICM Cache Miss and Receive WQE Cache Miss (Neo-Host), "
            "outbound_pci_stalled_rd (ethtool -S); perftest with -q and -t."
        )

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for each way."""
        columns: dict[str, Column] = {
            "operation": ("string", "asked.operation"),
            "threads": ("int64", "asked.threads"),
            "queue_pairs": ("int64", "asked.queue_pairs"),
            "outstanding": ("int64", "asked.share"),
            "outstanding_sum": ("int64", "asked.budget"),
            "sum_sharing": ("string", "asked.sharing"),
            "read_window": ("int64", "asked.window"),
            "doorbells": ("string", "asked.doorbells"),
            "nic_replacement": ("string", "asked.replacement"),
        }
        for end in ("low", "high"):
            columns |= {
                f"millions_per_s_{end}": ("float64", f"{end}.millions"),
                f"nic_us_{end}": ("float64", f"{end}.us"),
                f"refetches_per_operation_{end}": ("float64", f"{end}.work_request_misses"),
                f"context_misses_per_operation_{end}": ("float64", f"{end}.context_misses"),
                f"bound_by_{end}": ("string", f"{end}.bound_by"),
            }
        yield "connections", table_of(self.found.found, columns)


def _evidence_of(nic: NicCosts) -> str:
    """What the NIC's costs rest on, class by class in alphabetical order."""
    by_class = sorted(nic.origins.items(), key=lambda one: one[1].evidence.value)
    return evidence_classes(dict(by_class))


def way_rows(found: ConnectionReport) -> Rows:
    """A row for each way; columns equal for all are left out."""
    every = found.found
    said: dict[str, Callable[[Found], str]] = {
        "operation": lambda one: one.asked.operation,
        "threads": lambda one: whole(one.asked.threads),
        "QPs": lambda one: whole(one.asked.queue_pairs),
        "outstanding": lambda one: whole(one.asked.share),
        "sum": lambda one: "any" if one.asked.budget is None else whole(one.asked.budget),
        "shared": lambda one: one.asked.sharing or "",
        "window": lambda one: whole(one.asked.window),
        "doorbells": lambda one: one.asked.doorbells,
        "replaced": lambda one: one.asked.replacement,
    }
    shown = {
        name: spell
        for name, spell in said.items()
        if name in ("QPs", "outstanding")
        or len({spell(one) for one in every}) > 1
        or (name in ("sum", "shared") and every[0].asked.budget is not None)
    }
    return rows_of(
        "By way to post",
        every,
        {
            **shown,
            "million/s": _millions,
            "us in the NIC": lambda one: _ascending(one.high.us, one.low.us),
            "refetched": lambda one: _ascending(
                one.high.work_request_misses, one.low.work_request_misses
            ),
            "contexts missed": lambda one: _ascending(
                one.high.context_misses, one.low.context_misses
            ),
            "bound by": lambda one: (
                one.low.bound_by
                if one.low.bound_by == one.high.bound_by
                else f"{one.low.bound_by}, {one.high.bound_by}"
            ),
        },
        words=("operation", "shared", "doorbells", "replaced", "bound by"),
        key=len(shown),
        least=("us in the NIC", "refetched", "contexts missed"),
    )


_SHARED = {
    EQUAL: "in equal parts",
    COMMON: "first come, first served",
    ENOUGH: "more than they want",
}


def _of_the_sum(asked: Asked) -> str:
    if asked.sharing is None:
        return ""
    return f", {whole(asked.budget or 0)} in all at most, {_SHARED[asked.sharing]},"


def _other_sums(every: Sequence[Found], best: Found) -> Iterator[str]:
    """What the same threads do if they share the sum otherwise, and what is best of other sums."""
    for one in every:
        otherwise = one.asked == best.asked._replace(sharing=one.asked.sharing)
        if otherwise and one is not best:
            yield f"Shared {_SHARED[one.asked.sharing or EQUAL]} the rate is {_millions(one)}."
    for budget in dict.fromkeys(one.asked.budget for one in every):
        if budget != best.asked.budget:
            most = best_of([one for one in every if one.asked.budget == budget])
            yield (
                f"Of {whole(budget or 0)} in all the best are "
                f"{in_words(most.asked.threads, 'thread')} "
                f"and {in_words(most.asked.queue_pairs, 'queue pair')}, "
                f"{_SHARED[most.asked.sharing or EQUAL]}: {_millions(most)}."
            )


def _ascending(one: float, other: float) -> str:
    return between(min(one, other), max(one, other))


def _millions(one: Found) -> str:
    return _ascending(one.low.millions, one.high.millions)


def _line(every: Sequence[Found], best: Found, axis: str) -> list[Found]:
    """The ways that differ from the best along ``axis`` alone, ascending."""
    at = best.asked._asdict() | {axis: 0}
    line = [one for one in every if one.asked._asdict() | {axis: 0} == at]
    return sorted(line, key=lambda one: getattr(one.asked, axis))


def _cliff(line: Sequence[Found], axis: str, name: str) -> str:
    """Where the rate drops along a line."""
    last, first = cliff_of(line)
    if first is None:
        return f"The rate does not fall up to {whole(getattr(last.asked, axis))} {name}."
    end = line[-1]
    return (
        f"The rate falls beyond {whole(getattr(last.asked, axis))} {name}: with "
        f"{whole(getattr(first.asked, axis))} it is {_millions(first)} million/s "
        f"({RATE_BINDING[first.low.bound_by]})"
        + (
            "."
            if first is end
            else f", with {whole(getattr(end.asked, axis))} {_millions(end)} million/s."
        )
    )


TRANSFER_BINDING = {
    "posting": "posting them",
    "NIC": "the NIC's execution units",
    "work requests": "fetching work requests",
    "PCIe": "PCIe",
    "link": "the link",
    "read window": "the limit of outstanding reads",
}
LITTLE = 1.02  # times faster: not worth a sentence


class ShownDescriptors(Report):
    """The descriptors of several engines over one trace."""

    found: DescriptorReport
    topic = "descriptors"

    def summary(self) -> list[str]:
        """What the first engine makes of the trace and what binds it, and what would be faster."""
        every = self.found.found
        first = every[0]
        told = [
            f"{_engine_in_words(first)} makes {whole(first.moved.descriptors)} descriptors of "
            f"{_mean(first)} on average, which move at {_rate(first)} GB/s; the bottleneck is "
            f"{TRANSFER_BINDING[first.bound_by(1)]}."
        ]
        best = max(every, key=lambda one: one.gbytes_per_s(1))
        if best.gbytes_per_s(1) > LITTLE * first.gbytes_per_s(1):
            told.append(
                f"The fastest is {_engine_in_words(best)}{_differences(best, first)}: "
                f"{whole(best.moved.descriptors)} descriptors at {_rate(best)} GB/s; the "
                f"bottleneck is {TRANSFER_BINDING[best.bound_by(1)]}."
            )
        needed = _sufficient_threads(first)
        if needed is not None:
            told.append(
                f"Posting is no bottleneck of {_engine_in_words(first)} with "
                f"{in_words(needed, 'thread')}, or with descriptors "
                f"{significant(needed / first.through.threads)} times as large."
            )
        return told

    def parts(self) -> Iterator[Printed]:
        """A table of descriptors and rates, and one of bounds."""
        trace, nic = self.found.trace, self.found.nic
        yield heading(f"{of_trace(trace)}; {nic.name}: {nic.title}")
        yield engine_rows(self.found)
        yield bound_rows(self.found)
        first = self.found.found[0]
        needed = _sufficient_threads(first)
        if needed is not None:
            yield remark(
                f"Posting is no bottleneck of {_engine_in_words(first)} with "
                f"{in_words(needed, 'thread')}, "
                f"{significant(needed / first.through.threads)} times as many."
            )
        absent = [name for name in BOUNDS if name not in first.bounds]
        if absent:
            yield remark(f"Not known of this NIC, and left out: {listed(absent)}.")
        yield remark(f"Numbers that went in are {_evidence_of(nic)}.")

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for each engine and way."""
        rows = []
        for one in self.found.found:
            row: dict[str, Any] = {
                "engine": one.through.engine,
                "threads": one.through.threads,
                "nics": one.through.nics,
                "queue_pairs": one.through.queue_pairs,
                "descriptors": one.moved.descriptors,
                "descriptor_bytes": one.moved.byte_count,
                "packets": one.moved.packets,
                "smallest_bytes": one.smallest,
                "largest_bytes": one.largest,
                "transfer_gbytes_per_s_low": one.gbytes_per_s(1),
                "transfer_gbytes_per_s_high": one.gbytes_per_s(0),
                "bound_by_low": one.bound_by(1),
                "bound_by_high": one.bound_by(0),
            }
            for name in BOUNDS:
                span = one.bounds.get(name)
                key = name.lower().replace(" ", "_")
                row[f"bound_{key}_s_low"] = None if span is None else span.low
                row[f"bound_{key}_s_high"] = None if span is None else span.high
            rows.append(row)
        words = ("engine", "bound_by_low", "bound_by_high")
        yield "descriptors", table_of_rows(rows, words=words)


def engine_rows(found: DescriptorReport) -> Rows:
    """A row for each engine and way; columns equal for all are left out."""
    every = found.found
    ways: dict[str, Callable[[Transfer], str]] = {
        "threads": lambda one: whole(one.through.threads),
        "NICs": lambda one: whole(one.through.nics),
        "QPs": lambda one: whole(one.through.queue_pairs),
    }
    shown = {name: spell for name, spell in ways.items() if len({spell(one) for one in every}) > 1}
    return rows_of(
        "By engine",
        every,
        {
            "engine": lambda one: one.through.engine,
            **shown,
            "descriptors": lambda one: whole(one.moved.descriptors),
            "mean": _mean,
            "smallest": lambda one: byte_size(one.smallest),
            "largest": lambda one: byte_size(one.largest),
            "GB/s": _rate,
            "bound by": lambda one: (
                one.bound_by(1)
                if one.bound_by(0) == one.bound_by(1)
                else f"{one.bound_by(1)}, {one.bound_by(0)}"
            ),
        },
        words=("engine", "bound by"),
        key=1 + len(shown),
        least=("smallest", "largest"),
    )


def bound_rows(found: DescriptorReport) -> Rows:
    """The lower bounds of the transfer time, by engine and way."""
    every = found.found
    names = [name for name in BOUNDS if name in every[0].bounds]
    return rows_of(
        "Seconds that it takes at least",
        every,
        {
            "engine": lambda one: one.through.engine,
            **{
                name: lambda one, name=name: between(*one.bounds[name])  # type: ignore[misc]
                for name in names
            },
        },
        words=("engine",),
    )


def _sufficient_threads(one: Transfer) -> int | None:
    """Threads with which posting is no bottleneck; None if it is none."""
    needed = one.threads_needed(1)
    return needed if one.bound_by(1) == "posting" and needed > one.through.threads else None


def _engine_in_words(one: Transfer) -> str:
    names = {"nixl": "NIXL", "mooncake": "Mooncake", "joined": "joining what adjoins"}
    return names[one.through.engine]


def _differences(one: Transfer, first: Transfer) -> str:
    """The options in which it differs from the first."""
    through, before = one.through, first.through
    told = []
    if through.threads != before.threads:
        told.append(in_words(through.threads, "thread"))
    if through.nics != before.nics:
        told.append(in_words(through.nics, "NIC"))
    if through.queue_pairs != before.queue_pairs:
        told.append(in_words(through.queue_pairs, "queue pair"))
    return f" with {listed(told)}" if told else ""


def _mean(one: Transfer) -> str:
    return byte_size(round(one.mean_bytes))


def _rate(one: Transfer) -> str:
    return between(one.gbytes_per_s(1), one.gbytes_per_s(0))


# What shows on a machine that it is this that bounds.
COUNTERS = {
    "PCIe": "outbound_pci_stalled_wr and outbound_pci_buffer_overflow (ethtool -S), PCIe Outbound "
    "Used BW (Neo-Host)",
    "IOMMU": "IOTLB misses (pcm-iio), PCIe Avg Latency and Back Pressure from Internal MMU "
    "(Neo-Host)",
    "ordering": "outbound_pci_stalled_wr (ethtool -S); ib_write_bw with and without "
    "--disable_pcie_relaxed",
    "window": "outbound_pci_stalled_rd (ethtool -S), Read Stalled due to No Read Engines "
    "(Neo-Host)",
}
_PARTS = {
    "PCIe": "PCIe",
    "IOMMU": "the IOMMU",
    "ordering": "the ordering of writes",
    "window": "the limit of outstanding reads",
}
_NODES = (
    "Not judged, as no published facts suffice: the NUMA node. On the machine: numactl and the "
    "NIC's numa_node; 21 to 124 GB/s were measured with wrong ones."
)


class ShownPaths(Report):
    """A trace, and the rates of several paths."""

    found: PathReport
    topic = "path"
    drawn: ClassVar = {"paths": "rdma.draw_paths"}

    def summary(self) -> list[str]:
        """What bounds the best and the worst path, and which counter shows it."""
        every = self.found.found
        best = max(every, key=lambda one: one.gbits.low)
        worst = min(every, key=lambda one: one.gbits.high)
        named = _PARTS[best.bound]
        told = [
            f"The NIC reaches {between(*best.gbits)} Gb/s at best, limited by {named}: with "
            f"{_host_in_words(best.host)}."
        ]
        if worst.gbits.high < best.gbits.low:
            reads = f" and reads tables {_reads(worst)} times for 4 KiB" if worst.counts else ""
            told.append(
                f"With {_host_in_words(worst.host)} it reaches {between(*worst.gbits)} Gb/s, "
                f"limited by {_PARTS[worst.bound]}{reads}."
            )
        bounds = dict.fromkeys(one.bound for one in (best, worst))
        shown = (
            f"To confirm {_PARTS[name]} as the limit, see {COUNTERS[name]}." for name in bounds
        )
        return [*told, *shown]

    def parts(self) -> Iterator[Printed]:
        """A table: each path."""
        found = self.found
        yield heading(
            f"{of_trace(found.trace)}, caches of {in_words(found.walk_cache, 'table')} a level"
        )
        yield path_rows(found)
        yield remark(f"Costs: {found.costs.name!r} ({evidence_classes(found.costs.origins)}).")
        yield remark(_NODES)

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for each path."""
        counts = ("pieces", "lookups", "misses", "reads")
        rows = []
        for each in self.found.found:
            row: dict[str, Any] = {
                "iommu": each.host.mode,
                "page_size_bytes": each.host.page,
                "iotlb_entries": each.host.iotlb,
                "walks_at_once": each.host.walks,
                "atc_entries": each.host.atc,
                "pcie": each.host.pcie,
                "write_ordering": each.host.ordering,
                "bound": each.bound,
            }
            for name in counts:
                row[f"iommu_{name}"] = None if each.counts is None else each.counts[name]
            for name in COUNTERS:
                span = each.allows.get(name, (None, None))
                row[f"{name.lower()}_gbits_low"], row[f"{name.lower()}_gbits_high"] = span
            mapped = each.each_mapped_us or (None, None)
            row["each_mapped_us_low"], row["each_mapped_us_high"] = mapped
            rows.append(row)
        yield "paths", table_of_rows(rows, words=("iommu", "pcie", "write_ordering", "bound"))


def path_rows(found: PathReport) -> Rows:
    """A row for each path: the rate of each component."""
    columns = {
        "IOMMU": lambda one: one.host.mode,
        "page": lambda one: "" if one.host.page is None else byte_size(one.host.page),
        "IOTLB": lambda one: "" if one.host.iotlb is None else str(one.host.iotlb),
        "walks": lambda one: "" if one.host.walks is None else str(one.host.walks),
        "ATC": lambda one: "" if one.host.atc is None else str(one.host.atc),
        "PCIe": lambda one: one.host.pcie,
        "writes": lambda one: one.host.ordering,
        "asked": _asked,
        "missed": _missed,
        "reads/4 KiB": _reads,
        "PCIe allows": lambda one: between(*one.allows["PCIe"]),
        "IOMMU allows": lambda one: between(*one.allows["IOMMU"]) if one.counts else "",
        "ordering allows": lambda one: (
            between(*one.allows["ordering"]) if "ordering" in one.allows else ""
        ),
        "window allows": lambda one: between(*one.allows["window"]),
        "bound": lambda one: one.bound,
        "us if mapped": lambda one: between(*one.each_mapped_us) if one.each_mapped_us else "",
    }
    every = found.found
    if any("window" not in one.allows for one in every):
        del columns["window allows"]
    if all(one.host.ordering == RELAXED for one in every):
        del columns["ordering allows"], columns["writes"]
    if all(one.host.atc is None for one in every):
        del columns["ATC"], columns["asked"]
    return rows_of(
        "Gb/s",
        every,
        columns,
        words=("IOMMU", "page", "PCIe", "writes", "bound"),
        key=5 + ("ATC" in columns) + ("writes" in columns),
        least=("asked", "missed", "us if mapped"),
    )


def _asked(one: Path) -> str:
    if one.counts is None:
        return ""
    return f"{per_hundred(100 * one.counts['lookups'] / one.counts['pieces'])} %"


def _missed(one: Path) -> str:
    if one.counts is None:
        return ""
    return f"{per_hundred(100 * one.counts['misses'] / one.counts['pieces'])} %"


def _reads(one: Path) -> str:
    return "" if one.reads_per_piece is None else per_hundred(one.reads_per_piece)


def host_name(host: Host) -> str:
    """A short name of a path configuration."""
    ordered = "" if host.ordering == RELAXED else ", in order"
    if host.page is None:
        return f"{host.mode}, {host.pcie}{ordered}"
    walks = in_words(host.walks or 1, "walk")
    own = "" if host.atc is None else f" and {host.atc}"
    return (
        f"{host.mode}, {byte_size(host.page)}, {host.iotlb}{own} entries, {walks}, {host.pcie}"
        f"{ordered}"
    )


def _host_in_words(host: Host) -> str:
    on = f"on PCIe {host.pcie}" + (", writes in order" if host.ordering != RELAXED else "")
    if host.page is None:
        named = {"off": "the IOMMU off", "pt": "the IOMMU passed through"}[host.mode]
        return f"{named} {on}"
    own = "" if host.atc is None else f" and {host.atc} that the NIC keeps (ATS)"
    return (
        f"the IOMMU translating pages of {byte_size(host.page)} with {host.iotlb} entries{own}, "
        f"{in_words(host.walks or 1, 'walk')} at once, {on}"
    )
