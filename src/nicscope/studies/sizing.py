"""What is asked of sizing, how designs are ranked, and what is told of each family of designs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from nicscope.config.costs import Evidence
from nicscope.config.design import Design, Scheme, read_setting
from nicscope.config.platform import Platform, excess_of, load_platform
from nicscope.config.quantities import read_bytes
from nicscope.drivers.replay import ReplayResult
from nicscope.errors import StudyError, did_you_mean
from nicscope.nic.layout import new_cache, region_bytes
from nicscope.studies.curves import knee
from nicscope.studies.pricing import Component, Denominator, denominator_of, plain
from nicscope.studies.replaying import Priced, bound_of, with_price

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from nicscope.studies.size_survey import Extent, Grid, Grids

    Setting = tuple[tuple[str, str], ...]

MOST_BYTES = 1 << 40
PAGE_SIZES = "page-sizes"  # a word of --only
USUAL_PAGE_SIZES = "4KiB,2MiB,1GiB"


class Question(NamedTuple):
    """The budgets and platform that designs are sized for."""

    nic_bytes: int  # of each NIC
    pin_bytes: int | None = None  # of each host; None: no limit
    platform: Platform | None = None  # None: the fewest misses are best
    platform_given: str | None = None  # how it was asked for: a name, or a file
    target_us: float | None = None  # per lookup
    page_sizes: tuple[int, ...] = ()  # to be set side by side, in the order given
    only: tuple[str, ...] = ()  # families, by their schemes; none named: all, unless ``only_pages``
    only_pages: bool = False  # no families, but for those that ``only`` names

    def sizes(self, scheme: Scheme) -> bool:
        """Whether the family of ``scheme`` is included."""
        return scheme.value in self.only if self.only or self.only_pages else True


def ask(
    nic_memory: str,
    *,
    pin_memory: str | None = None,
    platform: str | Path | Platform | None = None,
    target_us: float | None = None,
    page_sizes: str | None = None,
    only: Sequence[str] = (),
) -> Question:
    """Parse and check the options.

    Errors: ``StudyError`` for the first word that makes no sense, ``PlatformError`` for a
    platform, ``DesignError`` for a page size.
    """
    nic_bytes = _budget("--nic-memory", nic_memory, "128KiB")
    pin_bytes = None if pin_memory is None else _budget("--pin-memory", pin_memory, "4MiB")
    if target_us is not None and platform is None:
        raise StudyError("--target-us needs costs; name a platform with --platform")
    if target_us is not None and not 0 < target_us < float("inf"):
        raise StudyError(f"--target-us must be above 0, got {target_us!r}")
    families = _families(only, page_sizes)
    only_pages = PAGE_SIZES in only
    if page_sizes is None and only_pages:
        page_sizes = USUAL_PAGE_SIZES
    sizes = () if page_sizes is None else read_page_sizes(page_sizes)
    costs = None if platform is None else load_platform(platform)
    excess = None if costs is None else excess_of({"the budget": nic_bytes}, costs)
    if excess is not None:
        raise StudyError(f"--nic-memory {nic_memory}: {excess}; give no more than it has")
    named = platform.name if isinstance(platform, Platform) else platform
    given = None if named is None else str(named)
    return Question(nic_bytes, pin_bytes, costs, given, target_us, sizes, families, only_pages)


def _families(only: Sequence[str], page_sizes: str | None) -> tuple[str, ...]:
    """The families among the words of ``--only``."""
    names = [PAGE_SIZES, *(scheme.value for scheme in Scheme)]
    for word in only:
        if word not in names:
            raise StudyError(f"--only: no family {word!r}{did_you_mean(word, names)}")
    if only and page_sizes is not None and PAGE_SIZES not in only:
        raise StudyError(
            f"--page-size {page_sizes} asks for what --only leaves out; add --only {PAGE_SIZES}"
        )
    return tuple(dict.fromkeys(word for word in only if word != PAGE_SIZES))


def _budget(option: str, text: str, example: str) -> int:
    count = read_bytes(text)
    if count is None:
        raise StudyError(f"{option} must be a number of bytes, such as {example}; got {text!r}")
    if not 1 <= count <= MOST_BYTES:
        raise StudyError(f"{option} must be from 1B to {MOST_BYTES >> 40} TiB, got {text!r}")
    return count


def read_page_sizes(text: str) -> tuple[int, ...]:
    """The sizes in a list such as ``4KiB,2MiB``, each once.  Errors: ``StudyError``."""
    found: list[int] = []
    for word in text.split(","):
        size = read_setting(Scheme.UTLB, "page_size", word.strip(), "--page-size")
        if not isinstance(size, int):
            raise StudyError(f"--page-size must list sizes, such as 4KiB,2MiB; got {word!r}")
        if size not in found:
            found.append(size)
    return tuple(found)


class PageSize(NamedTuple):
    """The results for one page size."""

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
        """The cache's total misses: the same requests look up fewer large pages."""
        return None if self.cache is None else self.cache.misses

    def count_of(self, denominator: Denominator) -> int:
        """The count of the denominator."""
        return self.lookups if denominator is Denominator.LOOKUP else self.requests

    @property
    def misses_per_request(self) -> float | None:
        """The cache's misses per request."""
        return None if self.misses is None else self.misses / self.requests


