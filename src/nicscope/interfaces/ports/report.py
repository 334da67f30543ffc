"""What a run of programs over ports has cost, node by node and in all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.drivers.simulate.ports.pools import BLANK
from nicscope.drivers.simulate.ports.traffic import (
    ENDED_NAMES,
    FIRST_DROPPED,
    MADE_NAMES,
)
from nicscope.interfaces.ports.report_tables import as_html, headline, tables_of
from nicscope.nic.ports import OWN_PORT, STATUS_NAMES
from nicscope.nic.transport import LAST

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.drivers.simulate.machine import Machine
    from nicscope.interfaces.ports.report_tables import Table

PS_PER_US = 1_000_000

_listeners: list[Callable[[RunReport], None]] = []


def on_run(listener: Callable[[RunReport], None]) -> None:
    """Call ``listener(report)`` whenever a cluster has run its programs to their ends."""
    _listeners.append(listener)


def forget(listener: Callable[[RunReport], None]) -> None:
    """Do not call ``listener`` any more."""
    _listeners.remove(listener)


def tell(report: RunReport) -> None:
    """Call whoever listens."""
    for listener in _listeners:
        listener(report)


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """Packets that a NIC made: ``total`` is the sum of the next four."""

    total: int
    first: int  # sent for the first time
    again: int  # not acknowledged in time
    acknowledgements: int  # that found no other packet to go with
    copies: int  # made by the network, which doubles packets and has them overtaken
    acknowledged: int  # of the first ones, by the peers that they went to
    unacknowledged: int  # not yet, or by no one: the peer was given up
    waiting: int  # whose header had not come when the run ended
    unheard: int  # taken off the network by its watchdog before it had


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """Packets whose header came to a NIC: ``total`` is the sum of all that follow."""

    total: int
    delivered: int  # had their effect
    acknowledgements: int  # that came alone
    lost: int  # by the network
    cut_off: int  # a dead node or link was on their way
    overtaken: int  # the network holds them back: they come again, behind others
    corrupted: int
    duplicates: int  # had come before
    out_of_turn: int  # one before them was missing
    taken_back: int  # one before them came in vain, so they come again
    refused: int  # for good: their senders learn that they were rejected
    incomplete: int  # pieces of a message of which another is missing, or was refused
    broken_off: int  # by the network's watchdog, or by their sender
    void: int  # of a node that had given this one up
    dropped: dict[str, int]  # could not be taken then, by why
    unfinished: int  # when the run ended


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """Lookups, or misses among them, by path: ``total`` is the sum of the others."""

    total: int
    send: int  # of pages that were sent from
    receive: int  # of pages that were received into, those of buffers translated ahead included
    handles: int | None  # of buffers and processes; None where the NIC looks none up


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What was done, on a node or in all."""

    programs: int
    messages_out: int  # descriptors whose last packet was made
    messages_in: int
    bytes_out: int
    bytes_in: int
    requests: dict[str, int]  # descriptors by how they ended, as their programs are told
    open_requests: int  # descriptors that had not ended when the run did
    sent: Sent
    received: Received
    lookups: Looked
    misses: Looked
    repeated: int  # lookups of a packet or a request that came again; not among ``lookups``
    interrupts: int
    page_ins: int
    pins: int
    unpins: int
    pinned_now: int  # pages
    miss_us: float  # that the NIC's processor, or the kernel, waited for translations


class NodeReport(Work, frozen=True, kw_only=True):
    """One node's work; shares are of the run's time, from 0 to 1."""

    node: int
    cpu_share: float
    nic_share: float
    bus_share: float
    link_share: float


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """A run: what ran on what, how long it took, and what was done, by node and in all."""

    interface: str
    design: str
    platform: str
    elapsed_us: float
    events: int
    total: Work
    nodes: list[NodeReport]

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def tables(self) -> list[Table]:
        """As people read it: messages, packets, lookups, the hosts' work, where time went."""
        return tables_of(self)

    def headline(self) -> str:
        """One line: what ran, for how long."""
        return headline(self)

    def _repr_html_(self) -> str:
        return as_html(self)


