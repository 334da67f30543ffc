"""Packets dropped for want of a translation: each gets it, whoever else wants its place."""

import msgspec
import port_world as world
import pytest

from nicscope.config.design import load_design
from nicscope.drivers.simulate.ports.build import Faults, PortSize, Transport
from nicscope.drivers.simulate.records import REGISTER
from nicscope.nic.ports.layout import WRITE

ONE_LINE = msgspec.structs.replace(load_design("mini"), entries=1, line=1, ways=1)
SOON = Transport(time_out_ps=600_000_000)
STORES = 6


async def owner(process, exports):
    """Export a page to each sender."""
    for number in range(exports):
        memory = process.allocate(world.PAGE)
        await process._sim_process.ask(
            REGISTER, peer=process.port, address=memory.address, payload=world.PAGE
        )
        world.export(process, number, memory.address, world.PAGE)
    await process.sleep(200_000)


async def stores(process, number):
    """How stores to one page of node 0 end, each posted when the one before is over."""
    world.import_from(process, number, 0, number, 0, world.PAGE)
    source = process.allocate(world.PAGE)
    await source.write(bytes(world.PAGE))
    await process.sleep(2000)
    record = process._ports.table[process.node, process.port]
    ended = []
    for _ in range(STORES):
        await process.post(WRITE, number, [(source.address, 100)])
        while record["reported"] == record["reaped"]:
            await process.sleep(100)
            assert process.now_us < 500_000, "this goes on for ever"
        ended.append((await process.done()).status)
    return ended


@pytest.mark.requirement("MI-26")
@pytest.mark.parametrize("senders", [2, 3])
def test_packets_whose_pages_share_a_place_do_not_drive_each_other_out_for_ever(senders):
    cluster = world.cluster_of(ONE_LINE, nodes=senders + 1, transport=SOON)
    cluster.start(0, lambda process: owner(process, senders))
    for number in range(senders):
        cluster.start(number + 1, lambda process, number=number: stores(process, number))
    _, *ended = cluster.run()
    assert ended == [["done"] * STORES] * senders
    assert world.uses_left(cluster)[1:] == [0] * senders
    assert cluster.simulation.machine.ports.translations.host.in_use[0].sum() == 0


def test_a_sender_that_dies_with_a_line_promised_keeps_others_off_it_no_longer_than_a_peer_lasts():
    dies = Faults(node_deaths={1: 4_100_000_000})  # its first packet has missed its page
    cluster = world.cluster_of(ONE_LINE, nodes=3, transport=SOON, faults=dies)
    cluster.start(0, lambda process: owner(process, 2))
    for number in range(2):
        cluster.start(number + 1, lambda process, number=number: stores(process, number))
    _, dead, ended = cluster.run()
    assert (dead, ended) == (None, ["done"] * STORES)
    assert cluster.simulation.machine.ports.translations.host.in_use[0].sum() == 0


@pytest.mark.requirement("MI-22")
def test_ports_that_find_the_event_queue_full_do_not_interrupt_the_host_all_the_time():
    async def program(process):
        source = process.allocate(8 * world.PAGE)
        await source.write(bytes(len(source)))
        world.import_from(process, process.number, 1, 0, 0, world.PAGE)
        for page in range(8):
            await process.post(WRITE, process.number, [(source.address + page * world.PAGE, 8)])
        return [(await process.done()).status for _ in range(8)]

    cluster = world.cluster_of(ONE_LINE, transport=SOON, size=PortSize(events=2))
    for _ in range(3):
        cluster.start(0, program)
    cluster.start(1, lambda process: owner(process, 1))
    *ended, _ = cluster.run()
    assert ended == [["done"] * 8] * 3
    serving = cluster.simulation.machine.ports.nodes[0]
    assert serving["overflows"] > 0
    # Whoever finds it full asks again once for each event that the thread has served.
    assert serving["overflows"] <= 3 * serving["thread_misses"]
