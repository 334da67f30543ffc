"""A reproduction as one Markdown page: every number, statement, miss and reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope import __version__
from nicscope.reports.page import markdown_table
from nicscope.reports.reproduction_words import (
    command_of,
    name_of,
    off_by,
    share,
    summary_line,
    verdict,
)
from nicscope.reports.table import rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nicscope.studies.reproduce.verdict import Reproduction

_NUMBERS = ("published", "reproduced", "error", "tolerance", "baseline", "its error")


def as_markdown(found: Reproduction, wanted: Sequence[str]) -> str:
    """The page; ``wanted`` is what was asked for, so that it can be repeated."""
    item: dict[str, Callable[[Any], str]] = {"item": lambda one: f"{one.paper}/{one.id}"}
    why = item | {"why": lambda one: one.why}
    label: dict[str, Callable[[Any], str]] = {
        "basis": lambda one: one.basis.value,
        "because": lambda one: one.because,
        "": verdict,
    }
    numbers = item | {
        "quantity": lambda point: point.quantity,
        "published": lambda point: f"{point.published:g}",
        "reproduced": lambda point: f"{point.reproduced:.6g}",
        "error": lambda point: share(point.relative_error),
        "tolerance": lambda point: share(point.tolerance),
        "baseline": lambda point: "-" if point.baseline is None else f"{point.baseline:.6g}",
        "its error": lambda point: share(point.baseline_error),
    }
    statements = item | {
        "statement": lambda shape: shape.statement,
        "evidence": lambda shape: shape.evidence,
    }
    named = item | {
        "number or statement": name_of,
        "why": lambda one: one.known_miss or off_by(one),
    }
    formulas = {"item": lambda pair: pair[0], "formula": lambda pair: pair[1]}
    misses = found.misses()
    lines = ["# Reproduction", "", f"`{command_of(wanted)}`, nicscope {__version__}.", ""]
    lines.append(f"{summary_line(found)}.")
    for title, things, columns in (
        ("Numbers", found.points, numbers | label),
        ("Statements", found.shapes, statements | label),
        ("Baselines, by pencil and paper", [*found.baselines.items()], formulas),
        ("Known misses", [one for one in misses if one.known_miss is not None], named),
        ("New misses", [one for one in misses if one.known_miss is None], named),
        ("Known misses that are met now", found.met, item | {"name": lambda one: one.name}),
        ("Missing", found.missing, why),
        ("Studies without a verdict", found.studies, why),
    ):
        words = [name for name in columns if name not in _NUMBERS]
        lines += ["", f"## {title}", "", *markdown_table(rows_of("", things, columns, words=words))]
    return "\n".join(lines) + "\n"