_HOST_WORK = ("interrupts", "pin_calls", "unpin_calls")


class Point(NamedTuple):
    """A replayed design."""

    settings: tuple[tuple[str, str], ...]  # what was set on the family's first design
    priced: Priced
    by_cost: bool  # what makes one better than another in its family; else the misses

    @property
    def nic_bytes(self) -> int:
        """NIC memory of the node that uses most."""
        return self.priced.nic_bytes

    @property
    def pinned_bytes(self) -> int:
        """The peak of pinned memory on any host."""
        result = self.priced.result
        page_size = result.design.page_size
        assert page_size is not None
        return page_size * max(node["peak_pinned_pages"] or 0 for node in result.nodes)

    @property
    def rejected(self) -> int:
        """Requests (of ``static``: pages) that were refused."""
        return self.priced.total("rejected") or 0

    @property
    def misses(self) -> int:
        """Lookups that missed on the NIC."""
        return self.priced.total("ni_misses") or 0

    @property
    def misses_per_lookup(self) -> float:
        """The same, per lookup."""
        lookups = self.priced.cost.lookups
        return self.misses / lookups if lookups else 0.0

    @property
    def us(self) -> tuple[float, float] | None:
        """Bounds on microseconds per lookup; None if nothing that happened has a price."""
        bounds = self.priced.cost.per_lookup_us()
        return None if bounds is None else (float(bounds[0]), float(bounds[1]))

    @property
    def least_ps(self) -> int:
        """The lower bound of its cost, or 0 if nothing has a price."""
        return self.priced.cost.low_ps

    @property
    def value(self) -> float:
        """The objective: microseconds per lookup (the upper end), or misses per lookup."""
        us = self.us
        return us[1] if self.by_cost and us is not None else self.misses_per_lookup

    @property
    def objectives(self) -> tuple[int, ...]:
        """The objectives to minimize, most important first; memory excluded."""
        cost = self.priced.cost
        calls = sum(self.priced.total(name) or 0 for name in _HOST_WORK)
        if not self.by_cost:
            return (self.rejected, self.misses, calls)
        return (self.rejected, cost.high_ps, cost.low_ps, self.misses, calls)

    @property
    def rank(self) -> tuple[tuple[int, ...], int, int, tuple[tuple[str, str], ...]]:
        """The sort key from best to worst, deterministic."""
        return self.objectives, self.nic_bytes, self.pinned_bytes, self.settings


