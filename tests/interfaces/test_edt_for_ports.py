"""EDT under programs on ports: frames are registered while they are pinned, and copies are true."""

import numpy as np
import pytest
import test_ports_over_the_bus as programs

from nicscope.config.design import load_design, with_settings
from nicscope.drivers.simulate.observe import Engine
from nicscope.drivers.simulate.ports.build import Faults, HostSize
from nicscope.errors import SimulationError
from nicscope.interfaces import vmmc
from nicscope.memory.coherence.bus import ENGINE_OUT
from nicscope.memory.coherence.layout import (
    INTERVENTION,
    INVALID,
    MODIFIED,
    READ,
    SHARED,
    UPGRADE,
)
from program_results import results_of
from refusals import refused

NS = 1_000
PAGE, BLOCK = 4096, 128


def untrue_copies(cluster):
    """Blocks of which a NIC has other bytes than its host, both at rest."""
    machine = cluster.simulation.machine
    agents, hosts = machine.bus.ways.agents, machine.bus.hosts
    untrue = []
    for n in range(2):
        lines = {int(line["tag"]): i for i, line in enumerate(hosts.l2[n])}
        for home, copy in enumerate(agents.copies[n]):
            block = int(copy["block"])
            if block < 0 or copy["state"] == INVALID:
                continue
            assert copy["state"] == SHARED  # never newer than memory
            line = lines.get(block)
            assert line is None or hosts.l2[n, line]["state"] != MODIFIED
            own = agents.memory[n, home * BLOCK : (home + 1) * BLOCK]
            if (own != hosts.memory[n, block * BLOCK : (block + 1) * BLOCK]).any():
                untrue.append((n, block))
    return untrue


