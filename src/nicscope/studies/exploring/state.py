"""The design that is looked at, spelled as the query of an address: ``design=utlb&entries=1024``.

What the design says anyway is left out, so each state has one spelling.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.config.design import design_names, load_design, with_settings
from nicscope.config.glossary import meaning_of
from nicscope.config.platform import load_platform
from nicscope.config.scheme import NONE, SETTINGS, USES, Scheme
from nicscope.config.shelf import is_path
from nicscope.errors import StudyError, did_you_mean, printable
from nicscope.inputs import STDIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nicscope.config.design import Design
    from nicscope.config.platform import Platform

DESIGN = "design"
FIRST = "utlb"
# What the page has controls for; the design file has the rest.
EXPLORED = ("entries", "ways", "line", "page_size", "prefetch", "pin_limit")
WAYS = (1, 2, 4, 8, 16)
MOST_BITS = 20  # of entries: where the slider ends
CHOICES: dict[str, tuple[int, ...]] = {
    "entries": tuple(1 << bits for bits in range(4, MOST_BITS + 1)),
    "ways": WAYS,
    "line": tuple(1 << bits for bits in range(8)),
    "page_size": (4096, 16384, 65536, 1 << 21),
    "prefetch": tuple(1 << bits for bits in range(6)),
    "pin_limit": tuple(1 << bits for bits in range(4, 21, 2)),
}


TOPIC = "explore"  # of the glossary


class Offered(NamedTuple):
    """A design that can be chosen, and what prices it."""

    design: Design
    platform: Platform | None
    is_file: bool  # of a user's own, and none of the catalog's


class State(NamedTuple):
    """A design as the controls have set it, and what prices it."""

    called: str  # the design: by its name in the catalog, or the path of its file
    base: Design
    design: Design
    platform: Platform | None

    @property
    def assignments(self) -> list[str]:
        """What differs from the design as it is offered, as ``--set`` takes it."""
        before, now = self.base.settings(), self.design.settings()
        return [f"{key}={_text(now[key])}" for key in EXPLORED if now.get(key) != before.get(key)]

    @property
    def query(self) -> list[tuple[str, str]]:
        """The one spelling of it."""
        pairs = [each.split("=", 1) for each in self.assignments]
        return [(DESIGN, self.called), *((key, text) for key, text in pairs)]

    def command(self, trace: str) -> list[str]:
        """Arguments with which ``nicscope replay`` gives the same numbers."""
        words = [word for each in self.assignments for word in ("--set", each)]
        return ["nicscope", "replay", trace, "--design", self.called, *words]


def offer(given: Sequence[str] = ()) -> dict[str, Offered]:
    """Every design that can be chosen, by what it is called: ``given`` first, then the catalog's.

    Files are read now, so an address names none that was not given here.  Errors: ``DesignError``
    or ``PlatformError`` for the first that is wrong.
    """
    order = list(Scheme)
    rest = sorted(design_names(), key=lambda name: order.index(load_design(name).scheme))
    return {printable(name): _offered(name) for name in dict.fromkeys([*given, *rest])}


def _offered(name: str) -> Offered:
    design = load_design(name)
    platform = None if design.platform is None else load_platform(design.platform)
    return Offered(design, platform, is_path(name) or name == STDIN)


def read_state(
    pairs: Iterable[tuple[str, str]], offered: Mapping[str, Offered], first: str = FIRST
) -> State:
    """The state that a query spells, of a design of ``offered``; without one, of ``first``.

    Errors: ``StudyError`` for an unknown or repeated key, ``DesignError`` for what no design can
    have.
    """
    given: dict[str, str] = {}
    for key, text in pairs:
        if key not in (DESIGN, *EXPLORED):
            raise StudyError(f"{key!r}: no such control{did_you_mean(key, [DESIGN, *EXPLORED])}")
        if key in given:
            raise StudyError(f"{key!r} is there twice; give it one value")
        given[key] = text
    name = given.pop(DESIGN, first)
    if name not in offered:  # a page has no business with files
        raise StudyError(
            f"no design {name!r}{did_you_mean(name, offered)}; "
            "a file of your own is offered by --design when the command begins"
        )
    base, platform, _ = offered[name]
    design = base
    if given:
        design = with_settings(base, [f"{key}={text}" for key, text in given.items()])
    return State(name, base, design, platform)


def controls(state: State, recorded: int) -> dict[str, Any]:
    """Of each control: its value, what may be chosen, and whether the scheme has it at all.

    ``recorded``: bytes of the trace's pages, which hold unless others are chosen.
    """
    values = state.design.settings()
    found: dict[str, Any] = {}
    for key in EXPLORED:
        is_used = key in USES[state.design.scheme]
        value = values.get(key)
        choices = set(CHOICES[key])
        if key == "page_size":
            value = value or recorded
            choices.add(recorded)
        if value is not None:
            choices.add(int(value))
        found[key] = {
            "used": is_used,
            "value": value,
            "choices": sorted(choices) if is_used else [],
            "optional": SETTINGS[key].optional and key != "page_size",
            "meaning": _meaning(key),
        }
    return found


@functools.cache  # as it is a part of each answer
def _meaning(key: str) -> str:
    term = meaning_of(key, TOPIC)
    return SETTINGS[key].meaning if term is None else term.term.means


def _text(value: Any) -> str:
    return NONE if value is None else str(value)
