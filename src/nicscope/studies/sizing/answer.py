"""What is told of a family: its best design, what it costs, and what other memory would buy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.config.evidence import Evidence
from nicscope.studies.sizing.merit import best_within, knee_of, staircase

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nicscope.config.scheme import Scheme
    from nicscope.studies.pricing import Component
    from nicscope.studies.sizing.merit import Point
    from nicscope.studies.sizing.question import Question

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
