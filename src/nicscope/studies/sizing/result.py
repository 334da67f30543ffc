"""What sizing found, as an object for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.studies.sizing.answer import shaky

if TYPE_CHECKING:
    from nicscope.studies.sizing.answer import Answer
    from nicscope.studies.sizing.merit import Point
    from nicscope.studies.sizing.page_sizes import PageSize
    from nicscope.studies.sizing.question import Question
    from nicscope.studies.sizing.survey import Extent


class Sizing(msgspec.Struct, frozen=True, kw_only=True):
    """One trace, every family sized for it."""

    trace: str
    page_size: int
    extent: Extent
    answers: list[Answer]  # in the order of schemes
    page_sizes: list[PageSize]
    replayed: int  # designs

    @property
    def best(self) -> Answer | None:
        """The cheapest of the families whose best carries out all requests at known cost.

        None without a platform: misses of different families are not the same.
        """
        able = [
            (answer.best.rank, answer)
            for answer in self.answers
            if answer.best is not None
            and answer.best.by_cost
            and not answer.best.rejected
            and not answer.best.priced.cost.is_lower_bound
        ]
        return min(able, key=lambda one: one[0])[1] if able else None

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
            "designs_replayed": self.replayed,
            "cheapest_family": None if best is None else best.scheme.value,
            "families": [_answer(answer) for answer in self.answers],
            "page_sizes": [_page_size(one) for one in self.page_sizes],
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
    if by_cost and (better.us is None or worse.us is None):
        return {key: None}
    return {key: worse.value - better.value}


def _point(point: Point | None, parts: bool = False) -> dict[str, Any] | None:
    if point is None:
        return None
    us = point.us
    found: dict[str, Any] = {
        "settings": dict(point.settings),
        "nic_memory_bytes": point.nic_bytes,
        "pinned_bytes_of_fullest_host": point.pinned_bytes,
        "rejected": point.rejected,
        "ni_misses": point.misses,
        "misses_per_lookup": point.misses_per_lookup,
        "us_per_lookup": None if us is None else us[0] if us[0] == us[1] else list(us),
        "lower_bound": point.priced.cost.is_lower_bound,
    }
    if parts:
        weakest = point.priced.weakest_evidence
        rests = shaky(point)
        found |= {
            "design": point.priced.result.design.to_json(),
            "nic_memory_bytes_by_structure": point.priced.result.nic_memory_bytes,
            "cost_us": point.priced.cost.to_json(),
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
    cache = one.cache
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
        "cache": _point(cache),
        "misses_per_lookup": one.misses_per_lookup,
        "table_command": one.table_command,
        "cache_command": one.cache_command,
    }
