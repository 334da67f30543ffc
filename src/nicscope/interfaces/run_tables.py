"""A run's report as people read it: tables for a terminal and for a notebook.

What an interface has not is None in the report, and no column, or no table, here.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.reports.printing import lines_of, output_width
from nicscope.reports.table import Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nicscope.interfaces.run_report import Account, Names, NodeReport, RunReport, Work
    from nicscope.reports.printing import Printed

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
    nodes = counted(len(report.nodes), "node")
    return f"{title(report)}, {nodes}, {report.elapsed_us:,.1f} us"


def title(names: RunReport | Names) -> str:
    """What ran on what."""
    parts = [part for part in (names.design, names.way, names.delivery) if part is not None]
    interface = "" if names.interface is None else f"{names.interface}: "
    return f"{interface}{', '.join(parts)} on {names.platform}"


def counted(count: int, what: str) -> str:
    """So many of it."""
    return f"{count:,} {what}{'s' if count != 1 else ''}"


def tables_of(report: RunReport) -> list[Table]:
    """Messages, packets, lookups, the hosts' work, and where time went."""
    found = [_messages(report), _endpoints(report), _fates(report), _sent(report),
             _received(report), _lookups(report), _host(report), _shares(report)]  # fmt: skip
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
    columns = [
        ("programs", lambda work: work.programs),
        ("sent", lambda work: work.messages_out),
        ("received", lambda work: work.messages_in),
        ("bytes out", lambda work: work.bytes_out),
        ("bytes in", lambda work: work.bytes_in),
        ("done", lambda work: work.requests.get("done", 0)),
        ("failed", lambda work: failed_of(work.requests)),
    ]
    by_status = {name: count for name, count in report.total.requests.items() if name != "done"}
    notes = [_listed("failed requests", by_status)] * bool(by_status)
    if len(report.nodes) > LISTED:
        notes.append(f"{len(report.nodes) - LISTED:,} more nodes are in --json")
    least = ("programs", "bytes in", "bytes out", "done")
    return _table(report, "Messages and requests", columns, least, tuple(notes))


def _listed(title: str, counts: dict[str, int]) -> str:
    return f"{title}: " + ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _told(report: RunReport) -> list[Account]:
    """Endpoints that have something to tell which their nodes have not told; none if all have."""
    own = [one for one in report.endpoints if one.process is not None]
    if len(own) <= len(report.nodes) and all(one.name is None for one in own):
        return []
    return own


def _of_endpoints(
    report: RunReport,
    title: str,
    columns: Sequence[tuple[str, Callable[[Account], int | None]]],
    least: tuple[str, ...],
) -> Table:
    told = _told(report)
    kept = [each for each in columns if told and each[1](told[0]) is not None]
    cells = [
        [str(one.node), str(one.process), called(one), *(_spelt(of(one) or 0) for _, of in kept)]
        for one in told[:LISTED]
    ]
    more = len(told) - LISTED
    notes = (f"{more:,} more endpoints are in --json and table('endpoint')",) * (more > 0)
    heads = ["node", "process", "endpoint", *(heading for heading, _ in kept)]
    shown = tuple(heading for heading in least if heading in heads)
    return Table(title, heads, cells, 3, shown, notes)


def called(one: Account) -> str:
    """What an endpoint is called: its name, or else its port."""
    return one.name if one.name is not None else "-" if one.port is None else f"port {one.port}"


def _endpoints(report: RunReport) -> Table:
    columns: list[tuple[str, Callable[[Account], int | None]]] = [
        ("sent", lambda one: one.messages_out),
        ("received", lambda one: one.messages_in),
        ("bytes out", lambda one: one.bytes_out),
        ("bytes in", lambda one: one.bytes_in),
        ("failed", lambda one: failed_of(one.requests)),
        ("lookups", lambda one: None if one.lookups is None else one.lookups.total),
        ("misses", lambda one: None if one.misses is None else one.misses.total),
    ]
    least = ("bytes in", "bytes out", "failed", "lookups", "misses")
    return _of_endpoints(report, "By endpoint", columns, least)


def _fates(report: RunReport) -> Table:
    def of(name: str) -> Callable[[Account], int | None]:
        return lambda one: None if one.outcome is None else getattr(one.outcome, name)

    def dropped(one: Account) -> int | None:
        return None if one.outcome is None else sum((one.outcome.dropped or {}).values())

    columns: list[tuple[str, Callable[[Account], int | None]]] = [
        ("packets", lambda one: None if one.outcome is None else one.sent.total),
        ("again", lambda one: one.sent.again),
        ("delivered", of("delivered")),
        ("lost", of("lost")),
        ("corrupted", of("corrupted")),
        ("duplicates", of("duplicates")),
        ("refused", of("refused")),
        ("dropped", dropped),
    ]
    title = "Packets that each endpoint sent, by what became of them"
    return _of_endpoints(report, title, columns, ("packets", "delivered", "duplicates"))


def failed_of(requests: dict[str, int]) -> int:
    """Descriptors that ended otherwise than done."""
    return sum(count for name, count in requests.items() if name != "done")


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
        ("checks", lambda work: work.checks),
        ("not pinned", lambda work: work.check_misses),
        ("pins", lambda work: work.pins),
        ("unpins", lambda work: work.unpins),
        ("pinned now", lambda work: work.pinned_now),
        ("repeated", lambda work: work.repeated),
        ("miss time us", lambda work: work.miss_us),
    ]
    notes = ("repeated: lookups made again for what came again; not among the lookups above",)
    least = ("repeated", "pinned now", "checks", "not pinned", "unpins", "page-ins", "miss time us",
             "pins")  # fmt: skip
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


def parts_of(report: RunReport) -> Iterator[Printed]:
    """What is printed of a report: its headline, and its tables with their notes."""
    from rich.text import Text

    yield Text(headline(report), style="bold")
    for remark in report.remarks:
        yield Text(remark)
    for table in tables_of(report):
        yield Text()
        yield Rows(
            table.title,
            table.headings,
            table.cells,
            left=tuple(range(1, table.key)),  # words; the first are numbers of nodes
            key=table.key,
            least=table.least,
            prose=(),
            grouped=table.key > 1,
        )
        for note in table.notes:
            yield Text(note, style="dim")


def text_of(report: RunReport) -> str:
    """The same as plain text, as wide as the output is."""
    elsewhere = "a wider terminal, as_json() or table()"
    lines = lines_of(parts_of(report), output_width(), elsewhere)
    return "\n".join(str(line).rstrip() for line in lines)


def as_html(report: RunReport) -> str:
    """The same for a notebook."""
    remarks = "".join(f"<p>{escape(each)}</p>" for each in report.remarks)
    return f"<h3>{escape(headline(report))}</h3>{remarks}" + "".join(map(_html, tables_of(report)))


def _html(table: Table) -> str:
    top = "".join(f"<th>{escape(head)}</th>" for head in table.headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in table.cells
    )
    notes = "".join(f"<p><small>{escape(note)}</small></p>" for note in table.notes)
    head = f"<h4>{escape(table.title)}</h4>"
    return f"{head}<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>{notes}"
