"""What a transfer to the sink takes: eager, all that is there; else no more than minpulse."""

import msgspec
import pytest

from nicscope.config.design import POLICIES
from nicscope.drivers.simulate.observe import Engine
from nicscope.drivers.simulate.script import Run, simulate_script
from nicscope.fabric.topology import crossbar
from oracle.delivery_strategies import PLAUSIBLE

PAYLOAD = 8192
UNSLOWED = PLAUSIBLE | {"nic_memory_per_byte": 0}  # links go at one rate


def transfers(delivery):
    """The payload transfers of one message between idle hosts, by engine."""
    log = simulate_script(
        [UNSLOWED] * 2, delivery, crossbar(2), [Run(0, 1, PAYLOAD)], keep_log=1 << 10
    ).log
    log = log[log["control"] == 0]
    return {engine: log[log["engine"] == engine] for engine in Engine}


@pytest.mark.requirement("TR-32", "TR-33")
@pytest.mark.parametrize("minpulse", [1, 128, 1000, 5000])
def test_an_eager_transfer_takes_every_byte_that_is_there_and_none_that_is_not(minpulse):
    delivery = msgspec.structs.replace(POLICIES["cut-through"], minpulse_send=minpulse)
    found = transfers(delivery)
    (source,) = found[Engine.HOST_TX]
    first = int(source["start"]) + PLAUSIBLE["pci_read_start"]
    sinks = found[Engine.NET_TX]

    taken = 0
    for each in sinks:
        taken += int(each["bytes"])
        came = (int(each["start"]) - first) // PLAUSIBLE["pci_read_per_byte"]
        assert taken == min(PAYLOAD, came)
    assert taken == PAYLOAD
    assert len(sinks) > 1
    assert min(sinks["bytes"][:-1].tolist()) > minpulse


@pytest.mark.requirement("TR-32", "TR-33")
@pytest.mark.parametrize("minpulse", [1, 128, 1000, 5000])
def test_what_an_eager_receiver_has_goes_to_the_host_whole(minpulse):
    delivery = msgspec.structs.replace(POLICIES["cut-through"], minpulse_receive=minpulse)
    found = transfers(delivery)
    rate, start = UNSLOWED["link_per_byte"], UNSLOWED["link_start"]

    taken = 0
    for each in found[Engine.HOST_RCV]:
        taken += int(each["bytes"])
        came = sum(
            min(int(one["bytes"]), max(0, (int(each["start"]) - int(one["start"]) - start) // rate))
            for one in found[Engine.NET_TX]
        )
        assert taken == came
    assert taken == PAYLOAD


@pytest.mark.requirement("TR-34", "TR-36")
@pytest.mark.parametrize("minpulse", [100, 128, 1000])
def test_a_transfer_that_is_not_eager_takes_minpulse_and_the_last_one_what_is_left(minpulse):
    delivery = msgspec.structs.replace(
        POLICIES["cut-through-minpulse"], minpulse_send=minpulse, minpulse_receive=minpulse
    )
    found = transfers(delivery)

    whole, rest = divmod(PAYLOAD, minpulse)
    expected = [minpulse] * whole + [rest] * (rest > 0)
    assert found[Engine.NET_TX]["bytes"].tolist() == expected
    assert found[Engine.HOST_RCV]["bytes"].tolist() == expected
