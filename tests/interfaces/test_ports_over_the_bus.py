"""Programs on ports over a coherent bus: the same bytes as over PCI, in the times of that bus."""

import functools
from itertools import cycle, pairwise, product

import pytest

from nicscope.config.design import Way, load_design, with_settings
from nicscope.drivers.simulate.observe import Engine
from nicscope.drivers.simulate.ports.build import Faults, HostSize
from nicscope.interfaces import mini, unet, vmmc
from nicscope.interfaces.ways import BY_PROCESSOR
from nicscope.memory.coherence.layout import INTERVENTION, RETRY
from pairwise import others_marked
from program_results import results_of

WAYS = ("pci", "dma", "cc-dma-retry", "cc-dma-intervention")
EVERY_WAY = tuple(way.value for way in Way if way != Way.PCI)
OVER_BUS = WAYS[1:]
LOSSES = (0.0, 0.05)
NS = 1_000
SIZE = 9_000
ROUNDS = 4


def over(way, name, **others):
    """The catalog's design ``name`` over another way."""
    parts = {"way": way, "transport": "reliable", **others}
    if way in BY_PROCESSOR:
        parts["delivery"] = "store-and-forward"
    return with_settings(load_design(name), [f"{key}={value}" for key, value in parts.items()])


def pattern(turn, count):
    return bytes((i * 7 + turn * 31) % 251 for i in range(count))


def on_unet(way, loss, design="unet-mm-pca200", platform="pca200-edt", **how):
    """What each side of a conversation has heard: every message comes back, in other buffers."""
    cluster = unet.Cluster(over(way, design, **how), platform, faults=Faults(loss=loss, seed=5))

    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        room, heard = endpoint.allocate(2 * 4096), []
        await endpoint.provide(*(endpoint.allocate(4096) for _ in range(2 * ROUNDS)))
        for turn in range(ROUNDS):
            content = pattern(turn, 500 + 1300 * turn)
            await room.write(content, 17)
            await endpoint.send(tag, room.part(17, len(content)))
            answer = await endpoint.receive()
            heard.append(await answer.read())
        return heard

    async def pong(process):
        endpoint = await process.open("pong")
        await endpoint.provide(*(endpoint.allocate(4096) for _ in range(2 * ROUNDS)))
        heard = []
        for _ in range(ROUNDS):
            message = await endpoint.receive()
            heard.append(await message.read())
            await endpoint.send(message.tag, message.buffers[0].part(0, min(message.length, 4000)))
        await process.sleep(200_000)
        return heard

    return _run(cluster, ping, pong)


def on_vmmc(way, loss, design="utlb", **how):
    """What the owner of a table finds in it, and what its user has fetched."""
    cluster = vmmc.Cluster(over(way, design, **how), "utlb-edt", faults=Faults(loss=loss, seed=5))

    async def owner(endpoint):
        table = endpoint.allocate(SIZE)
        await table.write(bytes(SIZE))
        await endpoint.export(table, "table", allow=1)
        await endpoint.notification()
        return await table.read()

    async def user(endpoint):
        remote = await endpoint.import_buffer(0, "table")
        room, back = endpoint.allocate(SIZE), endpoint.allocate(SIZE)
        for turn in range(ROUNDS):
            await room.write(pattern(turn, SIZE - 1000))
            last = turn == ROUNDS - 1
            sent = await endpoint.store(remote, room, 100 * turn, length=SIZE - 1000, notify=last)
            assert (await endpoint.wait(sent)).ok
        assert (await endpoint.wait(await endpoint.fetch(remote, back))).ok
        return await back.read()

    return _run(cluster, owner, user)


def on_mini(way, loss, design="mini", platform="mini-edt", **how):
    """What a registered buffer holds, and what was read of it."""
    cluster = mini.Cluster(over(way, design, **how), platform, faults=Faults(loss=loss, seed=5))

    async def owner(end):
        room = end.allocate(SIZE)
        await room.write(bytes(SIZE))
        await end.register(room, name="table")
        await end.sleep(100_000)
        return await room.read()

    async def user(end):
        room, back = end.allocate(SIZE), end.allocate(SIZE)
        await room.write(pattern(1, SIZE))
        remote = await end.open(await end.find("table"))
        for _ in range(ROUNDS):
            await end.write(remote, room, notify=False)
            assert (await end.done()).ok
        await end.read(remote, back)
        assert (await end.done()).ok
        return await back.read()

    return _run(cluster, owner, user)


def _run(cluster, first, second):
    return results_of(cluster, first, second), cluster


