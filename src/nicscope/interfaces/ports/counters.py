"""What NICs and kernels have counted at ports: a run's report, and why a process gets none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.clock import NEVER
from nicscope.drivers.simulate.records import POST, PROVIDE, REPORT
from nicscope.interfaces.run_report import (
    PS_PER_US,
    Account,
    LookupCounts,
    MachineRun,
    Names,
    NodeReport,
    Received,
    Sent,
    counted,
    has,
    was,
)
from nicscope.nic.ports import layout as carried
from nicscope.nic.ports.layout import (
    BAD_TAG,
    BROKEN,
    BUFFER_POOL,
    CLOSED,
    CONNECTED,
    DONE,
    OWN_PORT,
    SENT,
    STATUS_NAMES,
    WORK_QUEUE,
)
from nicscope.nic.ports.streams import BLANK
from nicscope.nic.ports.traffic import (
    ACCOUNT_NAMES,
    ENDED_NAMES,
    FIRST_DROPPED,
    MADE_NAMES,
    REFUSED,
)
from nicscope.nic.translate.book import UTLB
from nicscope.nic.transport import LAST

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from nicscope.drivers.simulate.machine import Machine
    from nicscope.drivers.simulate.ports.state import Ports
    from nicscope.drivers.simulate.process import Process as SimProcess


class _Held(NamedTuple):
    """A port with its owner since some time, and its counters at that time."""

    node: int
    port: int
    process: int | None  # None: the NIC's firmware itself
    name: str | None
    before: NDArray[np.int64]


class PortOwners:
    """Who has had which port of a run.  A port counts for whoever had it last, late packets too."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._held: list[_Held] = []
        for node in range(len(ports.nodes)):
            self.note(node, OWN_PORT, None)

    def note(self, node: int, port: int, process: int | None, name: str | None = None) -> None:
        """Makes ``port`` the process's from now on: the endpoint called ``name``."""
        self._held.append(_Held(node, port, process, name, self._counted(node, port)))

    def _counted(self, node: int, port: int) -> NDArray[np.int64]:
        ports = self._ports
        parts = (
            ports.accounts,
            ports.port_made,
            ports.port_sent,
            ports.port_came,
            ports.port_told,
        )
        return np.concatenate([part[node, port] for part in parts])

    def accounts(self, statuses: Sequence[str], *, handles: bool) -> list[Account]:
        """Each endpoint's, by node and port; the firmware's own, as port 0, come first.

        ``statuses``: what ends of descriptors are called, several maybe alike.  A port that has
        counted nothing and has no name was nobody's endpoint.
        """
        found = []
        until: dict[tuple[int, int], NDArray[np.int64]] = {}
        for held in reversed(self._held):
            place = held.node, held.port
            end = until.get(place)
            counted = (self._counted(*place) if end is None else end) - held.before
            until[place] = held.before
            if held.name is not None or counted.any():
                found.append(_account(held, counted.tolist(), statuses, handles))
        found.sort(key=lambda one: (one.node, one.port or 0))
        return found


def _account(held: _Held, counted: list[int], statuses: Sequence[str], handles: bool) -> Account:
    sizes = (len(ACCOUNT_NAMES), len(MADE_NAMES), len(ENDED_NAMES), len(ENDED_NAMES))
    ends = np.cumsum(sizes).tolist()
    begins = [0, *ends]
    own, made, sent, came = (
        counted[begin:end] for begin, end in zip(begins[:4], ends, strict=True)
    )
    named = dict(zip(ACCOUNT_NAMES, own, strict=True))
    lookups, misses = (
        _lookup_counts(
            named[f"{what}_send"],
            named[f"{what}_receive"],
            named[f"{what}_handles"] if handles else None,
        )
        for what in ("lookups", "misses")
    )
    return Account(
        node=held.node,
        process=held.process,
        port=held.port,
        name=held.name,
        **{name: named[name] for name in ("messages_out", "messages_in", "bytes_out", "bytes_in")},
        requests=_by_status(statuses, counted[ends[-1] :]),
        sent=Sent(total=sum(made), **dict(zip(MADE_NAMES, made, strict=True))),
        outcome=fates(sent, sum(made) - sum(sent)),
        received=fates(came, 0),
        lookups=lookups,
        misses=misses,
    )


def fates(ended: list[int], unfinished: int) -> Received:
    """Packets by what became of them, ``unfinished`` ones included."""
    names = [name.removeprefix("no_") for name in ENDED_NAMES[FIRST_DROPPED:]]
    plain: dict[str, Any] = dict(
        zip(ENDED_NAMES[:FIRST_DROPPED], ended[:FIRST_DROPPED], strict=True)
    )
    return Received(
        total=sum(ended) + unfinished,
        **plain,
        dropped=dict(zip(names, ended[FIRST_DROPPED:], strict=True)),
        unfinished=unfinished,
    )


