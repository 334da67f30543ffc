"""What is told of a family: its best design, what it costs, and what other memory would buy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.config.evidence import Evidence
from nicscope.studies.sizing.merit import best_within, knee_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nicscope.config.scheme import Scheme
    from nicscope.studies.pricing import Component
    from nicscope.studies.sizing.merit import Point
    from nicscope.studies.sizing.question import Question

SHAKY = (Evidence.ASSUMED, Evidence.FITTED)


class Target(NamedTuple):
    """Whether a family can be as cheap as was asked for."""

    us: float
    smallest: Point | None  # that meets it; None: none does
    floor: Point | None  # the cheapest there is


class Answer(NamedTuple):
    """One family, sized."""

    scheme: Scheme
    design: str  # the catalog's, from which the others differ by their settings
    platform: str | None
    best: Point | None  # within the budgets; None: nothing fits
    half: Point | None  # the best within half the NIC memory
    double: Point | None  # the best within twice as much
    larger: Point | None  # the next that is better, whatever its size
    knee: Point | None
    steps: list[Point]  # the best for each size of NIC memory, ascending
    smallest: Point | None  # the least NIC memory of all that pin no more than they may
    target: Target | None
    command: list[str]  # repeats the best by ``nicscope replay``


def answer(
    trace: str,
    base: Any,
    steps: Sequence[Point],
    question: Question,
) -> Answer:
    """What to tell of the family that begins at ``base`` (a ``Subject``), given its ``steps``."""
    budget = question.nic_bytes
    best = best_within(steps, budget)
    target = None
    if question.target_us is not None:
        target = _target(steps, question.target_us)
    larger = [step for step in steps if best is None or step.burden < best.burden]
    return Answer(
        scheme=base.design.scheme,
        design=base.design.name,
        platform=None if base.platform is None else base.platform.name,
        best=best,
        half=best_within(steps, budget // 2),
        double=best_within(steps, 2 * budget),
        larger=next((step for step in larger if step.nic_bytes > budget), None),
        knee=knee_of(steps) if steps else None,
        steps=list(steps),
        smallest=steps[0] if steps else None,
        target=target,
        command=[] if best is None else _command(trace, base.design.name, best, question),
    )


def _target(steps: Sequence[Point], us: float) -> Target:
    able = [step for step in steps if not step.rejected and step.us is not None]
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
