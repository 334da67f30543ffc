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
    topic = "apps"

    def summary(self) -> list[str]:
        """That each byte arrived."""
        found = self.found
        where = "a network namespace of their own" if found.own_network else "loopback"
        moved = sum(each.bytes_sent for each in found.groups)
        return [
            f"{found.users} users were at work for {found.elapsed_s:.0f} s in {where}, and each of "
            f"the {moved:,} bytes that were sent arrived.",
            f"{found.rows:,} sends and receives were recorded; each process received into "
            f"{found.receive_pages} pages of its own in turn.",
        ]

    def parts(self) -> Iterator[Printed]:
        """A table: each kind of program."""
        from rich.text import Text

        yield Text("interactive users, a shell, a web and a mail server", style="bold")
        yield Text()
        yield group_rows(self.found.groups)

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield what each kind of program did."""
        import pyarrow as pa

        yield "programs", pa.Table.from_pylist([each._asdict() for each in self.found.groups])


def group_rows(groups: list[Group]) -> Rows:
    """A row for each kind of program."""
    cells = [
        [
            str(each.node),
            SIDES[each.node],
            each.kind,
            *(
                f"{value:,}"
                for value in (
                    each.processes,
                    each.connections,
                    each.sends,
                    each.pages_sent,
                    each.receives,
                    each.pages_received,
                )
            ),
        ]
        for each in groups
    ]
    headings = ["node", "side", "kind", "processes", "connections"]
    ways = ["sends", "pages sent", "receives", "pages received"]
    return Rows("By program", [*headings, *ways], cells, left=(1, 2))