def _by_status(statuses: Sequence[str], counts: list[int]) -> dict[str, int]:
    """Descriptors by how they ended, of which several may be called alike."""
    found: dict[str, int] = {}
    for status, count in zip(statuses, counts, strict=True):
        if count:
            found[status] = found.get(status, 0) + count
    return found


def _lookup_counts(send: int, receive: int, handles: int | None) -> LookupCounts:
    total = send + receive + (handles or 0)
    return LookupCounts(total=total, send=send, receive=receive, handles=handles)


KINDS = {
    carried.SEND: "message",
    carried.WRITE: "store",
    carried.FETCH: "fetch",
    carried.REPLY: "answer",
    carried.ACKNOWLEDGEMENT: "acknowledgement",
    carried.PROBE: "probe",
}


class PortsRun(MachineRun):
    """A run whose NICs served ports."""

    def __init__(
        self,
        machine: Machine,
        counts: list[dict[str, int | None]],
        names: Names,
        book: PortOwners,
        statuses: Sequence[str] = STATUS_NAMES,
    ) -> None:
        """``counts`` are of translation, by node; ``statuses``: what ends are called."""
        super().__init__(machine, names)
        self._counts = counts
        self._book = book
        self._statuses = statuses

    def nodes(self) -> list[NodeReport]:
        """Every node's work."""
        return [self._node(n, counts) for n, counts in enumerate(self._counts)]

    def endpoints(self) -> list[Account]:
        """What was done for each endpoint."""
        handles = bool(self._machine.ports.rules[0]["handles"])
        return self._book.accounts(self._statuses, handles=handles)

    def _packets(self) -> Mapping[tuple[int, int], str]:
        ports = self._machine.ports
        made = ports.happenings[: ports.happened[0]]
        return {
            (int(one["sender"]), int(one["number"])): KINDS[int(one["kind"])]
            for one in made[made["came"] == 0]
            if int(one["kind"]) in KINDS
        }

    def _node(self, n: int, counts: dict[str, int | None]) -> NodeReport:
        ports = self._machine.ports
        serving = ports.nodes[n]
        copied = ("messages_out", "messages_in", "bytes_out", "bytes_in")
        kept = ("repeated", "interrupts", "page_ins")
        checks, missed = self._checked(n, counts)
        return NodeReport(
            **self._engines(n),
            **{name: int(serving[name]) for name in (*copied, *kept)},
            requests=_by_status(self._statuses, ports.told[n].tolist()),
            open_requests=self._open_requests(n),
            sent=self._sent(n),
            received=self._received(n),
            lookups=self._lookup_counts(n, counts, "lookups"),
            misses=self._lookup_counts(n, counts, "misses"),
            checks=checks,
            check_misses=missed,
            pins=counts["pins"] or 0,
            unpins=counts["unpins"] or 0,
            pinned_now=int(ports.memory.hosts[n]["pinned"]),
            miss_us=int(serving["miss_time"]) / PS_PER_US,
        )

    def _checked(self, n: int, counts: dict[str, int | None]) -> tuple[int | None, int | None]:
        """What a node's user libraries have checked, and missed; None under a design without."""
        if self._machine.ports.rules[0]["scheme"] < UTLB:
            return None, None
        return int(self._machine.ports.nodes[n]["checks"]), counts["check_misses"] or 0

    def _open_requests(self, n: int) -> int:
        """Descriptors of all queues that had not ended."""
        ports = self._machine.ports
        table = ports.table[n, OWN_PORT + 1 :]
        receives = (table["receives_posted"] - table["received"])[table["takes"] == WORK_QUEUE]
        return int(ports.pending[n, OWN_PORT + 1 :]["busy"].sum() + receives.sum())

    def _sent(self, n: int) -> Sent:
        ports = self._machine.ports
        own = ports.stream_of[n]
        streams = ports.pools.streams[own[own > BLANK]]
        numbered = outstanding = 0
        if ports.rules[0]["reliable"]:
            numbered = int(streams["sent"].sum())
            outstanding = int(((streams["fresh"] - streams["oldest"]) & LAST).sum())
        made = ports.made[n].tolist()
        return Sent(
            total=sum(made),
            **dict(zip(MADE_NAMES, made, strict=True)),
            acknowledged=numbered - outstanding,
            unacknowledged=outstanding,
            **self._made(n),
        )

    def _received(self, n: int) -> Received:
        ended = self._machine.ports.ended[n].tolist()
        came = int(self._machine.endpoints[n]["accepted"])
        return fates(ended, came - sum(ended))

    def _lookup_counts(self, n: int, counts: dict[str, int | None], what: str) -> LookupCounts:
        serving = self._machine.ports.nodes[n]
        name = "ni_misses" if what == "misses" else what
        send, receive = (counts[f"{name}_{path}"] or 0 for path in ("send", "receive"))
        handles = None
        if self._machine.ports.rules[0]["handles"]:
            handles = int(serving[f"buffer_{what}"]) + int(serving[f"process_{what}"])
        return _lookup_counts(send, receive, handles)


