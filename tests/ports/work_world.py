"""Processes whose ports have one peer, joined by hand as a library of such ports does it."""

import hashlib

import port_world as world
from work_calls import WorkCalls

from nicscope.config.design import Scheme, load_design, with_settings
from nicscope.drivers.simulate.ports.build import PortSize
from nicscope.drivers.simulate.ports.connections import connect_ports, end_connection
from nicscope.drivers.simulate.records import REGISTER
from nicscope.interfaces.ports.cluster import PortCluster
from nicscope.interfaces.ways import BY_PROCESSOR
from nicscope.kernel.entry import bound
from nicscope.nic.ports.layout import AS_ALL, DONE, MAY_FETCH, MAY_WRITE, SEND, WORK_QUEUE

PAGE = world.PAGE
run_on_nodes = world.run_on_nodes
SEGMENTS = 8
RECEIVES = 16
REGIONS = 8
SIZE = PortSize(
    connections=4, segments=SEGMENTS, receives=RECEIVES, regions=REGIONS, queues=2, entries=16
)
DOMAIN = 7
KEY = 9
UNIT = 1500
SENDER, RECEIVER = 0, 1
Stretches = list[tuple[int, int]]  # offset in a process's memory, length


class Process(WorkCalls):
    """A process that may ask all that ports with work queues do."""


class Cluster(PortCluster[Process]):
    """A cluster of such processes."""

    process_type = Process


def cluster_of(design="vmmc-static", way=None, **how):
    """Two nodes with such ports; ``way``: into the NIC, on a host with caches."""
    chosen = load_design(design) if isinstance(design, str) else design
    platform = how.pop("platform", None)
    if way is not None:
        parts = [f"way={way}"]
        if way in BY_PROCESSOR:
            parts.append("delivery=store-and-forward")
        chosen, platform = with_settings(chosen, parts), "utlb-edt"
    return Cluster(chosen, platform, size=how.pop("size", SIZE), **how)


def have_queues(process, longest=1 << 16):
    """Have the process's port take one receive for each message."""
    port = process._ports.table[process.node, process.port]
    port["takes"] = WORK_QUEUE
    port["domain"] = DOMAIN
    port["rights"] = MAY_WRITE | MAY_FETCH
    port["longest"] = longest


def connect(process, level=AS_ALL, unit=UNIT):
    """Connect it with process 0 of the other node, both of which have queues."""
    connect_ports(process._ports, (process.node, 1), (1 - process.node, 1), level, unit)


def disconnect(process):
    """End the connection of its port, which is idle then."""
    bound(end_connection, process._machine)(process.node, process.port)


async def register(process, key, address, length):
    """Register memory of the process: it is pinned, and its port may use it by ``key``."""
    said = await process._sim_process.ask(
        REGISTER, peer=process.port, address=address, payload=length
    )
    assert said.address == DONE
    region = process._ports.work.regions[process.node, key % REGIONS]
    region["key"], region["address"], region["length"] = key, address, length
    region["space"], region["domain"] = process.number, DOMAIN
    region["rights"] = MAY_WRITE | MAY_FETCH


async def with_memory(process, pages, seed=None, **how):
    """Have queues, and so many pages of registered memory."""
    have_queues(process, **how)
    memory = process.allocate(pages * PAGE)
    if seed is not None:
        await memory.write(world.content(seed, len(memory)))
    await register(process, KEY, memory.address, len(memory))
    return memory


def at(memory, stretches):
    """These stretches of registered memory, as pieces of a descriptor."""
    return [(memory.address + offset, length, KEY) for offset, length in stretches]


async def read(memory, stretches):
    """What a process finds there, one stretch behind the other."""
    return b"".join(
        [await memory.part(offset, length).read() for offset, length in stretches if length]
    )


def digest(content):
    """What tells contents apart, and is short to show where they differ."""
    return hashlib.sha256(content).hexdigest()[:16]


def of(seed, pages, stretches):
    """The same of memory with the content of ``seed``."""
    whole = world.content(seed, pages * PAGE)
    return b"".join(whole[offset : offset + length] for offset, length in stretches)


def state_of(process, name):
    """A field of the record of its port."""
    return int(process._ports.table[process.node, process.port][name])


def async_errors(process):
    """What the process's port has had of errors that no descriptor tells of."""
    kept = process._ports.work.async_errors[process.node, process.port]
    return [int(each) for each in kept[: state_of(process, "async_errors")]]


def uses_left(cluster):
    """For each node, what still holds a page once all is over, beside registered memory."""
    assert cluster.simulation is not None
    ports = cluster.simulation.machine.ports
    keeps = cluster.design.scheme not in (Scheme.INTERRUPT, Scheme.UNET_MM)
    registered = [keeps * int(region["length"].sum()) // PAGE for region in ports.work.regions]
    return [left - own for left, own in zip(world.uses_left(cluster), registered, strict=True)]


def converse(cluster, messages, pages=8, level=AS_ALL, seed=1, unit=UNIT):
    """Send gathers to receives; how sends ended, and receives, with a digest of what each holds.

    All receives are posted before; the sends follow each other at once.
    """

    async def sender(process):
        memory = await with_memory(process, pages, seed)
        await process.sleep(2000)
        connect(process, level, unit)
        for number, (pieces, _) in enumerate(messages):
            await process.post_gather(SEND, at(memory, pieces), immediate=-number)
        return [await process.ended() for _ in messages]

    async def receiver(process):
        memory = await with_memory(process, pages, 1000 + seed)
        for number, (_, pieces) in enumerate(messages):
            await process.post_receive(number, at(memory, pieces))
        said = [await process.received() for _ in messages]
        return [
            (each, digest((await read(memory, messages[each.cookie][1]))[: each.length]))
            for each in said
        ]

    ended, received = world.run_on_nodes(cluster, sender, receiver)
    assert world.stale(cluster) == 0
    assert uses_left(cluster) == [0, 0]
    return ended, received  # type: ignore[return-value]
