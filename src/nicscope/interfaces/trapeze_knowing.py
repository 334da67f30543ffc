"""What a Trapeze NIC knows of a process that waits, in words: why nothing comes for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.drivers.simulate.machine import Machine


def unclaimed_of(machine: Machine, running: Callable[[int], bool]) -> list[str]:
    """Messages that have come to nodes on which no program goes on, which is what ``running`` says.

    Each line says of how many, and why nobody receives them.
    """
    said = []
    for node, endpoint in enumerate(machine.endpoints):
        record = machine.nodes[node]
        has_any = int(record["last_process"]) > int(record["first_process"])
        # A host without programs empties its ring all the same.
        unread = int(endpoint["shown"]) - (int(endpoint["read"]) if has_any else 0)
        if unread and not running(node):
            why = "its program has ended" if has_any else "no program runs there"
            messages = "1 message was" if unread == 1 else f"{unread:,} messages were"
            said.append(f"node {node}: {messages} not received: {why}")
    return said


def known_of(machine: Machine, node: int) -> list[str]:
    """Of the rings of ``node``, and of packets that its network gave up."""
    endpoint, record = machine.endpoints[node], machine.nodes[node]
    said = []
    if endpoint["attached"] == 0:
        said.append(
            "its receive ring has no buffer left: release() or keep() what was received gives it "
            "some"
        )
    if int(endpoint["written"]) - int(endpoint["finished"]) == int(endpoint["send_ring"]):
        said.append("its send ring is full")
    unsent = int(endpoint["written"]) - int(endpoint["sent"])
    if unsent:
        said.append(
            f"{unsent:,} of its messages {'has' if unsent == 1 else 'have'} not left: their "
            "receivers take no more"
        )
    if number := int(record["aborted"]):
        was = "message was" if number == 1 else "messages were"
        said.append(f"{number:,} {was} taken off the network by its watchdog")
    return said
