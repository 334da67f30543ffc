"""Clusters of every interface in which somebody has one of everything that calls take.

A process tries its calls with what is its own, its neighbour's on the node, another node's, another
cluster's, with what was made by hand, and with what it has given back.
"""

from __future__ import annotations

import contextlib
import copy
import zlib
from dataclasses import fields, is_dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.config.design import POLICIES
from nicscope.drivers.simulate.ports.build import HostSize
from nicscope.errors import SimulationError
from nicscope.interfaces import mini, trapeze, unet, via, vmmc
from nicscope.interfaces.active_messages import ActiveMessages
from nicscope.interfaces.buffers import Allocation, MemoryRange
from nicscope.interfaces.mini import BufferHandle
from nicscope.interfaces.via.descriptor import Descriptor

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = 4096
SMALL = HostSize(frames=96, pages_per_space=128, swap_blocks=64)
Things = dict[str, Any]
SCENARIOS = ("neighbour", "another node", "another cluster", "by hand", "given back", "none at all")


class World(NamedTuple):
    """What the process that tries has before it."""

    own: Things
    others: dict[str, list[Things]]  # by scenario
    cluster: Any


class Interface(NamedTuple):
    """One way to make such a world."""

    new_cluster: Callable[[], Any]
    collect: Callable[[Any, str], Any]  # a coroutine: one of everything, of a process
    give_back: Callable[[Any], Any]  # a coroutine: likewise, given back
    partners: tuple[tuple[int, Callable[[Any], Any]], ...] = ()  # further programs


def play(interface: Interface, action: Callable[[World], Any]) -> Any:
    """Have a process do ``action`` in the midst of others; what it returned."""
    others: dict[str, list[Things]] = {scenario: [] for scenario in SCENARIOS}

    def bystander(scenario: str) -> Callable[[Any], Any]:
        async def program(process: Any) -> None:
            others[scenario].append(await interface.collect(process, scenario))
            await rest(process, 200_000)

        return program

    async def tries(process: Any) -> Any:
        own = await interface.collect(process, "own")
        others["given back"].append(await interface.give_back(process))
        while not (others["neighbour"] and others["another node"]):
            await rest(process, 100)
        others["by hand"] = by_hand(own)
        others["none at all"] = [
            dict.fromkeys(own, nothing) for nothing in (None, 5, "x", object(), [own])
        ]
        return action(World(own, others, cluster))

    before = interface.new_cluster()
    before.start(0, bystander("another cluster"))
    for node, partner in interface.partners:
        before.start(node, partner)
    before.run()
    cluster = interface.new_cluster()
    cluster.start(0, tries)
    cluster.start(0, bystander("neighbour"))
    cluster.start(1, bystander("another node"))
    for node, partner in interface.partners:
        cluster.start(node, partner)
    return cluster.run()[0]


async def rest(process: Any, microseconds: float) -> None:
    """Let time pass."""
    if isinstance(process, via.Host):
        nic = await process.open_nic()
        await nic.compute(microseconds)
    else:
        await process.sleep(microseconds)


def by_hand(own: Things) -> list[Things]:
    """What looks as one's own does, and was never given."""
    made: list[Things] = [{}, {}]
    for kind, thing in own.items():
        copies = imitations(kind, thing)
        for place, each in enumerate(copies):
            made[place][kind] = each
    return made


def imitations(kind: str, thing: Any) -> list[Any]:
    """Objects made of what ``thing`` says of itself."""
    if kind == "process":
        return []
    if isinstance(thing, MemoryRange):
        return [
            type(thing)(Allocation(), thing.address, thing.length),
            SimpleNamespace(room=thing.room, address=thing.address, length=thing.length),
        ]
    if isinstance(thing, BufferHandle):
        return [BufferHandle(thing.buffer + 1, thing.process)]
    if isinstance(thing, Descriptor):
        return [Descriptor(thing.address, thing.handle, thing.data)]
    if is_dataclass(thing):
        says = {each.name: getattr(thing, each.name) for each in fields(thing)}
        return [type(thing)(**says), copy.copy(thing)]
    if isinstance(thing, int):
        return [thing + 1000]
    return [copy.copy(thing)]


