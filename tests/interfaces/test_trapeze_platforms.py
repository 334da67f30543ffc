"""Clusters whose hosts are of several platforms."""

from importlib.resources import files

import pytest

from nicscope.errors import SimulationError
from nicscope.interfaces.trapeze import Cluster
from nicscope.studies.delivery_measures import PAIRS, latency_us, pair_costs, platform_costs
from program_results import results_of
from refusals import refused

PAYLOAD = 4096
CONTENT = bytes(range(256)) * (PAYLOAD // 256)


async def sends(endpoint):
    page = endpoint.allocate(PAYLOAD)
    await page.write(CONTENT)
    await endpoint.send(1, page)


async def receives(endpoint):
    message = await endpoint.receive()
    assert bytes(message.payload) == CONTENT
    return endpoint.now_us


def programs_latency_us(platform):
    cluster = Cluster(platform, policy="cut-through")
    return results_of(cluster, sends, receives)[1], cluster


@pytest.mark.requirement("TR-26")
@pytest.mark.parametrize("pair", PAIRS)
def test_programs_between_two_platforms_take_what_a_script_between_them_takes(pair):
    took, cluster = programs_latency_us(PAIRS[pair])

    assert took == pytest.approx(
        latency_us(pair_costs(platform_costs(), pair), "cut-through", PAYLOAD), abs=1e-9
    )
    assert cluster.report().platform == " and ".join(dict.fromkeys(PAIRS[pair]))


@pytest.mark.requirement("TR-26")
def test_which_of_two_platforms_sends_matters():
    forth, _ = programs_latency_us(("alcor", "p6-natoma"))
    back, _ = programs_latency_us(("p6-natoma", "alcor"))

    assert forth < back  # Alcor receives at half the link's speed, and reads slowly


def test_hosts_at_a_memory_bus_are_all_of_one_platform(tmp_path):
    own = tmp_path / "own.toml"
    own.write_text((files("nicscope.catalog") / "platforms" / "p6-natoma-edt.toml").read_text())

    with refused(SimulationError, "one platform"):
        Cluster(["p6-natoma-edt", str(own)], way="cc-dma-intervention")
