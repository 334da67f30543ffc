"""Hosts with two processors: two programs work at once, and the kernel takes one that is free."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.config.platform import load_platform
from nicscope.drivers.simulate.observe import Engine
from nicscope.drivers.simulate.ports.build import HostSize
from nicscope.drivers.simulate.records import INTERRUPTED
from nicscope.interfaces.mini import Cluster

US = 1_000_000


def computing(plans, processors):
    """When programs end that compute for so long, one stretch after the other; and the cluster."""

    def program(plan):
        async def computes(end):
            for time in plan:
                await end.compute(time)
            return end.now_us

        return computes

    cluster = Cluster(host=HostSize(processors=processors), keep_log=1000)
    for plan in plans:
        cluster.start(0, program(plan))
    return [round(ended) for ended in cluster.run()], cluster


@pytest.mark.requirement("MI-50")
def test_the_papers_nodes_have_two_processors():
    assert load_platform("mini-cluster").machine["processors"].value == 2
    assert Cluster().processors == 2
    assert Cluster(host=HostSize(processors=1)).processors == 1


@pytest.mark.requirement("MI-50")
@pytest.mark.parametrize(("processors", "ends"), [(1, [10, 30]), (2, [10, 20])])
def test_two_programs_compute_at_once_on_two_processors(processors, ends):
    found, cluster = computing([[10], [20]], processors)

    assert found == ends
    assert cluster.simulation.machine.nodes[0]["cpu_busy"] == 30 * US


@given(
    st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=4), min_size=1, max_size=5),
    st.sampled_from([1, 2]),
)
def test_processors_waste_no_time_and_no_program_is_at_two_of_them(plans, processors):
    ends, cluster = computing(plans, processors)
    work = [sum(plan) for plan in plans]
    log = cluster.simulation.machine.log
    log = log[(log["engine"] == Engine.CPU) & (log["node"] == 0)]

    assert sum(work) / processors <= max(ends)  # no more than so many at once
    # No processor idles while work waits (Graham's bound, of programs that are chains).
    assert max(ends) <= sum(work) / processors + max(work)
    assert all(end >= mine for end, mine in zip(ends, work, strict=True))
    for process in range(len(plans)):
        mine = np.sort(log[log["sender"] == process], order="start")
        assert (mine["end"][:-1] <= mine["start"][1:]).all()
    assert int((log["end"] - log["start"]).sum()) == sum(work) * US


def missing(processors, programs):
    """When a node with so many programs that compute has had a miss served, and what it took."""
    cluster = Cluster(host=HostSize(processors=processors), keep_log=10_000)
    over = []

    async def computes(end):
        while not over:
            await end.compute(1000)

    async def writer(end):
        own = end.allocate(64)
        remote = await end.open(await end.find("inbox"))
        await end.write(remote, own, notify=False)
        await end.done()
        over.append(True)

    async def owner(end):
        await end.register(end.allocate(64), name="inbox")

    cluster.start(0, writer)
    cluster.start(1, owner)
    for _ in range(programs):
        cluster.start(1, computes)
    cluster.run()
    machine = cluster.simulation.machine
    events = machine.ports.events[1, : machine.ports.nodes[1]["handled"]]
    log = machine.log
    taken = log[(log["engine"] == Engine.CPU) & (log["node"] == 1) & (log["task"] == INTERRUPTED)]
    return max(events["begun"] - events["raised"]) // US, taken


@pytest.mark.requirement("MI-58")
@pytest.mark.parametrize(("processors", "programs"), [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_the_kernels_thread_preempts_programs_that_compute_on_every_processor(processors, programs):
    delay, _ = missing(processors, programs)

    assert delay == missing(processors, 0)[0]  # as on an idle host


def test_the_thread_works_on_the_processor_that_is_free_and_takes_no_time_from_a_program():
    (_, beside), (_, amid) = missing(2, 1), missing(1, 1)

    assert (beside["sender"] == -1).all()
    assert sum(beside["end"] - beside["start"]) > 0
    assert sum(amid["end"] - amid["start"]) == sum(beside["end"] - beside["start"])
