"""Redirection: what comes for an exported buffer goes to another one, whatever its alignment."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nicscope.drivers.simulate.ports.build import Faults, HostSize
from nicscope.interfaces.vmmc import Cluster
from program_results import results_of
from suite import share

PAGE = 4096
DESIGNS = ["utlb", "utlb-shared", "utlb-process", "vmmc-static", "vmmc-interrupt"]
ROOM = 5 * PAGE


def noise(seed, count):
    return np.random.default_rng(seed).integers(0, 256, count, dtype=np.uint8).tobytes()


def redirected(cluster, length, exported_at, chosen_at, stores):
    """Have ``stores``, pairs of offset and bytes, come for a buffer that is redirected.

    What is there afterwards of all memory around the buffer that was exported and the chosen one.
    """

    async def keeper(endpoint):
        around = endpoint.allocate(ROOM), endpoint.allocate(ROOM)
        exported = await endpoint.export(around[0].part(exported_at, length), "b")
        await endpoint.redirect(exported, around[1].part(chosen_at, length))
        await endpoint.export(endpoint.allocate(1), "go")
        for _ in stores:
            await endpoint.notification()
        return await around[0].read(), await around[1].read()

    async def user(endpoint):
        await endpoint.import_buffer(0, "go")
        remote = await endpoint.import_buffer(0, "b")
        for at, (offset, content) in enumerate(stores):
            mine = endpoint.allocate(at + len(content))
            await mine.write(content, at)
            ended = await endpoint.wait(
                await endpoint.store(remote, mine, offset, at=at, notify=True)
            )
            assert ended.status == "done"

    return results_of(cluster, keeper, user)[0]


def expected(chosen_at, stores):
    """All memory around the chosen buffer, written as one writes bytes into an array."""
    memory = bytearray(ROOM)
    for offset, content in stores:
        memory[chosen_at + offset : chosen_at + offset + len(content)] = content
    return bytes(memory)


def touches(exported_at, chosen_at, stores):
    """Pages looked up: a packet ends where either end's page does; each may touch two pages."""
    looked_up = 0
    for at, (offset, content) in enumerate(stores):
        done = 0
        while done < len(content):
            here, there = (at + done) % PAGE, (exported_at + offset + done) % PAGE
            count = min(len(content) - done, PAGE - here, PAGE - there)
            begin = chosen_at + offset + done
            looked_up += (begin + count - 1) // PAGE - begin // PAGE + 1
            done += count
    return looked_up


@st.composite
def redirections(draw):
    """Where two buffers of one length begin, and stores into it."""
    length = draw(st.integers(1, 3 * PAGE))
    starts = draw(st.integers(0, 2 * PAGE - 1)), draw(st.integers(0, 2 * PAGE - 1))
    stores = []
    for seed in range(draw(st.integers(1, 3))):
        offset = draw(st.integers(0, length - 1))
        stores.append((offset, noise(seed, draw(st.integers(1, length - offset)))))
    return length, *starts, stores


@pytest.mark.requirement("UT-53")
@share(0.8)
@example((3 * PAGE, 0, 1, [(0, noise(0, 3 * PAGE))]), "utlb")
@example((PAGE, 0, PAGE - 1, [(0, noise(0, PAGE))]), "vmmc-interrupt")
@example((2 * PAGE, 700, 300, [(5, noise(0, PAGE + 9)), (0, b"x")]), "utlb-process")
@given(redirections(), st.sampled_from(DESIGNS))
def test_bytes_go_to_a_chosen_buffer_of_any_alignment_and_nowhere_else(redirection, design):
    length, exported_at, chosen_at, stores = redirection
    cluster = Cluster(design)

    default, chosen = redirected(cluster, length, exported_at, chosen_at, stores)

    assert default == bytes(ROOM)
    assert chosen == expected(chosen_at, stores)
    assert cluster.served(0)["stale"] == 0
    assert cluster.counts(0)["lookups"] == touches(exported_at, chosen_at, stores)


@pytest.mark.requirement("UT-53")
@share(0.4)
@given(redirections(), st.integers(0, 2**32), st.sampled_from(DESIGNS))
def test_bytes_are_right_over_a_network_that_loses_and_inverts_bits(redirection, seed, design):
    length, exported_at, chosen_at, stores = redirection
    faults = Faults(seed=seed, loss=0.1, duplication=0.1, reordering=0.1, corruption=0.2)

    default, chosen = redirected(
        Cluster(design, faults=faults), length, exported_at, chosen_at, stores
    )

    assert default == bytes(ROOM)
    assert chosen == expected(chosen_at, stores)


