"""Connections with streams of their own: what one of them waits for holds up no other."""

import pytest

from nicscope.config.design import Transport, load_design, with_settings
from nicscope.drivers.simulate.ports.build import Faults, PortSize
from nicscope.errors import SimulationError
from nicscope.interfaces import mini, unet, vmmc

BY_PAIR = Transport(time_out_ps=200_000_000, most_retries=40)
BY_CONNECTION = Transport(time_out_ps=200_000_000, most_retries=40, by_connection=True)
TEXT = bytes(range(256)) * 8
FAULTS = Faults(seed=5, loss=0.05, duplication=0.03, reordering=0.03)


def two_programs_each(transport, reader_sleeps, faults=None):
    """Node 0's two programs send to those of node 1; when the second pair was done, in us."""
    cluster = unet.Cluster(
        "unet-mm-pca200", nodes=2, transport=transport, faults=faults, endpoints=2
    )
    ready, done, texts = [], [], []

    async def sender(process):
        end = await process.open(f"from {process.number}")
        while len(ready) < 2:
            await process.sleep(10)
        tag = await end.connect(1, f"to {process.number}")
        page = process.allocate(4096)
        await page.write(TEXT)
        for _ in range(4):
            await end.send(tag, page.part(0, len(TEXT)))
            await end.sent("block")
        done.append((process.number, process.now_us))

    async def receiver(process):
        end = await process.open(f"to {process.number}")
        ready.append(process.number)
        if process.number == 0:
            await process.sleep(reader_sleeps)  # and provides no buffers before
        await end.provide(*(process.allocate(4096) for _ in range(4)))
        # Who polled would keep the other program from the only CPU.
        texts.extend([await (await end.receive("block")).read() for _ in range(4)])

    for node, program in ((0, sender), (0, sender), (1, receiver), (1, receiver)):
        cluster.start(node, program)
    cluster.run()
    assert texts == [TEXT] * 8
    return dict(done)


def test_a_port_without_buffers_holds_up_its_own_connection_alone():
    alone = two_programs_each(BY_CONNECTION, 0)[1]
    by_pair = two_programs_each(BY_PAIR, 4000)
    by_connection = two_programs_each(BY_CONNECTION, 4000)

    assert by_connection[0] > 4000
    assert by_connection[1] < 1.5 * alone  # what comes in vain still takes its time on the link
    assert by_pair[1] > 4000


@pytest.mark.parametrize("transport", [BY_PAIR, BY_CONNECTION])
def test_every_message_arrives_once_whatever_the_network_does(transport):
    two_programs_each(transport, 300, FAULTS)


def test_one_sided_transfers_have_a_stream_for_each_two_ports():
    cluster = vmmc.Cluster("utlb", nodes=2, transport=BY_CONNECTION, faults=FAULTS)
    found = []

    async def exporter(end):
        area = end.allocate(2 * 4096)
        await end.export(area, f"area {end.number}")
        await end.sleep(5000)

    async def importer(end):
        await end.sleep(100)
        far = await end.import_buffer(1, f"area {end.number}")
        page = end.allocate(4096)
        await page.write(bytes([end.number + 1]) * 4096)
        await end.wait(await end.store(far, page, 4096 * (end.number % 2)))
        back = end.allocate(4096)
        await end.wait(await end.fetch(far, back, 4096 * (end.number % 2)))
        found.append(await back.read() == bytes([end.number + 1]) * 4096)

    for node, program in ((0, importer), (0, importer), (1, exporter), (1, exporter)):
        cluster.start(node, program)
    cluster.run()
    assert found == [True, True]
    ports = cluster.simulation.machine.ports
    assert [int((row != 0).sum()) for row in ports.stream_of] == [2, 2]
    assert (ports.stream_of[:, :2] == 0).all()


def test_a_node_has_as_many_connections_as_it_was_given():
    cluster = mini.Cluster("mini", transport=BY_CONNECTION, size=PortSize(connections=1))
    seen = []

    async def owner(process):
        buffer = process.allocate(4096)
        seen.append((await process.register(buffer)).handle)
        await process.sleep(1000)

    async def guest(process):
        await process.sleep(100)
        await process.open(seen[0])
        await process.open(seen[0])  # of the same process: by the same stream
        with pytest.raises(SimulationError, match=r"PortSize\(connections=\.\.\.\)"):
            await process.open(seen[1])

    for node, program in ((0, guest), (1, owner), (1, owner)):
        cluster.start(node, program)
    cluster.run()


def test_a_design_asks_for_them_by_its_transport():
    design = with_settings(load_design("mini"), ["transport=reliable-connections"])

    cluster = mini.Cluster(design)
    plain = mini.Cluster("mini")

    assert (cluster.transport_of_run.by_connection, plain.transport_of_run.by_connection) == (
        True,
        False,
    )
    assert cluster.size.connections >= cluster.size.imports
    assert plain.size.connections == 0
