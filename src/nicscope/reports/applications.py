"""What parallel programs ask of network interfaces, on a terminal and as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.reports.result import Report
from nicscope.reports.table import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nicscope.reports.printing import Printed
    from nicscope.studies.applications import Application, ApplicationRun


class ShownApplications(Report):
    """The programs that there are."""

    found: Mapping[str, Application]
    topic = "apps"
    is_headed = False

    def as_json(self) -> list[dict[str, Any]]:
        """A list of them."""
        return [
            {
                "name": name,
                "what": each.what,
                "unit": each.unit,
                "usual_size": each.usual,
                "paper_size": each.paper,
            }
            for name, each in self.found.items()
        ]

    def parts(self) -> Iterator[Printed]:
        """A table."""
        cells = [
            [name, each.what, each.unit, each.usual, each.paper or ""]
            for name, each in self.found.items()
        ]
        headings = ["program", "what it is", "size in", "usually", "UTLB Table 3"]
        yield Rows("", headings, cells, left=(0, 1, 2))


class ShownApplication(Report):
    """A program's run on shared memory."""

    found: ApplicationRun
    topic = "apps"

    def summary(self) -> list[str]:
        """That it is right, and what crossed the network for that."""
        found = self.found
        nodes, each = found.placement.nodes, found.placement.processes
        told = [
            f"{found.name} of {found.size} gives the right result with {nodes * each} processes "
            f"on {nodes} nodes."
        ]
        if not found.columns["time_ns"].size:
            return [*told, "Nothing crosses a network."]
        told.append(
            f"For that {found.fetches:,} pages were fetched from their homes and {found.diffs:,} "
            "diffs brought there."
        )
        if found.initial_copies:
            told.append(f"{found.initial_copies:,} more were copied at first to where they belong.")
        return told

    def parts(self) -> Iterator[Printed]:
        """A table: each node's requests."""
        from rich.text import Text

        yield Text(f"{self.found.name}, {self.found.size}", style="bold")
        yield Text()
        yield node_rows(self.found)
        yield Text()
        yield run_rows(self.found)

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield what each node asked for."""
        import pyarrow as pa

        yield "nodes", pa.Table.from_pylist([each._asdict() for each in self.found.traffic])


def node_rows(found: ApplicationRun) -> Rows:
    """A row for each node."""
    cells = [
        [str(each.node), f"{each.requests:,}", f"{each.pages:,}", f"{each.process_pages:,}"]
        for each in found.traffic
    ]
    if found.printed is not None:
        many = len(found.traffic)
        for name, values in (
            ("mean", [sum(each[i] for each in found.traffic) / many for i in (1, 2, 3)]),
            ("printed", [found.printed.lookups, found.printed.pages]),
        ):
            cells.append([name, *(f"{value:,.0f}" for value in values), ""][:4])
    return Rows("By node", ["node", "requests", "pages", "by process"], cells)


def run_rows(found: ApplicationRun) -> Rows:
    """A row of the whole run."""
    nodes, each = found.placement.nodes, found.placement.processes
    counts = [nodes * each, nodes, found.fetches, found.initial_copies, found.diffs]
    headings = ["processes", "nodes", "fetches", "first copies", "diffs"]
    return Rows("In all", headings, [[f"{count:,}" for count in counts]], left=())
