"""Second-level tables of UTLB that the host has swapped out: the NIC interrupts for them."""

import pytest

from nicscope.drivers.simulate.ports.build import HostSize
from nicscope.interfaces.vmmc import Cluster
from nicscope.kernel.decorators import kernel
from nicscope.kernel.entry import bound
from nicscope.memory.paging.frames import unpin_frame
from program_results import results_of

PAGE = 4096
BIG = HostSize(frames=64, pages_per_space=2048)


def run(sender, design="utlb", host=BIG, **settings):
    async def keeper(endpoint):
        table = endpoint.allocate(4 * PAGE)
        await endpoint.export(table, "table")
        await endpoint.sleep(120_000)
        return await table.read()

    async def user(endpoint):
        return await sender(endpoint, await endpoint.import_buffer(0, "table"))

    cluster = Cluster(design, host=host, **settings)
    kept, result = results_of(cluster, keeper, user)
    return cluster, kept, result


@pytest.mark.requirement("UT-31", "UT-36")
def test_a_new_page_brings_the_table_back_from_the_disk_and_what_is_cached_does_not():
    async def sender(endpoint, remote):
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
    assert cluster.served(1)["interrupts"] == 0  # the driver needs no word from the NIC for that
    assert cluster.served(1)["stale"] == 0


@pytest.mark.requirement("UT-37")
def test_the_nic_interrupts_once_and_the_transfer_goes_on_when_the_table_is_there():
    async def sender(endpoint, remote):
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
    async def sender(endpoint, _):
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
    content, status = results_of(cluster, keeper, sender)

    assert (content, status) == (b"abc", "done")
    assert cluster.served(0)["interrupts"] >= 1
    assert cluster.served(0)["table_ins"] == 1


def test_no_table_is_written_where_no_disk_block_is_free():
    async def sender(endpoint, _):
        endpoint.allocate(PAGE)
        return await endpoint.swap_table(0)

    assert run(sender, host=HostSize(frames=64, swap_blocks=0))[2] is False


async def fill_memory(endpoint, pages):
    """Have the swapper take what it can, as a process does that needs memory."""
    scratch = endpoint.allocate(pages * PAGE)
    for page in range(pages):
        await scratch.write(bytes([page + 1]), page * PAGE)


@pytest.mark.requirement("UT-36", "UT-37")
def test_a_table_goes_when_a_process_needs_memory_and_comes_back_when_the_nic_misses():
    async def sender(endpoint, remote):
        buffer = endpoint.allocate(3 * PAGE)
        await buffer.write(b"abc" * PAGE)
        await endpoint.wait(await endpoint.store(remote, buffer))
        others = endpoint.allocate(4 * PAGE)  # displace the first three from a cache of four
        await endpoint.wait(await endpoint.fetch(remote, others))
        assert not endpoint.is_table_away(0)
        await fill_memory(endpoint, 20)
        gone = endpoint.is_table_away(0)
        began = endpoint.now_us
        done = await endpoint.wait(await endpoint.store(remote, buffer, PAGE, length=3 * PAGE))
        return gone, done.status, endpoint.now_us - began, endpoint.is_table_away(0)

    cluster, kept, result = run(sender, host=HostSize(frames=16), entries=4)

    gone, status, spent_us, away = result
    assert (gone, status, away) == (True, "done", False)
    assert spent_us > 22_000
    assert kept[PAGE:] == b"abc" * PAGE
    served = cluster.served(1)
    assert (served["interrupts"], served["table_ins"], served["stale"]) == (1, 1, 0)
    assert cluster.counts(1)["unpins"] == 0  # pages of a table that is out stay pinned


def test_the_entries_are_the_bytes_of_the_tables_page():
    async def sender(endpoint, remote):
        buffer = endpoint.allocate(2 * PAGE)
        await endpoint.wait(await endpoint.fetch(remote, buffer))  # pins them
        await buffer.write(b"a" * PAGE + b"b" * PAGE)
        assert await endpoint.swap_table(0)
        memory = endpoint._ports.memory
        table = memory.entries[1, endpoint._ports.rules[0]["table_space"], 0]
        block = memory.block_bytes[1, table["block"] * PAGE :][:PAGE].view("<i4")
        block[:2] = block[1::-1].copy()  # a disk that mixes them up
        await endpoint.wait(await endpoint.store(remote, buffer, length=PAGE))

    _, kept, _ = run(sender, entries=1)
    assert kept[:PAGE] == b"b" * PAGE


def test_a_table_that_comes_back_to_be_read_goes_again_without_being_written():
    async def sender(endpoint, remote):
        buffer = endpoint.allocate(2 * PAGE)
        await endpoint.wait(await endpoint.fetch(remote, buffer))
        memory = endpoint._ports.memory.hosts[1]
        for _ in range(2):
            assert await endpoint.swap_table(0)
            # Each page displaces the other from a cache of one.
            await endpoint.wait(await endpoint.store(remote, buffer))
        before = int(memory["page_outs"])
        taken = endpoint._memory.swap_out(1), endpoint.is_table_away(0)
        return taken, int(memory["page_outs"]) - before

    assert run(sender, entries=1)[2] == ((True, True), 0)


@pytest.mark.requirement("UT-37")
def test_a_transfer_ends_where_the_host_has_no_frame_left_for_its_table():
    async def sender(endpoint, remote):
        first, rest, more = (endpoint.allocate(pages * PAGE) for pages in (1, 4, 2))
        await endpoint.wait(await endpoint.fetch(remote, first, length=PAGE))
        await endpoint.wait(await endpoint.fetch(remote, rest))
        assert await endpoint.swap_table(0)
        frames = [endpoint._memory.pin(1, 0, more.address // PAGE + page) for page in (0, 1)]
        refused = await endpoint.wait(await endpoint.store(remote, first))
        new = endpoint.allocate(PAGE)
        never_posted = await endpoint.wait(await endpoint.store(remote, new))
        for frame in frames:
            bound(_unpin, endpoint._memory.window)(frame)
        done = await endpoint.wait(await endpoint.store(remote, first))
        return refused.status, never_posted.status, done.status

    # The garbage page, five pages for the NIC, and two: of eight none is left for the table.
    cluster, _, statuses = run(sender, host=HostSize(frames=8), entries=1)
    assert statuses == ("no room", "no room", "done")
    assert cluster.served(1)["stale"] == 0


@kernel
def _unpin(window, frame):
    return unpin_frame(window.memory, 1, 0, frame)


@pytest.mark.parametrize("design", ["utlb", "utlb-shared"])
def test_nodes_that_store_to_each_other_need_no_more_than_one_entry_each(design):
    """Neither's packets, which wait to be acknowledged, keep the other's off the NIC."""

    def program(other):
        async def both_ways(endpoint):
            table = endpoint.allocate(PAGE)
            await endpoint.export(table, f"of {1 - other}")
            remote = await endpoint.import_buffer(other, f"of {other}")
            buffer = endpoint.allocate(4 * PAGE)
            ended = [
                await endpoint.store(remote, buffer.part(page * PAGE, 64), 64 * page)
                for page in range(4)
            ]
            return [(await endpoint.wait(transfer)).status for transfer in ended]

        return both_ways

    cluster = Cluster(design, host=BIG, entries=1)
    for node in (0, 1):
        cluster.start(node, program(1 - node))
    assert cluster.run() == [["done"] * 4] * 2