# --- U-Net ---------------------------------------------------------------------------------------


async def unet_things(process: Any, name: str) -> Things:
    endpoint = await process.open(name)
    return {"process": process, "endpoint": endpoint, "buffer": endpoint.allocate(PAGE)}


async def unet_given_back(process: Any) -> Things:
    endpoint = await process.open("gone")
    buffer = endpoint.allocate(PAGE)
    await endpoint.close()
    return {"endpoint": endpoint, "buffer": buffer}


UNET = Interface(
    lambda: unet.Cluster(
        "unet", "pca200-linux", area_bytes=4 * PAGE, endpoints=4, host=SMALL, buffer_bytes=PAGE
    ),
    unet_things,
    unet_given_back,
)


async def active_things(process: Any, name: str) -> Things:
    messages = ActiveMessages(process, 2)
    endpoint = await process.open(name)
    messages.endpoint = endpoint  # open, and alone
    messages._links.tags[1] = 32
    messages._links.endpoint = endpoint
    return {"process": process, "messages": messages, "buffer": process.allocate(PAGE)}


async def nothing_given_back(_process: Any) -> Things:
    return {}


ACTIVE = Interface(
    lambda: unet.Cluster("unet-mm-pca200", host=SMALL), active_things, nothing_given_back
)


# --- VMMC ----------------------------------------------------------------------------------------


async def vmmc_things(endpoint: Any, name: str) -> Things:
    buffer, table = endpoint.allocate(PAGE), endpoint.allocate(PAGE)
    exported = await endpoint.export(table, name)
    imported = await endpoint.import_buffer(1 - endpoint.node, "shelf")
    return {
        "process": endpoint,
        "buffer": buffer,
        "exported": exported,
        "imported": imported,
        "transfer": await endpoint.store(imported, buffer, length=8),
    }


async def vmmc_given_back(endpoint: Any) -> Things:
    gone = await vmmc_things(endpoint, "gone")
    await endpoint.wait(gone["transfer"])
    await endpoint.unexport(gone["exported"])
    endpoint.release(gone["imported"])
    return {kind: gone[kind] for kind in ("exported", "imported", "transfer")}


async def vmmc_shelf(endpoint: Any) -> None:
    await endpoint.export(endpoint.allocate(PAGE), "shelf")


VMMC = Interface(
    lambda: vmmc.Cluster("utlb", host=SMALL),
    vmmc_things,
    vmmc_given_back,
    ((0, vmmc_shelf), (1, vmmc_shelf)),
)


# --- miNI ----------------------------------------------------------------------------------------


async def mini_things(end: Any, name: str) -> Things:
    buffer, window = end.allocate(PAGE), end.allocate(PAGE)
    region = await end.register(window, name=f"{name} {end.number}")
    return {
        "process": end,
        "buffer": buffer,
        "region": region,
        "handle": region.handle,
        "remote": await end.open(await end.find(f"shelf {1 - end.node}")),
    }


async def mini_given_back(end: Any) -> Things:
    gone = await mini_things(end, "gone")
    await end.close(gone["remote"])
    await end.unregister(gone["region"])
    return {kind: gone[kind] for kind in ("region", "handle", "remote")}


async def mini_shelf(end: Any) -> None:
    await end.register(end.allocate(PAGE), name=f"shelf {end.node}")


MINI = Interface(
    lambda: mini.Cluster("vmmc-static", host=SMALL),
    mini_things,
    mini_given_back,
    ((0, mini_shelf), (1, mini_shelf)),
)


# --- Trapeze -------------------------------------------------------------------------------------


async def trapeze_things(endpoint: Any, name: str) -> Things:
    buffer = endpoint.allocate(2 * PAGE)
    tag = {"own": 3, "neighbour": 4}.get(name, 3)
    endpoint.map_payload(tag, buffer)
    return {
        "process": endpoint,
        "buffer": buffer,
        "tag": tag,
        "message": await endpoint.receive(),
    }


