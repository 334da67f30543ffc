"""A design's translation cache on VIA's path, and what its events cost on the design's platform."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nicscope.config.design import load_design, with_settings
from nicscope.config.platform import load_platform
from nicscope.errors import DesignError, StudyError
from nicscope.interfaces.via.translating import LOOKUP, Translation
from nicscope.studies.pricing import price

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    """What was asked of translations, and what could not be priced."""

    design: str
    scheme: str
    platform: str
    entries: int | None
    pages: int  # that messages use in turn
    unpriced: dict[str, str]  # steps that happened, and why they took no time


class Pricing:
    """Prices of a design's events, in ps by step."""

    def __init__(self, question: Question, name: str, own_lookup_ps: int) -> None:
        """``own_lookup_ps``: of VI-MSG's, for a platform that states none.

        Errors: ``DesignError``, ``StudyError``.
        """
        design = load_design(DESIGNS.get(name, name))
        if question.entries is not None:
            try:
                design = with_settings(design, [f"entries={question.entries}"])
            except DesignError as error:
                raise StudyError(f"--entries: {str(error).partition(': ')[2]}") from None
        if design.platform is None:
            raise StudyError(
                f"design {design.name!r} names no platform, so nothing says what its misses take"
            )
        self._design, self._platform = design, load_platform(design.platform)
        self._own = own_lookup_ps
        self._pages = question.pages
        self.unpriced: dict[str, str] = {}
        self.translation = Translation(design, self._prices)

    def _prices(self, counts: Mapping[str, int]) -> dict[str, int]:
        cost = price(counts, self._design, self._platform)
        found = {part.name: part.high_ps for part in cost.components if part.count}
        for step in cost.unpriced:
            if step.count and step.name in LOOKUP:
                found[step.name] = self._own * step.count
                self.unpriced[step.name] = f"{step.why}; taken as vimsg_translate"
            elif step.count:
                self.unpriced[step.name] = step.why
        return found

    def to_report(self) -> Translating:
        """What a report says of it."""
        design = self._design
        return Translating(
            design.name,
            design.scheme.value,
            self._platform.name,
            design.entries,
            self._pages,
            dict(self.unpriced),
        )
