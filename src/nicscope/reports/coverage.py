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

    def __init__(self, found: Coverage, papers: Sequence[Requirements]) -> None:
        super().__init__(found)
        self.papers = papers

    def to_json(self) -> Any:
        """One object."""
        return msgspec.to_builtins(self.found)

    def parts(self) -> Iterator[Printed]:
        """Counts per paper, then the ids without a test, and the reasons that some have for it."""
        from rich.text import Text

        yield count_rows(self.papers, self.found)
        uncovered = set(self.found.uncovered)
        for paper in self.papers:
            waiting = [key for key in paper.requirements if key in uncovered]
            if waiting:
                yield Text(f"\n{paper.title}, without a test:")
                yield Text(", ".join(waiting), style="dim")
        if self.found.explained:
            yield Text("\nwithout a test for a reason:")
            yield reason_rows(self.found)


def count_rows(papers: Sequence[Requirements], found: Coverage) -> Rows:
    """How many requirements each paper has, by whether they have a test."""
    cells = []
    totals = [0, 0, 0, 0]
    for paper in papers:
        keys = paper.requirements
        counts = [
            sum(key in place for key in keys)
            for place in (found.covered, found.explained, found.uncovered, keys)
        ]
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
        cells.append([f"{paper.title} ({paper.prefix})", *map(str, counts)])
    return Rows(
        "",
        ["paper", "covered", "explained", "uncovered", "all"],
        [*cells, ["all", *map(str, totals)]],
        least=("explained", "all", "covered"),
    )


def reason_rows(found: Coverage) -> Rows:
    """Why each requirement that is explained away has no test."""
    cells = [[key, why] for key, why in found.explained.items()]
    return Rows("", ["", ""], cells, left=(0, 1))
