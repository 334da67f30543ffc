"""Original U-Net: one pinned area per endpoint, descriptors with offsets."""

import pytest
from paged_endpoints import pong

from nicscope.interfaces.unet import Cluster
from nicscope.nic.ports.layout import SEND
from program_results import results_of


@pytest.mark.requirement("UM-16")
def test_an_area_is_pinned_and_contiguous_from_opening_to_closing():
    async def one(process):
        pinned = process.cluster.memory.state.hosts["pinned"]
        endpoint = await process.open()
        frames, open_pins = endpoint.area.frames, int(pinned[0])
        other = await process.open()
        both = int(pinned[0])
        await endpoint.close()
        return frames, open_pins, both, int(pinned[0]), other.area.frames

    cluster = Cluster("unet", "pca200-linux", area_bytes=8 * 4096, endpoints=2)
    ((frames, alone, both, left, others),) = results_of(cluster, one)
    assert frames == list(range(frames[0], frames[0] + 8))
    assert others == list(range(others[0], others[0] + 8))
    assert (alone, both, left) == (8, 16, 8)


@pytest.mark.requirement("UM-16")
@pytest.mark.parametrize(("offset", "length"), [(8 * 4096, 100), (8 * 4096 - 50, 100)])
def test_an_offset_beyond_the_area_is_refused(offset, length):
    async def one(process):
        endpoint = await process.open()
        await endpoint.connect(1, "pong")
        await process.post(SEND, 0, [(offset, length)], port=endpoint.port)
        return await endpoint.sent()

    done, _ = results_of(Cluster("unet", "pca200-linux", area_bytes=8 * 4096), one, pong)
    assert done.status == "no rights"


@pytest.mark.requirement("UM-16")
def test_two_endpoints_with_equal_offsets_have_different_memory():
    async def one(process):
        first, second = await process.open(), await process.open()
        rooms = [endpoint.allocate(4096) for endpoint in (first, second)]
        assert rooms[0].address == rooms[1].address
        await rooms[0].write(b"f" * 60)
        await rooms[1].write(b"s" * 60)
        tag = await second.connect(1, "pong")
        await second.send(tag, rooms[1].part(0, 60))

    async def pong(process):
        endpoint = await process.open("pong")
        await endpoint.provide(endpoint.allocate(4096))
        return await (await endpoint.receive()).read()

    cluster = Cluster("unet", "pca200-linux", area_bytes=8 * 4096, endpoints=2)
    assert results_of(cluster, one, pong)[1] == b"s" * 60


def test_a_copy_through_the_area_takes_the_cpu_and_is_counted():
    async def one(process):
        endpoint = await process.open()
        mine, there = process.allocate(1000), endpoint.allocate(1000)
        await mine.write(b"abc")
        before = process.now_us
        await process.copy(mine, there)
        return process.now_us - before, await there.read(3), process.copied_bytes

    cluster = Cluster("unet", "pca200-linux", area_bytes=8 * 4096)
    ((spent, content, copied),) = results_of(cluster, one)
    assert content == b"abc"
    assert copied == 1000
    assert spent == pytest.approx(0.76 + 13.5, abs=1e-3)
