"""Three ways to learn of a message: what each costs its process, and the others on its CPU."""

import pytest

from nicscope.drivers.simulate.ports.build import HostSize
from nicscope.interfaces.unet import Cluster
from program_results import results_of

MODES = ("poll", "block", "signal")
DESIGNS = ("unet-mm-pca200", "unet-mm-dc21140")
SLEPT, COMPUTED, SENT_AT = 2_000.0, 1_000.0, 20_000.0
SLICE = 5_000.0


def beside(mode, design, count=1):
    """A process that waits for a message in ``mode``, and others of its CPU that compute; all ends.

    The one sends at ``SENT_AT``; the others wake at ``SLEPT`` and compute for ``COMPUTED``.
    """

    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        await process.sleep(SENT_AT - process.now_us)
        await endpoint.send(tag, b"a word")

    async def waiting(process):
        endpoint = await process.open("pong")
        begun = process.now_us
        assert (await endpoint.receive(mode)).content == b"a word"
        return begun, process.now_us

    async def computing(process):
        await process.sleep(SLEPT)
        await process.compute(COMPUTED)
        return process.now_us

    cluster = Cluster(design, host=HostSize(time_slice_ps=int(SLICE * 1e6)))
    cluster.start(0, ping)
    cluster.start(1, waiting)
    for _ in range(count):
        cluster.start(1, computing)
    _, heard, *others = cluster.run()
    return heard, others, cluster.simulation.machine.ports.nodes[1]


@pytest.mark.requirement("UM-13")
@pytest.mark.parametrize("design", DESIGNS)
def test_who_polls_keeps_its_cpu_and_who_blocks_or_awaits_a_signal_leaves_it_to_others(design):
    for mode in ("block", "signal"):
        (_, _), [end], node = beside(mode, design)
        assert end == pytest.approx(SLEPT + COMPUTED)
        assert node["spun"] == 0
    (begun, heard), [end], node = beside("poll", design)
    assert end == pytest.approx(begun + SLICE + COMPUTED)
    # It had the CPU for all its time but for what the other one computed.
    assert node["spun"] / 1e6 == pytest.approx(heard - begun - COMPUTED, abs=1)


@pytest.mark.requirement("UM-13")
def test_each_of_several_others_waits_for_no_more_than_one_time_slice():
    (begun, _), ends, _ = beside("poll", DESIGNS[0], count=3)
    assert sorted(ends) == pytest.approx([begun + SLICE + COMPUTED * n for n in (1, 2, 3)])


@pytest.mark.requirement("UM-13")
@pytest.mark.parametrize("design", DESIGNS)
def test_waking_a_blocked_process_costs_more_than_polling_and_a_signal_more_than_that(design):
    ends = [beside(mode, design, count=0)[0][1] for mode in MODES]
    assert ends[1] - ends[0] == pytest.approx(10)  # wake_up
    assert ends[2] - ends[0] == pytest.approx(20)  # notify


@pytest.mark.requirement("UM-13")
@pytest.mark.parametrize("design", DESIGNS)
def test_a_signal_interrupts_what_its_process_computes_and_that_goes_on(design):
    work = 30_000.0

    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        await process.sleep(SENT_AT - process.now_us)
        await endpoint.send(tag, b"a word")

    async def pong(process):
        endpoint = await process.open("pong")
        begun = process.now_us
        left = await endpoint.compute(work)
        signalled = process.now_us
        assert endpoint.waiting == 1
        assert (await endpoint.receive()).content == b"a word"
        polled = process.now_us - signalled
        assert await endpoint.compute(left) == 0
        return begun, signalled, left, polled, process.now_us

    cluster = Cluster(design)
    _, (begun, signalled, left, polled, end) = results_of(cluster, ping, pong)
    assert SENT_AT < signalled < SENT_AT + 200
    assert 0 < left < work
    stolen = cluster.simulation.machine.ports.nodes[1]["kernel_time"] / 1e6  # a kernel's handler
    assert signalled - begun == pytest.approx(work - left + 20 + stolen)
    assert end - begun == pytest.approx(work + 20 + stolen + polled)


@pytest.mark.requirement("UM-13")
def test_what_had_come_before_is_signalled_at_once():
    async def ping(process):
        endpoint = await process.open()
        await endpoint.send(await endpoint.connect(1, "pong"), b"early")

    async def pong(process):
        endpoint = await process.open("pong")
        await process.compute(1000)
        begun = process.now_us
        left = await endpoint.compute(500)
        return process.now_us - begun, left

    assert results_of(Cluster(), ping, pong)[1] == pytest.approx((20, 500))
