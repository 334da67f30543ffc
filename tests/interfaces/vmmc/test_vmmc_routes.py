"""Links, ports and nodes die while VMMC runs: other ways are taken as long as there are any."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.drivers.simulate.ports.build import Faults, Transport
from nicscope.errors import SimulationError
from nicscope.fabric.paths import links_of, path_to
from nicscope.fabric.topology import crossbar, redundant
from nicscope.interfaces.vmmc import Cluster
from suite import share

PAGE = 4096
COUNT = 10
QUICK = Transport(time_out_ps=200_000_000, most_retries=2)
TO_SWITCH, FROM_SWITCH = 0, 2  # of node 0, on the first switch; the second's are 4 further


def run(faults, topology=None, transport=QUICK, count=COUNT):
    """Node 1 stores ``count`` pages at node 0: what it was told, and what came in which order."""
    seen = []

    async def keeper(endpoint):
        inbox = endpoint.allocate(4 * PAGE)
        await endpoint.export(inbox, "inbox")
        while len(seen) < count:
            note = await endpoint.notification("poll")
            seen.append((note.offset, (await inbox.read(1, note.offset))[0]))

    async def sender(endpoint):
        remote = await endpoint.import_buffer(0, "inbox")
        page = endpoint.allocate(PAGE)
        ends = []
        for number in range(count):
            await page.write(bytes([number]) * 64)
            transfer = await endpoint.store(remote, page, number % 4 * PAGE, length=64, notify=True)
            ends.append((await endpoint.wait(transfer)).status)
            if ends[-1] == "peer dead":
                break
        return ends

    cluster = Cluster(
        "utlb", topology=redundant(2) if topology is None else topology,
        transport=transport, faults=faults,
    )  # fmt: skip
    cluster.start(1, sender)
    cluster.start(0, keeper)
    try:
        ends = cluster.run()[0]
    except SimulationError as error:  # the keeper waits in vain
        ends = error
    return cluster, ends, seen


def routes(cluster):
    """The links that packets between nodes 1 and 0 take last, there and back."""
    paths = cluster.simulation.machine.paths
    return [links_of(paths, path_to(paths, s, 1 - s)) for s in (1, 0)]


def everything(count=COUNT):
    return [(number % 4 * PAGE, number) for number in range(count)]


@pytest.mark.requirement("UT-54")
@pytest.mark.parametrize("link", [0, 1, 2, 3], ids=["ack out", "data out", "data in", "ack in"])
def test_a_link_dies_in_the_middle_and_everything_arrives_once_in_order(link):
    cluster, ends, seen = run(Faults(link_deaths={link: 350_000_000}))

    assert ends == ["done"] * COUNT
    assert seen == everything()
    assert [cluster.served(node)["remaps"] for node in (0, 1)] == [1, 1]  # one follows the other
    there, back = (1, 2), (0, 3)
    # What still works stays.
    over_second = [tuple(4 + each for each in way) if link in way else way for way in (there, back)]
    assert routes(cluster) == over_second


@pytest.mark.requirement("UT-54")
def test_both_links_of_a_port_die_and_both_sides_go_round_it():
    deaths = {TO_SWITCH: 350_000_000, FROM_SWITCH: 350_000_000}
    cluster, ends, seen = run(Faults(link_deaths=deaths))

    assert ends == ["done"] * COUNT
    assert seen == everything()
    assert routes(cluster) == [(5, 6), (4, 7)]


@pytest.mark.requirement("UT-54")
def test_three_switches_survive_two_failures_one_after_the_other():
    deaths = {1: 300_000_000, 4 + 2: 1_150_000_000}
    cluster, ends, seen = run(Faults(link_deaths=deaths), redundant(2, 3))

    assert ends == ["done"] * COUNT
    assert seen == everything()
    assert routes(cluster) == [(9, 10), (0, 3)]
    assert [cluster.served(node)["remaps"] for node in (0, 1)] == [2, 2]


def test_without_a_way_left_the_peer_is_dead_and_what_came_before_was_whole():
    deaths = {1: 350_000_000, 4 + 1: 350_000_000}
    cluster, error, seen = run(Faults(link_deaths=deaths))

    assert "process 0 of node 0, keeper(): waits in endpoint.notification()" in str(error)
    assert 0 < len(seen) < COUNT
    assert seen == everything()[: len(seen)]
    assert cluster.simulation.results[1][-1] == "peer dead"
    assert cluster.simulation.results[1].count("done") == len(seen)
    assert cluster.served(1)["remaps"] == 0  # nothing was found that might be tried


@pytest.mark.parametrize(
    ("faults", "topology"),
    [
        (Faults(link_deaths={1: 350_000_000}), crossbar(2)),
        (Faults(node_deaths={0: 350_000_000}), None),
    ],
    ids=["the one switch", "the peer itself"],
)
def test_what_is_dead_on_every_way_is_given_up(faults, topology):
    cluster, _, seen = run(faults, topology)

    assert cluster.simulation.results[1][-1] == "peer dead"
    assert seen == everything()[: len(seen)]
    assert cluster.served(1)["remaps"] == 0


@pytest.mark.requirement("UT-54")
@share(0.4)
@given(
    st.integers(0, 3),
    st.integers(100, 700),
    st.integers(0, 2**32),
    st.sampled_from([0.0, 0.05]),
)
def test_whenever_a_link_dies_and_whatever_is_lost_besides(link, when_us, seed, loss):
    faults = Faults(
        seed=seed, loss=loss, duplication=loss, reordering=loss, corruption=loss,
        link_deaths={link: when_us * 1_000_000},
    )  # fmt: skip
    transport = Transport(time_out_ps=200_000_000, most_retries=10)
    _, ends, seen = run(faults, transport=transport, count=8)

    assert ends == ["done"] * 8
    # A reader that polls may be late: the page may be a later one already, never an earlier.
    assert [offset for offset, _ in seen] == [offset for offset, _ in everything(8)]
    assert all(got >= number for number, (_, got) in enumerate(seen))


def test_the_last_link_of_many_switches_may_die():
    topology = redundant(2, 6)
    cluster, ends, seen = run(Faults(link_deaths={topology.links - 1: 0}), topology)

    assert ends == ["done"] * COUNT
    assert seen == everything()
    assert cluster.served(0)["remaps"] == 0
