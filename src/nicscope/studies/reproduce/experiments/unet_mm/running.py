"""U-Net/MM Table 1 by operations of running systems, and who waits for the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.studies.reproduce.experiments.unet_mm.steps import (
    COLUMNS,
    MAPPED_NT,
    MAPPED_PCA200,
    UNET_LINUX,
    UNET_NT,
    UNET_PCA200,
    copy_us,
    new_cluster,
    receive,
    sends,
    touched,
    translations_ahead,
)

if TYPE_CHECKING:
    from nicscope.interfaces.unet import Endpoint, Process
    from nicscope.studies.reproduce.verdict import Item, Outcome

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


SIZES = (40, 1498)
DISK_US = 22_000
PINS = ("miss", "copy on write", "zero map-in")
# What is printed; NT's hit and copy are blank, and its buffers share pages.
AHEAD = {
    MAPPED_PCA200: ("hit", *PINS, *(f"{case} with unpin" for case in PINS)),
    MAPPED_NT: ("miss", "miss with unpin", "page fault"),
}


def simulated_table1(outcome: Outcome, item: Item) -> None:
    """U-Net/MM Table 1: its steps added up by operations of running systems.

    Send, translate ahead and receive in every column; watch who waits for the disk.
    """
    del item
    for name, column in COLUMNS.items():
        times = sends(column)
        if column in AHEAD:
            for case, spent in times.items():
                outcome.point("send", "us", _rounded(spent), column=name, case=case)
            for case, spent in translations_ahead(column, AHEAD[column]).items():
                outcome.point("pretranslate", "us", _rounded(spent), column=name, case=case)
        else:
            spent = times["hit"]
            outcome.point("send", "us", _rounded(spent), column=name, case="no translation")
        for length in SIZES:
            spent = receive(column, length).work_us
            outcome.point("receive", "us", _rounded(spent), column=name, bytes=length)
        for side, copied in receive(column, SIZES[1]).copied.items():
            copies = copied / SIZES[1]
            outcome.point("copies_of_a_message", "copies", copies, column=name, side=side)
    _judge_end_to_end(outcome)
    _judge_page_ins(outcome)
    _judge_places(outcome)


def _rounded(microseconds: float) -> float:
    """To the picosecond, the unit of the simulation."""
    return round(microseconds, 6)


def _judge_end_to_end(outcome: Outcome) -> None:
    unet, mapped = (receive(column, SIZES[1]) for column in (UNET_PCA200, MAPPED_PCA200))
    parts = (mapped.sent.work_us - unet.sent.work_us, mapped.work_us - unet.work_us)
    whole = mapped.one_way_us - unet.one_way_us
    outcome.shape(
        "hits-add-three-end-to-end",
        abs(parts[0] - 1) <= 0.06 and abs(parts[1] - 2) <= 0.06 and abs(whole - 3) <= 0.06,
        f"{parts[0]:.2f} us at the sender, {parts[1]:.2f} us at the receiver, {whole:.2f} us from "
        f"one program to the other, of {mapped.one_way_us:.1f} us",
    )


def _judge_page_ins(outcome: Outcome) -> None:
    seen = during_a_page_in()
    outcome.shape(
        "others-go-on-during-a-page-in",
        seen.ended_us - seen.begun_us > DISK_US and max(seen.others_us.values()) < seen.ended_us,
        f"{ROUNDS} messages there and back after "
        + ", ".join(
            f"{(end - seen.begun_us) / 1000:.1f} ms ({who})" for who, end in seen.others_us.items()
        )
        + f"; the page after {(seen.ended_us - seen.begun_us) / 1000:.1f} ms",
    )
    held = held_by_a_fault()
    outcome.shape(
        "a-fault-on-nt-holds-its-process",
        held.call_us > DISK_US and held.messages > 0,
        f"the call took {held.call_us / 1000:.1f} ms, in which another process received "
        f"{held.messages} messages",
    )


def _judge_places(outcome: Outcome) -> None:
    nt, pca200 = receive(MAPPED_NT, SIZES[1]), receive(MAPPED_PCA200, SIZES[1])
    kernel = nt.sent.work_us + nt.work_us - copy_us(UNET_NT, SIZES[1])
    firmware = pca200.sent.work_us + pca200.work_us
    nic, host = sum(nt.nic_us.values()), sum(pca200.host_us.values())
    outcome.shape(
        "host-translates-faster-but-pays",
        kernel < firmware and nic == 0 and host == 0,
        f"{kernel:.1f} us without the copy, all of the host's processor and {nic:.0f} of the "
        f"controller's; {firmware:.1f} us on the PCA-200, {host:.0f} of them the host's",
    )
    shares = [copy_us(UNET_LINUX, size) / copy_us(UNET_NT, size) for size in SIZES]
    outcome.shape(
        "linux-copies-at-half-of-nt",
        abs(shares[1] - 0.5) <= 0.02 and shares[0] > 1,
        ", ".join(
            f"{share:.2f} of NT's time at {size} bytes"
            for share, size in zip(shares, SIZES, strict=True)
        ),
    )
