"""The translation that is asked for: a design of the catalog, at the costs of its own platform."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nicscope.config.design import load_design, with_settings
from nicscope.config.program_costs import OF_DESIGN, OF_SCHEME
from nicscope.errors import DesignError, StudyError
from nicscope.studies.latency.ping_pong import DESIGN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.config.design import Design
    from nicscope.studies.latency.question import Question

# A scheme by its name: the design of the catalog that its paper measured.
DESIGNS = {
    "static": "vmmc-static",
    "utlb": "utlb",
    "unet-mm": "unet-mm-pca200",
    "handle": "mini",
    "interrupt": "vmmc-interrupt",
}


class Translating(msgspec.Struct, frozen=True):
    """What was asked of translations."""

    design: str
    scheme: str
    platform: str  # of what it takes, as far as that of the messages does not state it
    entries: int | None
    pages: int  # that messages use in turn


def translated(question: Question) -> tuple[Design, Translating | None]:
    """The design of a cluster that is asked for, and what a report says of its translation.

    Errors: ``DesignError``, ``StudyError``.
    """
    if question.translation is None:
        return load_design(DESIGN), None
    design = load_design(DESIGNS.get(question.translation, question.translation))
    if question.entries is not None:
        try:
            design = with_settings(design, [f"entries={question.entries}"])
        except DesignError as error:
            raise StudyError(f"--entries: {str(error).partition(': ')[2]}") from None
    if design.platform is None:
        raise StudyError(
            f"design {design.name!r} names no platform, so nothing says what its misses take"
        )
    scheme = design.scheme.value
    return design, Translating(design.name, scheme, design.platform, design.entries, question.pages)


def needed_by(design: Design) -> Sequence[str]:
    """The costs of translating as ``design`` does."""
    return *OF_SCHEME[design.scheme], *OF_DESIGN
