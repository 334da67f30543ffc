"""A controller that cannot be programmed: the kernel serves endpoints in traps and its handler."""

import msgspec
import pytest

from nicscope.config.design import load_design
from nicscope.drivers.simulate.ports.build import Faults, Transport
from nicscope.drivers.simulate.records import POST
from nicscope.drivers.translation import nic_memory_bytes
from nicscope.errors import SimulationError
from nicscope.interfaces.unet import Cluster
from nicscope.nic.ports.layout import FETCH, WRITE
from program_results import results_of
from refusals import refused

COLUMNS = [("unet-mm-dc21140", "dc21140-nt"), ("unet", "dc21140-linux"), ("unet", "dc21140-nt")]
LENGTHS = (60, 1498, 700, 3000, 1499, 200, 1498 * 4, 56)


def run(column, ping, pong, **settings):
    cluster = Cluster(*column, **settings)
    results = results_of(cluster, ping, pong)
    ports = cluster.simulation.machine.ports
    assert (ports.nodes["stale"] == 0).all()
    assert (cluster.simulation.machine.nodes["processor_busy"] == 0).all()
    return results, cluster


async def send_all(process):
    endpoint = await process.open()
    tag = await endpoint.connect(1, "pong")
    room = endpoint.allocate(8192)
    content = bytes(i * 7 % 251 for i in range(8192))
    await room.write(content)
    await process.sleep(3000)
    for number, length in enumerate(LENGTHS):
        await endpoint.send(tag, room.part(number, 30), room.part(number + 30, length - 30))
        assert (await endpoint.sent()).ok
        await process.sleep(200)
    return [content[number : number + length] for number, length in enumerate(LENGTHS)]


async def receive_all(process):
    endpoint = await process.open("pong")
    await endpoint.provide(*(endpoint.allocate(1498) for _ in range(16)))
    return [await (await endpoint.receive()).read() for _ in LENGTHS]


@pytest.mark.requirement("UM-74", "UM-79a")
@pytest.mark.parametrize("column", COLUMNS)
def test_messages_arrive_whole_with_one_copy(column):
    (sent, received), cluster = run(column, send_all, receive_all)
    assert received == sent
    nodes = cluster.simulation.machine.ports.nodes
    assert nodes["copied"].tolist() == [0, sum(LENGTHS)]


@pytest.mark.requirement("UM-71")
@pytest.mark.parametrize("column", COLUMNS)
def test_a_translation_that_the_kernel_keeps_interrupts_nobody_and_takes_no_nic_memory(column):
    _, cluster = run(column, send_all, receive_all)
    ports = cluster.simulation.machine.ports
    for node in (0, 1):
        assert cluster.counts(node)["interrupts"] == 0
        assert nic_memory_bytes(ports.translations, node) == {}
    misses = cluster.counts(0)["ni_misses"] + cluster.counts(1)["ni_misses"]
    assert (misses > 0) == (column[0] == "unet-mm-dc21140")
    # Frames that arrive interrupt, each once at most; who only sends is left alone.
    frames = cluster.report().nodes[1].received.total
    assert ports.nodes[0]["interrupts"] == 0
    assert 0 < ports.nodes[1]["interrupts"] <= frames


@pytest.mark.parametrize("column", COLUMNS[:2])
def test_a_reliable_transport_brings_lost_frames_again(column):
    (sent, received), cluster = run(
        column, send_all, receive_all, transport=Transport(), faults=Faults(seed=3, loss=0.1)
    )
    assert received == sent
    assert cluster.report().total.received.lost > 0


@pytest.mark.requirement("UM-75")
def test_the_handler_takes_its_time_from_what_the_cpu_does():
    def computing(count):
        async def pong(process):
            endpoint = await process.open("pong")
            await endpoint.provide(*(process.allocate(1498) for _ in range(8)))
            begun = process.now_us
            await process.compute(3000)
            spent = process.now_us - begun
            for _ in range(count):
                assert (await endpoint.receive()).length == 1498
            return spent

        return pong

    def sending(count):
        async def ping(process):
            endpoint = await process.open()
            tag = await endpoint.connect(1, "pong")
            room = process.allocate(1498)
            await process.sleep(1000)
            for _ in range(count):
                await endpoint.send(tag, room)
            for _ in range(count):
                await endpoint.sent()

        return ping

    times = [run(COLUMNS[0], sending(count), computing(count))[0][1] for count in (0, 1, 4)]
    assert times[0] == pytest.approx(3000)
    assert times[1] == pytest.approx(3000 + 49.724)
    # A handler that has not ended when the next frame is there takes that without an interrupt.
    assert times[2] - 3000 == pytest.approx(4 * 49.724, rel=0.07)


