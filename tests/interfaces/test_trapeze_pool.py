"""Frames that users of an endpoint share: payloads stay where they came, and no frame is lost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.errors import SimulationError
from nicscope.interfaces.trapeze import Cluster, PageMap, PagePool
from program_results import results_of
from refusals import refused
from suite import share

PAGE = 1024
RING = 64  # buffers attached to the ring
PAGES = 4

# Where in the reader a payload goes, and how many bytes it has.
puts = st.lists(
    st.tuples(
        st.one_of(
            st.sampled_from([page * PAGE for page in range(PAGES)]), st.integers(0, 3 * PAGE)
        ),
        st.one_of(st.just(PAGE), st.integers(1, PAGE)),
    ),
    min_size=1,
    max_size=8,
)


def content_of(number, count):
    return np.random.default_rng(number).integers(0, 256, count, dtype=np.uint8).tobytes()


def run(client, server, **how):
    cluster = Cluster("p6-natoma", max_payload=PAGE, host_bytes=1 << 18, **how)
    return results_of(cluster, client, server), cluster


def sends(pieces):
    async def program(endpoint):
        for number, (offset, count) in enumerate(pieces):
            page = endpoint.allocate(PAGE)
            await page.write(content_of(number, count))
            endpoint.reserve(4)[:] = offset.to_bytes(4, "little")
            await endpoint.send(1, page.part(0, count))

    return program


@pytest.mark.requirement("TR-14")
@given(puts)
@share(1.5)
def test_whole_pages_are_mapped_and_all_else_is_copied_to_the_same_bytes(pieces):
    async def reader(endpoint):
        pool = PagePool(endpoint, PAGES + 2, PAGE)
        pages = PageMap(pool, PAGES)
        times = []
        for _ in pieces:
            message = await endpoint.receive()
            frame, begun = message.address, endpoint.now_us
            offset = int.from_bytes(message.scan(4), "little")
            mapped = await pages.put(message, offset)
            assert mapped == (message.byte_count == PAGE and offset % PAGE == 0)
            if mapped:  # it is the frame into which the NIC has put it, and nothing was copied
                assert pages._frames[offset // PAGE].address == frame
            times.append((mapped, endpoint.now_us - begun))
        kept = {frame.address for frame in pages._frames}
        free = {frame.address for frame in pool._free}
        content = pages.content()
        pages.close()
        assert len(pool) == PAGES + 2
        return content, kept, free, times

    (_, (content, kept, free, times)), cluster = run(sends(pieces), reader)

    expected = bytearray(PAGES * PAGE)
    for number, (offset, count) in enumerate(pieces):
        expected[offset : offset + count] = content_of(number, count)
    assert content == bytes(expected)
    ring = set(cluster.simulation.machine.store.attached[1].tolist())
    assert (len(kept), len(free), len(ring)) == (PAGES, 2, RING)
    assert len(kept | free | ring) == PAGES + 2 + RING  # no frame is in two places
    assert all((took == 0) == mapped for mapped, took in times)


@pytest.mark.requirement("TR-13", "TR-14")
def test_a_page_asked_for_comes_through_the_table_into_a_frame_that_the_streams_reader_gave_back():
    async def kernel(endpoint):
        pool = PagePool(endpoint, 3, PAGE)
        reader = PageMap(pool, 2)
        first = reader._frames[0]
        assert await reader.put(await endpoint.receive(), 0)
        frame = pool.take()
        endpoint.map_payload(7, frame)
        await endpoint.send(1)
        answer, block = await endpoint.receive(), await endpoint.receive()
        found = answer.own, answer.address == frame.address, bytes(frame.bytes)
        with pytest.raises(SimulationError, match="no free frame"):
            await reader.put(block, PAGE)  # the third is the asked page's
        endpoint.unmap_payload(7)
        pool.give_back(frame)
        with pytest.raises(SimulationError, match="a buffer of the program's own"):
            pool.keep(answer)
        assert len(pool) == 1
        assert await reader.put(block, PAGE)
        return found, frame is first, reader.content()

    async def answers(endpoint):
        pages = [endpoint.allocate(PAGE) for _ in range(3)]
        for number, page in enumerate(pages):
            await page.write(content_of(number, PAGE))
        await endpoint.send(0, pages[0])
        await endpoint.receive()
        await endpoint.send(0, pages[1], tag=7)
        await endpoint.send(0, pages[2])

    ((found, shared, content), _), cluster = run(kernel, answers)

    assert found == (False, True, content_of(1, PAGE))
    assert shared
    assert content == content_of(0, PAGE) + content_of(2, PAGE)
    assert cluster.simulation.machine.endpoints["attached"].tolist() == [RING, RING]


def test_what_cannot_take_a_payloads_place_in_the_ring_is_refused_in_a_line():
    async def reader(endpoint):
        message = await endpoint.receive()
        room, mapped, busy = (
            endpoint.allocate(2 * PAGE),
            endpoint.allocate(PAGE),
            endpoint.allocate(PAGE),
        )
        endpoint.map_payload(1, mapped)
        await endpoint.send(0, busy)
        for instead, *facts in (
            (endpoint.allocate(PAGE - 4), "largest payload", "1024 bytes", "1020"),
            (room.part(0, PAGE), "whole"),
            (mapped, "tag 1"),
            (busy, "still to read"),
        ):
            with refused(SimulationError, *facts):
                endpoint.keep(message, instead)
        good = endpoint.allocate(PAGE)
        kept = endpoint.keep(message, good)
        assert bytes(kept.bytes) == content_of(0, PAGE)
        with refused(SimulationError, "kept already"):
            endpoint.keep(message, endpoint.allocate(PAGE))
        with refused(SimulationError, "attached to the receive ring"):
            await good.write(b"x")

    async def writer(endpoint):
        await sends([(0, PAGE)])(endpoint)
        await endpoint.receive()

    run(writer, reader)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda pool: [pool.take() for _ in range(3)], "the page pool has no free frame"),
        (lambda pool: pool.give_back(pool._free[0]), "not free already"),
        (lambda pool: PageMap(pool, 0), "a number of pages"),
    ],
)
def test_what_a_pool_cannot_do_is_refused(act, message):
    async def program(endpoint):
        act(PagePool(endpoint, 2, PAGE))

    with pytest.raises(SimulationError, match=message):
        results_of(Cluster("p6-natoma", max_payload=PAGE, host_bytes=1 << 18), program)
