"""Waits that end by themselves, and queues that announce the ends of several ports' work."""

import port_world as world
import pytest

from nicscope.config.design import load_design, with_settings
from nicscope.drivers.simulate.ports.build import PortSize
from nicscope.drivers.simulate.ports.reports import GONE, LATE
from nicscope.drivers.simulate.records import AWAIT_QUEUE, REPORT
from nicscope.nic.ports.layout import RECEIVED, SEND, SENT
from nicscope.nic.ports.work_queues import QUEUE_FULL

US = 1_000_000
QUEUE = 1
WAYS = ("pci", "cc-dma-intervention", "edt", "dma")


def cluster_over(way, entries=8):
    if way == "pci":
        return world.cluster_of("utlb", size=PortSize(queues=2, entries=entries))
    settings = [f"way={way}", "transport=reliable"]
    if way == "dma":
        settings.append("delivery=store-and-forward")
    design = with_settings(load_design("utlb"), settings)
    size = PortSize(queues=2, entries=entries)
    return world.cluster_of(design, size=size, platform="utlb-edt")


def open_queue(process, entries, sides=(SENT, RECEIVED)):
    ports = process._ports
    queue = ports.work.queues[process.node, QUEUE]
    queue["open"], queue["entries"] = 1, entries
    for side, name in ((SENT, "send_queue"), (RECEIVED, "receive_queue")):
        if side in sides:
            ports.table[process.node, process.port][name] = QUEUE


async def hear(process, latest_us=0, mode=0):
    """The next entry of the queue: port and side; or None."""
    ended = await process._sim_process.ask(
        AWAIT_QUEUE, peer=QUEUE, own=mode << 1, address=int(latest_us * US)
    )
    return (ended.packet, ended.tag) if ended.own >= 0 else ended.own


async def report(process, side, latest_us):
    ended = await process._sim_process.ask(
        REPORT, peer=process.port, own=side, address=int(latest_us * US)
    )
    return ended.own


async def nothing(process):
    await process.sleep(1)


@pytest.mark.parametrize("way", WAYS)
def test_a_wait_for_what_does_not_come_ends_when_it_was_to_end(way):
    cluster = cluster_over(way)

    async def waits(process):
        open_queue(process, 8)
        found = [await report(process, SENT, 30), process.now_us]
        found += [await report(process, RECEIVED, 50), process.now_us]
        found += [await hear(process, 70), process.now_us]
        found += [await hear(process, 60), process.now_us]
        return found

    said, _ = world.run_on_nodes(cluster, waits, nothing)
    assert said[::2] == [LATE] * 4
    ends = said[1::2]
    assert all(latest <= end < latest + 5 for latest, end in zip((30, 50, 70), ends, strict=False))
    assert ends[2] < ends[3] < ends[2] + 5  # over before it began: at once


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", [0, 1])
def test_a_wait_with_an_end_hears_what_comes_before_it(way, mode):
    cluster = cluster_over(way)

    async def sender(process):
        world.join(process, 0, 1, 0)
        open_queue(process, 8, (SENT,))
        await process.sleep(40)
        await process.post_inline(SEND, 0, b"word")
        ended = await hear(process, 100_000, mode)
        return ended, await report(process, SENT, 1)

    async def receiver(process):
        world.join(process, 0, 0, 0)
        open_queue(process, 8, (RECEIVED,))
        late = await hear(process, 20, mode)
        return late, await hear(process, 100_000, mode), (await process.arrival()).content

    sent, heard = world.run_on_nodes(cluster, sender, receiver)
    port = 1
    assert sent == ((port, SENT), SENT)  # what is there is heard, however late
    assert heard[:2] == (LATE, (port, RECEIVED))
    assert heard[2][:4] == b"word"


def test_a_queue_that_is_full_says_so_and_its_reports_stay():
    cluster = cluster_over("pci", entries=2)

    async def sender(process):
        world.join(process, 0, 1, 0)
        open_queue(process, 2)
        for _ in range(3):
            await process.post_inline(SEND, 0, b"word")
        await process.sleep(10_000)
        record = process._ports.table[0, process.port]
        async_errors = (
            int(record["async_errors"]),
            int(process._ports.work.async_errors[0, process.port, 0]),
        )
        entries = [await hear(process), await hear(process), await hear(process, 10_500)]
        return async_errors, entries, [(await process.done()).status for _ in range(3)]

    async def receiver(process):
        world.join(process, 0, 0, 0)
        for _ in range(3):
            await process.arrival()

    async_errors, entries, statuses = world.run_on_nodes(cluster, sender, receiver)[0]
    assert async_errors == (1, QUEUE_FULL)
    assert entries == [(1, SENT), (1, SENT), LATE]
    assert statuses == ["done"] * 3


def test_who_waits_at_a_queue_that_closes_is_told():
    cluster = cluster_over("pci")

    async def waits(process):
        open_queue(process, 8)
        return await hear(process)

    async def closes(process):
        await process.sleep(20)
        process._ports.work.queues[0, QUEUE]["open"] = 0
        await process.compute(1)

    assert world.run_on_nodes(cluster, (waits, closes), nothing)[0] == GONE
