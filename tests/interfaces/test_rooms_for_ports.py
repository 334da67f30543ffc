"""Where the CPU moves the bytes: what is posted waits on the NIC, and so does what has come."""

import functools

import pytest
import test_edt_for_ports as edt
import test_ports_over_the_bus as programs

from nicscope.config.design import load_design, with_settings
from nicscope.drivers.simulate.observe import Engine
from nicscope.drivers.simulate.ports.build import Faults, HostSize
from nicscope.drivers.simulate.records import ACCESSING, COPYING, PCI_IDLE, POLLING, POSTING
from nicscope.interfaces import unet, vmmc
from nicscope.memory.coherence.bus import REPORT as MASTER
from nicscope.memory.coherence.layout import (
    COMBINED_WRITE,
    CPU,
    DEVICE,
    INTERVENTION,
    READ,
    UNCACHED_READ,
    UNCACHED_WRITE,
    UPGRADE,
)
from nicscope.nic.ports.layout import RECEIVED, SENT
from program_results import results_of

NS = 1_000
PAGE = 4096
SIZE = 512
BY_PIO = ("pio", "pio-combined")
BY_CPU = (*BY_PIO, "cni")


@functools.cache
def one_message(way, *, reads=True, closes=False, loss=0.0, platform="utlb-edt", sizes=(SIZE,)):
    """Messages into buffers that their process has written to; what it finds there, and when."""
    cluster = unet.Cluster(
        programs.over(way, "utlb"), platform, keep_log=2000, faults=Faults(loss=loss, seed=3)
    )

    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        room = endpoint.allocate(2 * PAGE)
        await process.sleep(300)  # until the other side waits
        for turn, size in enumerate(sizes):
            await room.write(programs.pattern(turn, size), 8)
            await endpoint.send(tag, room.part(8, size))
            assert (await endpoint.sent()).ok
        await process.sleep(10_000)

    async def pong(process):
        endpoint = await process.open("pong")
        buffers = [endpoint.allocate(PAGE) for _ in range(2 * len(sizes))]
        for buffer in buffers:
            await buffer.write(b"\x05" * (SIZE + 8))
            await endpoint.provide(buffer)
        heard = []
        for _ in sizes if reads else ():
            message = await endpoint.receive()
            heard.append(await message.read())
        await process.sleep(5_000)
        if closes:
            await endpoint.close()
        return heard if reads else [await buffer.read(SIZE) for buffer in buffers]

    return results_of(cluster, ping, pong)[1], cluster


def moved_after(cluster, node, what):
    """The one time that the CPU of a node moved bytes, and what it read before or rang after that.

    It did so right after ``what``.
    """
    machine = cluster.simulation.machine
    log = machine.log[: machine.tally[0]["log"]]
    work = log[(log["node"] == node) & (log["engine"] == Engine.CPU)]
    starts = set(work[work["task"] == what]["end"].tolist())
    parts = [one for one in work if one["task"] in (ACCESSING, COPYING)]
    (first,) = [one for one in parts if int(one["start"]) in starts]
    (second,) = [one for one in parts if one["start"] == first["end"]]
    assert {int(first["task"]), int(second["task"])} == {ACCESSING, COPYING}
    return int(first["start"]), int(second["end"])


def rung(when):
    """When the doorbell has been rung: arbitration 10, ordered 30 after the grant, 10 of data."""
    return next_edge(when + 10 * NS) + 40 * NS


def report_read(when):
    """When the CPU has read a report of 64 bytes, which the NIC has written to memory.

    Second level 10, arbitration 10; of the grant ordered 30 later, from memory 60, data 80; 16
    words of the first level, 1 each, and 10 for its second line.
    """
    return next_edge(when + 20 * NS) + (30 + 60 + 80 + 16 + 10) * NS


