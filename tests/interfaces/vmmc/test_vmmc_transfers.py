"""VMMC's operations: export, import, remote store, remote fetch, redirection, notification."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.interfaces.vmmc import Cluster
from program_results import results_of
from suite import share

PAGE = 4096
DESIGNS = ["utlb", "utlb-shared", "utlb-process", "vmmc-static", "vmmc-interrupt"]


def noise(seed, count):
    return np.random.default_rng(seed).integers(0, 256, count, dtype=np.uint8).tobytes()


@pytest.mark.requirement("UT-50", "UT-51", "UT-52")
@pytest.mark.parametrize("design", DESIGNS)
def test_what_is_stored_remotely_can_be_fetched_remotely(design):
    content = noise(1, 10_000)

    async def keeper(endpoint):
        await endpoint.export(endpoint.allocate(12_000), "shelf")

    async def user(endpoint):
        remote = await endpoint.import_buffer(0, "shelf")
        mine, back = endpoint.allocate(10_000), endpoint.allocate(10_000)
        await mine.write(content)
        first = await endpoint.store(remote, mine, 1234)
        second = await endpoint.fetch(remote, back, 1234)
        ended = [await endpoint.wait(first), await endpoint.wait(second)]
        assert [each.transfer.operation for each in ended] == ["remote store", "remote fetch"]
        return [each.status for each in ended], await back.read()

    cluster = Cluster(design)
    assert results_of(cluster, keeper, user)[1] == (["done", "done"], content)
    # An answer is cut where a page ends here or there: at 2862, 4096, 6958 and 8192 bytes.
    assert cluster.counts(1)["lookups_receive"] == 5
    for node in (0, 1):
        assert cluster.served(node)["stale"] == 0
        assert (cluster.served(node)["interrupts"] > 0) == (design == "vmmc-interrupt")


@pytest.mark.requirement("UT-50", "UT-51")
def test_programs_of_twenty_lines_pass_a_token_around():
    nodes = 4

    def member(place):
        async def program(endpoint):
            inbox = endpoint.allocate(8)
            await endpoint.export(inbox, "inbox")
            right = await endpoint.import_buffer((place + 1) % nodes, "inbox")
            token = endpoint.allocate(8)
            if place > 0:
                await endpoint.notification()
                await token.write(await inbox.read())
            await token.write(bytes([(await token.read(1))[0] + 1]))
            await endpoint.wait(await endpoint.store(right, token, notify=True))
            if place == 0:
                await endpoint.notification()
            return (await inbox.read(1))[0]

        return program

    cluster = Cluster("utlb", nodes=nodes)
    for place in range(nodes):
        cluster.start(place, member(place))

    assert cluster.run() == [4, 1, 2, 3]


@pytest.mark.requirement("UT-53")
@pytest.mark.parametrize("design", DESIGNS)
def test_redirected_data_comes_where_the_receiver_wants_it(design):
    content = noise(2, 9000)

    async def keeper(endpoint):
        default, chosen = endpoint.allocate(9000), endpoint.allocate(9000)
        exported = await endpoint.export(default, "b")
        await endpoint.redirect(exported, chosen)
        go = await endpoint.export(endpoint.allocate(1), "go")
        await endpoint.notification()
        first = await default.read(), await chosen.read()
        await endpoint.redirect(exported, None)
        await endpoint.export(endpoint.allocate(1), "on")
        await endpoint.notification()
        return first, await default.read(), go.name

    async def user(endpoint):
        await endpoint.import_buffer(0, "go")
        remote = await endpoint.import_buffer(0, "b")
        mine = endpoint.allocate(9000)
        await mine.write(content)
        await endpoint.wait(await endpoint.store(remote, mine, notify=True))
        await endpoint.import_buffer(0, "on")
        await endpoint.wait(await endpoint.store(remote, mine, notify=True))

    cluster = Cluster(design)
    assert results_of(cluster, keeper, user)[0] == ((bytes(9000), content), content, "go")
    assert cluster.served(0)["stale"] == 0


@pytest.mark.requirement("UT-56", "UT-59")
def test_one_process_s_requests_end_in_their_order_page_by_page():
    lengths = (8 * PAGE, 1, 5 * PAGE, 2)

    async def keeper(endpoint):
        table = endpoint.allocate(8 * PAGE)
        await endpoint.export(table, "b")
        last_packets = [(await endpoint.notification()).length for _ in lengths]
        return last_packets, await table.read()

    async def user(endpoint):
        remote = await endpoint.import_buffer(0, "b")
        buffers = [endpoint.allocate(8 * PAGE) for _ in lengths]
        for number, (mine, length) in enumerate(zip(buffers, lengths, strict=True)):
            await mine.write(bytes([number + 1]) * length)
        for mine, length in zip(buffers, lengths, strict=True):
            await endpoint.store(remote, mine, length=length, notify=True)
        return [(await endpoint.wait()).status for _ in lengths]

    cluster = Cluster("utlb", keep_log=4000)
    (last_packets, table), statuses = results_of(cluster, keeper, user)

    assert statuses == ["done"] * 4
    # All were posted before the first had ended: each is told of, and overwrites, in its turn.
    assert last_packets == [8 * PAGE, 1, 5 * PAGE, 2]
    assert table == b"\4" * 2 + b"\3" * (5 * PAGE - 2) + b"\1" * (3 * PAGE)
    counts = cluster.counts(1)
    assert counts["lookups"] == 8 + 1 + 5 + 1
    assert counts["requests"] == 4
    assert cluster.simulation.machine.endpoints[1]["next_number"] == 15  # packets, one per page


@pytest.mark.requirement("UT-55", "UT-56")
def test_each_process_has_a_command_buffer_of_its_own_and_all_are_served():
    async def keeper(endpoint):
        await endpoint.export(endpoint.allocate(3 * PAGE), "b")
        await endpoint.sleep(3000)
        return

    def user(number):
        async def program(endpoint):
            remote = await endpoint.import_buffer(0, "b")
            mine, back = endpoint.allocate(PAGE), endpoint.allocate(PAGE)
            await mine.write(bytes([number]) * PAGE)
            for _ in range(5):
                await endpoint.store(remote, mine, number * PAGE)
            await endpoint.fetch(remote, back, number * PAGE)
            statuses = {(await endpoint.wait()).status for _ in range(6)}
            return endpoint.port, statuses, await back.read() == await mine.read()

        return program

    cluster = Cluster("utlb")
    cluster.start(0, keeper)
    for number in range(3):
        cluster.start(1, user(number))

    assert cluster.run()[1:] == [(port, {"done"}, True) for port in (1, 2, 3)]


@pytest.mark.requirement("UT-51", "UT-52")
@share(0.8)
@given(st.data())
def test_bytes_arrive_wherever_they_begin_and_end(data):
    length = data.draw(st.integers(1, 3 * PAGE))
    at = data.draw(st.integers(0, 4 * PAGE - length))
    offset = data.draw(st.integers(0, 4 * PAGE - length))
    design = data.draw(st.sampled_from(DESIGNS))
    content = noise(length, 4 * PAGE)

    async def keeper(endpoint):
        table = endpoint.allocate(4 * PAGE)
        await endpoint.export(table, "b")
        await endpoint.notification()
        return await table.read()

    async def user(endpoint):
        remote = await endpoint.import_buffer(0, "b")
        mine = endpoint.allocate(4 * PAGE)
        await mine.write(content)
        await endpoint.store(remote, mine, offset, at=at, length=length, notify=True)
        await endpoint.wait()
        back = endpoint.allocate(4 * PAGE)
        await endpoint.wait(await endpoint.fetch(remote, back, offset, at=at, length=length))
        return await back.read()

    there, back = results_of(Cluster(design), keeper, user)

    expected = bytearray(4 * PAGE)
    expected[offset : offset + length] = content[at : at + length]
    assert there == expected
    assert back == bytes(at) + content[at : at + length] + bytes(4 * PAGE - at - length)


@pytest.mark.requirement("UT-2", "UT-35")
@pytest.mark.parametrize("design", ["utlb", "utlb-shared", "utlb-process"])
def test_equal_addresses_of_two_processes_are_different_pages(design):
    async def keeper(endpoint):
        table = endpoint.allocate(PAGE)
        await endpoint.export(table, "b")
        await endpoint.sleep(1500)
        return await table.read(8)

    def sender(word, offset):
        async def program(endpoint):
            remote = await endpoint.import_buffer(0, "b")
            mine = endpoint.allocate(4)
            await mine.write(word)
            await endpoint.wait(await endpoint.store(remote, mine, offset))
            return mine.address

        return program

    cluster = Cluster(design)
    kept, left, right = results_of(
        cluster, (0, keeper), (1, sender(b"left", 0)), (1, sender(b"roof", 4))
    )

    assert left == right
    assert kept == b"leftroof"