MOST_TAGS = 4  # that are named
# What became of packets that came, and is told: by name of ``ENDED_NAMES``.
TOLD_OF_PACKETS = {
    "lost": "lost by the network",
    "corrupted": "corrupted by the network",
    "refused": "refused for good",
}


class PortDiagnostics:
    """Explains why a blocked process gets no report, from counters that NIC and kernel keep."""

    def __init__(
        self,
        machine: Machine,
        process: SimProcess,
        mapped: dict[int, int],
        tag_of: Callable[[int, int], Hashable],
    ) -> None:
        """``mapped``: its ports; ``tag_of``: what a channel of a node is called."""
        self._machine, self._ports = machine, machine.ports
        self._node, self._number = process.node, process.number
        self._mapped = mapped
        self._tag_of = tag_of

    def describe_state(self) -> list[str]:
        """Describes its ports, its peers, and what came to its node."""
        machine, node = self._machine, self._node
        waits = machine.processes[self._number]
        operation = int(waits["operation"])
        asked = int(waits["peer"]) if operation in (REPORT, POST, PROVIDE) else None
        ring = int(waits["own"]) & 1
        said: list[str] = []
        for port in self._mapped:
            record = machine.ports.table[node, port]
            of = "this endpoint" if port == asked or asked is None else f"its port {port}"
            said.extend(self._describe_port(record, port, of))
            if port == asked and operation == REPORT:
                said.extend(_why_no_report(record, ring))
            elif port == asked:
                said.extend(_why_no_space(record, int(machine.ports.rules[0]["ring"]), operation))
        return [*said, *self._describe_peers(), *self._describe_packets()]

    def _describe_port(self, record: Any, port: int, of: str) -> Iterator[str]:
        dropped, pending = int(record["dropped"]), 0
        if dropped:
            why = "no receive was posted" if record["takes"] == WORK_QUEUE else "no receive buffer"
            if self._ports.ended[self._node, ENDED_NAMES.index("no_report")]:
                why += ", or its receive queue was full of what is not read"
            again = ""
            if dropped > 1 and self._ports.rules[0]["reliable"]:
                again = ", or one again and again,"
            yield f"{counted(dropped, 'message')}{again} for {of} {was(dropped)} dropped: {why}"
        if record["open"] == 0 and record["posted"]:
            yield f"{of} is closed"
        if record["takes"] == WORK_QUEUE and record["state"] == BROKEN:
            yield f"the connection of {of} is broken"
        pending = int(self._ports.pending[self._node, port]["busy"].sum())
        if pending:
            yield f"{counted(pending, 'descriptor')} of {of} {has(pending)} not ended"
        unread = self._unread(record, port)
        for status, number in unread.items():
            if status != STATUS_NAMES[BAD_TAG]:
                yield f"{counted(number, 'send')} of {of} ended as {status!r}, unread"
        yield from self._failed(record, port, of, unread)

    def _unread(self, record: Any, port: int) -> dict[str, int]:
        """Unread reports of failed sends, by status; successful ones are left out."""
        ring = self._ports.reports[self._node, port, SENT]
        found: dict[str, int] = {}
        for number in range(int(record["reaped"]), int(record["reported"])):
            status = STATUS_NAMES[int(ring[number % len(ring)]["status"])]
            if status != "done":
                found[status] = found.get(status, 0) + 1
        return found

    def failed_sends(self) -> list[str]:
        """Sends of ``process`` that have failed, as it would have learned by asking."""
        table = self._ports.table
        return [
            said
            for port in self._mapped
            for said in self._failed(table[self._node, port], port, f"its port {port}", {})
        ]

    def unread_arrivals(self) -> list[str]:
        """Arrivals at ``process`` that it has not received."""
        table = self._ports.table[self._node]
        many = sum(int(table[port]["received"] - table[port]["read"]) for port in self._mapped)
        return [f"{counted(many, 'message')} for it {was(many)} not received"] if many > 0 else []

    def _failed(self, record: Any, port: int, of: str, unread: dict[str, int]) -> Iterator[str]:
        """Failed sends of which nobody was told, or whose status may not have been read."""
        if record["takes"] == WORK_QUEUE:
            return  # which raises what ends so
        told = self._ports.port_told[self._node, port].tolist()
        for end, number in enumerate(told):
            status = STATUS_NAMES[end]
            left = number - unread.get(status, 0)
            if end == BAD_TAG and number:
                yield self._sends_to_unknown_tags(port, number)
            elif end not in (DONE, CLOSED) and left > 0:
                yield f"{counted(left, 'send')} of {of} ended as {status!r}"
        refused = int(self._ports.port_sent[self._node, port, REFUSED])
        if refused and not self._ports.rules[0]["reliable"]:
            yield (
                f"{counted(refused, 'packet')} of {of} {was(refused)} refused where "
                f"{'it' if refused == 1 else 'they'} came: nobody there has that tag any more"
            )

    def _sends_to_unknown_tags(self, port: int, number: int) -> str:
        """Number of sends to tags that nobody has, and those tags, as far as known."""
        ports, node = self._ports, self._node
        ring, pending = ports.reports[node, port, SENT], ports.pending[node, port]
        reported, names = int(ports.table[node, port]["reported"]), []
        for each in range(max(0, reported - len(ring)), reported):
            report = ring[each % len(ring)]
            if report["status"] != BAD_TAG:
                continue
            slots = (pending["cookie"] == report["cookie"]).nonzero()[0][:1].tolist()
            names += [int(ports.requests[node, port, slot]["name"]) for slot in slots]
        tags = [str(self._tag_of(node, name)) for name in dict.fromkeys(names) if name >= 0]
        shown = ", ".join(tags[:MOST_TAGS]) + (", ..." if len(tags) > MOST_TAGS else "")
        to = f"tag{'s' if len(tags) > 1 else ''} {shown}" if tags else "what is no tag"
        whose = "that tag" if len(tags) < 2 else "these tags"
        return f"{counted(number, 'message')} to {to} {was(number)} dropped: nobody has {whose}"

    def _describe_peers(self) -> Iterator[str]:
        ports, node = self._ports, self._node
        deaths = ports.deaths.nodes.tolist()
        now = int(self._machine.tally[0]["now"])
        for peer, death in enumerate(deaths):
            if death < NEVER and death <= now and peer != node:
                yield f"node {peer} died at {death / PS_PER_US:g} us"
        own = ports.stream_of[node]
        reliable, window = bool(ports.rules[0]["reliable"]), int(ports.rules[0]["window"])
        for peer in (own > BLANK).nonzero()[0].tolist():
            stream = ports.pools.streams[own[peer]]
            if peer >= len(deaths):
                continue
            if stream["dead"]:
                yield f"node {peer} was given up: it acknowledged nothing"
            waiting = (int(stream["fresh"]) - int(stream["oldest"])) & LAST
            if reliable and waiting:
                closed = ": the window is closed" if waiting >= window else ""
                yield f"node {peer} has not acknowledged {counted(waiting, 'packet')}{closed}"

    def _describe_packets(self) -> Iterator[str]:
        ended = dict(zip(ENDED_NAMES, self._ports.ended[self._node].tolist(), strict=True))
        for name, how in TOLD_OF_PACKETS.items():
            number = ended.get(name, 0)
            if number:
                yield f"{counted(number, 'packet')} for node {self._node} {was(number)} {how}"


