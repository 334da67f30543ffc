"""Results of program runs, in logical time, on machines or by people: tables and text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.reports.printing import Rows, heading, said
from nicscope.reports.result import Report

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nicscope.reports.printing import Printed
    from nicscope.studies.applications import Application, ApplicationRun, MachineApplicationRun
    from nicscope.studies.interactive import Group, Session


class ShownApplications(Report):
    """The list of programs."""

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
    """A run of a program on shared memory."""

    found: ApplicationRun
    topic = "apps"

    def summary(self) -> list[str]:
        """That the result is right, and its network traffic."""
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
        yield heading(f"{self.found.name}, {self.found.size}")
        yield node_rows(self.found)
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


class ShownMachineApplication(Report):
    """A program's run on simulated machines."""

    found: MachineApplicationRun
    topic = "program"  # whose tables of NICs these are

    def summary(self) -> list[str]:
        """That the result is right, and its costs."""
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
        found = self.found
        yield heading(f"{found.name}, {found.size}, on {found.report.title()}")
        yield _in_all(found)
        for table in found.report.tables():
            yield ""
            yield Rows(table.title, table.headings, table.cells, left=())
            yield from (said(note) for note in table.notes)

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


SIDES = ("users", "servers")  # by node


class ShownSession(Report):
    """A session and the network requests of each kind of program."""

    found: Session
    topic = "sockets"

    def summary(self) -> list[str]:
        """That each byte arrived."""
        found = self.found
        where = "a network namespace of their own" if found.own_network else "loopback"
        who = "1 user was" if found.users == 1 else f"{found.users} users were"
        return [
            f"{who} at work for {found.elapsed_s:.0f} s in {where}, and each of "
            f"the {found.bytes_moved:,} bytes that were sent arrived.",
            f"{found.rows:,} sends and receives were recorded; each process received into "
            f"{found.receive_pages} pages of its own in turn.",
        ]

    def parts(self) -> Iterator[Printed]:
        """A table: each kind of program."""
        yield heading("interactive users, a shell, a web and a mail server")
        yield group_rows(self.found.groups)
        yield session_rows(self.found)

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield what each kind of program did."""
        import pyarrow as pa

        yield "programs", pa.Table.from_pylist([each._asdict() for each in self.found.groups])


def session_rows(found: Session) -> Rows:
    """A row of the whole session."""
    counts = [found.users, found.bytes_moved, found.rows, found.receive_pages]
    headings = ["users", "seconds", "bytes", "calls", "receive pages"]
    first, *others = (f"{count:,}" for count in counts)
    return Rows("In all", headings, [[first, f"{found.elapsed_s:.0f}", *others]], left=())


def group_rows(groups: list[Group]) -> Rows:
    """A row for each kind of program."""
    cells = [
        [
            SIDES[each.node],
            each.kind,
            f"{each.processes:,}",
            f"{each.sends:,}",
            f"{each.pages_sent:,}",
            f"{each.receives:,}",
            f"{each.pages_received:,}",
        ]
        for each in groups
    ]
    headings = ["side", "kind", "processes"]
    ways = ["sends", "pages sent", "receives", "pages received"]
    return Rows("By program", [*headings, *ways], cells, left=(0, 1))
