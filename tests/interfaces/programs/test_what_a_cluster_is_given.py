"""What a cluster is set up with is checked at once, and told in a line; full queues say so."""

from __future__ import annotations

import pytest

from nicscope.errors import SimulationError
from nicscope.interfaces import Cluster, Faults, StuckError
from refusals import refused


@pytest.mark.parametrize("name", ["loss", "duplication", "reordering", "corruption"])
@pytest.mark.parametrize("chance", [20, -0.1, "5%", None])
def test_a_probability_that_is_none_is_refused_where_it_is_written(name, chance):
    with refused(SimulationError, name, "from 0 to 1"):
        Faults(**{name: chance})


@pytest.mark.parametrize("word", ["utlb", "unet", "mini", "via", "trapeze"])
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"faults": 0.2}, r"faults is one of Faults\(loss=0.02, seed=1\), not 0.2"),
        ({"faults": Faults(node_deaths={5: 10})}, "no node 5 to die; there are nodes 0 to 1"),
        ({"topology": "ring"}, "topology is one such as crossbar"),
        ({"keep_log": "all"}, "keep_log must be a whole number"),
    ],
)
def test_what_is_no_such_thing_is_refused_before_anything_runs(word, given, told):
    with pytest.raises(SimulationError, match=told):
        Cluster(word, **given)


def test_a_send_queue_full_of_ends_that_nobody_has_read_says_so():
    async def sender(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "taker")
        for _ in range(65):
            await endpoint.send(tag, b"hello")

    async def taker(process):
        endpoint = await process.open("taker")
        for _ in range(65):
            await endpoint.receive()

    cluster = Cluster("unet")
    cluster.start(0, sender)
    cluster.start(1, taker)
    with refused(StuckError, "send queue of 64"):
        cluster.run()


def test_a_free_queue_whose_buffers_nothing_needs_says_so():
    async def provider(process):
        endpoint = await process.open()
        for _ in range(100):
            await endpoint.provide(endpoint.allocate(4096))

    cluster = Cluster("unet")
    cluster.start(0, provider)
    with refused(StuckError, "free queue of 64"):
        cluster.run()