def registered_frames(cluster, n):
    """Frames of which the NIC of ``n`` keeps copies, from where the bus finds them."""
    home = cluster.simulation.machine.bus.ways.agents.home[n].reshape(-1, PAGE // BLOCK)
    whole = (home != -1).all(axis=1)
    assert (whole == (home != -1).any(axis=1)).all()
    return set(np.flatnonzero(whole).tolist())


def pinned_frames(cluster, n):
    """Frames that some address space has pinned."""
    frames = cluster.simulation.machine.ports.memory.frames[n]
    return set(np.flatnonzero((frames["pins"] > 0) & (frames["pinner"] >= 0)).tolist())


@pytest.mark.parametrize("design", ["utlb", "utlb-shared", "utlb-process", "vmmc-static"])
@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_a_frame_is_registered_exactly_while_it_is_pinned(design, loss):
    _, cluster = programs.on_vmmc("edt", loss, design)

    for n in range(2):
        assert registered_frames(cluster, n) == pinned_frames(cluster, n) != set()
    assert untrue_copies(cluster) == []
    assert (cluster.simulation.machine.bus.ways.nics.registers["fallbacks"] == 0).all()


@pytest.mark.requirement("ED-11", "ED-15")
def test_a_packet_goes_from_the_buffer_on_the_nic_of_its_frame_to_that_of_the_frame_it_belongs_to():
    design = with_settings(load_design("utlb"), ["way=edt", "transport=reliable"])
    cluster = vmmc.Cluster(design, "utlb-edt")
    begin, content = 3 * BLOCK + 10, programs.pattern(3, PAGE)

    async def owner(endpoint):
        table = endpoint.allocate(2 * PAGE)
        await table.write(bytes(2 * PAGE))
        await endpoint.export(table, "table", allow=1)
        await endpoint.notification()
        return table.address // PAGE

    async def user(endpoint):
        room = endpoint.allocate(2 * PAGE)
        await room.write(content)
        remote = await endpoint.import_buffer(0, "table")
        await endpoint.store(remote, room, begin, length=PAGE, notify=True)
        return room.address // PAGE

    page, own = results_of(cluster, owner, user)

    machine = cluster.simulation.machine
    agents, nics = machine.bus.ways.agents, machine.bus.ways.nics
    # The sender's doorbell was rung once; its tag says where NIC memory has the page, and the
    # controller has read its blocks there, of which the engine has moved none.
    frame = int(machine.ports.memory.entries[1, 0, own]["frame"])
    [tag] = [each for each in nics.tags[1] if each["valid"] and each["host_start"] == frame * PAGE]
    assert nics.registers[1, 0]["doorbells"] == 1
    assert agents.memory[1, tag["nic_start"] : tag["nic_end"]].tobytes() == content
    assert agents.watch[1]["reads"] == PAGE // BLOCK
    assert machine.bus.timing[1, ENGINE_OUT]["transfers"] == 0
    whole = range(-(-begin // BLOCK), (begin + PAGE) // BLOCK)  # blocks that hold nothing else
    for block in whole:
        frame = machine.ports.memory.entries[0, 0, page + block * BLOCK // PAGE]["frame"]
        home = int(agents.home[0][int(frame) * (PAGE // BLOCK) + block % (PAGE // BLOCK)])
        assert agents.copies[0][home]["state"] == SHARED
        held = agents.memory[0, home * BLOCK : (home + 1) * BLOCK].tobytes()
        assert held == content[block * BLOCK - begin :][:BLOCK]
    # It has read the table's blocks when the owner had written them, and not out of memory again.
    assert agents.watch[0]["reads"] == 2 * PAGE // BLOCK


def many_buffers(way, loss, platform="utlb-edt", frames=16, **settings):
    """Stores out of more pages than may be pinned, on a host of few frames; what has arrived."""
    chosen = {"way": way, "transport": "reliable"} | settings
    design = with_settings(load_design("utlb"), [f"{key}={chosen[key]}" for key in chosen])
    cluster = vmmc.Cluster(
        design, platform, faults=Faults(loss=loss, seed=7), host=HostSize(frames=frames)
    )
    pages = 14

    async def owner(endpoint):
        table = endpoint.allocate(2 * PAGE)
        await table.write(bytes(2 * PAGE))
        await endpoint.export(table, "table", allow=1)
        heard = []
        for _ in range(pages):
            await endpoint.notification()
            heard.append(await table.read())
            await table.write(b"mine", 2 * PAGE - 4)
        return heard

    async def user(endpoint):
        remote = await endpoint.import_buffer(0, "table")
        rooms = [endpoint.allocate(PAGE) for _ in range(pages)]
        for turn, room in enumerate(rooms):
            await room.write(programs.pattern(turn, 700), 100)
            sent = await endpoint.store(remote, room, 300 * turn, length=900, notify=True)
            assert (await endpoint.wait(sent)).ok
            await room.write(b"after", 99)  # of a page that is registered, or is not any more
            await endpoint.sleep(300)
        return [await room.read(900) for room in rooms]

    return results_of(cluster, owner, user), cluster


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_what_is_unpinned_and_swapped_is_registered_anew_when_it_comes_back(loss):
    over_pci, _ = many_buffers("pci", 0.0, pin_limit=3, frames=12)

    heard, cluster = many_buffers("edt", loss, pin_limit=3, frames=12)

    assert heard == over_pci
    machine = cluster.simulation.machine
    registers = machine.bus.ways.nics.registers[1, 0]
    assert registers["registrations"] > 10 < registers["releases"]
    assert machine.ports.memory.hosts[1]["page_outs"] > 0
    assert registered_frames(cluster, 1) == pinned_frames(cluster, 1)
    assert untrue_copies(cluster) == []


@pytest.mark.requirement("ED-48")
def test_a_frame_stays_registered_when_its_use_is_over_until_it_is_the_one_unused_for_longest():
    chosen = ["way=edt", "transport=reliable", "pin_limit=3"]
    cluster = vmmc.Cluster(with_settings(load_design("utlb"), chosen), "utlb-edt")
    seen = []

    async def owner(endpoint):
        table = endpoint.allocate(PAGE)
        await endpoint.export(table, "table", allow=1)
        await endpoint.sleep(10_000)

    async def user(endpoint):
        machine = cluster.simulation.machine
        remote = await endpoint.import_buffer(0, "table")
        rooms = [endpoint.allocate(PAGE) for _ in range(4)]
        for room in (0, 0, 1, 2, 0, 3):
            await rooms[room].write(b"written", 5)
            assert (await endpoint.wait(await endpoint.store(remote, rooms[room], length=64))).ok
            pages = machine.ports.memory.entries[1, 0]["frame"]
            kept = registered_frames(cluster, 1)
            held = [n for n, one in enumerate(rooms) if int(pages[one.address // PAGE]) in kept]
            registers = machine.bus.ways.nics.registers[1, 0]
            seen.append((held, int(registers["registrations"]), int(registers["releases"])))

    results_of(cluster, owner, user)

    assert seen == [
        ([0], 1, 0),
        ([0], 1, 0),  # found as it was left
        ([0, 1], 2, 0),
        ([0, 1, 2], 3, 0),
        ([0, 1, 2], 3, 0),
        ([0, 2, 3], 4, 1),
    ]


def small_platform(tmp_path, words):
    path = tmp_path / "small.toml"
    said = "\n".join(
        f'{name} = {{ value = {value}, unit = "{unit}", evidence = "assumed", '
        'source = "assumed: to see what it changes" }'
        for name, (value, unit) in words.items()
    )
    path.write_text(f'combines = ["edt-table1", "utlb-prototype"]\n[machine]\n{said}\n')
    return str(path)


@pytest.mark.requirement("ED-49")
@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param({"pinned_bytes_max": 8}, id="pinned_bytes_max"),
        # 256 KiB for messages and 17 of queues come first, in which all that the firmware keeps
        # (266.5 KiB: buffers, packets, queues, translations) has room too.
        pytest.param(
            {"nic_memory_bytes": 256 + 17 + 8, "staging_bytes": 256}, id="nic_memory_bytes"
        ),
    ],
)
@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_what_finds_no_room_on_the_nic_is_moved_by_its_engine(sizes, loss, tmp_path):
    over_pci, _ = many_buffers("pci", 0.0)
    # Room for two frames of a node.
    platform = small_platform(tmp_path, {name: (size, "KiB") for name, size in sizes.items()})

    heard, cluster = many_buffers("edt", loss, platform)

    assert heard == over_pci
    registers = cluster.simulation.machine.bus.ways.nics.registers[:, 0]
    assert registers["fallbacks"][1] > 8
    assert (registers["pinned"] <= 2 * PAGE).all()
    assert registers["registrations"][1] == 2
    assert untrue_copies(cluster) == []


@pytest.mark.parametrize(("name", "value"), [("receive_method", 1), ("when_full", 2)])
def test_a_method_of_edt_that_ports_do_not_take_is_refused_in_one_line(name, value, tmp_path):
    platform = small_platform(tmp_path, {name: (value, "1 or 2")})

    with refused(SimulationError, f"{name} {value}"):
        many_buffers("edt", 0.0, platform)


@pytest.mark.requirement("ED-22", "ED-31", "ED-26")
def test_a_registered_page_is_there_at_the_doorbell_and_is_written_back_block_by_block():
    design = with_settings(load_design("vmmc-static"), ["way=edt", "delivery=store-and-forward"])
    cluster = vmmc.Cluster(design, "utlb-edt", keep_log=1000)

    async def owner(endpoint):
        table = endpoint.allocate(PAGE)
        await endpoint.export(table, "table", allow=1)
        await endpoint.sleep(10_000)

    async def user(endpoint):
        remote = await endpoint.import_buffer(0, "table")
        room = endpoint.allocate(PAGE)
        for turn in range(2):  # the first registers it
            await room.write(programs.pattern(turn, PAGE))
            await endpoint.wait(await endpoint.store(remote, room))

    results_of(cluster, owner, user)
    log = cluster.simulation.machine.log
    payload = log[(log["control"] == 0) & (log["bytes"] == PAGE)]
    out = payload[payload["engine"] == Engine.HOST_TX][1]
    into = payload[payload["engine"] == Engine.HOST_RCV][1]

    # No transfer at the send: every block was read when it was written.
    assert out["end"] == out["start"]
    # 32 write-backs, two under way: arbitration 10, ordered 30 after the grant, 80 of data each,
    # without a gap; no set-up and no interrupt of an engine.
    granted = -(-(into["start"] + 10 * NS) // (10 * NS)) * 10 * NS
    assert into["end"] == granted + (30 + 32 * 80) * NS


@pytest.mark.requirement("ED-20", "ED-21", "ED-45")
def test_what_a_program_writes_crosses_the_bus_in_two_transactions_a_block_before_it_is_posted():
    cluster = vmmc.Cluster(with_settings(load_design("utlb"), ["way=edt"]), "utlb-edt")

    async def owner(endpoint):
        table = endpoint.allocate(PAGE)
        await endpoint.export(table, "table", allow=1)
        await endpoint.sleep(10_000)

    async def user(endpoint):
        bus = cluster.simulation.machine.bus
        remote = await endpoint.import_buffer(0, "table")
        room = endpoint.allocate(PAGE)
        await room.write(programs.pattern(0, PAGE))
        await endpoint.wait(await endpoint.store(remote, room))
        before = bus.hosts.counts[1].copy()
        await room.write(programs.pattern(1, PAGE))
        await endpoint.sleep(1)
        made = bus.hosts.counts[1] - before
        held = [bytes(bus.ways.agents.memory[1, place : place + PAGE]) for place in places(bus)]
        return made, held

    def places(bus):
        tags = bus.ways.nics.tags[1]
        return [int(tag["nic_start"]) for tag in tags[tags["valid"] == 1]]

    made, held = results_of(cluster, owner, user)[1]

    assert programs.pattern(1, PAGE) in held
    assert made[0, UPGRADE] == made[1, READ] == PAGE // BLOCK
    assert made[:, INTERVENTION].sum() == PAGE // BLOCK  # the cache had modified each
    made[0, UPGRADE] = made[1, READ] = made[1, INTERVENTION] = 0
    assert (made == 0).all()