async def trapeze_given_back(endpoint: Any) -> Things:
    message = await endpoint.receive()
    endpoint.release(message)
    return {"message": message}


def feeder(node: int) -> Callable[[Any], Any]:
    async def program(endpoint: Any) -> None:
        page = endpoint.allocate(64)
        for _ in range(3):
            await endpoint.send(node, page)

    return program


TRAPEZE = Interface(
    lambda: trapeze.Cluster("p6-natoma", policy=POLICIES["adaptive"], host_bytes=1 << 20),
    trapeze_things,
    trapeze_given_back,
    ((1, feeder(0)), (0, feeder(1))),
)


# --- VIA -----------------------------------------------------------------------------------------


async def via_things(host: Any, name: str) -> Things:
    nic = await host.open_nic()
    for _ in range({"own": 0, "gone": 0, "neighbour": 20}.get(name, 40)):
        await nic.create_ptag()  # so that no two processes have a tag of the same number
    tag = await nic.create_ptag()
    buffer = nic.allocate(PAGE)
    region = await nic.register_mem(buffer, tag, enable_rdma_write=True)
    places = await nic.descriptors(tag, 8)
    queue = await nic.create_cq(tag)
    return {
        "host": host,
        "process": nic,
        "tag": tag,
        "buffer": buffer,
        "region": region,
        "places": places,
        "queue": queue,
        "vi": await nic.create_vi(tag),
        "descriptor": places.request(region.segment()),
        "segment": region.segment(),
        "request": await nic.connect_wait(f"{nic.node}"),
    }


async def via_given_back(host: Any) -> Things:
    gone = await via_things(host, "gone")
    nic = gone["process"]
    await nic.connect_reject(gone["request"])
    await nic.destroy_vi(gone["vi"])
    await nic.destroy_cq(gone["queue"])
    await nic.destroy_descriptors(gone["places"])
    await nic.deregister_mem(gone["region"])
    await nic.destroy_ptag(gone["tag"])
    kinds = ("tag", "region", "places", "queue", "vi", "descriptor", "segment", "request")
    return {kind: gone[kind] for kind in kinds}


def asker(node: int) -> Callable[[Any], Any]:
    async def program(host: Any) -> None:
        nic = await host.open_nic()
        tag = await nic.create_ptag()
        for _ in range(8):
            vi = await nic.create_vi(tag)
            with contextlib.suppress(SimulationError):  # nobody answers, or with no
                await nic.connect_request(vi, node, f"{node}", timeout_us=50_000)

    return program


def askers() -> tuple[tuple[int, Callable[[Any], Any]], ...]:
    """Of three connections with each node."""
    return tuple((node, asker(to)) for node, to in ((1, 0), (1, 0), (1, 0), (0, 1), (0, 1)))


VIA = Interface(lambda: via.Cluster(), via_things, via_given_back, askers())

INTERFACES = {
    "unet": UNET,
    "active messages": ACTIVE,
    "vmmc": VMMC,
    "mini": MINI,
    "trapeze": TRAPEZE,
    "via": VIA,
}


# --- what must not change ------------------------------------------------------------------------


def arrays_of(found: Any) -> list[np.ndarray]:
    """Every array in a structure of named tuples."""
    if isinstance(found, np.ndarray):
        return [found]
    if isinstance(found, tuple):
        return [array for each in found for array in arrays_of(each)]
    return []


def state_of(cluster: Any) -> list[int]:
    """All memory, all tables and all engines of a cluster."""
    return [zlib.crc32(array.data.cast("B")) for array in plain(cluster.simulation.machine)]


def plain(found: Any) -> list[np.ndarray]:
    """Every array in a structure of named tuples, as bytes."""
    return [
        np.asarray(array).reshape(-1).view(np.uint8) for array in arrays_of(found) if array.size
    ]