def _why_no_report(record: Any, ring: int) -> Iterator[str]:
    """Why the awaited report may never be made."""
    if ring == SENT:
        if record["posted"] + record["refused"] == record["reaped"]:
            yield "nothing is posted there whose end could be reported"
        return
    if record["takes"] == WORK_QUEUE:
        if record["state"] not in (CONNECTED, BROKEN):
            yield "its VI is not connected"
    elif record["takes"] == BUFFER_POOL and record["free_posted"]:
        taken, ready = int(record["free_taken"]), int(record["ready_in"]) - int(record["ready_out"])
        if int(record["free_posted"]) == taken and ready == 0:
            yield "its free queue is empty: provide() buffers"
    unread = int(record["reported"]) - int(record["reaped"])
    if unread:
        yield f"{counted(unread, 'report')} of what it sent {has(unread)} not been read"


def _why_no_space(record: Any, ring: int, operation: int) -> Iterator[str]:
    """Why the port has no space for what the process posts."""
    unread = int(record["reported"]) - int(record["reaped"])
    if operation == POST and unread >= ring:
        yield f"its send queue of {ring} is full of ends that nobody has read: await them"
    if operation == PROVIDE and int(record["free_posted"]) - int(record["free_taken"]) >= ring:
        yield f"its free queue of {ring} is full: no message has needed one of its buffers"
