"""Every number of a report, made again from the log of packets or by the programs themselves."""

import accounts_made
import msgspec
import numpy as np
import port_world as world
import pytest
import report_world as made
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from nicscope.config.design import SCHEMES, Pins, load_design, with_settings
from nicscope.drivers.replay import replay
from nicscope.drivers.simulate.ports.build import Faults, HostSize, Transport
from nicscope.drivers.simulate.records import REGISTER
from nicscope.nic.ports.layout import FETCH, OWN_PORT, SEND, WRITE
from nicscope.nic.ports.streams import stream_to
from nicscope.traces.schema import Requests
from suite import share

PAGE = world.PAGE

DESIGNS = ["vmmc-static", "vmmc-interrupt", "unet-mm-pca200", "mini", "utlb", "utlb-shared"]


def check(cluster, seen):
    """Hold the report against everything else that is known of the run."""
    report, machine = cluster.report(), cluster.simulation.machine
    for node in report.nodes:
        n = node.node
        sent, came = msgspec.to_builtins(node.sent), msgspec.to_builtins(node.received)
        again = made.sent_again_from_log(machine, n)
        assert {name: sent[name] for name in again} == again
        assert sent["total"] == sum(
            sent[name] for name in ("first", "again", "acknowledgements", "copies")
        )
        plain, dropped = made.received_from_log(machine, n)
        assert {name: came[name] for name in plain} == plain
        assert came["dropped"] == dropped
        assert came["total"] == made.control_messages_in(machine, n)
        assert came["total"] == sum(plain.values()) + sum(dropped.values()) + came["unfinished"]
        made.assert_possible(machine, n)
        _check_acknowledged(machine, node)
        _check_requests(machine, node, seen)
        _check_lookups(node)
        assert node.programs == made.HOSTS.count(n)
    _check_sums(report)
    _check_conservation(report)
    accounts_made.check(report, machine)


def _check_acknowledged(machine, node):
    ports, many = machine.ports, range(len(machine.nodes))
    oldest = [int(stream_to(ports, node.node, peer)["oldest"]) for peer in many]
    if machine.ports.rules[0]["reliable"]:
        assert node.sent.acknowledged == sum(oldest)
        assert node.sent.acknowledged + node.sent.unacknowledged == node.sent.first
        there = [int(stream_to(ports, peer, node.node)["confirmed"]) for peer in many]
        assert all(here <= taken for here, taken in zip(oldest, there, strict=True))
    else:
        assert (node.sent.acknowledged, node.sent.again, node.sent.acknowledgements) == (0, 0, 0)


def _check_requests(machine, node, seen):
    table = machine.ports.table[node.node, OWN_PORT + 1 :]
    posted = int((table["posted"] + table["refused"]).sum())
    assert sum(node.requests.values()) + node.open_requests == posted
    if node.node not in _dead(machine):
        own = [seen.statuses[me] for me in made.ALL if made.HOSTS[me] == node.node]
        assert node.requests == dict(sum(own, start=type(own[0])()))


def _dead(machine):
    """Nodes that died: their programs saw less than was done."""
    return [n for n, when in enumerate(machine.ports.deaths.nodes.tolist()) if when < 2**62]


def _check_lookups(node):
    for path in ("send", "receive", "handles", "total"):
        looked, missed = getattr(node.lookups, path), getattr(node.misses, path)
        assert (looked is None) == (missed is None)
        assert looked is None or 0 <= missed <= looked
    for found in (node.lookups, node.misses):
        assert found.total == found.send + found.receive + (found.handles or 0)


def _check_sums(report):
    total = msgspec.to_builtins(report.total)
    nodes = [msgspec.to_builtins(node) for node in report.nodes]
    assert _numbers(total) == {
        place: sum(_numbers(node).get(place, 0) for node in nodes) for place in _numbers(total)
    }


def _numbers(plain, place=()):
    found = {}
    for name, value in plain.items():
        if isinstance(value, dict):
            found |= _numbers(value, (*place, name))
        elif value is not None:
            found[*place, name] = value
    return found


def _check_conservation(report):
    sent, came = report.total.sent, report.total.received
    assert sent.total == came.total + sent.waiting + sent.unheard


@pytest.mark.parametrize("design", DESIGNS)
@share(0.15, suppress_health_check=list(HealthCheck))
@given(
    plans=made.moves(made.EVERY),
    faults=made.networks,
    buffers=st.integers(0, 9),
    ring=st.sampled_from([8, 32]),
)
def test_every_number_of_a_reliable_run_is_that_of_its_log(design, plans, faults, buffers, ring):
    cluster, seen = made.run(design, plans, buffers, ring, faults=faults, transport=made.QUICK)
    check(cluster, seen)


@pytest.mark.parametrize("design", [*DESIGNS, "unet-mm-dc21140"])
@share(0.15, suppress_health_check=list(HealthCheck))
@given(plans=made.moves((SEND, SEND, WRITE)), faults=made.networks, buffers=st.integers(0, 9))
def test_so_it_is_over_an_unreliable_transport(design, plans, faults, buffers):
    if design == "unet-mm-dc21140":  # it has no remote memory
        plans = [[move._replace(operation=SEND) for move in plan] for plan in plans]
    cluster, seen = made.run(
        design, plans, buffers, 16, faults=faults, transport=Transport(reliable=False)
    )
    check(cluster, seen)


