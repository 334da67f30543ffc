"""Second-level tables of UTLB that the host has swapped out: the NIC interrupts for them."""

from __future__ import annotations

import pytest

from nicscope.drivers.simulate.ports.build import HostSize
from nicscope.interfaces.vmmc import Cluster

PAGE = 4096
BIG = HostSize(frames=64, pages_per_space=2048)


def run(sender, design="utlb", host=BIG, **settings):
    async def keeper(endpoint):
        table = endpoint.allocate(4 * PAGE)
        await endpoint.export(table, "table")
        await endpoint.sleep(120_000)
        return await table.read()

    cluster = Cluster(design, host=host, **settings)
    cluster.start(0, keeper)
    cluster.start(1, sender)
    kept, result = cluster.run()
    return cluster, kept, result


@pytest.mark.requirement("UT-31", "UT-36", "UT-37")
def test_a_miss_on_a_table_that_is_on_the_disk_interrupts_and_brings_it():
    async def sender(endpoint):
        remote = await endpoint.import_buffer(0, "table")
        buffer = endpoint.allocate(2 * PAGE)
        await buffer.write(b"ab" * PAGE)
        assert not await endpoint.check(buffer)
        # Pinned by a fetch, but never looked up for sending: its entry is not on the NIC.
        first = await endpoint.wait(await endpoint.store(remote, buffer, length=PAGE))
        await endpoint.wait(await endpoint.fetch(remote, buffer, at=PAGE, length=PAGE))
        assert await endpoint.swap_table(0)
        assert not await endpoint.swap_table(0)
        assert endpoint.is_table_away(0)
        began = endpoint.now_us
        cached = await endpoint.wait(await endpoint.store(remote, buffer, length=PAGE))
        assert endpoint.is_table_away(0)  # what the NIC has cached needs no table
        hit_us, began = endpoint.now_us - began, endpoint.now_us
        other = endpoint.allocate(PAGE)
        await other.write(b"z" * PAGE)
        missed = await endpoint.wait(await endpoint.store(remote, other, 2 * PAGE))
        return first, cached, missed, hit_us, endpoint.now_us - began, endpoint.is_table_away(0)

    cluster, kept, result = run(sender)
    first, cached, missed, hit_us, miss_us, away = result

    assert first.ok
    assert cached.ok
    assert missed.ok
    assert not away
    assert kept[2 * PAGE : 3 * PAGE] == b"z" * PAGE
    assert hit_us < 200
    assert miss_us > 22_000  # the driver had it read before it entered the new page
    assert cluster.served(1)["table_ins"] == 1
    assert cluster.served(1)["stale"] == 0


@pytest.mark.requirement("UT-37")
def test_the_nic_interrupts_once_and_the_transfer_goes_on_when_the_table_is_there():
    async def sender(endpoint):
        remote = await endpoint.import_buffer(0, "table")
        buffer = endpoint.allocate(3 * PAGE)
        await buffer.write(b"abc" * PAGE)
        await endpoint.wait(await endpoint.store(remote, buffer))
        # Three more pages displace the first three from a cache of four entries.
        others = endpoint.allocate(4 * PAGE)
        await endpoint.wait(await endpoint.fetch(remote, others))
        await endpoint.swap_table(0)
        done = await endpoint.wait(await endpoint.store(remote, buffer, PAGE, length=3 * PAGE))
        return done.status, endpoint.now_us

    cluster, kept, (status, _) = run(sender, entries=4)

    assert status == "done"
    assert kept[PAGE:] == b"abc" * PAGE
    served = cluster.served(1)
    assert served["interrupts"] == 1
    assert served["table_ins"] == 1
    assert served["stale"] == 0
    assert cluster.counts(1)["unpins"] == 0


@pytest.mark.requirement("UT-36")
def test_tables_go_one_by_one_and_only_where_there_are_tables():
    async def sender(endpoint):
        endpoint.allocate(1500 * PAGE)
        return [await endpoint.swap_table(number) for number in (1, 1, 2, -1)], [
            endpoint.is_table_away(number) for number in (0, 1)
        ]

    assert run(sender)[2] == ([True, False, False, False], [False, True])
    assert run(sender, "utlb-shared")[2] == ([False] * 4, [False, False])


def test_an_arrival_that_misses_in_a_table_on_the_disk_comes_again():
    async def keeper(endpoint):
        table = endpoint.allocate(PAGE)
        await endpoint.export(table, "table")
        assert await endpoint.swap_table(0)
        await endpoint.sleep(100_000)
        return await table.read(3)

    async def sender(endpoint):
        remote = await endpoint.import_buffer(0, "table")
        buffer = endpoint.allocate(PAGE)
        await buffer.write(b"abc")
        return (await endpoint.wait(await endpoint.store(remote, buffer, length=3))).status

    cluster = Cluster("utlb", host=BIG)
    cluster.start(0, keeper)
    cluster.start(1, sender)
    content, status = cluster.run()

    assert (content, status) == (b"abc", "done")
    assert cluster.served(0)["interrupts"] >= 1
    assert cluster.served(0)["table_ins"] == 1


def test_no_table_is_written_where_no_disk_block_is_free():
    async def sender(endpoint):
        endpoint.allocate(PAGE)
        return await endpoint.swap_table(0)

    assert run(sender, host=HostSize(frames=64, swap_blocks=0))[2] is False
