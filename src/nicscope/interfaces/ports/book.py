"""Whose each port of a run has been, from when to when: what each process's numbers are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.interfaces.run_report import Account, Looked, Received, Sent
from nicscope.nic.ports.accounts import ACCOUNT_NAMES
from nicscope.nic.ports.layout import OWN_PORT
from nicscope.nic.ports.traffic import ENDED_NAMES, FIRST_DROPPED, MADE_NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nicscope.drivers.simulate.ports.state import Ports


class _Held(NamedTuple):
    """A port, as of a time on, and what it had counted by then."""

    node: int
    port: int
    process: int | None  # None: the NIC's firmware itself
    name: str | None
    before: NDArray[np.int64]


class PortBook:
    """Who has had which port of a run.  A port counts for whoever had it last, late packets too."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._held: list[_Held] = []
        for node in range(len(ports.nodes)):
            self.note(node, OWN_PORT, None)

    def note(self, node: int, port: int, process: int | None, name: str | None = None) -> None:
        """``port`` is the process's from now on: an endpoint that is called ``name``."""
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
    told: dict[str, int] = {}
    for status, count in zip(statuses, counted[ends[-1] :], strict=True):
        if count:
            told[status] = told.get(status, 0) + count
    return Account(
        node=held.node,
        process=held.process,
        port=held.port,
        name=held.name,
        **{name: named[name] for name in ("messages_out", "messages_in", "bytes_out", "bytes_in")},
        requests=told,
        sent=Sent(total=sum(made), **dict(zip(MADE_NAMES, made, strict=True))),
        outcome=fates(sent, sum(made) - sum(sent)),
        received=fates(came, 0),
        lookups=_looked(named, "lookups", handles),
        misses=_looked(named, "misses", handles),
    )


def fates(ended: list[int], unfinished: int) -> Received:
    """What became of packets, of which so many are ``unfinished``."""
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


def _looked(named: dict[str, int], what: str, handles: bool) -> Looked:
    send, receive, of_handles = (named[f"{what}_{path}"] for path in ("send", "receive", "handles"))
    return Looked(
        total=send + receive + of_handles,
        send=send,
        receive=receive,
        handles=of_handles if handles else None,
    )
