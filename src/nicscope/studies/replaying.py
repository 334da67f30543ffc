"""Replays a trace through designs: counts, prices, and counters under NIC tools' names."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nicscope.config.costs import Evidence
from nicscope.config.design import PARTS, Design, Scheme, design_names, load_design, with_settings
from nicscope.config.platform import Platform, in_us, load_platform
from nicscope.errors import DesignError, did_you_mean
from nicscope.studies.connection_replay import ConnectionCounts, connection_counts
from nicscope.studies.pricing import Cost, Denominator, denominator_of, price
from nicscope.studies.sources import ShareDone, extent_of, repeat
from nicscope.studies.workers import Nodes, Workers
from nicscope.traces.folders import Share, placed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from nicscope.drivers.replay import ReplayResult
    from nicscope.drivers.replay.connections import Sizes
    from nicscope.drivers.replay.engine import NodeResult
    from nicscope.traces.reader import Trace
    from nicscope.traces.schema import Requests, Rows


class Tool(NamedTuple):
    """A tool that shows a NIC's counters: its names for our counts, and those it lacks."""

    title: str
    names: Mapping[str, str]  # ours: its own
    without: str  # what of ours it does not show


_LEVELS = [(level, table) for table in ("MTT", "MPT") for level in (0, 1)]
TOOLS = {
    "neohost": Tool(
        "Neo-Host",
        {
            f"{table.lower()}_l{level}_{ours}": f"Level {level} {table} Cache {its}"
            for level, table in _LEVELS
            for ours, its in (("hits", "Hit"), ("misses", "Miss"))
        }
        | {"indirect_lookups": "Indirect Memory Key Access", "icm_fetches": "ICM Cache Miss"},
        "what is registered (regions, page entries, their bytes)",
    ),
    "freebsd": Tool(
        "FreeBSD's mlx5 diagnostics",
        {
            "mtt_l0_misses": "l0_mtt_miss (0x0801)",
            "mtt_l0_hits": "l0_mtt_hit (0x0802)",
            "mtt_l1_misses": "l1_mtt_miss (0x0803)",
            "mtt_l1_hits": "l1_mtt_hit (0x0804)",
            "mpt_l0_misses": "l0_mpt_miss (0x0805)",
            "mpt_l0_hits": "l0_mpt_hit (0x0806)",
            "mpt_l1_misses": "l1_mpt_miss (0x0807)",
            "mpt_l1_hits": "l1_mpt_hit (0x0808)",
            "indirect_lookups": "tpt_indirect_mem_key (0x2801)",
        },
        "fetches from host memory (icm_fetches), and what is registered",
    ),
    "rdma": Tool(
        "rdma statistic",
        {},
        "hits, misses and fetches: mlx5's hw_counters count none of its caches of translations; "
        "Neo-Host, or FreeBSD's diagnostics, do",
    ),
}


class Counter(NamedTuple):
    """One counter of one design's NICs, under its tool's name."""

    design: str
    name: str
    value: int


def tool_named(name: str, designs: Iterable[Design]) -> Tool:
    """The tool of that name; errors: ``DesignError`` if there is none, or nothing to show in it."""
    if name not in TOOLS:
        raise DesignError(f"--counters: no {name!r}{did_you_mean(name, list(TOOLS))}")
    if all(design.scheme is not Scheme.RNIC for design in designs):
        raise DesignError(
            f"--counters {name}: {TOOLS[name].title} shows the counters of RDMA NICs, and no "
            "design here is of scheme rnic; add --design rnic"
        )
    return TOOLS[name]


def counters_of(
    tool: Tool, found: Sequence[tuple[Design, Mapping[str, int | None]]]
) -> list[Counter]:
    """The counters of each RDMA NIC of ``found`` as ``tool`` shows them."""
    return [
        Counter(design.name, name, total[ours] or 0)
        for design, total in found
        if design.scheme is Scheme.RNIC
        for ours, name in tool.names.items()
    ]