class Names(msgspec.Struct, frozen=True):
    """What the cluster is called by."""

    interface: str
    design: str
    platform: str


def report_of(machine: Machine, counts: list[dict[str, int | None]], names: Names) -> RunReport:
    """What ``machine`` has cost so far; ``counts`` are of translation, by node."""
    elapsed = int(machine.tally[0]["now"])
    nodes = [_node(machine, n, each, max(elapsed, 1)) for n, each in enumerate(counts)]
    return RunReport(
        interface=names.interface,
        design=names.design,
        platform=names.platform,
        elapsed_us=elapsed / PS_PER_US,
        events=int(machine.tally[0]["events"]),
        total=_total(nodes),
        nodes=nodes,
    )


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


def _node(machine: Machine, n: int, counts: dict[str, int | None], elapsed: int) -> NodeReport:
    ports = machine.ports
    serving = ports.nodes[n]
    node = machine.nodes[n]
    copied = ("messages_out", "messages_in", "bytes_out", "bytes_in")
    kept = ("repeated", "interrupts", "page_ins")
    told = dict(zip(STATUS_NAMES, ports.told[n].tolist(), strict=True))
    return NodeReport(
        node=n,
        programs=int(node["last_process"] - node["first_process"]),
        **{name: int(serving[name]) for name in (*copied, *kept)},
        requests={name: count for name, count in told.items() if count},
        open_requests=int(ports.pending[n, OWN_PORT + 1 :]["busy"].sum()),
        sent=_sent(machine, n),
        received=_received(machine, n),
        lookups=_looked(machine, n, counts, "lookups"),
        misses=_looked(machine, n, counts, "misses"),
        pins=counts["pins"] or 0,
        unpins=counts["unpins"] or 0,
        pinned_now=int(ports.memory.hosts[n]["pinned"]),
        miss_us=int(serving["miss_time"]) / PS_PER_US,
        cpu_share=int(node["cpu_busy"]) / elapsed,
        nic_share=int(node["processor_busy"]) / elapsed,
        bus_share=int(node["pci_busy"]) / elapsed,
        link_share=int(node["link_busy"]) / elapsed,
    )


def _sent(machine: Machine, n: int) -> Sent:
    endpoint = machine.endpoints[n]
    own = machine.ports.stream_of[n]
    streams = machine.ports.pools.streams[own[own > BLANK]]
    unheard = int(machine.nodes[n]["unheard"])
    outstanding = 0
    if machine.ports.rules[0]["reliable"]:
        outstanding = int(((streams["fresh"] - streams["oldest"]) & LAST).sum())
    numbered = int(streams["sent"].sum()) if machine.ports.rules[0]["reliable"] else 0
    left = int(endpoint["sent"]) + int(endpoint["control_sent"])
    made = machine.ports.made[n].tolist()
    return Sent(
        total=sum(made),
        **dict(zip(MADE_NAMES, made, strict=True)),
        acknowledged=numbered - outstanding,
        unacknowledged=outstanding,
        waiting=int(endpoint["written"]) - left,
        unheard=unheard,
    )


def _received(machine: Machine, n: int) -> Received:
    ended = machine.ports.ended[n].tolist()
    came = int(machine.endpoints[n]["accepted"])
    names = [name.removeprefix("no_") for name in ENDED_NAMES[FIRST_DROPPED:]]
    return Received(
        total=came,
        **dict(zip(ENDED_NAMES[:FIRST_DROPPED], ended[:FIRST_DROPPED], strict=True)),
        dropped=dict(zip(names, ended[FIRST_DROPPED:], strict=True)),
        unfinished=came - sum(ended),
    )


def _looked(machine: Machine, n: int, counts: dict[str, int | None], what: str) -> Looked:
    serving = machine.ports.nodes[n]
    name = "ni_misses" if what == "misses" else what
    send, receive = (counts[f"{name}_{path}"] or 0 for path in ("send", "receive"))
    handles = None
    if machine.ports.rules[0]["handles"]:
        handles = int(serving[f"buffer_{what}"]) + int(serving[f"process_{what}"])
    total = send + receive + (handles or 0)
    return Looked(total=total, send=send, receive=receive, handles=handles)
