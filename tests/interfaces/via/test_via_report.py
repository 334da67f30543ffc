"""Every number of a VIA run's report, made again by its programs or by firmware's counters."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pairs import DELIVERY, MECHANISMS, RECEPTION, UNRELIABLE, make_end, run_pair

from nicscope.config.design import load_design, with_settings
from nicscope.errors import SimulationError
from nicscope.interfaces.run_report import on_run, report_of
from nicscope.interfaces.via import Cluster
from nicscope.interfaces.via.names import STATUS_ERROR_MASK, VipError
from nicscope.interfaces.via.translating import Translation

MTU = 1500
PAGE = 4096
LEVELS = (UNRELIABLE, DELIVERY, RECEPTION)
PATIENCE_US = 30_000.0


def frames_of(size):
    """Of a message."""
    return max(-(-size // MTU), 1)


class Seen(Counter):
    """What a node's programs know of themselves."""

    def take(self, descriptor):
        """A completion."""
        errors = int(descriptor.status) & STATUS_ERROR_MASK
        self["done" if errors == 0 else "failed"] += 1


plans = st.tuples(
    *(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4000)), max_size=6) for _ in range(2))
)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    plan=plans,
    loss=st.sampled_from([0.0, 0.1, 0.3]),
    seed=st.integers(0, 99),
    window=st.sampled_from([1, 4, 32]),
)
def test_every_number_is_what_programs_and_transports_did(mechanism, plan, loss, seed, window):
    tuned = {"window": window, "retries": 60}
    cluster = Cluster(mechanism=mechanism, loss=loss, seed=seed, settings=tuned)
    seen = [Seen(), Seen()]

    async def side(host):
        me, mine = seen[host.node], plan[host.node]
        theirs = plan[1 - host.node]
        ends = [await make_end(host, level, room=4096) for level in LEVELS]
        me["pins"] = sum(pages for end in ends for pages in (_pages(end.places), 1, 1))
        for which, end in enumerate(ends):
            if host.node == 0:
                await end.nic.connect_request(end.vi, 1, f"vi {which}")
            else:
                await end.nic.connect_accept(await end.nic.connect_wait(f"vi {which}"), end.vi)
            for _ in [one for one in theirs if one[0] == which]:
                await end.nic.post_recv(end.vi, end.receive())
                me["posted"] += 1
        await ends[0].nic.compute(500)
        for which, size in mine:
            end = ends[which]
            await end.nic.post_send(end.vi, end.send(0, size))
            me["posted"] += 1
            me.take(await end.nic.send_wait(end.vi))
        for which, end in enumerate(ends):
            for _ in [one for one in theirs if one[0] == which]:
                try:
                    found = await end.nic.recv_wait(end.vi, PATIENCE_US)
                except VipError:
                    break  # lost, where nothing makes that good
                me.take(found)
                me["messages in"] += 1
                me["bytes in"] += found.length
                me["frames in"] += frames_of(found.length)
        await ends[0].nic.compute(PATIENCE_US)

    cluster.start(0, side)
    cluster.start(1, side)
    cluster.run()
    report = cluster.report()

    for node, agent in zip(report.nodes, cluster.agents, strict=True):
        me, mine = seen[node.node], plan[node.node]
        links = agent.ni.firmware.memory.links
        assert node.programs == 1
        assert node.messages_out == len(mine)
        assert node.bytes_out == sum(size for _, size in mine)
        assert (node.messages_in, node.bytes_in) == (me["messages in"], me["bytes in"])
        assert node.requests.get("done", 0) == me["done"]
        assert sum(node.requests.values()) == me["done"] + me["failed"]
        assert node.open_requests == me["posted"] - me["done"] - me["failed"]
        assert node.sent.first == sum(frames_of(size) for _, size in mine) == links["sent"].sum()
        assert node.sent.again == links["resent"].sum()
        assert node.sent.acknowledgements == links["acks"].sum()
        reliable = links[[end for end in range(len(links)) if _reliable(agent, end)]]
        assert node.sent.acknowledged == ((reliable["oldest"]).sum())
        assert node.sent.unacknowledged == (reliable["fresh"] - reliable["oldest"]).sum()
        assert node.received.delivered == me["frames in"]
        assert node.received.duplicates == links["duplicates"].sum()
        assert node.received.out_of_turn == reliable["gaps"].sum()
        assert node.received.total == _sum(node.received)
        assert (node.received.refused, node.received.void) == (0, 0)
        assert (node.pins, node.unpins) == (me["pins"], 0)
        assert 0 < node.pinned_now <= node.pins
        assert node.interrupts == 0
        assert node.lookups is None
        assert node.sent.total == node.sent.first + node.sent.again + node.sent.acknowledgements
    assert report.total.sent.total == report.total.received.total == cluster.network.frames
    assert report.total.received.lost == cluster.network.lost
    assert report.elapsed_us == cluster.turns.now / 1e6


def _pages(places):
    region = places._region
    return (region.address % PAGE + region.length + PAGE - 1) // PAGE


def _reliable(agent, place):
    return any(vi.place == place and vi.reliable for vi in agent.vis)


def _sum(received):
    parts = (getattr(received, name) or 0 for name in received.__struct_fields__
             if name not in ("total", "dropped"))  # fmt: skip
    return sum(parts) + sum(received.dropped.values())


def reported(first, second, **how):
    """The report of ``run_pair``, and what its programs return."""
    heard = []
    with on_run(lambda source: heard.append(report_of(source))):
        results = run_pair(first, second, **how)
    return heard[0], results


async def sends(end, size=100):
    """One message; how it ended."""
    await end.nic.post_send(end.vi, end.send(0, size))
    status = (await end.nic.send_wait(end.vi)).status
    await end.nic.compute(2000)
    return status


