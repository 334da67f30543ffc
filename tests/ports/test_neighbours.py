"""Processes of one node: what one of them does, or fails to do, costs its neighbours nothing."""

import port_world as world
import pytest
from posting_world import HUGE, nothing, register

from nicscope.config.design import load_design, with_settings
from nicscope.drivers.simulate.ports.build import Transport
from nicscope.errors import SimulationError
from nicscope.nic.ports.layout import SEND, WRITE
from refusals import refused


def test_one_process_that_always_posts_does_not_starve_its_neighbour():
    async def greedy(process):
        world.import_from(process, 0, 1, 0, 0, 1 << 20)
        source = process.allocate(world.PAGE)
        await source.write(b"g" * world.PAGE)
        for _ in range(60):
            await process.post(WRITE, 0, [(source.address, 8)])
        for _ in range(60):
            await process.done()
        return process.now_us

    async def modest(process):
        world.import_from(process, 1, 1, 0, 0, 1 << 20)
        source = process.allocate(world.PAGE)
        await source.write(b"m" * world.PAGE)
        await process.sleep(150)
        await process.post(WRITE, 1, [(source.address, 8)])
        await process.done()
        return process.now_us

    async def receiver(process):
        target = process.allocate(1 << 20)
        world.export(process, 0, target.address, 1 << 20)
        await register(process, target.address, 1 << 20)

    cluster = world.cluster_of("utlb", transport=Transport(ack_delay_ps=0))
    first, second, _ = world.run_on_nodes(cluster, (greedy, modest), receiver)
    assert second < first


@pytest.mark.requirement("MI-5")
def test_a_process_reaches_no_port_but_its_own():
    async def intruder(process):
        assert process.port == 1
        for port in (0, 2, 3, -1, HUGE):
            for call, given in (
                (process.post, (WRITE, 0, [(0, 8)])),
                (process.post_inline, (SEND, 0, b"")),
                (process.provide, (0,)),
                (process.done, ()),
                (process.arrival, ()),
            ):
                with refused(SimulationError, f"port {port} of node 0", "this process's"):
                    await call(*given, port=port)

    cluster = world.cluster_of("utlb")
    world.run_on_nodes(cluster, (intruder, nothing))


@pytest.mark.requirement("UM-7")
@pytest.mark.parametrize("design", world.DESIGNS)
def test_a_port_that_takes_nothing_costs_its_sender_the_message_and_others_nothing(design):
    patience = Transport(most_retries=3)

    async def nuisance(process):
        world.join(process, 20, 1, 20)
        source = process.allocate(world.PAGE)
        await source.write(bytes(world.PAGE))
        await process.post(SEND, 20, [(source.address, 4096)])
        return (await process.done()).status

    async def honest(process):
        world.join(process, 3, 1, 4)
        statuses = []
        for _ in range(20):
            await process.post_inline(SEND, 3, b"honest")
            statuses.append((await process.done()).status)
            await process.sleep(100)
        return statuses

    async def receiver(process):
        world.join(process, 4, 0, 3)
        return [(await process.arrival()).content for _ in range(20)]

    async def deaf(process):
        world.join(process, 20, 0, 20)
        await process.sleep(1)

    cluster = world.cluster_of(design, transport=patience)
    status, statuses, received, _ = world.run_on_nodes(
        cluster, (nuisance, honest), (receiver, deaf)
    )
    assert status == "rejected"
    assert statuses == ["done"] * 20
    assert received == [b"honest"] * 20


@pytest.mark.parametrize(
    ("design", "settings"),
    [
        ("utlb", ["entries=1"]),
        ("utlb-shared", ["entries=1"]),
        ("mini", ["entries=1", "line=1", "ways=1"]),
        ("vmmc-interrupt", ["entries=1"]),
        ("vmmc-interrupt", ["entries=4", "pin_limit=1"]),
        ("unet-mm-pca200", ["entries=1", "victim_entries=0"]),
    ],
)
def test_buffers_that_nothing_fills_keep_no_send_off_the_nic(design, settings):
    async def sender(process):
        world.join(process, 0, 1, 0)
        buffer, room = process.allocate(world.PAGE), process.allocate(world.PAGE)
        await process.provide(buffer.address)
        await process.sleep(5_000)
        await process.post(SEND, 0, [(room.address, 100)])
        return (await process.done()).status

    async def receiver(process):
        world.join(process, 0, 0, 0)
        await process.provide(process.allocate(world.PAGE).address)
        return (await process.arrival()).length

    cluster = world.cluster_of(with_settings(load_design(design), settings))
    assert world.run_on_nodes(cluster, sender, receiver) == ["done", 100]
    assert world.stale(cluster) == 0


@pytest.mark.parametrize("mode", ["block", "signal"])
def test_who_asks_for_a_report_that_is_there_sleeps_not_though_its_neighbour_has_the_cpu(mode):
    """Found by the twin of ports: whoever had to wait for the CPU was woken, and paid for it."""

    async def sender(process):
        world.join(process, 3, 1, 4)
        await process.post_inline(SEND, 3, b"small")
        await process.sleep(500)  # the report is there by then, and the CPU is the other's
        await process.done(mode)
        return process.now_us

    async def neighbour(process):
        await process.compute(1000)
        return process.now_us

    async def receiver(process):
        world.join(process, 4, 0, 3)
        await process.arrival()

    cluster = world.cluster_of("utlb")
    heard, computed, _ = world.run_on_nodes(cluster, (sender, neighbour), receiver)
    assert heard - computed == pytest.approx(cluster._service.steps["poll"] / 1e6)