def best_within(points: Iterable[Point], nic_bytes: int) -> Point | None:
    """The best of ``points`` that takes at most ``nic_bytes``; None if none does."""
    return min((p for p in points if p.nic_bytes <= nic_bytes), key=lambda p: p.rank, default=None)


def pareto_front(points: Iterable[Point]) -> list[Point]:
    """The Pareto front: points better than all smaller ones, by ascending memory."""
    steps: list[Point] = []
    for point in sorted(points, key=lambda p: (p.nic_bytes, p.rank)):
        if not steps or point.objectives < steps[-1].objectives:
            steps.append(point)
    return steps


def knee_step(steps: Sequence[Point]) -> Point | None:
    """The step beyond which a doubling of NIC memory buys less; None: hardly bends.

    Among the steps that carry out as much as the last one does.
    """
    whole = [step for step in steps if step.rejected == steps[-1].rejected]
    sizes = np.array([step.nic_bytes for step in whole], np.int64)
    values = np.array([step.value for step in whole])
    found = knee(sizes, values)
    return next((step for step in whole if step.nic_bytes == found), None)


# What each miss is one of, besides; no other count of theirs depends on the shape.
_PER_MISS = {
    Scheme.UTLB: ("ni_misses", "entries_fetched"),
    Scheme.INTERRUPT: ("ni_misses", "interrupts", "pins"),
    Scheme.HANDLE: ("ni_misses", "interrupts", "dropped"),
}
# Of the shape, and nowhere written: how misses part by path and kind.
_UNKNOWN = (
    "ni_misses_send",
    "ni_misses_receive",
    "ni_misses_send_compulsory",
    "ni_misses_receive_compulsory",
    "ni_misses_noncompulsory",
)


def follows(design: Design) -> bool:
    """Whether one replay and a pass over all caches determine every shape of ``design``."""
    if design.scheme not in _PER_MISS or design.pin_limit is not None:
        return False
    if design.scheme is Scheme.HANDLE:
        return design.high_water is None
    if design.scheme is Scheme.UTLB and design.prefetch != 1:
        return False
    return bool(design.index_offset)


def grid_of(design: Design, grids: Grids) -> Grid | None:
    """The grid that holds the misses of all shapes of ``design``; None if there is none."""
    if not follows(design):
        return None
    if design.scheme is Scheme.HANDLE:
        return grids.plain.get(design.line or 1)
    return grids.offset


def at_shape(
    replayed: Priced, design: Design, grid: Grid, platform: Platform | None
) -> Priced | None:
    """What a replay of ``design`` counts, which differs from ``replayed`` by its shape alone.

    Counts that only a replay tells are None.  None if ``grid`` does not reach that far.
    """
    entries, ways, line = design.entries or 1, design.ways or 1, design.line or 1
    misses, held = grid.misses_of(entries, ways), grid.valid_lines_of(entries, ways)
    if misses is None or held is None:
        return None
    before = replayed.result
    total = {**before.total, **dict.fromkeys(_UNKNOWN)}
    total |= dict.fromkeys(_PER_MISS[design.scheme], misses)
    total["further_ways"] = grid.extra_probes_of(entries, ways)
    nodes: list[dict[str, int | None]] = [
        {name: node[name] for name in ("node", "peak_pinned_pages")} for node in before.nodes
    ]
    if design.scheme is Scheme.INTERRUPT:  # what is pinned is what is in the cache
        total |= {"unpins": misses - sum(held.values()), "peak_pinned_pages": sum(held.values())}
        for node in nodes:
            node["peak_pinned_pages"] = held[node["node"] or 0]
    old = before.design
    rest = dict(before.nic_memory_bytes)
    for name in region_bytes(new_cache(old.entries or 1, old.ways or 1, old.line or 1)):
        del rest[name]
    memory = region_bytes(new_cache(entries, ways, line)) | rest
    of_page_size = design.at_page_size(old.page_size or 0)
    return with_price(ReplayResult(of_page_size, total, nodes, memory), platform)


