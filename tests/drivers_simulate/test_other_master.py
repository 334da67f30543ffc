"""Another master on a host's bus: what crosses the bus waits for it, and nothing else does."""

import pytest

from nicscope.config.design import POLICIES
from nicscope.drivers.simulate.observe import Engine
from nicscope.drivers.simulate.processor import OtherMaster
from nicscope.drivers.simulate.script import Run, simulate_script
from nicscope.errors import SimulationError
from nicscope.fabric.topology import crossbar
from nicscope.interfaces.trapeze import Cluster
from oracle.delivery_strategies import PLAUSIBLE

US = 10**6
PAYLOAD = 8192


def sent(masters, count=1):
    """The log of ``count`` messages from node 0 to node 1."""
    return simulate_script(
        [PLAUSIBLE] * 2,
        POLICIES["store-and-forward"],
        crossbar(2),
        [Run(0, 1, PAYLOAD, count)],
        masters=masters,
        keep_log=1 << 12,
    )


def took(outcome, engine):
    """Durations (ps) of the first packet's transfers of payload, or of its control message."""
    log = outcome.log[(outcome.log["engine"] == engine) & (outcome.log["packet"] == 0)]
    return (log["end"] - log["start"]).tolist()


@pytest.mark.requirement("TR-27")
@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
@pytest.mark.parametrize(("node", "engine"), [(0, Engine.HOST_TX), (1, Engine.HOST_RCV)])
def test_dma_takes_as_much_longer_as_another_master_has_of_the_bus(share, node, engine):
    period = 2 * US
    (alone,) = took(sent([]), engine)
    (beside,) = took(sent([OtherMaster(node, int(share * period), period)]), engine)

    # The last round of the other master may be whole or not there.
    assert abs(beside - alone / (1 - share)) <= period


@pytest.mark.requirement("TR-27")
def test_what_does_not_cross_the_bus_is_not_held_up():
    alone, beside = sent([]), sent([OtherMaster(0, US, 2 * US)])

    for engine in (Engine.NET_TX, Engine.NET_RCV, Engine.HOST_RCV, Engine.HOST_READ):
        assert took(beside, engine)[-1] == took(alone, engine)[-1], engine
    assert took(beside, Engine.HOST_WRITE)[0] > took(alone, Engine.HOST_WRITE)[0]


def test_a_hold_keeps_the_hosts_write_back_for_as_long_and_what_follows_it_not_at_all():
    hold, period = 100 * US, 1000 * US
    (alone,) = took(sent([]), Engine.HOST_TX)
    outcome = sent([OtherMaster(0, hold, period)])
    writes = took(outcome, Engine.HOST_WRITE)[0]

    # The bus is the master's first: the host's write waits, and then nothing more does.
    assert writes == hold + PLAUSIBLE["pio_write"]
    assert took(outcome, Engine.HOST_TX) == [alone]


@pytest.mark.parametrize(
    ("masters", "message"),
    [
        ([OtherMaster(2, 1, 2)], "no node 2 for another master; there are 2"),
        ([OtherMaster(0, 2, 2)], "less than its period"),
        ([OtherMaster(0, 0, 2)], "more than 0 ps"),
        ([OtherMaster(0, 1, 10**13)], "at most 1000000000000 ps"),
        ([OtherMaster(0, 1, 2), OtherMaster(0, 1, 3)], "a bus can have one other master"),
    ],
)
def test_a_master_that_cannot_be_is_refused_in_a_line(masters, message):
    with pytest.raises(SimulationError, match=message):
        sent(masters)


async def _sends(endpoint):
    page = endpoint.allocate(4096)
    await page.write(bytes(range(256)) * 16)
    await endpoint.send(1, page)


async def _receives(endpoint):
    message = await endpoint.receive()
    assert bytes(message.payload) == bytes(range(256)) * 16
    return endpoint.now_us


@pytest.mark.requirement("TR-27")
def test_programs_have_other_masters_too_and_their_bytes_are_the_same():
    def ended(masters):
        cluster = Cluster("p6-natoma", masters=masters)
        cluster.start(0, _sends)
        cluster.start(1, _receives)
        return cluster.run()[1]

    alone, sender, both = (
        ended([OtherMaster(node, US, 2 * US) for node in nodes]) for nodes in ((), (0,), (0, 1))
    )
    assert alone < sender < both


def test_a_nic_at_the_memory_bus_has_no_other_master_of_an_io_bus():
    with pytest.raises(SimulationError, match="leave masters out, or way"):
        Cluster("p6-natoma-edt", way="cc-dma-intervention", masters=[OtherMaster(0, 1, 2)])
