"""Every number of a VIA run's report, made again by its programs or by firmware's counters."""

import pytest
from pairs import DELIVERY, MECHANISMS, RECEPTION, UNRELIABLE, ended, make_end, run_pair

from nicscope.interfaces.run_report import on_run, report_of
from nicscope.interfaces.via import Cluster, Status
from nicscope.interfaces.via.descriptor import STATUS_ERROR_MASK
from program_results import results_of

LEVELS = (UNRELIABLE, DELIVERY, RECEPTION)


def reported(first, second, **how):
    """The report of ``run_pair``, and what its programs return."""
    heard = []
    with on_run(lambda source: heard.append(report_of(source))):
        results = run_pair(first, second, **how)
    return heard[0], results


async def sends(end, size=100):
    """One message; how it ended."""
    await end.nic.post_send(end.vi, end.send(0, size))
    status = (await ended(end.nic.send_wait(end.vi))).status
    await end.nic.compute(2000)
    return status


async def waits(end):
    await end.nic.compute(3000)


@pytest.mark.parametrize("level", LEVELS)
def test_a_message_for_which_nothing_is_posted_is_turned_away(level):
    report, _ = reported(sends, waits, level=level, posted=0)
    here, there = report.nodes

    is_unreliable = level == UNRELIABLE
    assert here.requests == (
        {"done": 1} if is_unreliable else {"VIP_STATUS_TRANSPORT_ERROR (no receive posted)": 1}
    )
    assert there.received.dropped["buffer"] == is_unreliable
    assert (there.received.refused, there.received.delivered) == (not is_unreliable, 0)
    assert (there.messages_in, there.bytes_in) == (0, 0)
    assert (here.messages_out, here.bytes_out) == (1, 100)


@pytest.mark.parametrize("level", LEVELS)
def test_all_packets_of_a_message_that_does_not_fit_are_refused(level):
    async def waits_for_less(end):
        for _ in range(2):
            await end.nic.post_recv(end.vi, end.receive(0, 10))
        await end.nic.compute(3000)

    report, _ = reported(sends_a_lot, waits_for_less, level=level, posted=0)
    _, there = report.nodes

    assert (there.received.refused, there.received.delivered) == (3, 0)
    flushed = (
        {} if level == UNRELIABLE else {"VIP_STATUS_DESC_FLUSHED_ERROR (flushed)": 1}
    )  # with the connection
    assert there.requests == {"VIP_STATUS_LENGTH_ERROR (too long)": 1} | flushed
    assert there.open_requests == (level == UNRELIABLE)
    assert there.messages_in == 0


async def sends_a_lot(end):
    return await sends(end, 4000)


def test_what_a_lost_connection_leaves_is_flushed_and_told():
    async def leaves(end):
        await end.nic.disconnect(end.vi)
        await end.nic.compute(500)

    report, _ = reported(waits, leaves, posted=3)

    assert report.nodes[1].requests == {"VIP_STATUS_DESC_FLUSHED_ERROR (flushed)": 3}
    assert report.nodes[1].open_requests == 0


RIGHTS = {"enable_rdma_write": True, "enable_rdma_read": True}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_rdma_counts_as_fetches_and_stores_do_and_interrupts_where_the_nic_needs_the_host(
    mechanism,
):
    regions = []

    async def client(end):
        await end.nic.compute(200)
        await end.nic.rdma_write(end.vi, end.places, [end.out.segment(0, 2000)], regions[0])
        assert (await end.nic.send_wait(end.vi)).ok
        await end.nic.rdma_read(end.vi, end.places, [end.into.segment(0, 3100)], regions[0])
        assert (await end.nic.send_wait(end.vi)).ok

    async def server(end):
        regions.append(end.into.remote())
        await end.nic.compute(3000)

    report, _ = reported(client, server, mechanism=mechanism, posted=0, rights=RIGHTS)
    here, there = report.nodes

    assert (here.messages_out, there.messages_out) == (2, 0)  # an answer is no descriptor's
    assert (here.messages_in, there.messages_in) == (1, 2)  # the answer; a write and a question
    assert (here.bytes_out, here.bytes_in) == (2000, 3100)
    assert (there.bytes_out, there.bytes_in) == (3100, 2000)
    assert (here.sent.first, there.sent.first) == (2 + 1, 3)
    by_host = mechanism in ("pio", "pio-combined", "cni", "dma")
    # One for each packet whose bytes no program has moved: of the answer; of the write, the answer.
    assert (here.interrupts, there.interrupts) == (3 * by_host, (2 + 3) * by_host)


def test_a_second_run_is_reported_by_itself():
    cluster = Cluster()
    reports = []
    for _ in range(2):
        cluster.renew()
        cluster.start(0, lambda host: host.open_nic())
        cluster.run()
        reports.append(cluster.report().to_json())

    assert reports[0] == reports[1]
    assert reports[0]["nodes"][0]["programs"] == 1


def test_a_log_changes_no_number():
    plain, _ = reported(sends_a_lot, waits, loss=0.3, seed=4)
    with on_run(lambda _source: None, lambda: 10_000):
        kept, _ = reported(sends_a_lot, waits, loss=0.3, seed=4)

    assert kept == plain


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_program_that_never_waits_is_busy_all_the_time(mechanism):
    cluster = Cluster(mechanism=mechanism, nodes=1)

    async def busy(host):
        end = await make_end(host)
        await end.nic.write(end.out.address, b"x" * 300)
        await end.nic.post_recv(end.vi, end.receive())
        await end.nic.post_send(end.vi, end.send(0, 300))
        await end.nic.compute(50)
        found = await ended(end.nic.send_done(end.vi))
        assert found is not None
        # There is no other end.
        assert found.status & STATUS_ERROR_MASK == Status.VIP_STATUS_DESC_FLUSHED_ERROR
        await end.nic.read(end.into.address, 300)
        await end.nic.deregister_mem(end.into)

    results_of(cluster, busy)
    (node,) = cluster.report().nodes

    assert node.cpu_share == 1.0
    assert 0 < node.nic_share < 1