CONVERSATIONS = [on_unet, on_vmmc, on_mini]


@functools.cache
def over_pci(conversation, *design_and_platform, **how):
    """What is heard in a conversation over PCI, which every other way is held against."""
    return conversation("pci", 0.0, *design_and_platform, **how)[0]


ON_DESIGNS = {
    "U-Net/MM": (on_unet,),
    "miNI": (on_mini,),
    "U-Net, UTLB": (on_unet, "utlb", "utlb-edt"),
    "U-Net, pinned area": (on_unet, "unet"),
    "VMMC, UTLB": (on_vmmc, "utlb"),
    "VMMC, static tables": (on_vmmc, "vmmc-static"),
    "miNI, static tables": (on_mini, "vmmc-static", "utlb-edt"),
}


# EDT takes schemes that pin before the doorbell.
PINS_ON_A_MISS = ("U-Net/MM", "miNI")
EVERY = [
    (program, way, loss)
    for program, way, loss in product(ON_DESIGNS, EVERY_WAY, LOSSES)
    if not (way == "edt" and program in PINS_ON_A_MISS)
]
# Every way with and without losses, with one program each, in turn.
IN_TURN = [
    (program, way, loss)
    for program, (way, loss) in zip(cycle(ON_DESIGNS), product(EVERY_WAY, LOSSES))
]


@pytest.mark.parametrize(
    ("program", "way", "loss"), others_marked(pytest.mark.long, EVERY, IN_TURN)
)
def test_a_program_has_the_same_bytes_over_every_way(program, way, loss):
    conversation, *design_and_platform = ON_DESIGNS[program]

    heard, cluster = conversation(way, loss, *design_and_platform)

    assert heard == over_pci(conversation, *design_and_platform)
    assert (cluster.simulation.machine.ports.nodes["stale"] == 0).all()
    assert ((cluster.report().total.received.lost or 0) > 0) == (loss > 0)


@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_reports_count_the_same_over_the_bus_as_over_pci(conversation):
    counts = []
    for way in WAYS:
        _, cluster = conversation(way, 0.0)
        total = cluster.report().total
        work = (total.requests, total.messages_in, total.bytes_in, total.lookups, total.misses)
        counts.append([*work, *(cluster.counts(node) for node in range(2))])

    assert all(one == other for one, other in pairwise(counts))


@pytest.mark.parametrize(
    ("delivery", "design"),
    [
        ("store-and-forward", "utlb-shared"),
        ("cut-through", "utlb-process"),
        ("cut-through-minpulse", "vmmc-static"),
        ("adaptive", "vmmc-interrupt"),
    ],
)
def test_every_delivery_carries_the_same_bytes_over_the_bus(delivery, design):
    heard, _ = on_vmmc("cc-dma-intervention", 0.05, design, delivery=delivery)

    assert heard == over_pci(on_vmmc, design, delivery=delivery)


def one_page(delivery, platform="utlb-edt"):
    """The one store of a page by ``delivery``: what each engine logs of its payload."""
    design = over("cc-dma-intervention", "vmmc-static", delivery=delivery)
    cluster = vmmc.Cluster(design, platform, keep_log=400)

    async def owner(endpoint):
        table = endpoint.allocate(4096)
        await endpoint.export(table, "table", allow=1)
        await endpoint.sleep(10_000)

    async def user(endpoint):
        remote = await endpoint.import_buffer(0, "table")
        await endpoint.wait(await endpoint.store(remote, endpoint.allocate(4096)))

    _, cluster = _run(cluster, owner, user)
    log = cluster.simulation.machine.log
    payload = log[(log["control"] == 0) & (log["bytes"] > 0)]
    return {engine: payload[payload["engine"] == engine] for engine in Engine}


