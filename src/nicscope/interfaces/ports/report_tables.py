"""A run's report as people read it: tables for a terminal and for a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nicscope.interfaces.ports.report import NodeReport, RunReport, Work

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
    return (
        f"{report.interface}: {report.design} on {report.platform}, {count:,} "
        f"node{'s' if count != 1 else ''}, {report.elapsed_us:,.1f} us"
    )


def tables_of(report: RunReport) -> list[Table]:
    """Messages, packets, lookups, the hosts' work, and where time went."""
    return [_messages(report), _sent(report), _received(report), _lookups(report), _host(report),
            _shares(report)]  # fmt: skip


def _rows(report: RunReport, cells: Callable[[Work], list[int]]) -> list[list[str]]:
    """A row for each of the first nodes, and one for all."""
    rows = [[str(node.node), *_spelt(cells(node))] for node in report.nodes[:LISTED]]
    return rows + [[ALL, *_spelt(cells(report.total))]] * (len(report.nodes) > 1)


def _spelt(counts: Sequence[int]) -> list[str]:
    return [f"{count:,}" for count in counts]


def _messages(report: RunReport) -> Table:
    def cells(work: Work) -> list[int]:
        failed = sum(count for name, count in work.requests.items() if name != "done")
        traffic = [work.messages_out, work.messages_in, work.bytes_out, work.bytes_in]
        return [work.programs, *traffic, work.requests.get("done", 0), failed]

    headings = ["node", "programs", "sent", "received", "bytes out", "bytes in", "done", "failed"]
    failed = {name: count for name, count in report.total.requests.items() if name != "done"}
    notes = [_listed("failed requests", failed)] * bool(failed)
    if len(report.nodes) > LISTED:
        notes.append(f"{len(report.nodes) - LISTED:,} more nodes are in --json")
    least = ("programs", "bytes in", "bytes out", "done")
    return Table("Messages and requests", headings, _rows(report, cells), 1, least, tuple(notes))


def _listed(title: str, counts: dict[str, int]) -> str:
    return f"{title}: " + ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _sent(report: RunReport) -> Table:
    def cells(work: Work) -> list[int]:
        sent = work.sent
        made = [sent.total, sent.first, sent.again, sent.acknowledgements, sent.copies]
        return [*made, sent.acknowledged, sent.unacknowledged]

    headings = [
        "node",
        "packets",
        "first",
        "again",
        "bare acks",
        "copies",
        "acknowledged",
        "not yet",
    ]
    least = ("not yet", "bare acks", "copies", "first", "acknowledged")
    return Table("Packets sent", headings, _rows(report, cells), 1, least)


def _received(report: RunReport) -> Table:
    rare = [name for name in RARE if getattr(report.total.received, name)]

    def cells(work: Work) -> list[int]:
        came = work.received
        usual = [came.total, came.delivered, came.acknowledgements, came.lost, came.corrupted]
        dropped = sum(came.dropped.values())
        return [*usual, came.duplicates, came.refused, dropped, *(getattr(came, n) for n in rare)]

    headings = ["node", "packets", "delivered", "bare acks", "lost", "corrupted", "duplicates"]
    headings += ["refused", "dropped", *(RARE[name] for name in rare)]
    why = {name: count for name, count in report.total.received.dropped.items() if count}
    notes = (_listed("dropped for want of", why),) * bool(why)
    least = (*(RARE[name] for name in reversed(rare)), "bare acks", "packets")
    title = "Packets received, by what became of them"
    return Table(title, headings, _rows(report, cells), 1, least, notes)


def _lookups(report: RunReport) -> Table:
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
            cells.append([name, ALL if path == "total" else path, *_spelt([looked, missed]), share])
    headings = ["node", "path", "lookups", "misses", "per 100"]
    return Table("Lookups on the NIC", headings, cells, 2)


def _host(report: RunReport) -> Table:
    headings = ["node", "interrupts", "page-ins", "pins", "unpins", "pinned now", "repeated"]

    def cells(work: Work) -> list[int]:
        pages = [work.page_ins, work.pins, work.unpins, work.pinned_now]
        return [work.interrupts, *pages, work.repeated]

    rows = _rows(report, cells)
    times = [node.miss_us for node in report.nodes[:LISTED]] + [report.total.miss_us]
    rows = [[*row, f"{us:,.1f}"] for row, us in zip(rows, times, strict=False)]
    notes = ("repeated: lookups made again for what came again; not among the lookups above",)
    least = ("repeated", "pinned now", "unpins", "page-ins", "miss time us", "pins")
    show = notes if report.total.repeated else ()
    return Table("Work of the hosts", [*headings, "miss time us"], rows, 1, least, show)


def _shares(report: RunReport) -> Table:
    def row(node: NodeReport) -> list[str]:
        shares = (node.cpu_share, node.nic_share, node.bus_share, node.link_share)
        return [str(node.node), *(f"{share:.1%}" for share in shares)]

    headings = ["node", "CPU", "NIC", "PCI", "link"]
    return Table("Busy, of the run's time", headings, [row(node) for node in report.nodes[:LISTED]])


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
