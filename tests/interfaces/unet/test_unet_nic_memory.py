"""Where an endpoint's structures lie, and what 256 KB on the PCA-200 hold."""

import re

import pytest

from nicscope.config.platform import load_platform
from nicscope.drivers.simulate.ports.build import PortSize
from nicscope.errors import SimulationError
from nicscope.interfaces.unet import Cluster
from program_results import results_of
from refusals import refused

RAM = 256 * 1024


async def ping(process):
    endpoint = await process.open()
    await endpoint.send(await endpoint.connect(1, "pong"), b"a word")


async def pong(process):
    endpoint = await process.open("pong")
    return (await endpoint.receive()).content


def placed(design, endpoints, **size):
    cluster = Cluster(design, endpoints=endpoints, size=PortSize(**size))
    assert results_of(cluster, ping, pong)[1] == b"a word"
    return cluster.structures(0)


@pytest.mark.requirement("UM-60")
def test_send_and_free_queues_lie_on_the_nic_and_receive_queues_in_the_host():
    one, two = (placed("unet-mm-pca200", count) for count in (1, 2))
    per_endpoint = {"endpoints", "send queues", "free queues"}
    assert set(one.nic) == per_endpoint | {"translation cache", "tags", "firmware"}
    assert set(one.host) == {"receive queues"}
    for name, size in one.nic.items():
        assert size > 0
        assert two.nic[name] == (2 if name in per_endpoint else 1) * size
    assert two.host["receive queues"] == 2 * one.host["receive queues"]


@pytest.mark.requirement("UM-60")
def test_queues_take_memory_by_their_places():
    short, long = (placed("unet-mm-pca200", 1, ring=ring) for ring in (16, 64))
    for name in ("send queues", "free queues"):
        assert long.nic[name] == 4 * short.nic[name]
    assert long.host["receive queues"] == 4 * short.host["receive queues"]
    # A free descriptor is a word; a send descriptor holds as much as a small message, and more.
    assert long.nic["free queues"] >= 64 * 4
    assert long.nic["send queues"] >= 64 * 56


@pytest.mark.requirement("UM-70")
@pytest.mark.parametrize("design", ["unet-mm-dc21140", "unet"])
def test_where_the_kernel_serves_all_of_it_and_the_controllers_rings_are_the_hosts(design):
    found = placed(design, 1)
    assert found.nic == {}
    # Of 16 bytes each, 64 to send and 64 to receive; and a page for each frame that may come.
    assert found.host["descriptor rings"] == (64 + 64) * 16
    assert found.host["receive buffers of the kernel"] == 64 * 4096
    assert {"send queues", "free queues", "receive queues", "endpoints"} < set(found.host)


@pytest.mark.requirement("UM-66", weak="all but the 256 KB of memory")
def test_what_does_not_fit_into_256_kb_is_refused_and_said():
    stated = load_platform("pca200-linux").machine["nic_memory_bytes"]
    assert (stated.value, stated.origin.evidence.value) == (RAM, "published")
    with pytest.raises(SimulationError) as told:
        placed("unet-mm-pca200", 32)
    said = str(told.value)
    assert re.search(r"[\d,]+ bytes \(send queues ", said)
    assert "platform 'pca200-linux' has 262,144 (U-Net/MM, section 5.1)" in said
    assert "\n" not in said
    assert "pca200-linux@nic_memory_bytes=" in said
    fits = int(re.search(r"; (\d+) of 32 endpoints fit:", said)[1])
    assert sum(placed("unet-mm-pca200", fits).nic.values()) <= RAM
    with refused(SimulationError, f"{fits} of {fits + 1} endpoints fit"):
        placed("unet-mm-pca200", fits + 1)


@pytest.mark.requirement("UM-66", weak="all but the 256 KB of memory")
def test_shorter_queues_make_room_for_more_endpoints_and_host_memory_is_not_short():
    assert sum(placed("unet-mm-pca200", 32, ring=16).nic.values()) <= RAM
    assert placed("unet-mm-dc21140", 32).nic == {}
