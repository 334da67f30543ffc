"""Where the structures of a node's endpoints lie, and what its NIC's memory has to hold.

On a programmable NIC the endpoints' records, send queues and free queues lie in its memory with
the translation cache, and receive queues in the host's (U-Net/MM, 5.1).  Bytes of messages pass
through the network's FIFO and take none of it.  Where the kernel serves endpoints all of it is the
host's, with the rings of the controller and the buffers into which it receives (5.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nicscope.config.machine import WORD, excess_of
from nicscope.errors import SimulationError
from nicscope.interfaces.mini.memory import nic_structures
from nicscope.kernel.decorators import row_of
from nicscope.nic.layout import region_bytes
from nicscope.nic.ports.layout import OWN_PORT

if TYPE_CHECKING:
    from nicscope.config.platform import Platform
    from nicscope.drivers.simulate.machine import Machine

RINGS_OF_REPORTS = 2  # of ends of sends, which the NI writes beside the send queue, and of receives
DESCRIPTOR = 16  # bytes of the DC21140's: status, lengths and two addresses, a word each (assumed)
# What each part is made of, by the arrays of ``Ports``.
OF_ENDPOINT = {
    "endpoints": ("table", "current", "carried", "ready", "provided"),
    "send queues": ("requests", "segments", "inline"),
    "free queues": ("free",),
}
OF_RECEIVE_QUEUE = ("report_bytes", "report_buffers")
OF_NODE = {"tags": ("channels", "filling"), "firmware": ("nodes", "firmware")}


class Placed(NamedTuple):
    """Bytes of each structure, by where it lies."""

    nic: dict[str, int]
    host: dict[str, int]


def place_structures(machine: Machine, node: int) -> Placed:
    """What lies on the NIC of ``node`` and what in its host's memory, as it was built."""
    found = {name: each.byte_count for name, each in nic_structures(machine, node).items()}
    ports = machine.ports
    many = int(ports.table.shape[1])
    endpoints = many - 1 - OWN_PORT  # the firmware's own answers fetches, which U-Net has not

    def of_endpoints(*names: str) -> int:
        return sum(found.get(name, 0) for name in names) // many * endpoints

    ends = of_endpoints("reports") // RINGS_OF_REPORTS
    nic = {name: of_endpoints(*arrays) for name, arrays in OF_ENDPOINT.items()}
    nic["send queues"] += ends
    nic |= {name: sum(found.get(one, 0) for one in arrays) for name, arrays in OF_NODE.items()}
    host = {"receive queues": ends + of_endpoints(*OF_RECEIVE_QUEUE)}
    cache = region_bytes(row_of(ports.translations.nic, node))
    nic["translation cache"] = sum(cache.values())
    if ports.rules[0]["serves"] == 1:
        return Placed(nic, host)
    endpoint = machine.endpoints[node]
    rings = int(endpoint["send_ring"]) + int(endpoint["receive_ring"])
    kernel_frames = ports.kernel_frames.shape[1] << int(ports.rules[0]["page_bits"])
    rest = {"descriptor rings": rings * DESCRIPTOR, "receive buffers of the kernel": kernel_frames}
    return Placed({}, nic | host | rest)


def check_fits(machine: Machine, platform: Platform) -> None:
    """Return if the endpoints of a node have room in the NIC memory that ``platform`` states.

    Errors: ``SimulationError`` saying what takes how much, and how many endpoints would fit.
    """
    nic = place_structures(machine, 0).nic  # nodes are built alike
    excess = excess_of(nic, platform)
    if excess is None:
        return
    endpoints = machine.ports.table.shape[1] - 1 - OWN_PORT
    each = sum(nic[name] for name in OF_ENDPOINT) // endpoints
    beside = sum(nic.values()) - each * endpoints
    fits = max(platform.machine[WORD].value - beside, 0) // each
    raise SimulationError(
        f"{excess}; {fits} of {endpoints} endpoints fit: give fewer endpoints or processes, a "
        "PortSize with a shorter ring or fewer channels, a smaller cache (entries=...), or a NIC "
        f"with more, as {platform.name.split('@')[0]}@{WORD}=8MiB"
    )
