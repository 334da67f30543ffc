"""What a run of programs has cost, node by node and in all: one report for every interface.

A cluster gives it a ``Source``; nothing else here, or in what shows it, is of one interface.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from nicscope.interfaces.run_tables import as_html, headline, tables_of, title

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nicscope.interfaces.run_log import RunLog
    from nicscope.interfaces.run_tables import Table

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


class Looked(msgspec.Struct, frozen=True, kw_only=True):
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
    lookups: Looked | None = None
    misses: Looked | None = None
    # Lookups of a packet or a request that came again; not among ``lookups``.
    repeated: int | None = None
    interrupts: int | None = None
    page_ins: int | None = None
    pins: int | None = None
    unpins: int | None = None
    pinned_now: int | None = None  # pages
    miss_us: float | None = None  # that the NIC's processor, or the kernel, waited for translations


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
    total: Work
    nodes: list[NodeReport]

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def tables(self) -> list[Table]:
        """As people read it: messages, packets, lookups, the hosts' work, where time went."""
        return tables_of(self)

    def title(self) -> str:
        """What ran on what."""
        return title(self)

    def headline(self) -> str:
        """One line: what ran, for how long."""
        return headline(self)

    def _repr_html_(self) -> str:
        return as_html(self)


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """What a cluster is called by; None is what it has not."""

    interface: str | None  # as its papers call it; None: a cluster of ports without a library
    design: str | None = None  # what translates on the NIC
    way: str | None = None  # into the NIC
    delivery: str
    platform: str


class Source(Protocol):
    """What a report and a timeline are made from: all that they know of a run."""

    @property
    def names(self) -> Names:
        """What ran."""

    @property
    def elapsed_ps(self) -> int:
        """When the last thing happened."""

    @property
    def events(self) -> int:
        """How many events the driver has fired."""

    def nodes(self) -> list[NodeReport]:
        """Every node's work."""

    def log(self) -> RunLog:
        """What every engine did when, as far as it was kept."""


def report_of(source: Source) -> RunReport:
    """The report of the run that ``source`` tells of."""
    nodes = source.nodes()
    return RunReport(
        **msgspec.structs.asdict(source.names),
        elapsed_us=source.elapsed_ps / PS_PER_US,
        events=source.events,
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


class _Listener(NamedTuple):
    hear: Callable[[Source], None]
    records: Callable[[], int]


_listeners: list[_Listener] = []


@contextlib.contextmanager
def on_run(
    hear: Callable[[Source], None], records: Callable[[], int] = lambda: 0
) -> Iterator[None]:
    """Call ``hear`` whenever a cluster has run its programs to their ends, within the block.

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
    return max([own, *(listener.records() for listener in _listeners)])


def tell(source: Source) -> None:
    """A run has ended: call whoever listens."""
    for listener in _listeners:
        listener.hear(source)
