"""Every number of a Trapeze run's report, made again by its programs or from the log of engines."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from nicscope.config.design import POLICIES
from nicscope.drivers.simulate.observe import Engine
from nicscope.interfaces.trapeze import Cluster
from program_results import results_of
from suite import share

NODES = 3
PLATFORM = "p6-natoma"
PATIENCE_US = 20_000.0

sizes = st.one_of(st.just(0), st.integers(1, 64), st.integers(1, 3000))
plans = st.lists(
    st.tuples(st.integers(0, NODES - 1), st.integers(1, NODES - 1), sizes), max_size=10
)


def run(plan, takes, policy="adaptive", **how):
    """A cluster on which nodes send as planned; ``takes``: how many messages each node reads."""
    cluster = Cluster(PLATFORM, nodes=NODES, policy=policy, keep_log=50_000, **how)
    seen = Counter()

    def sender(node):
        async def program(endpoint):
            for at, step, size in plan:
                if at != node:
                    continue
                payload = endpoint.allocate(size) if size else None
                await endpoint.send((node + step) % NODES, payload)
                seen[node, "out"] += 1
                seen[node, "bytes out"] += size
            await endpoint.sleep(PATIENCE_US)

        return program

    def reader(node):
        async def program(endpoint):
            for _ in range(takes[node]):
                message = await endpoint.receive()
                seen[node, "read"] += 1
                seen[node, "bytes read"] += len(message.payload)
                endpoint.release(message)

        return program

    for node in range(NODES):
        cluster.start(node, sender(node))
        cluster.start(node, reader(node))
    cluster.run()
    return cluster, seen


@pytest.mark.parametrize("policy", POLICIES)
@share(0.8, suppress_health_check=list(HealthCheck))
@given(plan=plans, share=st.sampled_from([0.0, 0.5, 1.0]))
def test_every_number_is_what_programs_and_engines_did(policy, plan, share):
    due = Counter((at + step) % NODES for at, step, _ in plan)
    takes = [int(share * due[node]) for node in range(NODES)]
    cluster, seen = run(plan, takes, policy)
    report = cluster.report()
    log = cluster.simulation.machine.log[: cluster.simulation.machine.tally[0]["log"]]

    for node in report.nodes:
        n = node.node
        here = log[log["node"] == n]
        mine = [size for at, _, size in plan if at == n]
        theirs = [size for at, step, size in plan if (at + step) % NODES == n]
        assert seen[n, "read"] == takes[n]
        assert seen[n, "bytes read"] <= node.bytes_in
        assert node.programs == 2
        assert (node.messages_out, node.bytes_out) == (len(mine), sum(mine))
        assert (seen[n, "out"], seen[n, "bytes out"]) == (len(mine), sum(mine))
        assert (node.messages_in, node.bytes_in) == (len(theirs), sum(theirs))
        assert sum(node.requests.values()) + node.open_requests == len(mine)
        assert node.requests == ({"done": len(mine)} if mine else {})
        written = here[here["engine"] == Engine.HOST_WRITE]
        heads = here[(here["engine"] == Engine.NET_RCV) & (here["control"] == 1)]
        assert node.sent.total == node.sent.first == len(written) == len(mine)
        assert node.received.total == len(heads) == len(theirs)
        assert node.received.delivered == len(theirs)
        assert (node.sent.waiting, node.sent.unheard) == (0, 0)
        assert (node.received.broken_off, node.received.unfinished) == (0, 0)
    assert report.total.bytes_out == report.total.bytes_in
    assert report.elapsed_us == cluster.simulation.now / 1e6


def test_what_had_not_ended_is_told_as_such():
    cluster = Cluster(PLATFORM)

    async def sender(endpoint):
        for _ in range(5):
            await endpoint.send(1, endpoint.allocate(8000))

    async def nobody(_endpoint):
        return

    results_of(cluster, sender, nobody)
    here, there = cluster.report().nodes

    assert (here.messages_out, here.bytes_out, here.sent.total) == (5, 40_000, 5)
    assert here.requests.get("done", 0) + here.open_requests == 5
    assert here.open_requests > 0
    assert here.sent.total == here.sent.waiting + here.sent.unheard + there.received.total
    came = there.received
    assert came.total == came.delivered + came.broken_off + came.unfinished
    assert came.total < 5


def test_packets_that_the_watchdog_takes_away_are_broken_off_or_never_heard(monkeypatch):
    monkeypatch.setattr(
        "nicscope.interfaces.trapeze.delivery_costs", lambda platform: _impatient(platform)
    )
    plan = [(node, 1, size) for size in (3000, 64) for node in range(NODES)] * 6
    cluster, _ = run(plan, [0] * NODES)
    report = cluster.report()
    aborted = cluster.simulation.machine.nodes["aborted"]
    total = report.total

    assert aborted.sum() == 6 * NODES  # the long ones
    assert total.received.broken_off + total.sent.unheard == aborted.sum()
    assert total.sent.total == total.received.total + total.sent.unheard + total.sent.waiting
    assert total.messages_in == total.received.delivered == len(plan) - aborted.sum()
    assert total.bytes_in == 64 * total.messages_in


def _impatient(platform):
    from nicscope.config.platform import delivery_costs

    return delivery_costs(platform) | {"link_watchdog": 40_000_000}


def test_what_trapeze_has_not_is_none():
    cluster, _ = run([(0, 1, 100)], [0, 0, 0])
    report = cluster.report()
    total = report.total

    assert (report.interface, report.design, report.way) == ("Trapeze", None, "pci")
    for absent in ("lookups", "misses", "repeated", "interrupts", "page_ins", "pins", "miss_us"):
        assert getattr(total, absent) is None
    for absent in ("again", "acknowledgements", "copies", "acknowledged", "unacknowledged"):
        assert getattr(total.sent, absent) is None
    for absent in ("duplicates", "refused", "dropped", "void"):
        assert getattr(total.received, absent) is None
    assert [table.title for table in report.tables()] == [
        "Messages and requests",
        "By endpoint",
        "Packets sent",
        "Packets received, by what became of them",
        "Busy, of the run's time",
    ]
