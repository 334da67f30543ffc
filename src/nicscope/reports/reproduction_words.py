"""What is said of one number or statement of a reproduction, and of all of them in a sentence."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

from nicscope.studies.reproduce.verdict import Shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.studies.reproduce.verdict import Point, Reproduction

_QUANTITY = re.compile(r"(.*?)(?:\[(.*)\])? (\S+)")
MET, MISS, KNOWN_MISS = "✓ ok", "✗ MISS", "✗ known"
# Blue and orange stay apart for every kind of colour vision; sign and word say it without colour.
STYLES = {MET: "blue", MISS: "bold dark_orange", KNOWN_MISS: "dark_orange"}


def verdict(check: Point | Shape) -> str:
    """A word and a sign, so that no colour is needed to tell them apart."""
    if check.ok:
        return MET
    return MISS if check.known_miss is None else KNOWN_MISS


def name_of(check: Point | Shape) -> str:
    """What the catalog calls a number or a statement."""
    return check.name if isinstance(check, Shape) else check.quantity


def command_of(wanted: Sequence[str]) -> str:
    """The command that reproduces what was asked for again, as a shell reads it."""
    return shlex.join(["nicscope", "reproduce", *wanted])


class Placed(NamedTuple):
    """A number of a paper, and where it stands on the axes of its quantity."""

    name: str
    unit: str
    at: dict[str, str]
    point: Point


def placed(point: Point) -> Placed:
    """``point`` with its quantity taken apart: ``pin[pages=8] us``."""
    match = _QUANTITY.fullmatch(point.quantity)
    if match is None:
        return Placed(point.quantity, "", {}, point)
    axes = [each.partition("=") for each in (match[2] or "").split(", ") if each]
    return Placed(match[1], match[3], {name: value for name, _, value in axes}, point)


def summary_line(found: Reproduction) -> str:
    """One sentence with every count of the summary."""
    counts = found.summary()
    several = "es" if len(found.met) != 1 else ""
    met = f"; {len(found.met)} known miss{several} met" if found.met else ""
    return (
        f"{counts.ok} of {counts.points} numbers within tolerance ({counts.predicted} predicted, "
        f"{counts.fitted} fitted); {counts.shapes_ok} of {counts.shapes} statements hold "
        f"({counts.shapes_predicted} predicted); {counts.known_misses} known misses, "
        f"{counts.new_misses} new{met}; {counts.identities} identities among all these, whose "
        f"numbers are not counted; {counts.missing} items missing; {counts.studies} studies "
        "without verdict"
    )


def off_by(check: Point | Shape) -> str:
    """How far a number is off, or what speaks against a statement."""
    if isinstance(check, Shape):
        return check.evidence
    return f"off by {check.reproduced - check.published:.6g}"


def share(value: float | None) -> str:
    """A share in percent, or a dash where there is none."""
    return "-" if value is None else f"{100 * value:.2f} %"
