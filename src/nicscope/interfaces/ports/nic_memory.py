"""The NIC memory of a running node, structure by structure (miNI, II and V.A).

Every array that the simulation keeps for a node lies on the NIC, in the host's memory, or nowhere:
then it is the simulation's own.  ``PLACES`` says which.  A field counts one 32-bit word, as
firmware would have it, and not at all if miNI's would not; bytes of packets, buffers and caches
count as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.config.platform import WORD as WORD_OF_MEMORY
from nicscope.config.platform import Platform, excess_of
from nicscope.drivers.translation import nic_memory_bytes
from nicscope.errors import SimulationError
from nicscope.kernel.decorators import row_of
from nicscope.nic.layout import region_bytes
from nicscope.nic.ports.streams import BLANK, NO_ENTRY, Pools

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from nicscope.drivers.simulate.machine import Machine
    from nicscope.drivers.simulate.ports.state import Ports


WORD = 4
# Fields of records that no firmware would have: the observer's, and what the network does.
OBSERVERS = ("why", "timed_out_at", "fate", "copied")
# Likewise: of a host whose kernel serves ports, or whose processes keep the CPU while they poll.
OF_HOSTS = (
    "held",
    "in_trap",
    "unpolled",
    "traps",
    "demands",
    "polling_process",
    "polled_since",
    "spun",
)
# Fields that firmware of ports with work queues has and miNI's has not, by the array's name: keys
# of registered memory, the word that goes with a message, receives, what a connection promises and
# how it ended, which packets ask for acknowledgements, and bursts; and what VMMC's looks for routes
# with.
_IN_HEADS = (
    "verdict", "immediate", "remote", "remote_key", "receive", "runs", "run", "said", "back",
    "atomic", "swap", "datagram", "rnr_delay", "region", "source",
    "unasked", "further",
)  # fmt: skip
OF_WORK_QUEUES = {
    "requests": ("immediate", "swap", "atomic"),
    "segments": ("key",),
    "table": (
        "takes", "state", "level", "domain", "rights", "longest", "channel", "send_queue",
        "receive_queue", "receives_posted", "receives_taken", "immediate", "reading",
        "async_errors", "notices", "overrun", "swap", "atomic", "shared", "shares", "group",
        "limit", "datagrams", "qkey", "stopped", "rules", "rnr_delay",
    ),
    "channels": ("stream", "receive", "said"),
    "send_heads": _IN_HEADS,
    "arrival_heads": _IN_HEADS,
    "pools.heads": _IN_HEADS,
    "pools.streams": (
        "laid", "level", "port", "verdict", "heard", "back", "channel", "begun", "amid",
        "time_out", "tries", "rnr_delay", "rnr_waiting", "rests", "first", "begins",
        "max_rnr_retries", "answers", "pending_verdict", "pending_error",
    ),
    "nodes": (
        "searching", "search_until", "search_asked", "search_there", "search_back", "region_reads",
    ),
}  # fmt: skip
# What an array of ``Ports`` or ``Store`` is part of.
LOOKUP = "lookup"
QUEUES = "queues"
PROCESSES = "processes"
TRANSPORT = "transport"
PACKETS = "packets"
BUFFERS = "buffers"
HOST = "host"
OWN = "simulation"
TABLES = "tables"  # on the NIC if static, else in the host's memory
ON_NIC = (LOOKUP, QUEUES, PROCESSES, TRANSPORT, PACKETS, BUFFERS)

# Of its own are also what miNI has none of (``work``), and Trapeze's, without ports.
_ARRAYS = {
    QUEUES: "requests segments inline free reports report_bytes report_buffers",
    PROCESSES: """
        table current carried ready provided channels filling fetches answers answer_slots nodes
    """,
    OWN: """
        plans pool rules costs user_pin user_unpin blank blank_head copies blank_bytes
        faults deaths made ended told told_by_side tallies accounts port_made port_sent
        port_came port_told work happened happenings control payload_table attached
        attached_head attached_tail marks
    """,
    TRANSPORT: "stream_of timed due_marks pools",
    PACKETS: "send_heads arrival_heads shown send_ring arriving arrival_buffers receive_ring",
    BUFFERS: "send_buffers receive_buffers",
    TABLES: "shared",
    LOOKUP: "translations buffer_cache process_cache",
    HOST: "pending kept gathers gathered filled owners kernel_frames frames events memory host",
}
PLACES = {name: place for place, names in _ARRAYS.items() for name in names.split()}


class Structure(NamedTuple):
    """One structure on a NIC."""

    group: str  # one of ``ON_NIC``
    byte_count: int
    arrays: tuple[NDArray[Any], ...]  # where it lies in this process


def nic_structures(machine: Machine, node: int, peers: int | None = None) -> dict[str, Structure]:
    """Every structure on the NIC of ``node``, by name.

    ``peers``: with how many it may talk, for each of which it has room; None: with all.
    """
    ports = machine.ports
    dynamic = bool(ports.rules[0]["handles"])
    found: dict[str, Structure] = {}
    for state in (ports, machine.store):
        for name, array in state._asdict().items():
            group = PLACES[name]
            if group in ON_NIC and isinstance(array, np.ndarray):
                row = array[node : node + 1]
                found[name] = Structure(group, _bytes_of(row, name), (row,))
    for name in () if dynamic else ports.shared._fields:
        row = getattr(ports.shared, name)[node : node + 1]
        found[name] = Structure(LOOKUP, _bytes_of(row, name), (row,))
    found |= _of_peers(ports, node, peers)
    nic = row_of(ports.translations.nic, node)
    for name, size in nic_memory_bytes(ports.translations, node).items():
        lies = (getattr(nic, name),) if hasattr(nic, name) else ()
        found[f"translations.{name}"] = Structure(LOOKUP, size, lies)
    if dynamic:
        for cache in ("buffer_cache", "process_cache"):
            row = row_of(getattr(ports, cache), node)
            for name, size in region_bytes(row).items():
                found[f"{cache}.{name}"] = Structure(LOOKUP, size, (getattr(row, name),))
    for name, array in (("sends", machine.sends), ("arrivals", machine.arrivals)):
        found[name] = Structure(PACKETS, _bytes_of(array[node]), (array[node],))
    found["firmware"] = Structure(
        PACKETS,
        _bytes_of(machine.endpoints[node : node + 1]),
        (machine.endpoints[node : node + 1],),
    )
    return {name: each for name, each in found.items() if each.byte_count}


def _of_peers(ports: Ports, node: int, many_peers: int | None) -> dict[str, Structure]:
    """What the NIC keeps for its peers: firmware has room for every one, and for whole windows.

    The simulation has it only for those that talk, in pools of all nodes.
    """
    pools = ports.pools
    own = ports.stream_of[node]
    streams = own[own != BLANK].tolist()
    rows = [row for row in pools.streams["stores"][streams].tolist() if row]
    kept = [entry for stream in streams for entry in _chain(pools, stream)]
    peers = len(own) if many_peers is None else many_peers
    packets = peers * int(ports.rules[0]["window"])
    found = {}
    for name in pools._fields:
        array = getattr(pools, name)
        group, many, used = TRANSPORT, packets, kept
        if name == "streams":
            many, used = peers, streams
        elif name == "storing":
            group, many, used = PROCESSES, peers, rows
        lies = tuple(array[place : place + 1] for place in used)
        each = _bytes_of(array[:1], f"pools.{name}")
        found[f"pools.{name}"] = Structure(group, many * each, lies)
    return found


def _chain(pools: Pools, stream: int) -> Iterator[int]:
    """Where the packets of ``stream`` lie that are not acknowledged."""
    entry = int(pools.streams[stream]["oldest_kept"])
    while entry != NO_ENTRY:
        yield entry
        entry = int(pools.behind[entry])


def nic_memory(machine: Machine, node: int) -> dict[str, int]:
    """Bytes by structure; ``total_by_group`` adds them up."""
    return {name: each.byte_count for name, each in nic_structures(machine, node).items()}


def total_by_group(machine: Machine, node: int, peers: int | None = None) -> dict[str, int]:
    """Bytes of each of ``ON_NIC`` on the NIC of ``node``, as ``nic_structures``."""
    totals = dict.fromkeys(ON_NIC, 0)
    for each in nic_structures(machine, node, peers).values():
        totals[each.group] += each.byte_count
    return totals


def check_fits(machine: Machine, platform: Platform, hosts: Sequence[int]) -> None:
    """Return if all that the NIC of each of ``hosts`` has to hold fits in what ``platform`` states.

    ``hosts``: the node of each program.  Errors: ``SimulationError`` saying what takes how much,
    and how much of it is too much.
    """
    peers = len(hosts) if machine.ports.rules[0]["by_connection"] else len(set(hosts))
    for node in sorted(set(hosts))[:1]:  # nodes are built alike
        excess = excess_of(total_by_group(machine, node, peers), platform)
        if excess is not None:
            raise SimulationError(
                f"{excess}; have fewer nodes or processes, a smaller cache (entries=...), smaller "
                "queues (PortSize), or a NIC with more, as "
                f"{platform.name.split('@')[0]}@{WORD_OF_MEMORY}=8MiB"
            )


def _bytes_of(array: Any, name: str = "") -> int:
    """Bytes of firmware's own: a word for each field that it has."""
    if array.dtype.names:
        others = (*OBSERVERS, *OF_HOSTS, *OF_WORK_QUEUES.get(name, ()))
        fields = [field for field in array.dtype.names if field not in others]
        return WORD * len(fields) * int(array.size)
    if array.dtype == np.int64:
        return WORD * int(array.size)
    return int(array.nbytes)
