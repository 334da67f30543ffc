"""Trapeze over a network that loses and damages: what programs see, and what the report says."""

import pytest

from nicscope.drivers.simulate.ports.build import Faults
from nicscope.fabric.faults import CORRUPTED, LOST, fate, new_faults
from nicscope.interfaces.trapeze import Cluster
from program_results import results_of

COUNT = 40
FAULTS = Faults(seed=7, loss=0.2, corruption=0.3)


def befell(number):
    return fate(new_faults(7, 0.2, 0.0, 0.0, 0.3)[0], 0, number, 0)


WHOLE = [number for number in range(COUNT) if not befell(number) & (LOST | CORRUPTED)]


def run(policy="adaptive", faults=FAULTS):
    cluster = Cluster("pentium2-440lx", policy=policy, faults=faults)

    async def send(endpoint):
        page = endpoint.allocate(4096)
        for number in range(COUNT):
            await page.write(bytes([number]) * 4096)
            endpoint.reserve(1)[:] = bytes([number])
            await endpoint.send(1, page)
        await endpoint.sleep(1000)  # until the last of them has come

    async def receive(endpoint):
        seen = []
        for _ in WHOLE:
            message = await endpoint.receive()
            content = message.payload.tobytes()
            endpoint.release(message)
            assert set(content) == {content[0]}
            seen.append(content[0])
        return seen

    return cluster, results_of(cluster, send, receive)[1]


@pytest.mark.parametrize("policy", ["adaptive", "store-and-forward", "cut-through"])
def test_what_is_not_lost_or_damaged_comes_whole_and_in_order(policy):
    cluster, seen = run(policy)
    assert seen == WHOLE
    received = cluster.report().nodes[1].received
    lost = sum(bool(befell(number) & LOST) for number in range(COUNT))
    assert 0 < lost < COUNT - len(WHOLE)
    assert received.lost == lost
    assert received.corrupted == COUNT - len(WHOLE) - lost
    assert received.broken_off == received.cut_off == 0
    assert received.delivered == len(WHOLE)


def test_a_dead_node_says_and_hears_nothing_more():
    deaths = Faults(node_deaths={1: 0})
    cluster = Cluster("pentium2-440lx", faults=deaths)

    async def send(endpoint):
        for _ in range(3):
            await endpoint.send(1)
        await endpoint.sleep(1000)

    async def receive(endpoint):
        return await endpoint.receive()

    assert results_of(cluster, send, receive) == [None, None]
    assert cluster.report().nodes[1].received.cut_off == 3
