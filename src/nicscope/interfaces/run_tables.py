"""A run's report as people read it: tables for a terminal and for a notebook.

What an interface has not is None in the report, and no column, or no table, here.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nicscope.interfaces.run_report import NodeReport, RunReport, Work

LISTED = 16  # nodes of which each is told; the others are in the sum
ALL = "all"
# What becomes of few packets, and is not shown where it became of none.
RARE = {
    "cut_off": "cut off",
    "overtaken": "overtaken",
    "out_of_turn": "out of turn",
    "taken_back": "taken back",
    "incomplete": "incomplete",
    "broken_off": "broken off",
    "void": "void",
    "unfinished": "unfinished",
}


class Table(NamedTuple):
    """Headings and cells, the first ``key`` of which say whose row it is."""

    title: str
    headings: list[str]
    cells: list[list[str]]
    key: int = 1
    least: tuple[str, ...] = ()  # headings, that which matters least first
    notes: tuple[str, ...] = ()


def headline(report: RunReport) -> str:
    """One line: what ran, for how long."""
    count = len(report.nodes)
    nodes = f"{count:,} node{'s' if count != 1 else ''}"
    return f"{title(report)}, {nodes}, {report.elapsed_us:,.1f} us"


def title(report: RunReport) -> str:
    """What ran on what."""
    parts = [part for part in (report.design, report.way, report.delivery) if part is not None]
    interface = "" if report.interface is None else f"{report.interface}: "
    return f"{interface}{', '.join(parts)} on {report.platform}"


def tables_of(report: RunReport) -> list[Table]:
    """Messages, packets, lookups, the hosts' work, and where time went."""
    found = [_messages(report), _sent(report), _received(report), _lookups(report), _host(report),
             _shares(report)]  # fmt: skip
    return [table for table in found if len(table.headings) > table.key]


def _table(
    report: RunReport,
    title: str,
    columns: Sequence[tuple[str, Callable[[Any], float | None]]],
    least: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
) -> Table:
    """A row for each of the first nodes, and one for all, of the columns that there are."""
    columns = [(heading, of) for heading, of in columns if of(report.total) is not None]
    rows: list[tuple[str, Work]] = [(str(node.node), node) for node in report.nodes[:LISTED]]
    if len(report.nodes) > 1:
        rows.append((ALL, report.total))
    cells = [[name, *(_spelt(of(work)) for _, of in columns)] for name, work in rows]
    headings = ["node", *(heading for heading, _ in columns)]
    shown = tuple(heading for heading in least if heading in headings)
    return Table(title, headings, cells, 1, shown, notes)


def _spelt(count: float | None) -> str:
    return f"{count:,.1f}" if isinstance(count, float) else f"{count:,}"


def _messages(report: RunReport) -> Table:
    def failed(work: Work) -> int:
        return sum(count for name, count in work.requests.items() if name != "done")

    columns = [
        ("programs", lambda work: work.programs),
        ("sent", lambda work: work.messages_out),
        ("received", lambda work: work.messages_in),
        ("bytes out", lambda work: work.bytes_out),
        ("bytes in", lambda work: work.bytes_in),
        ("done", lambda work: work.requests.get("done", 0)),
        ("failed", failed),
    ]
    by_status = {name: count for name, count in report.total.requests.items() if name != "done"}
    notes = [_listed("failed requests", by_status)] * bool(by_status)
    if len(report.nodes) > LISTED:
        notes.append(f"{len(report.nodes) - LISTED:,} more nodes are in --json")
    least = ("programs", "bytes in", "bytes out", "done")
    return _table(report, "Messages and requests", columns, least, tuple(notes))


def _listed(title: str, counts: dict[str, int]) -> str:
    return f"{title}: " + ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _sent(report: RunReport) -> Table:
    columns = [
        ("packets", lambda work: work.sent.total),
        ("first", lambda work: work.sent.first),
        ("again", lambda work: work.sent.again),
        ("bare acks", lambda work: work.sent.acknowledgements),
        ("copies", lambda work: work.sent.copies),
        ("acknowledged", lambda work: work.sent.acknowledged),
        ("not yet", lambda work: work.sent.unacknowledged),
    ]
    least = ("not yet", "bare acks", "copies", "first", "acknowledged")
    return _table(report, "Packets sent", columns, least)


