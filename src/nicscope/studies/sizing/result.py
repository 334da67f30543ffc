"""What sizing found, as an object for programs.

An answer is the best design of one family, and what other memory would buy it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nicscope.config.evidence import Evidence
from nicscope.studies.columns import bound_of
from nicscope.studies.pricing import Denominator, denominator_of, plain
from nicscope.studies.sizing.merit import best_within, knee_of, staircase

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nicscope.config.scheme import Scheme
    from nicscope.studies.pricing import Component
    from nicscope.studies.sizing.merit import Point
    from nicscope.studies.sizing.page_sizes import PageSize
    from nicscope.studies.sizing.question import Question
    from nicscope.studies.sizing.survey import Extent

SHAKY = (Evidence.ASSUMED, Evidence.FITTED)


class Target(NamedTuple):
    """Whether a family can be as cheap as was asked for; both None where its price is not whole."""

    us: float
    smallest: Point | None  # that meets it; None: none does
    floor: Point | None  # the cheapest there is


class Picked(NamedTuple):
    """Of the best designs of a family for each size of NIC memory those that are told apart."""

    best: Point | None  # within the budgets; None: nothing fits
    half: Point | None  # the best within half the NIC memory
    double: Point | None  # the best within twice as much
    larger: Point | None  # the next that is better, whatever its size
    knee: Point | None
    smallest: Point | None  # the least NIC memory of all that pin no more than they may
    target: Target | None

    def points(self) -> list[Point]:
        """All of them, each once."""
        points = list(self[:-1])
        if self.target is not None:
            points += [self.target.smallest, self.target.floor]
        return list({point.settings: point for point in points if point is not None}.values())


class Answer(NamedTuple):
    """One family, sized; see ``Picked``."""

    scheme: Scheme
    by_cost: bool  # whether its designs were ranked by what they cost; else by misses
    least_ps: int | None  # of all that fit and carry everything out; None: there is none
    design: str  # the catalog's, from which the others differ by their settings
    platform: str | None
    best: Point | None
    half: Point | None
    double: Point | None
    larger: Point | None
    knee: Point | None
    smallest: Point | None
    target: Target | None
    steps: list[Point]  # the best for each size of NIC memory, ascending
    command: list[str]  # repeats the best by ``nicscope replay``


def pick(steps: Sequence[Point], question: Question) -> Picked:
    """What is told of a family whose best designs are ``steps``, by ascending memory."""
    budget = question.nic_bytes
    best = best_within(steps, budget)
    return Picked(
        best=best,
        half=best_within(steps, budget // 2),
        double=best_within(steps, 2 * budget),
        larger=_larger(steps, best, budget),
        knee=knee_of(steps) if steps else None,
        smallest=steps[0] if steps else None,
        target=None if question.target_us is None else _target(steps, question.target_us),
    )


def answer(trace: str, base: Any, points: Sequence[Point], question: Question) -> Answer:
    """What to tell of the family that begins at ``base`` (a ``Subject``), given all ``points``.

    They pin no more than they may.
    """
    steps = staircase(points)
    picked = pick(steps, question)
    fitting = [p for p in points if p.nic_bytes <= question.nic_bytes and not p.rejected]
    return Answer(
        scheme=base.design.scheme,
        by_cost=any(step.by_cost for step in steps),
        least_ps=min((point.least_ps for point in fitting), default=None),
        design=base.design.name,
        platform=None if base.platform is None else base.platform.name,
        **picked._asdict(),
        steps=steps,
        command=[]
        if picked.best is None
        else _command(trace, base.design.name, picked.best, question),
    )


def _larger(steps: Sequence[Point], best: Point | None, budget: int) -> Point | None:
    better = (step for step in steps if best is None or step.burden < best.burden)
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


class Shaky(NamedTuple):
    """The part of a cost that rests on assumed or fitted prices."""

    parts: list[Component]
    share: float  # of the upper end of the cost


def shaky(point: Point) -> Shaky:
    """Which components of ``point`` rest on assumed or fitted prices."""
    cost = point.priced.cost
    parts = [part for part in cost.components if part.count and part.evidence in SHAKY]
    whole = cost.high_ps
    return Shaky(parts, sum(part.high_ps for part in parts) / whole if whole else 0.0)


class Sizing(msgspec.Struct, frozen=True, kw_only=True):
    """One trace, every family sized for it."""

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
        """Families without a whole price that may be cheaper than the cheapest of the others."""
        first = self.cheapest
        if first is None or first.best is None:
            return []
        most = first.best.priced.cost.high_ps
        others = [answer for answer in self.answers if not answer.by_cost]
        return [one for one in others if one.least_ps is not None and one.least_ps < most]

    @property
    def best(self) -> Answer | None:
        """The cheapest of all families; None where one without a whole price may be cheaper."""
        return None if self.perhaps_cheaper else self.cheapest

    @property
    def denominator(self) -> Denominator:
        """What rates of the families are per."""
        bests = [answer.best for answer in self.answers if answer.best is not None]
        return denominator_of(best.priced.result.design.page_size for best in bests)

    @property
    def touched_bytes(self) -> int:
        """Of the pages that the host which touches most of them touches."""
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
    """Some traces, sized, and how to get that again."""

    question: Question
    traces: list[dict[str, Any]]
    sizings: list[Sizing]
    repeat: dict[str, Any]

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
            "repeat": self.repeat,
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
        rests = shaky(point)
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