SHAKY = (Evidence.ASSUMED, Evidence.FITTED)


class Target(NamedTuple):
    """Whether a family meets the target cost; both None where its price is incomplete."""

    us: float
    smallest: Point | None  # that meets it; None: none does
    floor: Point | None  # the cheapest there is


class ReportedDesigns(msgspec.Struct, frozen=True, kw_only=True):
    """The designs reported of a family, from its best for each size of NIC memory."""

    best: Point | None  # within the budgets; None: nothing fits
    half: Point | None  # the best within half the NIC memory
    double: Point | None  # the best within twice as much
    larger: Point | None  # the next that is better, whatever its size
    knee: Point | None
    smallest: Point | None  # the least NIC memory of all that pin no more than they may
    target: Target | None

    def points(self) -> list[Point]:
        """All of them, without duplicates."""
        points = [self.best, self.half, self.double, self.larger, self.knee, self.smallest]
        if self.target is not None:
            points += [self.target.smallest, self.target.floor]
        return list({point.settings: point for point in points if point is not None}.values())


class Answer(ReportedDesigns, frozen=True, kw_only=True):
    """One family, sized."""

    scheme: Scheme
    by_cost: bool  # whether its designs were ranked by what they cost; else by misses
    least_ps: int | None  # of all that fit and carry everything out; None: there is none
    design: str  # the catalog's, from which the others differ by their settings
    platform: str | None
    steps: list[Point]  # the best for each size of NIC memory, ascending
    command: list[str]  # repeats the best by ``nicscope replay``