async def waits(end):
    await end.nic.compute(3000)


@pytest.mark.parametrize("level", LEVELS)
def test_a_message_for_which_nothing_is_posted_is_refused(level):
    report, _ = reported(sends, waits, level=level, posted=0)
    here, there = report.nodes

    failed = {} if level == UNRELIABLE else {"transport error": 1}
    assert here.requests == (failed or {"done": 1})
    assert (there.received.refused, there.received.delivered) == (1, 0)
    assert (there.messages_in, there.bytes_in) == (0, 0)
    assert (here.messages_out, here.bytes_out) == (1, 100)


@pytest.mark.parametrize("level", LEVELS)
def test_all_frames_of_a_message_that_does_not_fit_are_refused(level):
    async def waits_for_less(end):
        await end.nic.post_recv(end.vi, end.receive(0, 10))
        await end.nic.compute(3000)

    report, _ = reported(sends_a_lot, waits_for_less, level=level, posted=0)
    _, there = report.nodes

    assert (there.received.refused, there.received.delivered) == (3, 0)
    assert there.requests == {"length error": 1}
    assert there.messages_in == 0


async def sends_a_lot(end):
    return await sends(end, 4000)


def test_what_a_lost_connection_leaves_is_flushed_and_told():
    async def leaves(end):
        await end.nic.disconnect(end.vi)
        await end.nic.compute(500)

    report, _ = reported(waits, leaves, posted=3)

    assert report.nodes[1].requests == {"desc flushed error": 3}
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
    assert (here.interrupts, there.interrupts) == (0, 2 * by_host)


def test_lookups_of_a_translation_cache_are_those_of_its_translator():
    design = with_settings(load_design("utlb"), ["entries=8"])
    translation = Translation(design, lambda counts: {"ni_miss": 300 * counts["ni_misses"]})
    cluster = Cluster(mechanism="cc-dma-intervention", translation=translation)

    async def side(host):
        end = await make_end(host, room=5 * PAGE)
        for place in range(4):
            await end.nic.post_recv(end.vi, end.receive(place * PAGE, PAGE))
        if host.node == 0:
            await end.nic.connect_request(end.vi, 1, "test")
        else:
            await end.nic.connect_accept(await end.nic.connect_wait("test"), end.vi)
        for place in range(4):
            await end.nic.post_send(end.vi, end.send(place * PAGE, 3000))
            assert (await end.nic.send_wait(end.vi)).ok
            assert (await end.nic.recv_wait(end.vi)).ok

    cluster.start(0, side)
    cluster.start(1, side)
    cluster.run()
    report, translator = cluster.report(), cluster.translator

    assert report.design == "utlb"
    for node in report.nodes:
        # To send, a page for each descriptor read and one for each message; to receive, one each.
        assert (node.lookups.send, node.lookups.receive) == (8 + 4, 4)
        assert node.lookups.total == node.lookups.send + node.lookups.receive
        assert node.misses.send + node.misses.receive == node.misses.total > 0
        assert node.miss_us > 0
        counts = translator.counts(node.node)
        assert node.misses.send == counts["ni_misses_send"]
        assert node.misses.receive == counts["ni_misses_receive"]
    assert report.total.lookups.total == translator.lookups
    assert report.total.misses.total == translator.misses
    assert "Lookups on the NIC" in [table.title for table in report.tables()]


def test_a_second_run_is_reported_by_itself():
    cluster = Cluster()
    reports = []
    for _ in range(2):
        cluster.start(0, lambda host: host.open_nic())
        cluster.run()
        reports.append(cluster.report().to_json())

    assert reports[0] == reports[1]
    assert reports[0]["nodes"][0]["programs"] == 1


def test_a_cluster_that_has_not_run_has_nothing_to_report():
    with pytest.raises(SimulationError, match=r"nothing has run yet; call run\(\) first"):
        Cluster().report()


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
        assert await end.nic.send_done(end.vi) is not None  # flushed: there is no other end
        await end.nic.read(end.into.address, 300)
        await end.nic.deregister_mem(end.into)

    cluster.start(0, busy)
    cluster.run()
    (node,) = cluster.report().nodes

    assert node.cpu_share == 1.0
    assert 0 < node.nic_share < 1


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_nic_is_busy_for_what_its_steps_cost(mechanism):
    logs = []

    async def posts(host):
        end = await make_end(host)
        for _ in range(3):
            await end.nic.post_send(end.vi, end.send(0, 300))
            await end.nic.compute(50)

    with on_run(lambda source: logs.append(source.log()), lambda: 1000):
        cluster = Cluster(mechanism=mechanism, nodes=1)
        cluster.start(0, posts)
        cluster.run()
    costs = cluster.settings.costs
    names = [logs[0].actions[one["engine"]][one["task"]] for one in logs[0].records]
    spent = Counter()
    for one, name in zip(logs[0].records, names, strict=True):
        spent[name] += int(one["end"] - one["start"])

    # Each descriptor is read and found to have nowhere to go; what a processor has moved with it
    # is read too.
    stretches = 2 if mechanism in ("pio", "pio-combined", "cni") else 1
    assert spent["token"] == 3 * costs["vimsg_token"]
    assert spent["translate"] == 3 * stretches * costs["vimsg_translate"]
    assert spent["complete"] == 3 * costs["vimsg_complete"]
    assert spent["post"] == 3 * costs["vipl_post"]
    by_nic = sum(spent[name] for name in ("token", "translate", "complete", "fetch", "report"))
    elapsed = cluster.report().elapsed_us * 1e6
    assert cluster.report().nodes[0].nic_share * elapsed == pytest.approx(by_nic, abs=1)
