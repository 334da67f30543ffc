"""Choose items of the papers, run their experiments, judge what came out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.errors import StudyError, did_you_mean
from nicscope.studies.reproduce.expectation import load_paper, paper_keys
from nicscope.studies.reproduce.registry import find_experiment
from nicscope.studies.reproduce.verdict import Missing, Point, Reproduction, Shape, judge

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nicscope.studies.reproduce.expectation import Item, Paper
    from nicscope.studies.reproduce.registry import Experiment
    from nicscope.studies.reproduce.verdict import Outcome


def load_papers() -> dict[str, Paper]:
    """Every paper of the catalog, by key."""
    return {key: load_paper(key) for key in paper_keys()}


def choose(papers: Mapping[str, Paper], wanted: Sequence[str]) -> list[tuple[str, str]]:
    """(paper, id) of every item that ``wanted`` names as PAPER or PAPER/ID; empty means all.

    Each once, in the catalog's order.  Errors: ``StudyError`` with the nearest name.
    """
    everything = [(key, item) for key, paper in papers.items() for item in paper.items]
    chosen: set[tuple[str, str]] = set()
    for name in wanted:
        key, slash, item = name.partition("/")
        if key not in papers:
            raise StudyError(f"no paper {key!r}{did_you_mean(key, papers)}")
        if slash and item not in papers[key].items:
            raise StudyError(f"no {item!r} in {key}{did_you_mean(item, papers[key].items)}")
        chosen.update(pair for pair in everything if pair[0] == key and item in ("", pair[1]))
    return [pair for pair in everything if not wanted or pair in chosen]


def reproduce(
    wanted: Sequence[str] = (),
    papers: Mapping[str, Paper] | None = None,
    find: Callable[[str, str], Experiment] = find_experiment,
    progress: Callable[[str], None] = lambda _: None,
) -> Reproduction:
    """Every check of the items that ``wanted`` names, as ``choose`` reads it.

    ``progress`` hears ``PAPER/ID`` before each experiment.
    """
    papers = load_papers() if papers is None else papers
    result = Reproduction([], [], [])
    for key, name in choose(papers, wanted):
        item = papers[key].items[name]
        if item.has_expectations():
            progress(f"{key}/{name}")
            points, shapes = _check(key, name, item, find(key, name)(item))
            result.points.extend(points)
            result.shapes.extend(shapes)
        if item.missing is not None:
            result.missing.append(Missing(key, name, item.missing))
    return result


def _check(key: str, name: str, item: Item, outcome: Outcome) -> tuple[list[Point], list[Shape]]:
    """Verdicts on one outcome, which must answer every expectation and nothing else."""
    expected = {point.quantity: point for point in item.expected_points()}
    statements = {shape.id: shape.statement for shape in item.shapes}
    unmatched = set(expected) ^ set(outcome.values) | set(statements) ^ set(outcome.shapes)
    if unmatched:
        raise RuntimeError(f"{key}/{name}: expectation and experiment differ: {sorted(unmatched)}")
    points = [judge(key, name, point, outcome.values[q]) for q, point in expected.items()]
    shapes = [Shape(key, name, text, *outcome.shapes[one]) for one, text in statements.items()]
    return points, shapes