@pytest.mark.requirement("UT-53")
@pytest.mark.parametrize("way", ["pio", "dma", "cc-dma-retry", "cc-dma-intervention", "cni", "edt"])
def test_each_way_into_the_nic_brings_a_payload_to_both_its_pages(way):
    stores = [(7, noise(6, 300)), (0, noise(7, 700))]
    cluster = Cluster("utlb", "utlb-edt", way=way, delivery="store-and-forward")

    default, chosen = redirected(cluster, 1000, 3, 4001, stores)

    assert default == bytes(ROOM)
    assert chosen == expected(4001, stores)


@pytest.mark.requirement("UT-53")
@pytest.mark.parametrize("design", ["utlb", "vmmc-interrupt"])
def test_both_pages_of_a_payload_find_room_in_a_cache_of_one_entry(design):
    stores = [(0, noise(3, 2 * PAGE)), (PAGE, noise(4, PAGE))]
    cluster = Cluster(design, entries=1)

    _, chosen = redirected(cluster, 2 * PAGE, 0, 100, stores)

    assert chosen == expected(100, stores)
    assert cluster.counts(0)["lookups"] == touches(0, 100, stores) == 7
    # Pages A B, B C, then B C and the last byte C: each other page throws the one before it out.
    assert cluster.counts(0)["ni_misses"] == 5
    pins = cluster.simulation.machine.ports.memory.frames["pins"][0]
    exported = 2 + 3 + 1  # pages of the default, the chosen and the third buffer
    assert np.count_nonzero(pins) <= exported + 1  # and the garbage page: none stays held


@pytest.mark.requirement("UT-53")
def test_a_table_that_is_away_between_two_pages_comes_back_for_the_second():
    content = noise(5, PAGE)
    first_of_second_table = 1024 * PAGE

    async def keeper(endpoint):
        default = endpoint.allocate(PAGE)
        around = endpoint.allocate(1030 * PAGE)
        chosen = around.part(first_of_second_table - PAGE - 100, PAGE)
        exported = await endpoint.export(default, "b")
        await endpoint.redirect(exported, chosen)
        assert await endpoint.swap_table(1)
        await endpoint.export(endpoint.allocate(1), "go")
        await endpoint.notification()
        return await chosen.read()

    async def user(endpoint):
        await endpoint.import_buffer(0, "go")
        remote = await endpoint.import_buffer(0, "b")
        mine = endpoint.allocate(PAGE)
        await mine.write(content)
        ended = await endpoint.wait(await endpoint.store(remote, mine, notify=True))
        return ended.status

    cluster = Cluster("utlb", host=HostSize(pages_per_space=2048))
    assert results_of(cluster, keeper, user) == [content, "done"]
    assert cluster.served(0)["table_ins"] == 1


@pytest.mark.requirement("UT-53")
@pytest.mark.parametrize(("chosen_at", "pages"), [(None, 1), (0, 1), (100, 2)])
def test_a_payload_takes_the_time_of_a_lookup_for_each_page_it_is_redirected_to(chosen_at, pages):
    dearer = 1_000_000  # ps

    def delivered_us(extra_ps):
        cluster = Cluster("vmmc-static")

        async def keeper(endpoint):
            # Else it is looked up while the sender's link starts.
            endpoint.cluster.simulation.machine.costs["link_start"] = 0
            default, around = endpoint.allocate(PAGE), endpoint.allocate(2 * PAGE)
            exported = await endpoint.export(default, "b")
            if chosen_at is not None:
                await endpoint.redirect(exported, around.part(chosen_at, PAGE))
            endpoint.cluster.simulation.machine.ports.costs["lookup_receive"] += extra_ps
            await endpoint.export(endpoint.allocate(1), "go")
            await endpoint.notification()
            return endpoint.now_us

        async def user(endpoint):
            await endpoint.import_buffer(0, "go")
            remote = await endpoint.import_buffer(0, "b")
            await endpoint.store(remote, endpoint.allocate(PAGE), notify=True)

        return results_of(cluster, keeper, user)[0]

    assert delivered_us(dearer) - delivered_us(0) == pytest.approx(pages)
