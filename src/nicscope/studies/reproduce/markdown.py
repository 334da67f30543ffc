"""A reproduction as a Markdown page: what was checked, what came out, what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.studies.reproduce.verdict import Reproduction


def as_markdown(found: Reproduction, wanted: Sequence[str]) -> str:
    """The page; ``wanted`` is what was asked for, so that it can be repeated."""
    command = " ".join(["nicscope reproduce", *wanted])
    lines = ["# Reproduction", "", f"`{command}`, nicscope {__version__}.", "", *_summary(found)]
    lines += ["", "## Numbers", "", "| item | quantity | published | reproduced | error | "]
    lines[-1] += "tolerance | basis | |"
    lines.append("|---|---|--:|--:|--:|--:|---|---|")
    for point in found.points:
        lines.append(
            f"| {point.paper}/{point.id} | {point.quantity} | {point.published:g} "
            f"| {point.reproduced:.6g} | {share(point.relative_error)} "
            f"| {share(point.tolerance)} | {point.basis} | {verdict(point.ok)} |"
        )
    lines += ["", "## Statements", "", "| item | statement | evidence | |", "|---|---|---|---|"]
    for shape in found.shapes:
        lines.append(
            f"| {shape.paper}/{shape.id} | {shape.statement} | {shape.evidence} "
            f"| {verdict(shape.ok)} |"
        )
    lines += ["", "## Missing", "", "| item | why |", "|---|---|"]
    lines += [f"| {gap.paper}/{gap.id} | {gap.why} |" for gap in found.missing]
    lines += ["", "## Studies without a verdict", "", "| item | why |", "|---|---|"]
    lines += [f"| {one.paper}/{one.id} | {one.why} |" for one in found.studies]
    return "\n".join(lines) + "\n"


def _summary(found: Reproduction) -> list[str]:
    return [summary_line(found) + "."]


def summary_line(found: Reproduction) -> str:
    """One sentence with every count of the summary."""
    counts = found.summary()
    handed_back = len(found.points) - counts.points
    return (
        f"{counts.ok} of {counts.points} numbers within tolerance ({counts.predicted} predicted, "
        f"{counts.fitted} fitted); {counts.shapes_ok} of {counts.shapes} statements hold; "
        f"{handed_back} constants handed back, not counted; {counts.missing} items missing; "
        f"{counts.studies} studies without verdict"
    )


def share(value: float | None) -> str:
    """A share in percent, or a dash where there is none."""
    return "-" if value is None else f"{100 * value:.2f} %"


def verdict(ok: bool) -> str:
    """A word and a sign, so that no colour is needed to tell them apart."""
    return "✓ ok" if ok else "✗ MISS"
