"""A recorded session of people at work, on a terminal and as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.reports.result import Report
from nicscope.reports.table import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicscope.reports.printing import Printed
    from nicscope.studies.interactive import Group, Session

SIDES = ("users", "servers")  # by node


class ShownSession(Report):
    """A session, and what each kind of program asked of the network."""

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
        from rich.text import Text

        yield Text("interactive users, a shell, a web and a mail server", style="bold")
        yield Text()
        yield group_rows(self.found.groups)
        yield Text()
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