def next_edge(when):
    """The first clock edge of the bus at or after ``when`` (ps)."""
    return -(-when // (10 * NS)) * 10 * NS


def test_a_page_crosses_the_bus_in_the_time_that_its_transactions_take():
    moved = one_page("store-and-forward")
    (out,), (into,) = moved[Engine.HOST_TX], moved[Engine.HOST_RCV]

    # Set-up 300, then arbitration 10: the first block is granted at an edge and ordered 30 later.
    # Two are under way.  A block's data take 80 and come 60 after the order: of the first two 90
    # to 170 and 170 to 250 after the grant; the next two ask at 170 and 250, and so end 180 after
    # these.  The last of 32 ends 15 * 180 later than the second; then the interrupt, 500.
    granted = next_edge(out["start"] + 310 * NS)
    assert out["end"] == granted + (250 + 15 * 180 + 500) * NS

    # Written data are there at once: from 30 after the grant on, 80 a block without a gap.
    granted = next_edge(into["start"] + 310 * NS)
    assert into["end"] == granted + (30 + 32 * 80 + 500) * NS


def test_the_link_takes_the_first_bytes_when_the_bus_has_brought_them(tmp_path):
    # An engine that is set up so late that the link has nothing to do meanwhile.
    platform = tmp_path / "late.toml"
    platform.write_text(
        'combines = ["edt-table1", "utlb-prototype"]\n[costs]\n'
        'dma_init = { value = 9, unit = "us", evidence = "assumed", source = "assumed: late" }\n'
    )
    moved = one_page("adaptive", str(platform))
    (out,), parts = moved[Engine.HOST_TX], moved[Engine.NET_TX]

    # The link takes more than 128 bytes, so two blocks: they are there 250 after the grant, and
    # the processor has nothing else to do.
    granted = next_edge(out["start"] + 9_010 * NS)
    assert parts["start"][0] == granted + 250 * NS
    assert parts["bytes"][0] == 256
    assert parts["bytes"].sum() == 4096


def in_one_process(way, program, **how):
    """What ``program`` returns, alone on a node, and its cluster."""
    cluster = vmmc.Cluster(over(way, "utlb"), "utlb-edt", **how)
    (result,) = results_of(cluster, program)
    return result, cluster


def test_a_load_takes_a_miss_once_and_then_the_time_of_a_word():
    async def program(endpoint):
        room = endpoint.allocate(4096)
        await room.write(b"here")
        times = [endpoint.now_us]
        for _ in range(2):
            assert await room.read(4, 2048) == bytes(4)
            times.append(endpoint.now_us)
        return [round((end - begin) * 1e6) for begin, end in pairwise(times)]

    (first, again), _ = in_one_process("cc-dma-intervention", program)

    # Second level 10, arbitration 10, ordered 30 later, from memory 60, data 80, first level 1;
    # and up to one period of the bus to its next edge.
    assert 191 * NS <= first < 201 * NS
    assert again == 1 * NS
    assert in_one_process("pci", program)[0] == [0, 0]  # an access is at once there


def test_what_a_program_has_just_written_is_retried_or_supplied_by_its_cache():
    kinds = {}
    for way in OVER_BUS:
        (table, _), cluster = on_vmmc(way, 0.0)
        kinds[way] = cluster.simulation.machine.bus.hosts.counts[1].sum(axis=0)
        assert table.startswith(pattern(0, 100))

    assert kinds["cc-dma-retry"][RETRY] > 0
    assert kinds["cc-dma-retry"][INTERVENTION] == 0
    assert kinds["cc-dma-intervention"][RETRY] == 0
    assert kinds["cc-dma-intervention"][INTERVENTION] > 0


@pytest.mark.parametrize("way", WAYS)
def test_pages_that_swap_keep_what_was_stored_through_the_caches(way):
    pages = 20

    async def program(endpoint):
        room = endpoint.allocate(pages * 4096)
        places = [page * 4096 + 3900 for page in range(pages - 1)]  # each ends in the next page
        for turn, place in enumerate(places):
            await room.write(pattern(turn, 300), place)
        return [await room.read(300, place) == pattern(i, 300) for i, place in enumerate(places)]

    right, cluster = in_one_process(way, program, host=HostSize(frames=12))

    assert all(right)
    assert cluster.simulation.machine.ports.memory.hosts[0]["page_outs"] > 0


def test_two_processes_of_a_host_take_its_cpu_in_turn_with_their_accesses():
    async def program(endpoint):
        room = endpoint.allocate(3 * 4096)
        for turn in range(3):
            content = pattern(turn + endpoint.number, 9000)
            await room.write(content, turn)
            assert await room.read(9000, turn) == content
        return endpoint.now_us

    cluster = vmmc.Cluster(
        over("cc-dma-intervention", "utlb"), "utlb-edt", host=HostSize(frames=5), keep_log=500
    )
    for _ in range(2):
        cluster.start(0, program)
    cluster.run()

    log = cluster.simulation.machine.log
    work = log[(log["engine"] == Engine.CPU) & (log["end"] > log["start"])]
    assert {0, 1} <= {*work["sender"].tolist()}
    assert all(one["end"] <= other["start"] for one, other in pairwise(work))
    memory = cluster.simulation.machine.ports.memory
    assert memory.hosts[0]["accessed"] == 0
    assert memory.hosts[0]["page_outs"] > 0
