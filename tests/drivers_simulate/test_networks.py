"""The networks of the papers: a payload takes the wire for as long as the link is printed to."""

from fractions import Fraction

import pytest

from nicscope.config.platform import load_platform
from nicscope.drivers.simulate.observe import Engine
from nicscope.fabric.topology import crossbar, pair, trunk
from nicscope.interfaces.unet import Cluster

ATM = Fraction(8 * 53, 155 * 48)  # us for a byte: 155 Mbit/s, 48 of each 53 bytes are data
ETHERNET = Fraction(8, 100)
MYRINET = Fraction(1, 160)


PCI = Fraction(1, 4 * 33)  # a word of 4 bytes in a clock of 33 MHz


def on_the_wire(platform, length, engine=Engine.NET_TX, **settings):
    """Us of ``engine`` for the payloads of one message, after each one's start."""

    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        room = endpoint.allocate(4096)
        await endpoint.send(tag, room.part(0, length))
        await endpoint.sent()

    async def pong(process):
        endpoint = await process.open("pong")
        await endpoint.provide(*(endpoint.allocate(4096) for _ in range(4)))
        return (await endpoint.receive()).length

    cluster = Cluster("unet", platform, keep_log=1000, **settings)
    cluster.start(0, ping)
    cluster.start(1, pong)
    assert cluster.run()[1] == length
    log = cluster.simulation.machine.log
    sent = (log["engine"] == engine) & (log["control"] == 0) & (log["bytes"] > 0)
    began = {Engine.NET_TX: "link_start", Engine.HOST_TX: "pci_read_start"}[engine]
    start = int(cluster.simulation.machine.costs[0][began])
    assert log["bytes"][sent].sum() == length
    return int((log["end"] - log["start"] - start)[sent].sum()) / 1e6


@pytest.mark.requirement("SH-4")
@pytest.mark.requirement(
    "UM-66", weak="the i960's 25 MHz, which are in the printed times of its steps alone; the CRC"
)
@pytest.mark.parametrize(("length", "cells"), [(1000, 21), (4096, 86)])
def test_the_pca200_reads_by_dma_over_pci_and_its_cells_carry_48_bytes_of_53(length, cells):
    """With the 8 bytes of the trailer, in whole cells."""
    spent = on_the_wire("pca200-linux", length)
    assert spent == pytest.approx(float(48 * cells * ATM), rel=1e-4)
    spent = on_the_wire("pca200-linux", length, Engine.HOST_TX)
    assert spent == pytest.approx(float(length * PCI), rel=1e-4)


@pytest.mark.requirement("SH-4")
@pytest.mark.parametrize("platform", ["dc21140-linux", "dc21140-nt"])
def test_fast_ethernet_carries_100_mbit_in_frames_of_1498(platform):
    spent = on_the_wire(platform, 3000)
    assert spent == pytest.approx(float(3000 * ETHERNET), rel=1e-4)


@pytest.mark.requirement("SH-4")
def test_myrinet_carries_160_bytes_in_a_microsecond_where_nothing_slows_it():
    # Stored whole on the NIC first, so that the PCI's 133 MB/s do not show.
    spent = on_the_wire("mini-cluster", 4096, policy="store-and-forward")
    assert spent == pytest.approx(float(4096 * MYRINET), rel=1e-4)


def on_the_way(topology, length):
    """Us from a packet's first bit on its way until the last of its payload is there."""

    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(topology.nodes - 1, "pong")
        room = endpoint.allocate(4096)
        await endpoint.send(tag, room.part(0, length))
        await endpoint.sent()

    async def pong(process):
        endpoint = await process.open("pong")
        await endpoint.provide(endpoint.allocate(4096))
        return (await endpoint.receive()).length

    cluster = Cluster(
        "unet", "mini-cluster", keep_log=1000, topology=topology, policy="store-and-forward"
    )
    cluster.start(0, ping)
    cluster.start(topology.nodes - 1, pong)
    assert cluster.run()[1] == length
    log = cluster.simulation.machine.log
    sent = (log["engine"] == Engine.NET_TX) & (log["end"] > 0)
    first = log["start"][sent].min()
    return int(log["end"][sent].max() - first) / 1e6


@pytest.mark.requirement("SH-4")
@pytest.mark.parametrize("length", [64, 4096])
def test_a_worm_takes_a_microsecond_more_for_each_switch_whatever_its_length(length):
    """No switch stores a packet: only its head waits there."""
    none, one, two = (on_the_way(each, length) for each in (pair(), crossbar(2), trunk(1, 1)))
    hop = load_platform("mini-cluster").costs["switch_hop"].low_ps / 1e6
    assert 0.5 <= hop <= 1
    assert one - none == pytest.approx(hop, abs=1e-6)
    assert two - none == pytest.approx(2 * hop, abs=1e-6)
