"""U-Net messages on the PCA-200's fibre: in cells, and dropped whole if one is damaged."""

import pytest

from nicscope.config.platform import load_platform, transfer_costs
from nicscope.drivers.simulate.observe import Engine
from nicscope.drivers.simulate.ports.build import Faults, Transport
from nicscope.errors import PlatformError
from nicscope.interfaces.unet import Cluster
from oracle.aal5 import cells_of
from refusals import refused

CELL_US = 8 * 53 / 155


PATIENCE_US = 20_000
MTU = 4096


def sent(*pieces, times=1, design="unet-mm-pca200", **settings):
    """The cluster after ``times`` messages of ``pieces``, and what arrived."""

    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        room = endpoint.allocate(MTU * len(pieces))
        parts = [room.part(MTU * place, length) for place, length in enumerate(pieces)]
        for each in range(len(pieces)):
            await room.part(MTU * each, pieces[each]).write(bytes([each + 1]) * pieces[each])
        for _ in range(times):
            await endpoint.send(tag, *parts)
            await endpoint.sent()

    async def pong(process):
        endpoint = await process.open("pong")
        await endpoint.provide(*(endpoint.allocate(MTU) for _ in range(8)))
        found = []
        while (message := await endpoint.receive_until(process.now_us + PATIENCE_US)) is not None:
            if message.filled:
                found.append(await message.read())
            await endpoint.provide(*message.buffers)
        return found

    cluster = Cluster(design, keep_log=1000, **settings)
    cluster.start(0, ping)
    cluster.start(1, pong)
    return cluster, cluster.run()[1]


def cells_sent(cluster):
    return int(cluster.simulation.machine.nodes[0]["cells"])


def on_the_fibre(cluster, in_descriptor):
    """Us for which the bytes of the message passed: with its head if they are in its descriptor."""
    log = cluster.simulation.machine.log
    mine = (log["engine"] == Engine.NET_TX) & (log["node"] == 0)
    mine &= log["control"] == in_descriptor
    hop = load_platform("pca200-linux").costs["switch_hop"].low_ps
    return (int((log["end"] - log["start"])[mine].sum()) - in_descriptor * hop) / 1e6


@pytest.mark.requirement("SH-4")
@pytest.mark.parametrize("length", [1, 40, 41, 55, 56, 88, 89, 1000, 4088, 4089, 4096])
def test_a_message_takes_whole_cells_and_nothing_else(length):
    # Nothing is translated, so that the receiver does not let the fibre wait.
    cluster, found = sent(length, design="unet", platform="pca200-linux")

    cells = len(cells_of(bytes(length)))
    assert found == [b"\1" * length]
    assert cells_sent(cluster) == cells
    spent = on_the_fibre(cluster, in_descriptor=length < 56)
    assert spent == pytest.approx(cells * CELL_US, rel=1e-4)


def test_pieces_of_a_message_share_cells_and_have_one_trailer():
    cluster, found = sent(1000, 10, 500)

    assert found == [b"\1" * 1000 + b"\2" * 10 + b"\3" * 500]
    assert cells_sent(cluster) == len(cells_of(bytes(1510))) == 32
    assert sum(len(cells_of(bytes(each))) for each in (1000, 10, 500)) == 33


def test_packets_that_are_numbered_are_each_in_cells_of_their_own():
    cluster, _ = sent(1000, 500, transport=Transport(reliable=True))

    assert cells_sent(cluster) >= len(cells_of(bytes(1008))) + len(cells_of(bytes(508)))


def test_a_network_without_cells_counts_none():
    cluster, found = sent(1000, design="unet-mm-dc21140")

    assert found == [b"\1" * 1000]
    assert cells_sent(cluster) == 0


@pytest.mark.requirement("UM-66", weak="the AAL5 CRC and cells alone")
@pytest.mark.parametrize("pieces", [(56,), (89,), (4000,), (1000, 10, 500)])
def test_a_message_of_which_any_bit_was_damaged_is_dropped(pieces):
    """Also where that is a bit of the padding or of the trailer, none of which anybody reads."""
    cluster, found = sent(*pieces, times=12, faults=Faults(seed=1, corruption=1.0))

    assert found == []
    received = cluster.report().total.received
    assert received.corrupted >= 12


def test_a_damaged_piece_takes_its_whole_message_with_it():
    _, found = sent(1000, 10, 500, times=20, faults=Faults(seed=2, corruption=0.2))

    assert 0 < len(found) < 20
    assert set(found) == {b"\1" * 1000 + b"\2" * 10 + b"\3" * 500}


@pytest.mark.parametrize(("cell", "trailer"), [("48", "none"), ("none", "8"), ("48", "5")])
def test_a_link_of_half_a_description_is_refused(tmp_path, cell, trailer):
    lines = ["", "[machine]", f"cell_bytes = {cell}", f"trailer_bytes = {trailer}"]
    path = tmp_path / "own.toml"
    path.write_text(OWN + "\n".join(line for line in lines if "none" not in line))

    with refused(PlatformError, "cell_bytes", "trailer_bytes", "6"):
        transfer_costs(load_platform(path))


OWN = 'title = "own"\ndescription = "own"\ncombines = ["dc21140-linux"]\n'
