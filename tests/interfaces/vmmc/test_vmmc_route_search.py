"""Links die on networks of many switches: any route that is left is found, by probes, in time."""

import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st

from nicscope.drivers.simulate.ports.build import Faults, Transport
from nicscope.fabric.paths import links_of, path_to
from nicscope.fabric.topology import routed
from nicscope.interfaces.vmmc import Cluster
from program_results import results_of
from suite import share

PAGE = 4096
COUNT = 6
QUICK = Transport(time_out_ps=200_000_000, most_retries=2)
DIES = 350_000_000
LONG_US = 40_000.0  # all searches and retries are over by then
# Node 0 on switches 0 and 1, node 1 on 2 and 3; each switch is joined with two others and, by a
# diagonal, 0 with 3.
CABLES = [(0, 2), (1, 4), (2, 3), (3, 4), (4, 5), (5, 2), (2, 5), (0, 3), (1, 5)]
WIRES = [wire for begin, end in CABLES for wire in ((begin, end), (end, begin))]


def run(deaths, transport=QUICK, wires=WIRES):
    """Node 1 stores pages at node 0, one after the other: their ends, what came, the cluster."""
    came = []

    async def keeper(endpoint):
        inbox = endpoint.allocate(COUNT * PAGE)
        await endpoint.export(inbox, "inbox")
        await endpoint.sleep(LONG_US)
        first_bytes = [(await inbox.read(1, number * PAGE))[0] for number in range(COUNT)]
        came.extend(number for number in range(COUNT) if first_bytes[number] == number + 1)

    async def sender(endpoint):
        remote = await endpoint.import_buffer(0, "inbox")
        page = endpoint.allocate(PAGE)
        ends = []
        for number in range(COUNT):
            await page.write(bytes([number + 1]) * 64)
            began = endpoint.now_us
            transfer = await endpoint.store(remote, page, number * PAGE, length=64)
            status = (await endpoint.wait(transfer)).status
            ends.append((status, endpoint.now_us - began))
            if status != "done":
                break
            await endpoint.sleep(40.0)
        return ends

    cluster = Cluster(
        "utlb",
        topology=routed("mesh", 2, wires),
        transport=transport,
        faults=Faults(link_deaths=deaths),
    )
    ends = results_of(cluster, (1, sender), (0, keeper))[0]
    return cluster, ends, came


def is_connected(dead, sender, destination, wires=WIRES):
    """Whether a living route leads from one node to the other: a flood over the switches."""
    reached = {sender}
    for _ in range(len(wires)):
        reached |= {
            end
            for link, (begin, end) in enumerate(wires)
            if link not in dead and begin in reached and (begin >= 2 or begin == sender)
        }
    return destination in reached


def routes(cluster):
    paths = cluster.simulation.machine.paths
    return [links_of(paths, path_to(paths, s, 1 - s)) for s in (1, 0)]


@pytest.mark.requirement("UT-54")
def test_a_route_is_found_that_nobody_had_prepared():
    first = [routed("mesh", 2, WIRES).paths[each] for each in ((1, 0), (0, 1))]
    dead = {*first[0][1:], *first[1][1:]}
    cluster, ends, came = run(dict.fromkeys(dead, DIES))

    assert [status for status, _ in ends] == ["done"] * COUNT
    assert came == list(range(COUNT))
    assert not dead.intersection(*routes(cluster))
    assert routes(cluster) != first
    assert cluster.served(1)["remaps"] == 1


@pytest.mark.requirement("UT-54")
@share(1.2, phases=[Phase.generate, Phase.explicit])
@given(st.dictionaries(st.integers(0, len(WIRES) - 1), st.integers(300, 700), max_size=8))
def test_whatever_links_die_all_arrives_while_there_is_a_route_and_else_the_peer_is_given_up(dies):
    deaths = {link: when * 1_000_000 for link, when in dies.items()}
    _, ends, came = run(deaths)
    told = [status for status, _ in ends]

    if is_connected(deaths, 1, 0) and is_connected(deaths, 0, 1):
        assert told == ["done"] * COUNT
        assert came == list(range(COUNT))
    else:
        # All may have come before it was too late, and the last without its sender knowing.
        assert told in ([*["done"] * (len(told) - 1), last] for last in ("done", "peer dead"))
        assert came[: len(told) - 1] == list(range(len(told) - 1))


@pytest.mark.requirement("UT-54")
def test_a_search_takes_the_time_of_its_probes():
    first = routed("mesh", 2, WIRES).paths[1, 0]
    longest = []
    for silence_us in (100, 350):
        transport = Transport(
            time_out_ps=200_000_000, most_retries=2, probe_time_out_ps=silence_us * 1_000_000
        )
        _, ends, _ = run({first[1]: DIES}, transport)
        assert [status for status, _ in ends] == ["done"] * COUNT
        longest.append(max(took for _, took in ends))
        # Three time-outs, the search, and no more than three transfers take besides.
        besides = longest[-1] - (3 * 200 + 2 * silence_us)
        assert 0 < besides < 3 * min(took for _, took in ends)

    # Silent are the probe along the way that was used and that over its dead link.
    assert longest[1] - longest[0] == pytest.approx(2 * 250)
