"""Who waits for the disk, and who does not, while a page of U-Net/MM is brought."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.studies.reproduce.unet_steps import MAPPED_NT, MAPPED_PCA200, new_cluster, touched

if TYPE_CHECKING:
    from nicscope.interfaces.unet import Endpoint, Process

ROUNDS = 100
LENGTH = 100  # bytes of a message
BEGIN_US = 3000.0


class Overlap(msgspec.Struct, frozen=True):
    """When it began and ended, and when the others were done with their messages."""

    begun_us: float
    ended_us: float
    others_us: dict[str, float]


async def _go_around(process: Process, endpoint: Endpoint, name: str) -> float:
    """Send and receive ``ROUNDS`` messages; when the last one was there."""
    tag = await endpoint.connect(1, name)
    if process.now_us < BEGIN_US:
        await process.sleep(BEGIN_US - process.now_us)
    room, back = await touched(endpoint), await touched(endpoint)
    for _ in range(ROUNDS):
        await endpoint.provide(back)
        await endpoint.send(tag, room.part(0, LENGTH))
        await endpoint.receive()
        assert (await endpoint.sent()).ok
    return process.now_us


async def _echo(process: Process, name: str) -> None:
    endpoint = await process.open(name)
    room = await touched(endpoint)
    other = await touched(endpoint)
    for _ in range(ROUNDS):
        await endpoint.provide(room)
        message = await endpoint.receive()
        await endpoint.send(message.tag, other.part(0, LENGTH))
        assert (await endpoint.sent()).ok


def during_a_page_in() -> Overlap:
    """One endpoint sends from a page on disk; another of its process and one of another go on."""

    async def absent(process: Process) -> tuple[float, float, float]:
        slow, quick = await process.open(), await process.open()
        tag = await slow.connect(1, "slow")
        room = await touched(slow)
        process.swap_out()
        await process.sleep(BEGIN_US - 200)
        begun = process.now_us
        await slow.send(tag, room.part(0, LENGTH))
        same = await _go_around(process, quick, "same")
        assert (await slow.sent()).ok
        return begun, process.now_us, same

    async def other(process: Process) -> float:
        return await _go_around(process, await process.open(), "other")

    async def slow(process: Process) -> None:
        await process.open("slow")

    cluster = new_cluster(MAPPED_PCA200, endpoints=3)
    cluster.start(0, absent)
    cluster.start(0, other)
    cluster.start(1, slow)
    cluster.start(1, lambda process: _echo(process, "same"))
    cluster.start(1, lambda process: _echo(process, "other"))
    results: Any = cluster.run()
    begun, ended, same = results[0]
    return Overlap(begun, ended, {"same process": same, "other process": results[1]})


class Held(msgspec.Struct, frozen=True):
    """How long a call that sends took, and what another process received meanwhile."""

    call_us: float
    messages: int


def held_by_a_fault() -> Held:
    """Under NT, one process sends from a page on disk; messages for another one arrive."""

    async def absent(process: Process) -> tuple[float, float]:
        endpoint = await process.open()
        tag = await endpoint.connect(1, "sink")
        room = await touched(endpoint)
        await process.sleep(BEGIN_US / 2)  # until the receiver's buffer is translated
        process.swap_out()
        await process.sleep(BEGIN_US / 2)
        begun = process.now_us
        await endpoint.send(tag, room.part(0, LENGTH))
        return begun, process.now_us

    async def receiver(process: Process) -> list[float]:
        endpoint = await process.open("receiver")
        room = await touched(endpoint)
        times = []
        for _ in range(ROUNDS):
            await endpoint.provide(room)
            await endpoint.receive(mode="block")
            times.append(process.now_us)
        return times

    async def sink(process: Process) -> None:
        await process.open("sink")

    async def sender(process: Process) -> None:
        endpoint = await process.open()
        tag = await endpoint.connect(0, "receiver")
        room = await touched(endpoint)
        await process.sleep(BEGIN_US)
        for _ in range(ROUNDS):
            await endpoint.send(tag, room.part(0, LENGTH))
            await endpoint.sent()
            await process.sleep(150)

    cluster = new_cluster(MAPPED_NT)
    for node, program in ((0, absent), (0, receiver), (1, sink), (1, sender)):
        cluster.start(node, program)
    results: Any = cluster.run()
    begun, ended = results[0]
    return Held(ended - begun, sum(begun < time < ended for time in results[1]))