def pick(steps: Sequence[Point], question: Question) -> ReportedDesigns:
    """Choose what to report of a family with Pareto front ``steps``, by ascending memory."""
    budget = question.nic_bytes
    best = best_within(steps, budget)
    return ReportedDesigns(
        best=best,
        half=best_within(steps, budget // 2),
        double=best_within(steps, 2 * budget),
        larger=_larger(steps, best, budget),
        knee=knee_step(steps) if steps else None,
        smallest=steps[0] if steps else None,
        target=None if question.target_us is None else _target(steps, question.target_us),
    )


def answer(trace: str, base: Any, points: Sequence[Point], question: Question) -> Answer:
    """The result for the family that begins at ``base`` (a ``Subject``), from all ``points``.

    They pin no more than they may.
    """
    steps = pareto_front(points)
    picked = pick(steps, question)
    fitting = [p for p in points if p.nic_bytes <= question.nic_bytes and not p.rejected]
    return Answer(
        scheme=base.design.scheme,
        by_cost=any(step.by_cost for step in steps),
        least_ps=min((point.least_ps for point in fitting), default=None),
        design=base.design.name,
        platform=None if base.platform is None else base.platform.name,
        **msgspec.structs.asdict(picked),
        steps=steps,
        command=[]
        if picked.best is None
        else _command(trace, base.design.name, picked.best, question),
    )


def _larger(steps: Sequence[Point], best: Point | None, budget: int) -> Point | None:
    better = (step for step in steps if best is None or step.objectives < best.objectives)
    return next((step for step in better if step.nic_bytes > budget), None)


def _target(steps: Sequence[Point], us: float) -> Target:
    able = [step for step in steps if not step.rejected and step.by_cost and step.us is not None]
    return Target(
        us,
        next((step for step in able if step.us is not None and step.us[1] <= us), None),
        min(able, key=lambda step: step.rank, default=None),
    )


def fewest_misses(sizes: Sequence[PageSize]) -> int | None:
    """The page size whose cache misses least in all, the smaller of equals; None: none fits."""
    able = [(one.misses, one.page_size) for one in sizes if one.misses is not None]
    return min(able)[1] if able else None


def replay_command(trace: str, design: str, settings: Iterable[tuple[str, str]]) -> list[str]:
    """The command that counts ``design`` with ``settings`` again."""
    command = ["nicscope", "replay", trace, "--design", design]
    for key, text in settings:
        command += ["--set", f"{key}={text}"]
    return command


def _command(trace: str, design: str, point: Point, question: Question) -> list[str]:
    command = replay_command(trace, design, point.settings)
    if question.platform_given is not None:
        command += ["--platform", question.platform_given]
    return command


class UncertainCost(NamedTuple):
    """The share of a cost that rests on assumed or fitted prices."""

    parts: list[Component]
    share: float  # of the upper end of the cost


def uncertain_components(point: Point) -> UncertainCost:
    """The components of ``point`` that rest on assumed or fitted prices."""
    cost = point.priced.cost
    parts = [part for part in cost.components if part.count and part.evidence in SHAKY]
    whole = cost.high_ps
    return UncertainCost(parts, sum(part.high_ps for part in parts) / whole if whole else 0.0)


class Sizing(msgspec.Struct, frozen=True, kw_only=True):
    """One trace, sized for every family."""

    trace: str
    page_size: int
    extent: Extent
    answers: list[Answer]  # in the order of schemes
    page_sizes: list[PageSize]
    replayed: int  # designs, on the whole trace
    sampled: int  # designs, on a sample of it; 0: there was no need of one

    @property
    def cheapest(self) -> Answer | None:
        """The cheapest of the families that carry out all requests at a whole price.

        None without a platform: misses of different families are not the same.
        """
        able = [
            (answer.best.rank, answer)
            for answer in self.answers
            if answer.best is not None and answer.by_cost and not answer.best.rejected
        ]
        return min(able, key=lambda one: one[0])[1] if able else None

    @property
    def perhaps_cheaper(self) -> list[Answer]:
        """Families with incomplete prices that may be cheaper than the cheapest other one."""
        first = self.cheapest
        if first is None or first.best is None:
            return []
        most = first.best.priced.cost.high_ps
        others = [answer for answer in self.answers if not answer.by_cost]
        return [one for one in others if one.least_ps is not None and one.least_ps < most]

    @property
    def best(self) -> Answer | None:
        """The cheapest of all families; None where one with incomplete prices may be cheaper."""
        return None if self.perhaps_cheaper else self.cheapest

    @property
    def denominator(self) -> Denominator:
        """What the families' rates are per."""
        bests = [answer.best for answer in self.answers if answer.best is not None]
        return denominator_of(best.priced.result.design.page_size for best in bests)

    @property
    def touched_bytes(self) -> int:
        """The pages of the host that touches most, in bytes."""
        return self.extent.node_pages * self.page_size

    def to_json(self) -> dict[str, Any]:
        """Units are in the keys."""
        best = self.best
        return {
            "trace": self.trace,
            "page_size_bytes": self.page_size,
            "lookups": self.extent.lookups,
            "pages": self.extent.node_pages,
            "processes": self.extent.processes,
            "nodes": len(self.extent.pages),
            "requests": self.extent.requests,
            "requested_bytes": self.extent.requested_bytes,
            "touched_bytes_of_fullest_host": self.touched_bytes,
            "designs_replayed": self.replayed,
            "designs_sampled": self.sampled,
            "cheapest_family": None if best is None else best.scheme.value,
            "perhaps_cheaper": [answer.scheme.value for answer in self.perhaps_cheaper],
            "families": [_answer(answer) for answer in self.answers],
            "page_sizes": [_page_size(one) for one in self.page_sizes],
            "page_size_of_fewest_misses": fewest_misses(self.page_sizes),
        }


class SizingReport(msgspec.Struct, frozen=True, kw_only=True):
    """Several sized traces."""

    question: Question
    traces: list[dict[str, Any]]
    sizings: list[Sizing]

    def to_json(self) -> dict[str, Any]:
        """One object for programs."""
        platform = self.question.platform
        return {
            "nic_memory_bytes": self.question.nic_bytes,
            "pin_memory_bytes": self.question.pin_bytes,
            "platform": None if platform is None else platform.name,
            "target_us": self.question.target_us,
            "traces": self.traces,
            "sizings": [sizing.to_json() for sizing in self.sizings],
        }


def _answer(answer: Answer) -> dict[str, Any]:
    target = answer.target
    return {
        "family": answer.scheme.value,
        "design": answer.design,
        "platform": answer.platform,
        "ranked_by": "cost" if answer.by_cost else "misses",
        "not_priced": None if answer.best is None else answer.best.priced.cost.reason or None,
        "best": _point(answer.best, parts=True),
        "half_nic_memory": _point(answer.half),
        "double_nic_memory": _point(answer.double),
        **_change("halving_loses", answer.best, answer.half),
        **_change("doubling_saves", answer.double, answer.best),
        "next_better": _point(answer.larger),
        "knee": _point(answer.knee),
        "smallest": _point(answer.smallest),
        "target": None
        if target is None
        else {"smallest_that_meets_it": _point(target.smallest), "floor": _point(target.floor)},
        "curve": [_point(step) for step in answer.steps],
        "command": answer.command,
    }


def _change(name: str, better: Point | None, worse: Point | None) -> dict[str, float | None]:
    """How much more ``worse`` costs, or misses; null where the two do not compare."""
    by_cost = any(point is not None and point.by_cost for point in (better, worse))
    key = f"{name}_{'us' if by_cost else 'misses'}_per_lookup"
    if better is None or worse is None or better.rejected != worse.rejected:
        return {key: None}
    return {key: worse.value - better.value}


def _point(point: Point | None, parts: bool = False) -> dict[str, Any] | None:
    if point is None:
        return None
    cost = point.priced.cost
    found: dict[str, Any] = {
        "settings": dict(point.settings),
        "nic_memory_bytes": point.nic_bytes,
        "pinned_bytes_of_fullest_host": point.pinned_bytes,
        "rejected": point.rejected,
        "lookups": cost.lookups,
        "ni_misses": point.misses,
        "miss_ratio": point.misses_per_lookup,
        "misses_per_request": point.misses / cost.requests,
        "us": plain(cost.total_us()),
        "us_per_lookup": plain(cost.per_lookup_us()),
        "us_per_request": plain(cost.per_us(cost.requests)),
        "cost_bound": bound_of(cost),
    }
    if parts:
        weakest = point.priced.weakest_evidence
        rests = uncertain_components(point)
        found |= {
            "design": point.priced.result.design.to_json(),
            "nic_memory_bytes_by_structure": point.priced.result.nic_memory_bytes,
            "cost_us": cost.to_json(),
            "weakest_evidence": None if weakest is None else weakest.value,
            "share_on_assumed_or_fitted": rests.share,
            "assumed_or_fitted": [
                {"name": part.name, "cost": part.cost, "evidence": part.evidence.value}
                for part in rests.parts
            ],
        }
    return found


def _page_size(one: PageSize) -> dict[str, Any]:
    us = one.registration_us
    evidence = one.registration_evidence
    return {
        "page_size_bytes": one.page_size,
        "lookups": one.lookups,
        "entries_needed": one.entries,
        "table_bytes": one.table_bytes,
        "pinned_bytes_of_fullest_host": one.pinned_bytes,
        "registration_calls": one.calls,
        "registration_us": None if us is None else us[0] if us[0] == us[1] else list(us),
        "registration_platform": one.registration_platform,
        "registration_evidence": None if evidence is None else evidence.value,
        "cache": _point(one.cache),
        "ni_misses": one.misses,
        "misses_per_request": one.misses_per_request,
        "entries_beyond_which_nothing_is_gained": one.enough,
        "table_command": one.table_command,
        "cache_command": one.cache_command,
    }
