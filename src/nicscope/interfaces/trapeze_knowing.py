"""What a Trapeze NIC knows of a process that waits, in words: why nothing comes for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nicscope.drivers.simulate.machine import Machine


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
