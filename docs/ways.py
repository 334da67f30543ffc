"""The table in ``docs/ways.md``: what runs on what, by ``nicscope.interfaces.ways``.

    python docs/ways.py            prints the table
    python docs/ways.py --write    puts it into docs/ways.md

A test holds the page against it.
"""

from __future__ import annotations

import functools
import re
import sys
from pathlib import Path
from typing import NamedTuple

from nicscope.config.design import Design, Way, design_names, load_design, with_settings
from nicscope.config.platform import Platform, load_platform, platform_names
from nicscope.interfaces.ways import (
    BY_PROCESSOR,
    INTERFACES,
    PORTS,
    RUNS,
    TRACE,
    Combination,
    why_not,
)

PAGE = Path(__file__).parent / "ways.md"
BEGIN, END = "<!-- made by docs/ways.py -->", "<!-- end of what docs/ways.py made -->"
SONIC_VIA = "sonic-via"  # the paper's, whose network takes no time
VIA = "sonic-via-utlb"
# Not ports without a library, of which the others are made, nor traces, which the text covers.
SHOWN = tuple(name for name in INTERFACES if name not in (PORTS, TRACE))


class Subject(NamedTuple):
    """A row of the table, over every way; with the design's own delivery and transport."""

    interface: str
    design: Design | None
    platform: Platform

    def over(self, way: Way) -> Combination:
        """The subject over ``way``; a processor keeps messages whole, others follow the design."""
        return Combination(self.interface, self.platform, way, self.design_over(way))

    def design_over(self, way: Way) -> Design | None:
        """Its design over ``way``, with a delivery that this way supports."""
        if self.design is None or not INTERFACES[self.interface].serves_ports:
            return self.design
        whole = ["delivery=store-and-forward"] if way in BY_PROCESSOR else []
        return with_settings(self.design, [f"way={way}", *whole])

    @property
    def called(self) -> str:
        """Its name in the table."""
        if self.design is None:
            return f"on {self.platform.name}"
        if self.platform.combines or self.interface == "VIA":
            return f"{self.design.name} on {self.platform.name}"
        return self.design.name


def subjects() -> list[Subject]:
    """Every interface with each design whose scheme it supports, on the design's platforms."""
    return [
        subject
        for interface in SHOWN
        for subject in _of(interface)
        if not _is_of_another_scheme(subject)
    ]


def _of(interface: str) -> list[Subject]:
    designs = [load_design(name) for name in design_names()]
    if interface == "VIA":
        platforms = [load_platform(name) for name in (SONIC_VIA, VIA)]
        return [Subject(interface, design, one) for one in platforms for design in designs]
    if interface == "Trapeze":
        told = [Subject(interface, None, platform) for platform in _platforms()]
        return [one for one in told if why_not(one.over(Way.PCI)) is None]
    return [
        Subject(interface, design, platform)
        for design in designs
        if design.platform is not None
        for platform in (load_platform(design.platform), *_combined_with(design.platform))
    ]


def _combined_with(name: str) -> list[Platform]:
    """The platforms that combine the NIC of platform ``name`` with another host's bus."""
    return [platform for platform in _platforms() if name in platform.combines]


@functools.cache
def _platforms() -> list[Platform]:
    return [load_platform(name) for name in platform_names()]


def _is_of_another_scheme(subject: Subject) -> bool:
    schemes = INTERFACES[subject.interface].schemes
    return None not in (schemes, subject.design) and subject.design.scheme not in schemes


def table() -> list[str]:
    """The table in Markdown, and below it the reasons why the rest does not run."""
    notes: dict[str, int] = {}
    rows: dict[tuple[str, ...], list[str]] = {}
    for subject in subjects():
        cells = [subject.interface]
        for way in Way:
            why = why_not(subject.over(way))
            if why is None:
                cells.append(RUNS)
            else:
                note = _without_names(why, subject.interface, way)
                cells.append(str(notes.setdefault(note, len(notes) + 1)))
        rows.setdefault(tuple(cells), []).append(subject.called)
    lines = [
        "| interface | design or platform | " + " | ".join(way.value for way in Way) + " |",
        "|---|---|" + "---|" * len(Way),
    ]
    for (interface, *cells), called in rows.items():
        lines.append(f"| {interface} | {', '.join(called)} | {' | '.join(cells)} |")
    return [*lines, "", *(f"{number}. {why}" for why, number in notes.items())]


def _without_names(why: str, interface: str, way: Way) -> str:
    """``why`` with *interface* and *way* for these two names, so that many cells share a line."""
    told = re.sub(rf"^{interface}\b", "*interface*", why)
    return re.sub(rf"(?<![\w=-]){way.value}(?![\w-])", "*way*", told)


def main() -> None:
    """Print the table, or write it."""
    made = "\n".join(table())
    if "--write" not in sys.argv[1:]:
        print(made)
        return
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{made}\n\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
