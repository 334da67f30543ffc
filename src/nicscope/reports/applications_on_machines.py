"""What parallel programs took on simulated machines, on a terminal and as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.reports.result import Report
from nicscope.reports.table import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicscope.reports.printing import Printed
    from nicscope.studies.applications_on_machines import MachineApplicationRun


class ShownMachineApplication(Report):
    """A program's run on simulated machines."""

    found: MachineApplicationRun
    topic = "program"  # whose tables of NICs these are

    def summary(self) -> list[str]:
        """That it is right, and what it took."""
        found = self.found
        nodes, each = found.placement.nodes, found.placement.processes
        return [
            f"{found.name} of {found.size} gives the right result with {nodes * each} processes "
            f"on {nodes} nodes, in {found.milliseconds:,.3f} ms of virtual time.",
            f"For that {found.fetches:,} pages were fetched from their homes, {found.diffs:,} "
            f"diffs brought there and {found.initial_copies:,} pages copied at first.",
        ]

    def parts(self) -> Iterator[Printed]:
        """Tables: what the processes did together, and what the NICs did for that, node by node."""
        from rich.text import Text

        found = self.found
        yield Text(f"{found.name}, {found.size}, on {found.report.title()}", style="bold")
        yield Text()
        yield _in_all(found)
        for table in found.report.tables():
            yield Text()
            yield Rows(table.title, table.headings, table.cells, left=())
            yield from (Text(note) for note in table.notes)

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield what each node did."""
        yield "nodes", self.found.report.table()


def _in_all(found: MachineApplicationRun) -> Rows:
    nodes, each = found.placement.nodes, found.placement.processes
    counts = [nodes * each, nodes, found.fetches, found.initial_copies, found.diffs]
    cells = [f"{count:,}" for count in counts]
    headings = ["processes", "nodes", "fetches", "first copies", "diffs"]
    return Rows(
        "In all", [*headings, "virtual ms"], [[*cells, f"{found.milliseconds:,.3f}"]], left=()
    )
