"""What a run of programs has cost: by node and in all, as Arrow tables, and as people read it."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from abc import ABC, abstractmethod
from html import escape
from operator import itemgetter
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_type_hints

import msgspec
import numpy as np

from nicscope.drivers.simulate import records as doing
from nicscope.drivers.simulate.observe import Engine, RunLog, Stop, Task
from nicscope.errors import SimulationError, did_you_mean, one_line, shortened
from nicscope.interfaces.arguments import whole
from nicscope.nic.ports.traffic import ENDED_NAMES, FIRST_DROPPED
from nicscope.reports.printing import Printed, Rows, lines_of, output_width, show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from nicscope.drivers.simulate.machine import Machine
    from nicscope.drivers.simulate.process import Simulation

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


def title(names: RunReport | Names) -> str:
    """What ran on what."""
    parts = [part for part in (names.design, names.way, names.delivery) if part is not None]
    interface = "" if names.interface is None else f"{names.interface}: "
    return f"{interface}{', '.join(parts)} on {names.platform}"


def counted(count: int, what: str) -> str:
    """So many of it."""
    return f"{count:,} {what}{'s' if count != 1 else ''}"


def was(count: int) -> str:
    """Either "was" or "were", by number."""
    return "was" if count == 1 else "were"


def has(count: int) -> str:
    """Either "has" or "have", by number."""
    return "has" if count == 1 else "have"


def _value(of: str | Callable[[Any], Any], one: Any) -> Any:
    """What ``of``, a function or a path of attributes, gives of ``one``; None if it has none."""
    if callable(of):
        return of(one)
    for name in of.split("."):
        one = None if one is None else getattr(one, name)
    return one


Columns = dict[str, "str | Callable[[Any], float | None]"]  # what each shows, by heading


def _done(one: Work) -> int:
    return one.requests.get("done", 0)


def _failed(one: Work | Account) -> int:
    """Descriptors that ended otherwise than done."""
    return sum(one.requests.values()) - one.requests.get("done", 0)


def _dropped(came: Received | None) -> int | None:
    return None if came is None or came.dropped is None else sum(came.dropped.values())


MESSAGES: Columns = {
    "programs": "programs",
    "sent": "messages_out",
    "received": "messages_in",
    "bytes out": "bytes_out",
    "bytes in": "bytes_in",
    "done": _done,
    "failed": _failed,
}
SENT: Columns = {
    "packets": "sent.total",
    "first": "sent.first",
    "again": "sent.again",
    "bare acks": "sent.acknowledgements",
    "copies": "sent.copies",
    "acknowledged": "sent.acknowledged",
    "not yet": "sent.unacknowledged",
}
RECEIVED: Columns = {
    "packets": "received.total",
    "delivered": "received.delivered",
    "bare acks": "received.acknowledgements",
    "lost": "received.lost",
    "corrupted": "received.corrupted",
    "duplicates": "received.duplicates",
    "refused": "received.refused",
    "dropped": lambda one: _dropped(one.received),
}
HOST: Columns = {
    "interrupts": "interrupts",
    "page-ins": "page_ins",
    "checks": "checks",
    "not pinned": "check_misses",
    "pins": "pins",
    "unpins": "unpins",
    "pinned now": "pinned_now",
    "repeated": "repeated",
    "miss time us": "miss_us",
}
ENDPOINTS: Columns = {
    "sent": "messages_out",
    "received": "messages_in",
    "bytes out": "bytes_out",
    "bytes in": "bytes_in",
    "failed": _failed,
    "lookups": "lookups.total",
    "misses": "misses.total",
}
FATES: Columns = {  # of packets that an endpoint sent
    "packets": lambda one: None if one.outcome is None else one.sent.total,
    "again": "sent.again",
    "delivered": "outcome.delivered",
    "lost": "outcome.lost",
    "corrupted": "outcome.corrupted",
    "duplicates": "outcome.duplicates",
    "refused": "outcome.refused",
    "dropped": lambda one: _dropped(one.outcome) or (None if one.outcome is None else 0),
}
SHARES = {"CPU": "cpu_share", "NIC": "nic_share", "bus": "bus_share", "link": "link_share"}


def tables_of(report: RunReport) -> list[Table]:
    """Messages, packets, lookups, the hosts' work, and where time went."""
    total, first = report.total, report.nodes[0]
    failed = {name: count for name, count in total.requests.items() if name != "done"}
    of_messages = (_listed("failed requests", failed),) * bool(failed)
    if len(report.nodes) > LISTED:
        of_messages += (f"{len(report.nodes) - LISTED:,} more nodes are in --json",)
    rare = {
        head: f"received.{name}" for name, head in RARE.items() if getattr(total.received, name)
    }
    why = {name: count for name, count in (total.received.dropped or {}).items() if count}
    of_dropped = (_listed("dropped for want of", why),) * bool(why)
    of_repeated = (
        "repeated: lookups made again for what came again; not among the lookups above",
    ) * bool(total.repeated)
    shares = {head: name for head, name in SHARES.items() if getattr(first, name) is not None}
    busy = [
        [str(node.node), *(f"{getattr(node, name):.1%}" for name in shares.values())]
        for node in report.nodes[:LISTED]
    ]
    bytes_of = ("bytes in", "bytes out")
    sent = ("not yet", "bare acks", "copies", "first", "acknowledged")
    host = ("repeated", "pinned now", "checks", "not pinned", "unpins", "page-ins", "miss time us")
    found = [
        _table(
            report, "Messages and requests", MESSAGES, ("programs", *bytes_of, "done"), of_messages
        ),
        _of_endpoints(report, "By endpoint", ENDPOINTS, (*bytes_of, "failed", "lookups", "misses")),
        _of_endpoints(
            report,
            "Packets that each endpoint sent, by what became of them",
            FATES,
            ("packets", "delivered", "duplicates"),
        ),
        _table(report, "Packets sent", SENT, sent),
        _table(
            report,
            "Packets received, by what became of them",
            {**RECEIVED, **rare},
            (*reversed(RARE.values()), "bare acks", "packets"),
            of_dropped,
        ),
        _lookups(report),
        _table(report, "Work of the hosts", HOST, (*host, "pins"), of_repeated),
        Table("Busy, of the run's time", ["node", *shares], busy),
    ]
    return [table for table in found if len(table.headings) > table.key]


