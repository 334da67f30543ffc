"""What a run of programs over ports has cost, node by node."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.drivers.simulate.machine import Machine

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


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """One node's share.  Counts are totals of the run; shares are of its time, from 0 to 1."""

    node: int
    programs: int
    messages_out: int  # descriptors whose last packet was made
    messages_in: int
    bytes_out: int
    bytes_in: int
    packets: int  # that the NIC sent, acknowledgements and repetitions among them
    retransmissions: int
    drops: int  # of packets whose translation was not there yet
    no_buffer: int  # packets that found no receive buffer
    rejected: int  # packets and descriptors that protection stopped
    interrupts: int
    page_ins: int
    lookups: int
    misses: int
    pins: int
    unpins: int
    pinned_now: int  # pages
    miss_us: float  # that the NIC's processor waited for translations
    cpu_share: float
    nic_share: float
    bus_share: float
    link_share: float


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """A run: what ran on what, how long it took, and what each node did."""

    interface: str
    design: str
    platform: str
    elapsed_us: float
    events: int
    nodes: list[NodeReport]

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def tables(self) -> list[tuple[list[str], list[list[str]]]]:
        """Headings and rows, as people read them: traffic, translation, where time went."""
        return [_traffic(self), _translation(self), _shares(self)]

    def headline(self) -> str:
        """One line: what ran, for how long."""
        return (
            f"{self.interface}: {self.design} on {self.platform}, {len(self.nodes)} nodes, "
            f"{self.elapsed_us:,.1f} us"
        )

    def _repr_html_(self) -> str:
        tables = "".join(_html(*table) for table in self.tables())
        return f"<h3>{escape(self.headline())}</h3>{tables}"


def report_of(machine: Machine, counts: list[dict[str, int | None]], names: Names) -> RunReport:
    """What ``machine`` has cost so far; ``counts`` are of translation, by node."""
    elapsed = int(machine.tally[0]["now"])
    return RunReport(
        interface=names.interface,
        design=names.design,
        platform=names.platform,
        elapsed_us=elapsed / PS_PER_US,
        events=int(machine.tally[0]["events"]),
        nodes=[_node(machine, n, each, max(elapsed, 1)) for n, each in enumerate(counts)],
    )


class Names(msgspec.Struct, frozen=True):
    """What the cluster is called by."""

    interface: str
    design: str
    platform: str


def _node(machine: Machine, n: int, counts: dict[str, int | None], elapsed: int) -> NodeReport:
    serving = machine.ports.nodes[n]
    node = machine.nodes[n]
    copied = ("messages_out", "messages_in", "bytes_out", "bytes_in", "drops", "no_buffer")
    kept = ("rejected", "interrupts", "page_ins")
    return NodeReport(
        node=n,
        programs=int(node["last_process"] - node["first_process"]),
        **{name: int(serving[name]) for name in (*copied, *kept)},
        packets=int(node["next_number"]),
        retransmissions=int(machine.ports.links[n]["resent"].sum()),
        lookups=counts["lookups"] or 0,
        misses=counts["ni_misses"] or 0,
        pins=counts["pins"] or 0,
        unpins=counts["unpins"] or 0,
        pinned_now=int(machine.ports.memory.hosts[n]["pinned"]),
        miss_us=int(serving["miss_time"]) / PS_PER_US,
        cpu_share=int(node["cpu_busy"]) / elapsed,
        nic_share=int(node["processor_busy"]) / elapsed,
        bus_share=int(node["pci_busy"]) / elapsed,
        link_share=int(node["link_busy"]) / elapsed,
    )


def _traffic(report: RunReport) -> tuple[list[str], list[list[str]]]:
    heads = ["node", "programs", "sent", "received", "bytes out", "bytes in", "packets"]
    heads += ["again", "dropped", "rejected"]
    rows = [
        [
            *map(str, (each.node, each.programs)),
            *(
                f"{count:,}"
                for count in (
                    each.messages_out,
                    each.messages_in,
                    each.bytes_out,
                    each.bytes_in,
                    each.packets,
                    each.retransmissions,
                    each.drops + each.no_buffer,
                    each.rejected,
                )
            ),
        ]
        for each in report.nodes
    ]
    return heads, rows


def _translation(report: RunReport) -> tuple[list[str], list[list[str]]]:
    heads = ["node", "lookups", "misses", "miss time us", "interrupts", "page-ins", "pins"]
    heads += ["unpins", "pinned now"]
    rows = [
        [
            str(each.node),
            f"{each.lookups:,}",
            f"{each.misses:,}",
            f"{each.miss_us:,.1f}",
            f"{each.interrupts:,}",
            f"{each.page_ins:,}",
            f"{each.pins:,}",
            f"{each.unpins:,}",
            f"{each.pinned_now:,}",
        ]
        for each in report.nodes
    ]
    return heads, rows


def _shares(report: RunReport) -> tuple[list[str], list[list[str]]]:
    heads = ["node", "CPU busy", "NIC busy", "PCI busy", "link busy"]
    rows = [
        [
            str(each.node),
            *(
                f"{share:.1%}"
                for share in (each.cpu_share, each.nic_share, each.bus_share, each.link_share)
            ),
        ]
        for each in report.nodes
    ]
    return heads, rows


def _html(heads: list[str], rows: list[list[str]]) -> str:
    top = "".join(f"<th>{escape(head)}</th>" for head in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
