"""VIA programs on ports: over links and a switch, by every way, and what they then report."""

import runpy
from pathlib import Path

import pytest

from nicscope.config.design import Way
from nicscope.drivers.simulate.ports.build import Faults
from nicscope.fabric.topology import crossbar, trunk
from nicscope.interfaces.via import Cluster, Reliability, Return, VipError
from pairwise import pairs_of
from program_results import results_of
from refusals import refused

ROOT = Path(__file__).parents[3]
WAYS = [way.value for way in Way]
LEVELS = (Reliability.VIP_SERVICE_RELIABLE_DELIVERY, Reliability.VIP_SERVICE_RELIABLE_RECEPTION)
SIZES = (1, 40, 300, 700)


def filled(size, seed):
    return bytes((seed * 31 + i * 7) % 256 for i in range(size))


def exchange(way, level=LEVELS[0], nodes=3, **how):
    """What the last of ``nodes`` is sent by each of the others, and the cluster that ran."""
    cluster = Cluster(mechanism=way, nodes=nodes, settings={"mtu": 256, "retries": 20}, **how)

    async def sender(host):
        nic = await host.open_nic()
        tag = await nic.create_ptag()
        vi = await nic.create_vi(tag, level)
        places = await nic.descriptors(tag)
        out = await nic.register_mem(nic.allocate(4096), tag)
        await nic.connect_request(vi, nodes - 1, f"from {nic.node}")
        for number, size in enumerate(SIZES):
            await nic.write(out.address + 1024 * number, filled(size, nic.node))
            parts = [out.segment(1024 * number, size // 2)]
            parts.append(out.segment(1024 * number + size // 2, size - size // 2))
            await nic.post_send(vi, places.request(*parts, immediate=size))
        return [(await nic.send_wait(vi)).ok for _ in SIZES]

    async def server(host):
        nic = await host.open_nic()
        tag = await nic.create_ptag()
        places = await nic.descriptors(tag)
        ends = []
        for node in range(nodes - 1):
            vi = await nic.create_vi(tag, level)
            into = await nic.register_mem(nic.allocate(4096), tag)
            for number in range(len(SIZES)):
                await nic.post_recv(vi, places.request(into.segment(1024 * number, 1024)))
            await nic.connect_accept(await nic.connect_wait(f"from {node}"), vi)
            ends.append((vi, into))
        found = []
        for vi, into in ends:
            for number in range(len(SIZES)):
                done = await nic.recv_wait(vi)
                came = await nic.read(into.address + 1024 * number, done.length)
                found.append((done.ok, done.immediate, came))
        return found

    for node in range(nodes - 1):
        cluster.start(node, sender)
    cluster.start(nodes - 1, server)
    *sent, found = cluster.run()
    assert sent == [[True] * len(SIZES)] * (nodes - 1)
    return found, cluster


EXPECTED = [(True, size, filled(size, node)) for node in range(2) for size in SIZES]


@pytest.mark.parametrize(
    ("way", "loss", "level"), pairs_of(way=WAYS, loss=(0.0, 0.05), level=LEVELS)
)
def test_a_program_gets_the_same_bytes_over_every_way_whatever_the_network_loses(way, loss, level):
    found, cluster = exchange(way, level, loss=loss, seed=5)

    assert found == EXPECTED
    total = cluster.report().total
    assert (total.received.lost > 0) == (loss > 0)
    assert (total.sent.again > 0) == (loss > 0)


@pytest.mark.parametrize("way", ["pci", "edt"])
def test_a_second_switch_on_the_way_takes_its_time(way):
    near, far = (exchange(way, topology=one)[1] for one in (crossbar(3), trunk(2, 1)))

    assert far.report().elapsed_us > near.report().elapsed_us + 1


def test_packets_that_are_doubled_overtaken_and_spoilt_change_nothing():
    faults = Faults(seed=7, duplication=0.1, reordering=0.1, corruption=0.05, loss=0.05)
    found, cluster = exchange("edt", faults=faults)

    received = cluster.report().total.received
    assert found == EXPECTED
    assert min(received.duplicates, received.lost, received.corrupted) > 0


def test_a_report_says_what_vis_sent_and_how_their_descriptors_ended():
    _, cluster = exchange("cc-dma-intervention")
    report = cluster.report()

    assert (report.interface, report.platform) == ("VIA", "sonic-via-utlb")
    assert report.way == "cc-dma-intervention"
    assert report.total.messages_out == 2 * len(SIZES)
    assert report.total.messages_in == 2 * len(SIZES)
    assert report.total.bytes_in == 2 * sum(SIZES)
    assert report.total.requests == {"done": 2 * 2 * len(SIZES)}  # sends, and the receives of them
    assert report.total.open_requests == 0


@pytest.mark.compiled
def test_the_example_prints_what_is_kept_beside_it(capsys):
    runpy.run_path(str(ROOT / "examples" / "via_switch.py"), run_name="__main__")

    assert capsys.readouterr().out == (ROOT / "examples" / "via_switch.out").read_text()


@pytest.mark.parametrize("way", ["pci", "edt"])
def test_no_connection_is_asked_of_a_node_to_which_no_link_leads(way):
    async def asks(host):
        nic = await host.open_nic()
        vi = await nic.create_vi(await nic.create_ptag())
        with refused(VipError, "node 0 to node 0") as told:
            await nic.connect_request(vi, 0, "myself", 100)
        return told.value.code, vi.state.name

    async def waits(host):
        nic = await host.open_nic()
        with pytest.raises(VipError, match="in time"):
            await nic.connect_wait("myself", 50)

    cluster = Cluster(mechanism=way)
    assert results_of(cluster, (0, asks), (0, waits))[0] == (
        Return.VIP_NOT_REACHABLE,
        "VIP_STATE_IDLE",
    )