def _table(
    report: RunReport,
    title: str,
    columns: Columns,
    least: tuple[str, ...],
    notes: tuple[str, ...] = (),
) -> Table:
    """A row for each of the first nodes, and one for all, of the columns that there are."""
    kept = {head: of for head, of in columns.items() if _value(of, report.total) is not None}
    rows: list[tuple[str, Work]] = [(str(node.node), node) for node in report.nodes[:LISTED]]
    if len(report.nodes) > 1:
        rows.append((ALL, report.total))
    cells = [[name, *(_spelt(_value(of, work)) for of in kept.values())] for name, work in rows]
    headings = ["node", *kept]
    shown = tuple(heading for heading in least if heading in headings)
    return Table(title, headings, cells, 1, shown, notes)


def _spelt(count: float | None) -> str:
    return f"{count:,.1f}" if isinstance(count, float) else f"{count:,}"


def _listed(title: str, counts: dict[str, int]) -> str:
    return f"{title}: " + ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _of_endpoints(report: RunReport, title: str, columns: Columns, least: tuple[str, ...]) -> Table:
    """A row for each endpoint, if these tell something which their nodes have not told."""
    told = [one for one in report.endpoints if one.process is not None]
    if len(told) <= len(report.nodes) and all(one.name is None for one in told):
        told = []
    kept = [each for each in columns.items() if told and _value(each[1], told[0]) is not None]
    cells = [
        [
            *(str(one.node), str(one.process), called(one)),
            *(_spelt(_value(of, one) or 0) for _, of in kept),
        ]
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


def _html(table: Table) -> str:
    top = "".join(f"<th>{escape(head)}</th>" for head in table.headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in table.cells
    )
    notes = "".join(f"<p><small>{escape(note)}</small></p>" for note in table.notes)
    head = f"<h4>{escape(table.title)}</h4>"
    return f"{head}<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>{notes}"


PS_PER_US = 1_000_000


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """Packets that a NIC made: ``total`` is the sum of the next four; None: there are none such."""

    total: int
    first: int  # sent for the first time
    again: int | None = None  # not acknowledged in time
    acknowledgements: int | None = None  # that found no other packet to go with
    copies: int | None = None  # made by the network, which doubles packets and has them overtaken
    acknowledged: int | None = None  # of the first ones, by the peers that they went to
    unacknowledged: int | None = None  # not yet, or by no one: the peer was given up
    waiting: int | None = None  # whose header had not come when the run ended
    unheard: int | None = None  # taken off the network by its watchdog before it had


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """Packets whose header came to a NIC: ``total`` is the sum of all that follow."""

    total: int
    delivered: int  # had their effect
    acknowledgements: int | None = None  # that came alone
    lost: int | None = None  # by the network
    cut_off: int | None = None  # a dead node or link was on their way
    overtaken: int | None = None  # the network holds them back: they come again, behind others
    corrupted: int | None = None
    duplicates: int | None = None  # had come before
    out_of_turn: int | None = None  # one before them was missing
    taken_back: int | None = None  # one before them came in vain, so they come again
    refused: int | None = None  # for good: their senders learn that they were rejected
    incomplete: int | None = None  # pieces of a message of which another is missing, or refused
    broken_off: int | None = None  # by the network's watchdog, or by their sender
    void: int | None = None  # of a node that had given this one up
    dropped: dict[str, int] | None = None  # could not be taken then, by why
    unfinished: int  # when the run ended


class LookupCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Lookups, or misses among them, by path: ``total`` is the sum of the others."""

    total: int
    send: int  # of pages that were sent from
    receive: int  # of pages that were received into, those of buffers translated ahead included
    handles: int | None  # of buffers and processes; None where the NIC looks none up


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What was done, on a node or in all; None is what the interface has not."""

    programs: int
    messages_out: int  # descriptors whose last packet was made
    messages_in: int
    bytes_out: int
    bytes_in: int
    requests: dict[str, int]  # descriptors by how they ended, as their programs are told
    open_requests: int  # descriptors that had not ended when the run did
    sent: Sent
    received: Received
    lookups: LookupCounts | None = None
    misses: LookupCounts | None = None
    # Lookups of a packet or a request that came again; not among ``lookups``.
    repeated: int | None = None
    interrupts: int | None = None
    page_ins: int | None = None
    checks: int | None = None  # pages that a user library looked at, before it posts or registers
    check_misses: int | None = None  # those among them that were not pinned
    pins: int | None = None
    unpins: int | None = None
    pinned_now: int | None = None  # pages
    miss_us: float | None = None  # that the NIC's processor, or the kernel, waited for translations


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What was done for one endpoint, or for one process by all of its endpoints."""

    node: int
    process: int | None  # its number on its node; None: the NIC's firmware itself
    port: int | None = None  # of an endpoint where its NIC serves ports; None: of a process
    name: str | None = None  # what others find the endpoint as, or "VI 3"
    messages_out: int
    messages_in: int
    bytes_out: int
    bytes_in: int
    requests: dict[str, int]  # descriptors by how they ended
    sent: Sent  # packets that were made for it
    outcome: Received | None = None  # what became of these, at whatever node they came to
    received: Received | None = None  # packets that came for it, as far as they were looked at
    lookups: LookupCounts | None = None
    misses: LookupCounts | None = None


class NodeReport(Work, frozen=True, kw_only=True):
    """One node's work; shares are of the run's time; of two processors the CPU's goes up to 2."""

    node: int
    cpu_share: float
    nic_share: float
    bus_share: float
    link_share: float | None = None


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """A run: what ran on what, how long it took, and what was done, by node and in all."""

    interface: str | None
    design: str | None
    way: str | None
    delivery: str
    platform: str
    elapsed_us: float
    events: int
    remarks: list[str]  # where programs stand that have not ended, and what was sent in vain
    total: Work
    nodes: list[NodeReport]
    processes: list[Account]  # by node and number
    endpoints: list[Account]  # by node and port; the NIC's own, if it sent or took anything, first

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def as_json(self) -> dict[str, Any]:
        """The same, by the name that other results have for it."""
        return self.to_json()

    def table(self, by: str = "node") -> Any:
        """An Arrow table with a row for each ``node``, ``process`` or ``endpoint``, or for the run.

        Numbers are numbers; units are in names (``run_frame``).  It has ``to_pandas()``, and
        ``polars.from_arrow`` takes it.  Errors: ``SimulationError`` for another ``by``.
        """
        return frame_of(self, by)

    def parts(self) -> Iterator[Printed]:
        """What people read of it, from top to bottom: its headline, and its tables with notes."""
        from rich.text import Text

        yield Text(self.headline(), style="bold")
        for remark in self.remarks:
            yield Text(remark)
        for table in self.tables():
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

    def print(self) -> None:
        """Print it, as wide as the terminal is."""
        show(self.parts())

    def __str__(self) -> str:
        elsewhere = "a wider terminal, as_json() or table()"
        lines = lines_of(self.parts(), output_width(), elsewhere)
        return "\n".join(str(line).rstrip() for line in lines)

    __repr__ = __str__

    def tables(self) -> list[Table]:
        """As people read it: messages, packets, lookups, the hosts' work, where time went."""
        return tables_of(self)

    def title(self) -> str:
        """What ran on what."""
        return title(self)

    def headline(self) -> str:
        """One line: what ran, for how long."""
        nodes = counted(len(self.nodes), "node")
        return f"{title(self)}, {nodes}, {self.elapsed_us:,.1f} us"

    def _repr_html_(self) -> str:
        remarks = "".join(f"<p>{escape(each)}</p>" for each in self.remarks)
        tables = "".join(map(_html, self.tables()))
        return f"<h3>{escape(self.headline())}</h3>{remarks}{tables}"


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """What a cluster is called by; None is what it has not."""

    interface: str | None  # as its papers call it; None: a cluster of ports without a library
    design: str | None = None  # what translates on the NIC
    way: str | None = None  # into the NIC
    delivery: str
    platform: str


WAY = (
    Stop(Engine.HOST_WRITE),
    Stop(Engine.HOST_TX),
    Stop(Engine.NET_TX),
    Stop(Engine.NET_RCV),
    Stop(Engine.HOST_RCV),
    Stop(Engine.HOST_READ),
)
ACTIONS = {
    Engine.FIRMWARE: {int(task): task.name for task in Task},
    Engine.CPU: {
        doing.COPYING: "copy",
        doing.COMPUTING: "compute",
        doing.POSTING: "post",
        doing.POLLING: "take a report",
        doing.ACCESSING: "load or store",
        doing.INTERRUPTED: "interrupt",
        doing.IN_TRAP: "trap",
        doing.IN_MISS: "miss in the kernel",
    },
}


class MachineRun(ABC):
    """A run: all that its report and its timeline are made from."""

    def __init__(self, machine: Machine, names: Names) -> None:
        self._machine = machine
        self.names = names
        self.remarks: list[str] = []
        """Where programs stand that have not ended, and what was sent in vain, a line each."""

    @property
    def run(self) -> object:
        """What is one and the same for all that is told of one run, which may go on."""
        return self._machine

    @property
    def elapsed_ps(self) -> int:
        """When the last event happened."""
        return int(self._machine.tally[0]["now"])

    @property
    def events(self) -> int:
        """How many events the driver has fired."""
        return int(self._machine.tally[0]["events"])

    @abstractmethod
    def nodes(self) -> list[NodeReport]:
        """Every node's work."""

    @abstractmethod
    def endpoints(self) -> list[Account]:
        """What was done for each endpoint."""

    def log(self) -> RunLog:
        """What every engine did when, as far as it was kept."""
        total = int(self._machine.tally[0]["log"])
        records = self._machine.log[:total].copy()
        _start_receives_at_first_byte(records)
        return RunLog(records, total, ACTIONS, self._packets(), WAY)

    def _packets(self) -> Mapping[tuple[int, int], str]:
        return {}

    def _engines(self, n: int) -> dict[str, Any]:
        """What a node's report says of its programs, and of its engines' shares of the time."""
        node, elapsed = self._machine.nodes[n], max(self.elapsed_ps, 1)
        return {
            "node": n,
            "programs": int(node["last_process"] - node["first_process"]),
            "cpu_share": int(node["cpu_busy"]) / elapsed,
            "nic_share": int(node["processor_busy"]) / elapsed,
            "bus_share": int(node["pci_busy"]) / elapsed,
            "link_share": int(node["link_busy"]) / elapsed,
        }

    def _made(self, n: int) -> dict[str, int]:
        """What a node's report says of packets that it made and nobody has heard of."""
        endpoint = self._machine.endpoints[n]
        left = int(endpoint["sent"]) + int(endpoint["control_sent"])
        unheard = int(self._machine.nodes[n]["unheard"])
        return {"waiting": int(endpoint["written"]) - left, "unheard": unheard}


def _start_receives_at_first_byte(records: NDArray[Any]) -> None:
    """Starts receives at their first byte, as they are posted long before, for any packet."""
    packet = itemgetter("sender", "packet", "control")
    first: dict[tuple[int, ...], int] = {}
    for record in records[records["engine"] == Engine.NET_TX]:
        first.setdefault(packet(record), record["start"])
    for place in np.flatnonzero(records["engine"] == Engine.NET_RCV):
        begun = first.get(packet(records[place]), 0)
        records["start"][place] = max(int(records["start"][place]), begun)


def report_of(source: MachineRun) -> RunReport:
    """The report of the run that ``source`` tells of."""
    nodes, endpoints = source.nodes(), source.endpoints()
    return RunReport(
        **msgspec.structs.asdict(source.names),
        elapsed_us=source.elapsed_ps / PS_PER_US,
        events=source.events,
        remarks=list(map(one_line, shortened(source.remarks))),
        total=_total(nodes),
        nodes=nodes,
        processes=_processes(nodes, endpoints),
        endpoints=endpoints,
    )


def _processes(nodes: list[NodeReport], endpoints: list[Account]) -> list[Account]:
    """What was done for each process of every node, those that had no endpoint included."""
    by_process: dict[tuple[int, int], list[dict[str, Any]]] = {
        (node.node, process): [] for node in nodes for process in range(node.programs)
    }
    like: dict[str, Any] = {}
    for one in endpoints:
        like = msgspec.to_builtins(one)
        if one.process is not None:
            by_process.setdefault((one.node, one.process), []).append(like)
    nothing = _nothing(like) if like else NOTHING
    return [
        msgspec.convert(
            _added(found or [nothing])
            | {"node": node, "process": process, "port": None, "name": None},
            Account,
        )
        for (node, process), found in by_process.items()
    ]


NOTHING = {
    "messages_out": 0,
    "messages_in": 0,
    "bytes_out": 0,
    "bytes_in": 0,
    "requests": {},
    "sent": {"total": 0, "first": 0},
}


def _nothing(plain: Any) -> Any:
    """The same without any count."""
    if isinstance(plain, dict):
        return {name: _nothing(value) for name, value in plain.items() if name != "requests"} | (
            {"requests": {}} if "requests" in plain else {}
        )
    return 0 if isinstance(plain, int) else None


def _added(several: list[dict[str, Any]]) -> dict[str, Any]:
    """The counts of ``several``, one and all."""
    whose = ("node", "process", "port", "name")
    return {
        name: _sum([each[name] for each in several]) for name in several[0] if name not in whose
    }


def _total(nodes: list[NodeReport]) -> Work:
    plain = [msgspec.to_builtins(node) for node in nodes]
    return msgspec.convert(
        {name: _sum([each[name] for each in plain]) for name in Work.__struct_fields__}, Work
    )


def _sum(values: list[Any]) -> Any:
    """The sums of equal things: numbers, dictionaries of them by name, or none at all."""
    if isinstance(values[0], dict):
        names = dict.fromkeys(name for value in values for name in value)
        return {name: _sum([value.get(name, 0) for value in values]) for name in names}
    return None if values[0] is None else sum(values)


class _Listener(NamedTuple):
    hear: Callable[[MachineRun], None]
    records: Callable[[], int]


_listeners: list[_Listener] = []


@contextlib.contextmanager
def on_run(
    hear: Callable[[MachineRun], None], records: Callable[[], int] = lambda: 0
) -> Iterator[None]:
    """Calls ``hear`` at the end of each run of a cluster within the block.

    A cluster that is made within it keeps a log of at least ``records()`` records.
    """
    listener = _Listener(hear, records)
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def records_to_keep(own: int = 0) -> int:
    """Records of its log that a cluster keeps which is asked for ``own``."""
    return max([whole(own, "keep_log", 0), *(listener.records() for listener in _listeners)])


def notify_listeners(source: MachineRun) -> None:
    """Notifies listeners that a run has ended."""
    for listener in _listeners:
        listener.hear(source)


DROPPED = tuple(name.removeprefix("no_") for name in ENDED_NAMES[FIRST_DROPPED:])
OF_RUN = ("interface", "design", "way", "delivery", "platform", "elapsed_us", "events")
ROWS: dict[str, tuple[type[msgspec.Struct], Callable[[RunReport], list[Any]]]] = {
    "run": (Work, lambda report: [report.total]),
    "node": (NodeReport, lambda report: report.nodes),
    "process": (Account, lambda report: report.processes),
    "endpoint": (Account, lambda report: report.endpoints),
}
FIRST = ("node", "process", "port", "name")  # columns that say whose row it is


def frame_of(report: RunReport, by: str) -> Any:
    """The table whose rows are ``by``.  Errors: ``SimulationError`` for no such rows."""
    import pyarrow as pa

    if by not in ROWS:
        raise SimulationError(f"no rows by {by!r}{did_you_mean(str(by), ROWS)}")
    kind, found = ROWS[by]
    rows = [msgspec.to_builtins(one) for one in found(report)]
    kinds = {int: pa.int64(), float: pa.float64(), str: pa.string()}
    of_run = {name: getattr(report, name) for name in OF_RUN}
    arrays: dict[str, Any] = {}
    for name, what in _columns(RunReport, OF_RUN):
        arrays[name] = pa.array([of_run[name]] * len(rows), kinds[what])
    fields = list(kind.__struct_fields__)
    ordered = [*(name for name in FIRST if name in fields), *fields]
    for name, what in _columns(kind, tuple(dict.fromkeys(ordered))):
        arrays[name] = pa.array([_found(row, name) for row in rows], kinds[what])
    return pa.table(arrays)


def _columns(kind: type[msgspec.Struct], fields: tuple[str, ...]) -> Iterator[tuple[str, type]]:
    """Names and types of the columns that ``fields`` of a struct become."""
    hints = get_type_hints(kind)
    for field in fields:
        what = hints[field]
        if isinstance(what, UnionType):
            (what,) = (each for each in get_args(what) if each is not NoneType)
        if field == "requests":
            yield from (("requests_done", int), ("requests_failed", int))
        elif field == "dropped":
            yield from ((f"dropped_{name}", int) for name in DROPPED)
        elif isinstance(what, type) and issubclass(what, msgspec.Struct):
            inner = _columns(what, what.__struct_fields__)
            yield from ((f"{field}_{name}", each) for name, each in inner)
        else:
            yield field, what


def _found(row: Any, name: str) -> Any:
    """The value of a column in a row as JSON has it; None if there is none such."""
    if name in row:
        return row[name]
    if name in ("requests_done", "requests_failed"):
        done = row["requests"].get("done", 0)
        return done if name == "requests_done" else sum(row["requests"].values()) - done
    for field, value in row.items():
        if name.startswith(f"{field}_"):
            return None if value is None else _found(value, name.removeprefix(f"{field}_"))
    return None


PATIENCE_S = 2.0  # before anything is said
PACE_S = 0.5  # between two looks
JOIN_S = 2.0  # at most, for the line to be taken away
CLEAR = "\r\x1b[K"


@contextlib.contextmanager
def run_progress(simulation: Simulation) -> Iterator[None]:
    """Prints on a terminal's error stream how far the run is, once it has taken ``PATIENCE_S``.

    Nothing is said where there is no terminal, or where whoever runs the program tells of it.
    """
    if not sys.stderr.isatty() or _listeners:
        yield
        return
    over = threading.Event()
    thread = threading.Thread(target=_tell, args=(simulation, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(JOIN_S)


def _tell(simulation: Simulation, over: threading.Event) -> None:
    """Write one line over the last until the run is ``over``, and take it away then."""
    stream, begin = sys.stderr, time.monotonic()
    before, since, waiting, said = 0, begin, PATIENCE_S, False
    with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
        while not over.wait(waiting):
            waiting = PACE_S
            events, now = int(simulation.machine.tally[0]["events"]), time.monotonic()
            line = line_of(simulation.now, (events - before) / max(now - since, 1e-9), now - begin)
            before, since, said = events, now, True
            stream.write(CLEAR + line)
            stream.flush()
        if said:
            stream.write(CLEAR)
            stream.flush()


def line_of(now_ps: int, events_per_s: float, seconds: float) -> str:
    """The line: ``now_ps`` of virtual time after so many seconds."""
    return (
        f"nicscope: running: {now_ps / PS_PER_US:,.0f} us of virtual time, "
        f"{events_per_s:,.0f} events/s, {seconds:.0f} s so far"
    )
