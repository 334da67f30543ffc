"""Rules of ports that the twin found broken, each by itself."""

import msgspec
import port_world as world
import pytest

from nicscope.config.design import POLICIES, Transport, load_design, with_settings
from nicscope.drivers.simulate.observe import Engine
from nicscope.drivers.simulate.ports.build import Faults, PortSize
from nicscope.drivers.simulate.records import REGISTER
from nicscope.nic.ports.layout import FETCH, SEND

SERVE = 7


def test_an_entry_read_from_the_host_slows_links_as_a_read_of_the_bus_does():
    """Found by the twin: it slowed them as a write does."""

    def first_packet_ends(**rates):
        cluster = world.cluster_of("utlb", keep_log=100)
        cluster._transfers.update({"link_per_byte": 300_000, "nic_memory_per_byte": 8000} | rates)

        async def sender(process):
            world.join(process, 3, 1, 4)
            memory = process.allocate(8)
            await process.sleep(100)
            await process.post_inline(SEND, 3, b"on its way while the next one's page is missed")
            await process.post(SEND, 3, [(memory.address, 8)])
            await process.done()

        async def receiver(process):
            await process.sleep(500)

        world.run_on_nodes(cluster, sender, receiver)
        log = cluster.simulation.machine.log
        sent = (log["node"] == 0) & (log["engine"] == Engine.NET_TX) & (log["packet"] == 0)
        return int(log["end"][sent].max())

    usual = first_packet_ends()
    assert first_packet_ends(pci_write_per_byte=9000) == usual
    assert first_packet_ends(pci_read_per_byte=9000) < usual


def test_each_call_that_pins_takes_the_time_of_its_own_pages():
    """Found by the twin: all calls of a post took that of their mean, rounded down."""
    cluster = world.cluster_of("utlb")
    cluster._service.user_pin[:] = [0, *(1000 * min(2**pages, 64) for pages in range(1, 65))]
    spent = []

    async def program(process):
        memory = process.allocate(4 * world.PAGE)
        for address, length in ((world.PAGE, 1), (0, 4 * world.PAGE)):
            begun = process.now_us
            await process.post(SEND, 0, [(memory.address + address, length)])
            spent.append(round((process.now_us - begun) * 1e6))

    world.run_on_nodes(cluster, program)
    steps = cluster._service.steps
    assert spent == [
        steps["post"] + steps["check"] + 2000,
        steps["post"] + 4 * steps["check"] + 2000 + 4000,  # a page, and two
    ]


@pytest.mark.parametrize("before", [0, 1, 3])
def test_an_answer_without_data_looks_nothing_up_whatever_its_place_held_before(before):
    """Found by the twin: it was charged the lookup of an answer that had been in its place."""
    cluster = world.cluster_of("vmmc-static", keep_log=1000, size=PortSize(ring=2))

    async def asks(process):
        memory = process.allocate(8)
        world.import_from(process, 1, 1, 1, 0, 2 * world.PAGE)
        await process.sleep(1000)
        for offset in (*[0] * before, world.PAGE):
            await process.post(FETCH, 1, [(memory.address, 8)], offset=offset)
            done = await process.done()
        assert done.status == "no rights"

    async def owns(process):
        memory = process.allocate(2 * world.PAGE)
        world.export(process, 1, memory.address, 2 * world.PAGE)
        await process._sim_process.ask(REGISTER, peer=process.port, address=0, payload=world.PAGE)

    world.run_on_nodes(cluster, asks, owns)
    log = cluster.simulation.machine.log
    served = log[(log["node"] == 1) & (log["engine"] == Engine.FIRMWARE) & (log["task"] == SERVE)]
    times = (served["end"] - served["start"]).tolist()
    start = cluster._transfers["firmware_start"]
    looks = cluster._service.steps["lookup_send"]
    serves = cluster._service.steps["serve_request"]
    answers = [one for one in times if one > start]  # the rest acknowledges
    assert answers == [start + serves + looks] * (before + 1) + [start + serves]


def test_a_post_does_not_wait_for_buffers_that_have_come_back():
    """Found by the twin: who had ever provided one waited for ever where no page could go."""
    cluster = world.cluster_of(with_settings(load_design("utlb"), ["pin_limit=2"]))

    async def sender(process):
        world.join(process, 3, 1, 4)
        await process.sleep(1000)
        await process.post_inline(SEND, 3, b"")
        memory = process.allocate(8)
        await process.post(SEND, 3, [(memory.address, 8)])

    async def receiver(process):
        world.join(process, 4, 0, 3)
        memory = process.allocate(3 * world.PAGE)
        await process.provide(memory.address)
        assert (await process.arrival()).content == b""
        assert (await process.arrival()).buffers == (memory.address,)
        kept = {"peer": process.port, "address": world.PAGE, "payload": 2 * world.PAGE}
        await process._sim_process.ask(REGISTER, **kept)  # both pages, for good
        await process.post(SEND, 4, [(memory.address, 1)])
        return (await process.done()).status

    assert world.run_on_nodes(cluster, sender, receiver)[1] == "no room"


@pytest.mark.parametrize("design", world.LIBRARIES)
def test_a_port_that_closes_leaves_no_page_pinned_that_none_has_used(design):
    """Found by the twin: pages pinned ahead, or for buffers that were not looked up, stayed so."""
    cluster = world.cluster_of(with_settings(load_design(design), ["prepin=3"]))

    async def program(process):
        world.join(process, 3, 1, 4)
        memory = process.allocate(8 * world.PAGE)
        await process.post(SEND, 3, [(memory.address, 8)])  # pins two pages more
        await process.provide(memory.address + 5 * world.PAGE)
        await process.close_port()

    world.run_on_nodes(cluster, program)
    report = cluster.report()
    assert report.nodes[0].pins >= 4
    assert report.nodes[0].pinned_now == 0


@pytest.mark.parametrize("ring", [1, 2])
def test_whoever_awaits_an_answer_learns_of_its_peers_death_whatever_the_ring(ring):
    """Found by the twin: a probe asked for two places, which a ring of one never has."""
    cluster = world.cluster_of(
        "vmmc-interrupt",
        policy=msgspec.structs.replace(POLICIES["adaptive"], send_ring=ring),
        transport=Transport(time_out_ps=200_000_000, most_retries=2),
        faults=Faults(node_deaths={1: 500_000_000}),  # when half of the answer has gone
    )

    async def asker(process):
        memory = process.allocate(8 * world.PAGE)
        await process.sleep(100)
        world.import_from(process, 5, 1, 0, 0, 8 * world.PAGE)
        await process.post(FETCH, 5, [(memory.address, 8 * world.PAGE)])
        status = (await process.done()).status
        arrived = cluster.report().nodes[0].bytes_in
        return status, 0 < arrived < 8 * world.PAGE

    async def owner(process):
        memory = process.allocate(8 * world.PAGE)
        world.export(process, 0, memory.address, 8 * world.PAGE)
        await process.sleep(50)

    assert world.run_on_nodes(cluster, asker, owner)[0] == ("peer dead", True)
