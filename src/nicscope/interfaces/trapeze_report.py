"""What a run of Trapeze programs is reported from: messages, each of which is one packet.

Trapeze sends a packet once, over a network that loses none but those that its watchdog takes away
and those that a cluster's faults say, and takes one only into a buffer that waits for it.  So
nothing comes again, is acknowledged or is dropped; nothing is translated on the NIC; and a program
polls.  A descriptor has ended when the NIC has done with its message: more no program is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.interfaces.machine_run import MachineRun
from nicscope.interfaces.run_report import Account, NodeReport, Received, Sent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.drivers.simulate.machine import Machine
    from nicscope.interfaces.run_report import Names
    from nicscope.interfaces.trapeze_endpoint import Counted


class TrapezeRun(MachineRun):
    """A run on NICs whose only client is the endpoint library."""

    def __init__(self, machine: Machine, names: Names, counted: Sequence[Counted]) -> None:
        """``counted``: by process, what it has handed over and taken."""
        super().__init__(machine, names)
        self._counted = counted

    def endpoints(self) -> list[Account]:
        """What was done for each process, which has one endpoint."""
        return [
            Account(
                node=one.node,
                process=one.process,
                messages_out=one.messages_out,
                messages_in=one.messages_in,
                bytes_out=one.bytes_out,
                bytes_in=one.bytes_in,
                requests={},
                sent=Sent(total=one.messages_out, first=one.messages_out),
            )
            for one in self._counted
        ]

    def nodes(self) -> list[NodeReport]:
        """Every node's work."""
        return [self._node(n) for n in range(len(self._machine.nodes))]

    def _node(self, n: int) -> NodeReport:
        endpoint, node = self._machine.endpoints[n], self._machine.nodes[n]
        written, finished, shown, came = (
            int(endpoint[name]) for name in ("written", "finished", "shown", "accepted")
        )
        lost, corrupted, cut_off = (int(node[why]) for why in ("lost", "corrupted", "cut_off"))
        return NodeReport(
            **self._engines(n),
            messages_out=written,
            messages_in=shown,
            bytes_out=int(node["written_bytes"]),
            bytes_in=int(node["received_bytes"]) + self._unread_bytes(n),
            requests={"done": finished} if finished else {},
            open_requests=written - finished,
            sent=Sent(total=written, first=written, **self._made(n)),
            received=Received(
                total=came,
                delivered=shown,
                lost=lost,
                corrupted=corrupted,
                cut_off=cut_off,
                broken_off=int(endpoint["dropped"]) - lost - corrupted - cut_off,
                unfinished=came - int(endpoint["completed"]),
            ),
        )

    def _unread_bytes(self, n: int) -> int:
        """Payload that is in the host's memory and of which no program has heard."""
        endpoint, inbox = self._machine.endpoints[n], self._machine.inboxes[n]
        unread = range(int(endpoint["read"]), int(endpoint["shown"]))
        return sum(int(inbox[i % len(inbox)]["payload"]) for i in unread)