@pytest.mark.parametrize("design", DESIGNS)
@share(0.15, suppress_health_check=list(HealthCheck))
@given(plans=made.moves(made.EVERY))
def test_on_a_perfect_network_nothing_is_lost_and_bytes_out_are_bytes_in(design, plans):
    cluster, seen = made.run(design, plans, 60, 64, transport=Transport(time_out_ps=15 * 10**9))
    check(cluster, seen)

    report = cluster.report()
    came = report.total.received
    assert (came.lost, came.corrupted, came.refused) == (0, 0, 0)
    if sum(came.dropped.values()):  # each is sent again after a time-out, with all behind it
        assert came.duplicates <= report.total.sent.again
    else:
        assert came.duplicates == report.total.sent.again == 0
    assert report.total.bytes_out == report.total.bytes_in
    assert report.total.bytes_out == sum(move.length for plan in plans for move in plan)
    for node in report.nodes:
        here = [me for me in made.ALL if made.HOSTS[me] == node.node]
        assert node.messages_out == sum(len(plans[me]) for me in here)
        assert node.requests.get("done", 0) == node.messages_out
        sends = [
            move
            for plan in plans
            for move in plan
            if move.operation == SEND and made.HOSTS[move.peer] == node.node
        ]
        assert sum(seen.messages[me] for me in here) == len(sends)
        assert sum(seen.message_bytes[me] for me in here) == sum(move.length for move in sends)


SMALL = {
    "vmmc-interrupt": ["entries=8"],
    "utlb": ["entries=8", "ways=2"],
    # Its indices follow the pages where memory is registered, in a replay their first use: so
    # without conflicts, the same counts are to come out.
    "utlb-shared": ["entries=64"],
    "unet-mm-pca200": ["entries=8", "victim_entries=2"],
    "mini": ["entries=32", "line=4", "ways=2"],
    "vmmc-static": [],
}


@pytest.mark.parametrize("design", SMALL)
@share(0.15, suppress_health_check=list(HealthCheck))
@given(
    stores=st.lists(
        st.tuples(st.integers(0, 30 * PAGE), st.integers(1, 3 * PAGE)), min_size=1, max_size=25
    )
)
def test_lookups_and_misses_are_a_replays_of_the_same_requests(design, stores):
    chosen = with_settings(load_design(design), SMALL[design])
    cluster = world.cluster_of(
        chosen,
        host=HostSize(frames=256, pages_per_space=128),
        transport=Transport(window=1, time_out_ps=10**9),
    )

    async def writer(process):
        source = process.allocate(34 * PAGE)
        await source.write(bytes(len(source)))
        world.import_from(process, 3, 1, 0, source.address, len(source))
        await process.sleep(20_000)
        for at, length in stores:
            await process.post(WRITE, 3, [(source.address + at, length)], offset=at)
            assert (await process.done()).ok
        return source.address

    async def owner(process):
        memory = process.allocate(34 * PAGE)
        await memory.write(bytes(len(memory)))
        world.export(process, 0, memory.address, len(memory))
        if SCHEMES[chosen.scheme].pins is Pins.FIRST:
            await process._sim_process.ask(
                REGISTER, peer=process.port, address=memory.address, payload=len(memory)
            )
        return memory.address

    here, there = world.run_on_nodes(cluster, writer, owner)
    nodes = cluster.report().nodes

    for node, path, begin in ((0, "send", here), (1, "receive", there)):
        total = replay([_trace(stores, begin, path)], [cluster.design])[0].total
        assert getattr(nodes[node].lookups, path) == total[f"lookups_{path}"]
        assert getattr(nodes[node].misses, path) == total[f"ni_misses_{path}"]
        assert cluster.counts(node)[f"lookups_{path}"] == total[f"lookups_{path}"]


def _trace(stores, begin, path):
    """The same stores as a trace of one node has them."""
    count = len(stores)
    return Requests(
        time_ns=np.zeros(count, np.int64),
        node=np.zeros(count, np.int32),
        pid=np.full(count, 5, np.int32),
        receive=np.full(count, path == "receive", np.uint8),
        op=np.zeros(count, np.uint8),
        address=np.array([begin + at for at, _ in stores], np.uint64),
        length=np.array([length for _, length in stores], np.uint32),
    )


@example(loss=0.1)
@given(loss=st.sampled_from([0.1, 0.5]))
@share(0.15, suppress_health_check=list(HealthCheck))
def test_a_network_that_loses_a_tenth_is_reported_to(loss):
    plans = [[made.Move(FETCH, 2, 0, 9000)] * 4, [], [made.Move(WRITE, 3, 0, 9000)] * 4, []]
    cluster, seen = made.run(
        "utlb", plans, 4, 32, faults=Faults(seed=1, loss=loss), transport=made.QUICK
    )
    check(cluster, seen)

    report = cluster.report()
    share = report.total.received.lost / report.total.received.total
    assert share == pytest.approx(loss, abs=0.4 * loss)
    assert report.total.sent.again > 0
