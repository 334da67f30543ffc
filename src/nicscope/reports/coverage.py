"""Which requirements of the papers have a test, on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.reports.result import Report
from nicscope.reports.table import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nicscope.reports.printing import Printed
    from nicscope.studies.coverage import Coverage, Requirements


class ShownCoverage(Report):
    """Which requirements of ``papers`` have a test."""

    found: Coverage
    topic = "coverage"

    def __init__(self, found: Coverage, papers: Sequence[Requirements]) -> None:
        super().__init__(found)
        self.papers = papers

    def as_json(self) -> Any:
        """One object."""
        return msgspec.to_builtins(self.found)

    def parts(self) -> Iterator[Printed]:
        """Counts per paper, ids without a test, what weak tests leave out, and reasons for none."""
        from rich.text import Text

        yield count_rows(self.papers, self.found)
        uncovered = set(self.found.uncovered)
        for paper in self.papers:
            waiting = [key for key in paper.requirements if key in uncovered]
            if waiting:
                yield Text(f"\n{paper.title}, without a test:")
                yield Text(", ".join(waiting), style="dim")
        if self.found.weak:
            yield Text("\nwith weak tests only, and what these do not show:")
            yield weak_rows(self.found)
        if self.found.explained:
            yield Text("\nwithout a test for a reason:")
            yield reason_rows(self.found)


def count_rows(papers: Sequence[Requirements], found: Coverage) -> Rows:
    """How many requirements each paper has, by whether a test shows them."""
    cells = []
    totals = [0, 0, 0, 0, 0]
    for paper in papers:
        keys = paper.requirements
        counts = [
            sum(key in place for key in keys)
            for place in (found.covered, found.weak, found.explained, found.uncovered, keys)
        ]
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
        cells.append([f"{paper.title} ({paper.prefix})", *map(str, counts)])
    return Rows(
        "",
        ["paper", "shown", "weak", "explained", "uncovered", "all"],
        [*cells, ["all", *map(str, totals)]],
        least=("explained", "all", "shown"),
    )


def weak_rows(found: Coverage) -> Rows:
    """What the weak tests of each requirement do not show, each once."""
    cells = [
        [key if not place else "", what]
        for key, tests in found.weak.items()
        for place, what in enumerate(dict.fromkeys(tests.values()))
    ]
    return Rows("", ["", ""], cells, left=(0, 1))


def reason_rows(found: Coverage) -> Rows:
    """Why each requirement that is explained away has no test."""
    cells = [[key, why] for key, why in found.explained.items()]
    return Rows("", ["", ""], cells, left=(0, 1))