# From what a source prints to what we chose ourselves.
_WEAKENING = (
    Evidence.PUBLISHED,
    Evidence.DERIVED,
    Evidence.MEASURED,
    Evidence.FITTED,
    Evidence.ASSUMED,
)
# Prices nothing: every step that happened is then unpriced, and says why.
_NO_PLATFORM = Platform(
    name="no platform",
    title="No platform",
    description="",
    sources={},
    costs={},
    not_applicable={},
)


class Subject(NamedTuple):
    """A design and its platform, if any."""

    design: Design
    platform: Platform | None


class Priced(NamedTuple):
    """The counts of one design over the trace, and their price."""

    result: ReplayResult
    platform: str | None
    cost: Cost

    @property
    def name(self) -> str:
        """The design's name."""
        return self.result.design.name

    def total(self, name: str) -> int | None:
        """The count's sum over all nodes; None if it was not counted."""
        return self.result.total[name]

    @property
    def pinned_host_bytes(self) -> int:
        """Host memory pinned at the peak, summed over nodes."""
        pages, size = self.result.total["peak_pinned_pages"], self.result.design.page_size
        assert pages is not None
        assert size is not None
        return pages * size

    @property
    def nic_bytes(self) -> int:
        """NIC memory of the node that uses most."""
        return sum(self.result.nic_memory_bytes.values())

    @property
    def weakest_evidence(self) -> Evidence | None:
        """The weakest class of evidence among the prices used; None if none was."""
        paid = [part.evidence for part in self.cost.components if part.count]
        return max(paid, key=_WEAKENING.index, default=None)


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A trace, the results of each design, and the command that repeats them."""

    trace: dict[str, Any]
    priced: list[Priced]
    repeat: dict[str, Any]
    kinds: bool
    registrations: int = 0  # rows of the trace that register memory or give it back
    tool: Tool | None = None  # under whose names counters are shown too
    connections: ConnectionCounts | None = None  # of an RDMA NIC, if they were asked for

    @property
    def denominator(self) -> Denominator:
        """What rates are per, so that designs compare."""
        return denominator_of(priced.result.design.page_size for priced in self.priced)

    @property
    def lookups(self) -> dict[int, int]:
        """The number of lookups, by the page sizes (bytes) of the designs."""
        return {priced.result.design.page_size or 0: priced.cost.lookups for priced in self.priced}

    def to_json(self) -> dict[str, Any]:
        """The object of one design; of several, ``{"results": [object, ...]}``."""
        objects = [self._object(priced) for priced in self.priced]
        return objects[0] if len(objects) == 1 else {"results": objects}

    def _object(self, priced: Priced) -> dict[str, Any]:
        result = priced.result
        return {
            "design": result.design.to_json(),
            "trace": self.trace | {"page_size": result.design.page_size},
            "total": result.total,
            "nodes": result.nodes,
            "cost_us": priced.cost.to_json() | {"platform": priced.platform},
            "nic_memory_bytes": result.nic_memory_bytes,
            "repeat": self.repeat | {"seed": result.design.seed},
            **({} if self.tool is None else {"counters": self._counters(self.tool, result)}),
            **self._of_connections(result.design),
        }

    def _of_connections(self, design: Design) -> dict[str, Any]:
        if self.connections is None or design.scheme is not Scheme.RNIC:
            return {}
        return {"connections": self.connections.to_json()}

    def _counters(self, tool: Tool, result: ReplayResult) -> dict[str, int]:
        found = counters_of(tool, [(result.design, result.total)])
        return {counter.name: counter.value for counter in found}


def choose_subjects(
    names: Sequence[str | Path | Design],
    platform: str | Path | Platform | None,
    assignments: Sequence[str],
    parts: Collection[str] = (),
) -> list[Subject]:
    """The named designs (default: the whole catalog), each with its platform.

    ``assignments`` are set on every one of them; of the parts beside the translation those alone
    that are named in ``parts``, for to whoever only counts lookups the others make no difference.
    ``platform`` prices all; without it each design's own does.  Errors: ``DesignError`` or
    ``PlatformError`` for the first that is wrong.
    """
    for assignment in assignments:
        key = assignment.partition("=")[0].strip()
        if key in PARTS and key not in parts:
            others = f"; {' and '.join(parts)} can be set" if parts else ""
            raise DesignError(
                f"--set {assignment}: {key} changes nothing of what is done with a trace here; "
                f"leave it out{others}"
            )
    one_for_all = None if platform is None else load_platform(platform)
    subjects: list[Subject] = []
    for name in names or design_names():
        design = _set(load_design(name), assignments, chosen=bool(names))
        if any(design.name == other.design.name for other in subjects):
            raise DesignError(f"design {design.name!r} is there twice; give each another name")
        own = one_for_all
        if own is None and design.platform is not None:
            own = load_platform(design.platform)
        subjects.append(Subject(design, own))
    return subjects


def _set(design: Design, assignments: Sequence[str], chosen: bool) -> Design:
    try:
        return with_settings(design, assignments) if assignments else design
    except DesignError as error:
        called = f"design {design.name!r}"
        message = str(error) if str(error).startswith(called) else f"{called}: {error}"
        hint = "" if chosen else "; name the designs to set with --design"
        raise DesignError(f"{message}{hint}") from error


def compare(
    trace: Trace,
    subjects: Sequence[Subject],
    kinds: bool = True,
    overrides: Sequence[str] = (),
    command: Sequence[str] = (),
    watch: Callable[[int, int], None] | None = None,
    workers: Workers | None = None,
    tool: Tool | None = None,
    sizes: Sizes | None = None,
) -> Comparison:
    """Replay ``trace`` through each of ``subjects``; reports rows done to ``watch``.

    The nodes of a folder of files are shared out among ``workers``, if there are any.  Without
    ``kinds`` capacity and conflict misses are not told apart, which is faster.  ``overrides`` and
    ``command`` are passed on, for whoever wants to do it again; ``tool`` says by whose names RDMA
    NICs' counters are shown as well; with ``sizes`` their contexts and work requests are counted.
    Errors: ``TraceError`` at the first row that the schema does not allow.
    """
    designs, page_size = [subject.design for subject in subjects], trace.metadata.page_size
    connections = None
    if sizes is not None:
        if all(design.scheme is not Scheme.RNIC for design in designs):
            raise DesignError(
                "--contexts: they are of RDMA NICs, and no design here is of scheme rnic; add "
                "--design rnic"
            )
        connections = connection_counts(trace, sizes)
    with placed(trace):
        results = replay_nodes(trace, workers, designs, kinds, page_size, watch)
    priced = [
        with_price(result, subject.platform)
        for result, subject in zip(results, subjects, strict=True)
    ]
    return Comparison(
        trace=extent_of(trace, trace.rows, len(priced[0].result.nodes)),
        registrations=trace.registrations,
        priced=priced,
        repeat=repeat(command) | {"overrides": list(overrides)},
        kinds=kinds,
        tool=tool,
        connections=connections,
    )


def replay_nodes(
    trace: Trace,
    workers: Workers | None,
    designs: Sequence[Design],
    kinds: bool,
    page_size: int,
    watch: Callable[[int, int], None] | None = None,
) -> list[ReplayResult]:
    """As ``nicscope.drivers.replay.replay``, each node by whoever has it."""
    from nicscope.drivers.replay import follows_registrations

    by_region = follows_registrations(designs, trace.registrations)
    parts = Nodes(trace, workers).each(watch, replay_share, designs, kinds, page_size, by_region)
    return results_of(designs, page_size, parts)


def results_of(
    designs: Sequence[Design], page_size: int, parts: Sequence[list[list[NodeResult]]]
) -> list[ReplayResult]:
    """What each of ``designs`` made of a trace, of what it made of the nodes of its parts."""
    from nicscope.drivers.replay.engine import result_of

    return [
        result_of(design.at_page_size(page_size), [node for part in parts for node in part[place]])
        for place, design in enumerate(designs)
    ]


def replay_share(
    share: Share | Trace,
    designs: Sequence[Design],
    kinds: bool,
    page_size: int,
    by_region: bool,
    done: Callable[[int], None],
) -> list[list[NodeResult]]:
    """Replay the nodes of ``share`` through each of ``designs``; reports rows to ``done``."""
    from nicscope.drivers.replay import Replayer, alignments_for, lowest_addresses, registers_ahead

    rows = ShareDone(share, done)
    lowest = None
    if registers_ahead(designs):
        lowest = lowest_addresses(rows.through(last=False))
    # Of these nodes alone: counts are the same whatever the grain is.
    alignments = alignments_for(rows.through(last=False), designs, page_size)
    replayer = Replayer(designs, kinds, page_size, alignments, lowest, by_region)
    batches: Iterator[Requests | Rows] = rows.through_rows() if by_region else rows.through()
    for batch in batches:
        replayer.feed(batch)
    return replayer.node_results()


def with_price(result: ReplayResult, platform: Platform | None) -> Priced:
    """``result`` priced on ``platform``; without one, everything is unpriced."""
    counts = {name: count for name, count in result.total.items() if count is not None}
    cost = price(counts, result.design, platform or _NO_PLATFORM)
    return Priced(result, None if platform is None else platform.name, cost)


MIB = 1 << 20
PS_PER_NS = 1000
# What the bounds of a cost are: without a price for a step that happened there is no upper one.
EXACT, RANGE, AT_LEAST = "exact", "range", "at least"


def rates(priced: Priced, requested_bytes: int | None = None) -> dict[str, Any]:
    """Values derived from counts: rates, pinned memory, and costs with their evidence.

    Rates by byte are there if ``requested_bytes`` is known; costs if anything is priced.
    """
    misses = priced.total("ni_misses")
    assert misses is not None
    cost = priced.cost
    columns: dict[str, Any] = {
        "platform": priced.platform,
        "page_size_bytes": priced.result.design.page_size,
        "pinned_host_bytes": priced.pinned_host_bytes,
        "miss_ratio": _share(misses, cost.lookups),
        "misses_per_request": _share(misses, cost.requests),
    }
    if requested_bytes is not None:
        columns["misses_per_mib"] = misses * MIB / requested_bytes
    return columns | costs(priced, requested_bytes)


def costs(priced: Priced, requested_bytes: int | None = None) -> dict[str, Any]:
    """Bounds on the cost, in all and per lookup, request and byte; unknown ones left out."""
    cost = priced.cost
    columns: dict[str, Any] = {}
    if priced.platform is None:
        return {}
    columns["cost_unpriced"] = cost.reason or None
    if not cost.is_known:
        return columns
    for end, ps in (("low", cost.low_ps), ("high", None if cost.is_lower_bound else cost.high_ps)):
        columns |= {
            f"cost_us_{end}": _us(ps),
            f"cost_us_per_lookup_{end}": _us(ps, cost.lookups),
            f"cost_us_per_request_{end}": _us(ps, cost.requests),
        }
        if requested_bytes is not None:
            each = None if ps is None else ps / PS_PER_NS / requested_bytes
            columns[f"cost_ns_per_byte_{end}"] = each
    evidence = priced.weakest_evidence
    return columns | {
        "cost_bound": bound_of(cost),
        "cost_evidence": None if evidence is None else evidence.value,
    }


def bound_of(cost: Cost) -> str | None:
    """Which bounds of ``cost`` are known; None if neither is."""
    if not cost.is_known:
        return None
    if cost.is_lower_bound:
        return AT_LEAST
    return EXACT if cost.low_ps == cost.high_ps else RANGE


def _share(count: int, parts: int) -> float | None:
    return count / parts if parts else None


def _us(ps: int | None, parts: int = 1) -> float | None:
    return None if ps is None or not parts else float(in_us(Fraction(ps, parts)))
