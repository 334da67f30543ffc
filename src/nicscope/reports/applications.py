"""Results of ``nicscope apps``: program runs, people's sessions, and how long collectives take."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from nicscope.reports.printing import Printed, Rows, heading, remark, rows_of, said
from nicscope.reports.result import Report, table_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nicscope.studies.applications import Application, ApplicationRun, MachineApplicationRun
    from nicscope.studies.collectives import CollectiveReport, CollectiveRow
    from nicscope.studies.interactive import Group, Session
    from nicscope.studies.kernel import KernelReport


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


COLLECTIVE_COLUMNS = {
    "interface": "string",
    "collective": "string",
    "algorithm": "string",
    "bytes": "int64",
    "type": "string",
    "first_us": "double",
    "later_us": "double",
    "bound_us": "double",
    "algorithm_mbytes_s": "double",
    "bus_mbytes_s": "double",
    "contended_us": "double",
    "misses_first": "int64",
    "misses_later": "double",
    "pins_first": "int64",
    "pins_later": "double",
    "again": "int64",
}


class ShownCollectives(Report):
    """Times of collectives beside a lower bound; collectives.parquet."""

    found: CollectiveReport
    topic = "collectives"

    def summary(self) -> list[str]:
        """That results are right, and what is fastest."""
        found = self.found
        told = [f"All results are right, with {found.nodes} processes on as many nodes."]
        several = {one.interface for one in found.rows}
        for name in dict.fromkeys(one.collective for one in found.rows):
            rows = [one for one in found.rows if one.collective == name and one.bytes is None]
            if len(several) > 1 and rows:
                best = min(rows, key=lambda one: one.later_us)
                told.append(
                    f"A {name} takes least on {best.interface}: {best.later_us:,.1f} us "
                    f"({best.algorithm})."
                )
        return told

    def parts(self) -> Iterator[Printed]:
        """A table of each collective, and what the bound is made of."""
        found = self.found
        yield heading(
            f"{found.nodes} nodes, a first call and {found.repeat} later, in us of virtual time; "
            f"seed {found.seed}"
        )
        for name, group in groupby(found.rows, key=lambda one: one.collective):
            yield collective_rows(name, list(group))
        yield ""
        for name, machine in found.machines.items():
            yield remark(
                f"bound on {name}: alpha {machine.alpha_us:.1f} us, beta "
                f"{machine.beta_us * 1000:.2f} ns a byte, measured between two of its nodes; the "
                "rest is arithmetic (identity)."
            )

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for each collective, algorithm, interface and size."""
        yield (
            "collectives",
            table_of(
                self.found.rows, {name: (kind, name) for name, kind in COLLECTIVE_COLUMNS.items()}
            ),
        )


class ShownKernel(Report):
    """Page faults and a stream under each policy; kernel.parquet."""

    found: KernelReport
    topic = "kernel"

    def summary(self) -> list[str]:
        """What was checked, and under which policy a page fault is shortest."""
        rows = self.found.rows
        best = min(rows, key=lambda row: row.stall_us)
        told = "Every page and every byte of the stream is right."
        if len(rows) == 1:
            return [told]
        return [
            told,
            f"A page fault is shortest under {best.delivery}: {best.stall_us:,.1f} us on average.",
        ]

    def parts(self) -> Iterator[Printed]:
        """A table of each service."""
        asked = self.found.question
        client, server = (getattr(one, "name", one) for one in asked.platforms)
        yield heading(f"{client} and {server}, pages of {asked.page_bytes:,} bytes")
        yield Rows(
            f"Network memory: {asked.accesses:,} uses of {asked.pages:,} pages, "
            f"{asked.frames:,} frames",
            ["delivery", "faults", "us each", "worst", "sent back"],
            [
                [
                    row.delivery,
                    f"{row.page_faults:,}",
                    f"{row.stall_us:,.1f}",
                    f"{row.worst_stall_us:,.1f}",
                    f"{row.pages_sent_back:,}",
                ]
                for row in self.found.rows
            ],
            left=(0,),
        )
        yield Rows(
            f"TCP: {asked.total_bytes:,} bytes to byte {asked.offset:,} of a page",
            ["delivery", "MB/s", "mapped", "copied", "again"],
            [
                [
                    row.delivery,
                    f"{row.tcp_mbytes_s:,.1f}",
                    f"{row.segments_mapped:,}",
                    f"{row.segments_copied:,}",
                    f"{row.segments_again:,}",
                ]
                for row in self.found.rows
            ],
            left=(0,),
        )
        if not asked.protocol_us:
            yield remark(
                "what TCP takes of a processor no paper prints; --protocol sets it, here 0"
            )

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for each policy."""
        import pyarrow as pa

        yield "kernel", pa.Table.from_pylist(self.found.to_json()["rows"])


def collective_rows(name: str, rows: list[CollectiveRow]) -> Rows:
    """A row for each interface, algorithm and size."""
    columns = {"interface": lambda one: one.interface, "algorithm": lambda one: one.algorithm}
    if rows[0].bytes is not None:
        columns |= {
            "bytes": lambda one: f"{one.bytes:,}",
            "type": lambda one: one.type or "",
        }
    columns |= {
        "first": lambda one: f"{one.first_us:,.1f}",
        "later": lambda one: f"{one.later_us:,.1f}",
        "bound": lambda one: f"{one.bound_us:,.1f}",
    }
    if rows[0].bytes is not None:
        columns |= {
            "algorithm MB/s": lambda one: _amount(one.algorithm_mbytes_s),
            "bus MB/s": lambda one: _amount(one.bus_mbytes_s),
        }
    if rows[0].contended_us is not None:
        columns["contended"] = lambda one: _amount(one.contended_us)
    columns |= {
        "first misses": lambda one: _amount(one.misses_first),
        "later misses": lambda one: _amount(one.misses_later),
        "first pins": lambda one: _amount(one.pins_first),
        "later pins": lambda one: _amount(one.pins_later),
    }
    if any(one.again for one in rows):
        columns["again"] = lambda one: f"{one.again:,}"
    return rows_of(
        name,
        rows,
        columns,
        words=("interface", "algorithm", "type"),
        key=3 if rows[0].bytes is not None else 2,
        prose=(),
        least=("type", "later pins", "first pins", "later misses", "first misses"),
        grouped=True,
    )


def _amount(value: float | None) -> str:
    """A number; nothing for what there is not."""
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
