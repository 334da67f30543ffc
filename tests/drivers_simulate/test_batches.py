"""How many events are fired between two returns to Python changes nothing."""

import pytest

from nicscope.config.design import POLICIES
from nicscope.config.platform import delivery_costs, load_platform
from nicscope.drivers.simulate import advance, process
from nicscope.drivers.simulate.script import Run, simulate_script
from nicscope.fabric.topology import trunk
from nicscope.interfaces.trapeze import Cluster


def scripted():
    costs = delivery_costs(load_platform("p6-natoma"))
    runs = [
        Run(s, d, 700 * s + 900 * d, 4, gap_ps=1000) for s in range(4) for d in range(4) if s != d
    ]
    outcome = simulate_script([costs] * 4, POLICIES["adaptive"], trunk(2, 2), runs, keep_log=10_000)
    return outcome.log.tobytes(), outcome.messages.tobytes(), outcome.end_ps, outcome.events


def programmed():
    def talk(partner):
        async def program(endpoint):
            page = endpoint.allocate(2000)
            for _ in range(6):
                await endpoint.send(partner, page)
                endpoint.release(await endpoint.receive())
            return endpoint.now_us

        return program

    cluster = Cluster("p6-natoma", nodes=3, keep_log=10_000)
    for node in range(3):
        cluster.start(node, talk((node + 1) % 3))
    return cluster.run(), cluster.simulation.machine.log.tobytes()


@pytest.mark.parametrize("events", [1, 2, 4, 256])
def test_a_script_is_the_same_to_the_last_bit_for_any_batch(events, monkeypatch):
    whole = scripted()
    monkeypatch.setattr(advance, "AT_ONCE", events)

    assert scripted() == whole


@pytest.mark.parametrize("events", [1, 2, 4, 256])
def test_programs_are_the_same_to_the_last_bit_for_any_batch(events, monkeypatch):
    whole = programmed()
    monkeypatch.setattr(process, "AT_ONCE", events)
    monkeypatch.setattr(advance, "AT_ONCE", events)

    assert programmed() == whole