def _received(report: RunReport) -> Table:
    def dropped(work: Work) -> int | None:
        came = work.received.dropped
        return None if came is None else sum(came.values())

    def of(name: str) -> Callable[[Work], int | None]:
        return lambda work: getattr(work.received, name)

    columns: list[tuple[str, Callable[[Work], int | None]]] = [
        ("packets", lambda work: work.received.total),
        ("delivered", lambda work: work.received.delivered),
        ("bare acks", lambda work: work.received.acknowledgements),
        ("lost", lambda work: work.received.lost),
        ("corrupted", lambda work: work.received.corrupted),
        ("duplicates", lambda work: work.received.duplicates),
        ("refused", lambda work: work.received.refused),
        ("dropped", dropped),
    ]
    for name, heading in RARE.items():
        if getattr(report.total.received, name):
            columns.append((heading, of(name)))
    why = {name: count for name, count in (report.total.received.dropped or {}).items() if count}
    notes = (_listed("dropped for want of", why),) * bool(why)
    least = (*(RARE[name] for name in reversed(RARE)), "bare acks", "packets")
    return _table(report, "Packets received, by what became of them", columns, least, notes)


def _lookups(report: RunReport) -> Table:
    headings = ["node", "path", "lookups", "misses", "per 100"]
    title = "Lookups on the NIC"
    if report.total.lookups is None:
        return Table(title, headings[:2], [], 2)
    paths = ["send", "receive"]
    if report.total.lookups.handles is not None:
        paths.append("handles")
    of: list[tuple[str, Work]] = [(str(node.node), node) for node in report.nodes[:LISTED]]
    if len(report.nodes) > 1:
        of.append((ALL, report.total))
    cells = []
    for name, work in of:
        for path in (*paths, "total"):
            looked, missed = getattr(work.lookups, path) or 0, getattr(work.misses, path) or 0
            share = f"{100 * missed / looked:.2f}" if looked else "-"
            counts = [_spelt(looked), _spelt(missed), share]
            cells.append([name, ALL if path == "total" else path, *counts])
    return Table(title, headings, cells, 2)


def _host(report: RunReport) -> Table:
    columns = [
        ("interrupts", lambda work: work.interrupts),
        ("page-ins", lambda work: work.page_ins),
        ("pins", lambda work: work.pins),
        ("unpins", lambda work: work.unpins),
        ("pinned now", lambda work: work.pinned_now),
        ("repeated", lambda work: work.repeated),
        ("miss time us", lambda work: work.miss_us),
    ]
    notes = ("repeated: lookups made again for what came again; not among the lookups above",)
    least = ("repeated", "pinned now", "unpins", "page-ins", "miss time us", "pins")
    show = notes if report.total.repeated else ()
    return _table(report, "Work of the hosts", columns, least, show)


def _shares(report: RunReport) -> Table:
    names = {"CPU": "cpu_share", "NIC": "nic_share", "bus": "bus_share", "link": "link_share"}
    first = report.nodes[0]
    kept = {head: name for head, name in names.items() if getattr(first, name) is not None}

    def row(node: NodeReport) -> list[str]:
        return [str(node.node), *(f"{getattr(node, name):.1%}" for name in kept.values())]

    rows = [row(node) for node in report.nodes[:LISTED]]
    return Table("Busy, of the run's time", ["node", *kept], rows)


def as_html(report: RunReport) -> str:
    """The same for a notebook."""
    return f"<h3>{escape(headline(report))}</h3>" + "".join(map(_html, tables_of(report)))


def _html(table: Table) -> str:
    top = "".join(f"<th>{escape(head)}</th>" for head in table.headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in table.cells
    )
    notes = "".join(f"<p><small>{escape(note)}</small></p>" for note in table.notes)
    head = f"<h4>{escape(table.title)}</h4>"
    return f"{head}<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>{notes}"