def next_edge(when):
    return -(-when // (10 * NS)) * 10 * NS


def test_a_message_takes_a_store_past_the_caches_for_each_eight_bytes_before_the_doorbell():
    (heard,), cluster = one_message("pio")
    begun, ended = moved_after(cluster, 0, POSTING)

    # Two words of the first level, 1 each; arbitration 10, ordered 30 after the grant, 10 of data.
    # The next one is granted at the edge 60 after this.
    first = next_edge(begun + 2 * NS + 10 * NS)
    assert ended == rung(first + 40 * NS + (SIZE // 8 - 1) * 60 * NS)
    counts = cluster.simulation.machine.bus.hosts.counts[0].sum(axis=0)
    assert counts[UNCACHED_WRITE] == SIZE // 8 + 1
    assert heard == programs.pattern(0, SIZE)


def test_combined_stores_leave_in_bursts_of_a_buffer():
    (heard,), cluster = one_message("pio-combined")
    begun, ended = moved_after(cluster, 0, POSTING)
    counts = cluster.simulation.machine.bus.hosts.counts[0].sum(axis=0)

    # Four times two words loaded and one combined, 3 each; then as above, but 20 of data.
    first = next_edge(begun + 4 * 3 * NS + 10 * NS)
    assert ended == rung(first + 50 * NS + (SIZE // 32 - 1) * 80 * NS)
    assert (counts[COMBINED_WRITE], counts[UNCACHED_WRITE]) == (SIZE // 32, 1)
    assert heard == programs.pattern(0, SIZE)


@pytest.mark.parametrize("way", BY_PIO)
def test_what_has_come_is_read_past_the_caches_when_its_report_is_found(way):
    (heard,), cluster = one_message(way)
    begun, ended = moved_after(cluster, 1, POLLING)

    # Arbitration 10, ordered 30 later, the device 10, data 10; two words of the first level.  The
    # next one is granted at the edge 70 after this.
    first = next_edge(report_read(begun) + 10 * NS)
    assert ended == first + 50 * NS + (SIZE // 8 - 1) * 70 * NS + 2 * NS
    assert cluster.simulation.machine.bus.hosts.counts[1].sum(axis=0)[UNCACHED_READ] == SIZE // 8
    assert heard == programs.pattern(0, SIZE)
    assert cluster.report().total.interrupts == 0


def rooms_left(cluster):
    return int(cluster.simulation.machine.bus.ways.nics.tags["valid"].sum())


@pytest.mark.parametrize("loss", [0.0, 0.2])
@pytest.mark.parametrize("way", BY_CPU)
def test_a_room_is_free_when_its_request_has_ended_or_its_message_has_been_read(way, loss):
    sizes = (300, 64, 700, 128)
    heard, cluster = one_message(way, loss=loss, sizes=sizes)

    assert heard == [programs.pattern(turn, size) for turn, size in enumerate(sizes)]
    assert rooms_left(cluster) == 0


@pytest.mark.parametrize("way", BY_CPU)
def test_what_nobody_has_read_is_in_its_buffer_when_the_port_has_closed(way):
    found, cluster = one_message(way, reads=False, closes=True)

    assert found == [programs.pattern(0, SIZE), b"\x05" * SIZE]
    assert rooms_left(cluster) == 0
    _, other = one_message("cc-dma-retry", reads=False, closes=True)
    pinned = [one.simulation.machine.ports.memory.hosts["pinned"] for one in (cluster, other)]
    assert (pinned[0] == pinned[1]).all()


@pytest.mark.parametrize("way", BY_CPU)
def test_what_finds_no_room_is_moved_by_the_handler_of_an_interrupt(way, tmp_path):
    # 128 KiB of staging and 17 of queues; then room for one message, not for a buffer.
    platform = edt.small_platform(tmp_path, {"nic_memory_bytes": (128 + 17 + 1, "KiB")})
    sizes = (300, 700, 1600)
    heard, cluster = one_message(way, platform=platform, sizes=sizes)

    assert heard == [programs.pattern(turn, size) for turn, size in enumerate(sizes)]
    nodes = cluster.report().nodes
    assert nodes[0].interrupts == 1  # 1,600 bytes are more than the 1,536 that are left
    assert nodes[1].interrupts == len(sizes)


@pytest.mark.parametrize("way", [*BY_CPU, "dma"])
def test_pages_that_go_between_post_and_transfer_keep_their_bytes(way):
    """U-Net/MM pins when the NIC asks: a page may have gone, and come back elsewhere."""
    pages = 9
    cluster = unet.Cluster(
        programs.over(way, "unet-mm-pca200"), "pca200-edt", host=HostSize(frames=12)
    )

    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        rooms = [endpoint.allocate(PAGE) for _ in range(pages)]
        for turn, room in enumerate(rooms):
            await room.write(programs.pattern(turn, 40), 100)
        for room in rooms:
            await endpoint.send(tag, room.part(100, 40))
        for _ in rooms:
            assert (await endpoint.sent()).ok

    async def pong(process):
        endpoint = await process.open("pong")
        for _ in range(pages):
            await endpoint.provide(endpoint.allocate(PAGE))
        found = [await endpoint.receive() for _ in range(pages)]
        return [await message.read() for message in found]

    assert results_of(cluster, ping, pong)[1] == [
        programs.pattern(turn, 40) for turn in range(pages)
    ]
    assert rooms_left(cluster) == 0


@pytest.mark.requirement("ED-41", "ED-45")
def test_an_entry_of_a_cacheable_queue_takes_two_transactions_on_either_side():
    made = []
    for sizes in ((SIZE,), (SIZE, SIZE)):
        heard, cluster = one_message("cni", sizes=sizes)
        assert heard == [programs.pattern(turn, SIZE) for turn in range(len(sizes))]
        made.append(cluster.simulation.machine.bus.hosts.counts.copy())
    sender, receiver = made[1] - made[0]
    entries = -(-SIZE // (128 - 4))

    # The CPU takes the block, and the NIC reads it out of the cache; and the other way round.
    assert (sender[CPU, UPGRADE], sender[DEVICE, READ]) == (entries, entries)
    assert sender[DEVICE, INTERVENTION] == entries
    assert (receiver[DEVICE, UPGRADE], receiver[CPU, INTERVENTION]) == (entries, entries)
    assert receiver[DEVICE, READ] == sender[DEVICE, UPGRADE] == 0


def test_what_is_posted_waits_while_the_nics_engine_moves_packets():
    """Stores come in, by interrupts, while the process that they go to posts stores itself."""
    design = programs.over("cni", "utlb")
    cluster = vmmc.Cluster(design, "utlb-edt", faults=Faults(loss=0.05, seed=4))
    rounds = 5

    async def side(endpoint, own, other, peer):
        table, room = endpoint.allocate(4000), endpoint.allocate(4000)
        await table.write(bytes(4000))
        await endpoint.export(table, own, allow=peer)
        remote = await endpoint.import_buffer(peer, other)
        sent = []
        for turn in range(rounds):
            await room.write(programs.pattern(turn, 700), 700 * turn)
            part = room.part(700 * turn, 700)
            sent.append(await endpoint.store(remote, part, 700 * turn, notify=turn == rounds - 1))
        for one in sent:
            assert (await endpoint.wait(one)).ok
        await endpoint.notification()
        return await table.read(700 * rounds)

    cluster.start(0, lambda endpoint: side(endpoint, "left", "right", 1))
    cluster.start(1, lambda endpoint: side(endpoint, "right", "left", 0))
    whole = b"".join(programs.pattern(turn, 700) for turn in range(rounds))

    assert cluster.run() == [whole, whole]
    assert rooms_left(cluster) == 0
    assert (cluster.simulation.machine.nodes["pci"] == PCI_IDLE).all()


@pytest.mark.parametrize("way", [*BY_CPU, "dma", "cc-dma-retry", "cc-dma-intervention", "edt"])
def test_the_nic_hears_of_each_descriptor_and_buffer_by_an_uncached_store(way):
    sizes = (300, 700)
    _, cluster = one_message(way, sizes=sizes)
    bus = cluster.simulation.machine.bus
    registers = bus.ways.nics.registers[:, 0]
    work = cluster.simulation.machine.log

    assert registers["doorbells"].tolist() == [len(sizes), 2 * len(sizes)]
    stores = bus.hosts.counts[1, CPU, UNCACHED_WRITE]
    assert stores == 2 * len(sizes)
    if way in ("cc-dma-retry", "cc-dma-intervention", "edt"):
        # Nothing else is to be done between the time that the library takes and the doorbell.
        work = work[(work["node"] == 1) & (work["engine"] == Engine.CPU)]
        ends = work[work["task"] == POSTING]["end"]
        rings = [one for one in work if one["task"] == ACCESSING and one["start"] in ends]
        assert len(rings) == 2 * len(sizes)
        assert all(one["end"] == rung(one["start"]) for one in rings)


def test_a_descriptor_that_the_library_refuses_rings_no_doorbell():
    design = load_design("utlb")
    cluster = vmmc.Cluster(with_settings(design, ["way=edt", "pin_limit=1"]), "utlb-edt")

    async def owner(endpoint):
        table = endpoint.allocate(100)
        await endpoint.export(table, "table", allow=1)

    async def user(endpoint):
        remote = await endpoint.import_buffer(0, "table")
        room = endpoint.allocate(3 * PAGE)
        sent = await endpoint.store(remote, room.part(PAGE - 4, 8))  # in two pages
        return (await endpoint.wait(sent)).status

    assert results_of(cluster, owner, user)[1] == "no room"
    assert cluster.simulation.machine.bus.ways.nics.registers[1, 0]["doorbells"] == 0


@pytest.mark.parametrize("way", [*BY_CPU, "dma", "cc-dma-retry", "cc-dma-intervention", "edt"])
def test_a_process_finds_a_report_when_the_nic_has_written_it_and_reads_it_through_its_cache(way):
    _, cluster = one_message(way)
    machine = cluster.simulation.machine
    log = machine.log[: machine.tally[0]["log"]]

    for node, ring in ((0, SENT), (1, RECEIVED)):
        work = log[(log["node"] == node) & (log["engine"] == Engine.CPU)]
        (poll,) = work[work["task"] == POLLING]
        assert poll["start"] == machine.bus.timing[node, MASTER]["ended"]
        assert machine.bus.shown[node].sum() == 1
        (p,) = machine.bus.shown[node, :, ring].nonzero()[0]
        made = machine.ports.reports[node, p, ring, 0].tobytes()
        place = int(machine.bus.rules[node]["reports"]) + (2 * p + ring) * 64 * len(made)
        assert machine.ports.memory.bytes[node, place : place + len(made)].tobytes() == made
        if node == 0 or way in ("cc-dma-retry", "cc-dma-intervention", "edt"):
            (read,) = work[work["start"] == poll["end"]]
            assert read["end"] == report_read(read["start"])


@pytest.mark.parametrize("way", ["edt", "cni"])
def test_reports_come_in_the_order_in_which_they_were_made(way):
    count = 20
    cluster = unet.Cluster(programs.over(way, "utlb"), "utlb-edt")

    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        posted = [await endpoint.send(tag, bytes([turn])) for turn in range(count)]
        return posted, [(await endpoint.sent()).request for _ in posted]

    async def pong(process):
        endpoint = await process.open("pong")
        await process.sleep(3000)
        assert endpoint.waiting == count
        return [(await endpoint.receive()).content for _ in range(count)]

    (posted, ended), heard = results_of(cluster, ping, pong)

    assert ended == posted
    assert heard == [bytes([turn]) for turn in range(count)]