@pytest.mark.requirement("UM-76", "UM-79b")
def test_an_absent_receive_buffer_is_brought_in_its_owners_trap():
    async def ping(process):
        await process.open()

    async def pong(process):
        endpoint = await process.open("pong")
        room = process.allocate(1498)
        await room.write(b"kept")
        process.swap_out()
        begun = process.now_us
        await endpoint.provide(room)
        return process.now_us - begun, await room.read(4)

    (_, (spent, content)), cluster = run(COLUMNS[0], ping, pong)
    assert 22_000 < spent < 22_020
    assert content == b"kept"
    assert cluster.simulation.machine.ports.nodes[1]["skipped"] == 0


@pytest.mark.requirement("UM-78", "UM-79")
def test_the_victim_list_grows_while_frames_wait_and_shrinks_when_they_have_gone():
    small = msgspec.structs.replace(load_design("unet-mm-dc21140"), entries=1, victim_entries=1)
    pages = 8
    seen = []

    def look():
        ports = cluster.simulation.machine.ports
        registers = ports.translations.nic.registers[0, 0]
        return int(registers["victim_count"]), int(ports.memory.hosts[0]["pinned"])

    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        room = process.allocate(pages * 4096)
        for page in range(pages):
            await room.write(bytes([page]) * 1400, page * 4096)
        before, kernel_frames = process.now_us, look()[1]
        for page in range(pages):
            await endpoint.send(tag, room.part(page * 4096, 1400))
        spent = process.now_us - before
        seen.append(look())
        for _ in range(pages):
            assert (await endpoint.sent()).ok
        await process.sleep(1000)
        seen.append(look())
        await endpoint.send(tag, room.part(0, 1400))
        await endpoint.sent()
        seen.append(look())
        return spent, kernel_frames

    async def pong(process):
        endpoint = await process.open("pong")
        await endpoint.provide(*(process.allocate(1498) for _ in range(pages + 1)))
        return [(await (await endpoint.receive()).read())[0] for _ in range(pages + 1)]

    cluster = Cluster(small)
    (spent, kernel_frames), received = results_of(cluster, ping, pong)

    assert received == [*range(pages), 0]
    (grown, pinned), (idle, _), (shrunk, still_pinned) = seen
    assert grown == idle > 1  # ends of transfers clean up nothing
    assert pinned == kernel_frames + grown + 1
    assert shrunk == 1
    assert still_pinned == kernel_frames + 2
    # Nobody waited for the wire, on which a frame takes 113 us.
    assert spent < pages * 40
    assert (cluster.simulation.machine.ports.nodes["stale"] == 0).all()


@pytest.mark.parametrize("operation", [WRITE, FETCH])
@pytest.mark.parametrize("transport", [Transport(), Transport(reliable=False)])
def test_remote_memory_is_refused_and_messages_go_on(operation, transport):
    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        room = process.allocate(100)
        with refused(SimulationError, "messages only"):
            await process.post(operation, 0, [(room.address, 100)], port=endpoint.port)
        imported = process._ports.shared.imports[0, 0]  # as if it had been granted
        imported["port"], imported["node"], imported["length"] = endpoint.port, 1, 4096
        imported["rights"] = 3
        await process._sim_process.ask(
            POST, peer=endpoint.port, packet=7, payload=100, address=room.address, own=operation
        )
        statuses = [(await endpoint.sent()).status]
        await endpoint.send(tag, b"and a message")
        return [*statuses, (await endpoint.sent()).status]

    async def pong(process):
        endpoint = await process.open("pong")
        return (await endpoint.receive()).content

    (statuses, content), _ = run(COLUMNS[0], ping, pong, transport=transport)
    assert statuses == ["bad descriptor", "done"]
    assert content == b"and a message"
