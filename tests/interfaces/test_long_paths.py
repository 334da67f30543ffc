"""A path on which packets propagate, as programs meet it: latency, windows, retries, order."""

import pytest

from nicscope.drivers.simulate.ports.build import Faults
from nicscope.errors import SimulationError
from nicscope.interfaces import Cluster
from nicscope.interfaces.verbs.base import World, use
from nicscope.interfaces.verbs_device.device import Device
from nicscope.interfaces.verbs_device.fabric import Fabric
from nicscope.studies import verbs_measures
from nicscope.studies.verbs_measures import ask, both_ends
from program_results import results_of
from refusals import refused

ROUND_TRIP_NS = 80_000_000
TIMEOUT_UNIT_NS = 4096


def no_watch(_done, _total):
    pass


def latency(size=64, iterations=4, **options):
    question = ask(operation="write", sizes=str(size), iterations=iterations, **options)
    return verbs_measures.all_latencies(question, ["verbs", "lat"], no_watch).rows[0]


def bandwidth(depth, delay, size=4096, iterations=300):
    question = ask(
        operation="write", sizes=str(size), iterations=iterations, depth=depth, delay=delay
    )
    return verbs_measures.bandwidths(question, ["verbs", "bw"], no_watch).rows[0]


def test_a_write_takes_as_long_as_without_a_delay_and_a_round_trip_more():
    near, far = latency(), latency(delay="40ms", timeout=20)
    assert far.typical - near.typical == ROUND_TRIP_NS
    assert far.least - near.least == ROUND_TRIP_NS
    assert far.propagation_ns == pytest.approx(ROUND_TRIP_NS, rel=1e-4)
    assert near.propagation_ns == 0
    assert far.costs.retransmitted == 0


@pytest.mark.parametrize("timeout", [12, 13, 14, 15])
@pytest.mark.parametrize("retry_count", [0, 1, 3, 7])
def test_a_retry_timeout_shorter_than_the_round_trip_retransmits_until_retries_run_out(
    timeout, retry_count
):
    """Each time the timeout runs out the request goes again, and after the last it has failed.

    So it ends well if the acknowledgement comes before the timeout has run out once more than it
    may be retried.
    """
    waits_ns = TIMEOUT_UNIT_NS << timeout
    expired = ROUND_TRIP_NS // waits_ns  # times before the first acknowledgement comes
    options = {"iterations": 2, "delay": "40ms", "timeout": timeout, "retry_count": retry_count}
    if expired > retry_count:
        with refused(SimulationError, "Retry exc err", "64 bytes"):
            latency(**options)
        return
    found = latency(**options)
    assert found.typical == pytest.approx(ROUND_TRIP_NS, rel=1e-3)
    assert found.costs.retransmitted == expired * found.iterations


def test_bandwidth_is_the_window_by_the_round_trip():
    near = latency(size=4096).typical
    for depth in (1, 4, 16, 64):
        found = bandwidth(depth, "1ms", iterations=40 * depth)
        window = depth * 4096 / (2_000_000 + near) * 1e9 / 2**20
        assert found.average_mib_s == pytest.approx(window, rel=0.08), depth


def test_a_window_of_packets_bounds_what_a_deeper_queue_keeps_in_flight():
    assert bandwidth(256, "1ms").average_mib_s == pytest.approx(
        bandwidth(64, "1ms").average_mib_s, rel=0.01
    )


SENT = 60


def in_order(**options):
    """What node 1 has received of the messages of node 0, and how often packets were repeated."""
    cluster = Cluster("unet", transport="reliable", **options)

    async def sender(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "sink")
        room = endpoint.allocate(4096)
        for number in range(SENT):
            await room.write(bytes([number]) * 100)
            await endpoint.send(tag, room.part(0, 100))
            await endpoint.sent()

    async def receiver(process):
        endpoint = await process.open("sink")
        buffers = [endpoint.allocate(4096) for _ in range(8)]
        await endpoint.provide(*buffers)
        got = []
        for number in range(SENT):
            message = await endpoint.receive()
            got.append(await message.read())
            await endpoint.provide(buffers[number % len(buffers)])
        return got

    got = results_of(cluster, sender, receiver)[1]
    assert got == [bytes([number]) * 100 for number in range(SENT)]
    return sum(node.sent.again or 0 for node in cluster.report().nodes)


def test_messages_come_whole_and_in_order_over_a_delay_with_and_without_losses():
    assert in_order(delay="100us") == 0
    assert in_order(delay="100us", faults=Faults(seed=3, loss=0.05, corruption=0.05)) > 0


def test_no_delay_is_what_there_is_without_one():
    none, zero = (latency(delay=delay) for delay in (None, "0us"))
    assert none == zero


@pytest.mark.parametrize("delay", ["40", "40 parsec", "-1us", "2s", 40, 1.5])
def test_what_is_no_delay_is_refused(delay):
    known = "such as" if delay not in ("-1us", "2s") else "from 0 to 1 s"
    with refused(SimulationError, "delay", known):
        Fabric(nodes=2, delay=delay)


def test_what_a_node_sends_to_itself_overtakes_what_is_still_far():
    """Its NIC takes one packet at a time, from the wire or from itself; only the former is late."""
    fabric = Fabric(nodes=2, delay="300us", one_program=True)
    first, second = (World(Device.on(fabric), node) for node in range(2))
    question = ask(operation="send", sizes="200", iterations=8, depth=8)
    try:
        far, there = both_ends([first, second], question, 200)
        near, itself = both_ends([second, second], question, 200)
        begun = first.device.now_ns
        for _ in range(8):
            far.post()
        for _ in range(8):
            near.post()
            itself.ended(itself.come)
            itself.receive()
            assert near.ended(near.sent) == [0]
        assert second.device.now_ns - begun < 300_000  # before the first from afar has come
        for count in range(8):
            there.ended(there.come)
            assert count or 300_000 < second.device.now_ns - begun < 310_000
        for _ in range(8):
            near.post()
            itself.ended(itself.come)
            far.ended(far.sent)
        assert 600_000 < first.device.now_ns - begun < 620_000
    finally:
        use(None)
