"""Registered buffers, remote writes and reads, and who may do what."""

import pytest

from nicscope.errors import SimulationError
from nicscope.interfaces.mini import BufferHandle, Cluster, buffer_handle, memory_handle
from program_results import results_of
from refusals import refused

DESIGNS = ("mini", "vmmc-static")
CONTENT = bytes(i * 7 % 251 for i in range(20_000))


async def opened(end, name="inbox"):
    return await end.open(await end.find(name))


@pytest.mark.requirement("MI-33", "MI-34", "MI-60")
@pytest.mark.parametrize("design", DESIGNS)
def test_a_write_goes_from_the_posted_source_to_start_plus_offset(design):
    async def writer(end):
        source = end.allocate(len(CONTENT))
        await source.write(CONTENT)
        await end.write(await opened(end), source, 9000, offset=4321, at=5000)
        return await end.done()

    async def owner(end):
        end.allocate(4096)
        buffer = end.allocate(len(CONTENT))
        region = await end.register(buffer, name="inbox")
        stored = await end.stored()
        return region, stored, await buffer.read()

    done, (region, stored, held) = results_of(Cluster(design), writer, owner)

    assert done.ok
    assert stored == (region.handle, 4321, 9000, 0)
    assert held[4321 : 4321 + 9000] == CONTENT[5000:14000]
    assert held[:4321] == bytes(4321)
    assert held[4321 + 9000 :] == bytes(len(CONTENT) - 13321)


@pytest.mark.requirement("MI-31", "MI-32")
@pytest.mark.parametrize("design", DESIGNS)
def test_a_read_brings_start_plus_offset_to_the_posted_destination(design):
    async def reader(end):
        into = end.allocate(12_000)
        await end.read(await opened(end), into, 8000, offset=3000, at=1000)
        return await end.done(), await into.read()

    async def owner(end):
        buffer = end.allocate(len(CONTENT))
        await buffer.write(CONTENT)
        await end.register(buffer, name="inbox")

    (done, held), _ = results_of(Cluster(design), reader, owner)

    assert done.ok
    assert held == bytes(1000) + CONTENT[3000:11000] + bytes(3000)


@pytest.mark.requirement("MI-5")
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize(("rights", "read", "write"), [("read", 1, 0), ("write", 0, 1)])
def test_rights_of_a_buffer_hold(design, rights, read, write):
    async def guest(end):
        own = end.allocate(100)
        remote = await opened(end)
        await end.read(remote, own)
        reading = await end.done()
        await end.write(remote, own, notify=False)
        return reading.ok, (await end.done()).ok

    async def owner(end):
        await end.register(end.allocate(100), rights, name="inbox")

    outcome, _ = results_of(Cluster(design), guest, owner)

    assert outcome == (bool(read), bool(write))


@pytest.mark.requirement("MI-5")
@pytest.mark.parametrize("design", DESIGNS)
def test_nothing_is_stored_beyond_a_buffer(design):
    async def guest(end):
        own = end.allocate(100)
        remote = await opened(end)
        await end.write(remote, own, 60, offset=50, notify=False)
        return (await end.done()).status

    async def owner(end):
        await end.register(end.allocate(4096).part(0, 100), name="inbox")

    assert results_of(Cluster(design), guest, owner)[0] == "out of bounds"


@pytest.mark.requirement("MI-5")
@pytest.mark.parametrize("design", DESIGNS)
def test_what_comes_for_a_buffer_that_is_gone_is_rejected(design):
    async def guest(end):
        own = end.allocate(100)
        remote = await opened(end)
        await end.write(remote, own)
        before = await end.done()
        await end.find("gone")
        await end.write(remote, own)
        return before.status, (await end.done()).status

    async def owner(end):
        region = await end.register(end.allocate(100), name="inbox")
        await end.stored()
        await end.unregister(region)
        other = await end.register(end.allocate(100), name="gone")
        return region.handle != other.handle

    assert results_of(Cluster(design), guest, owner) == [("done", "rejected"), True]


@pytest.mark.requirement("MI-5")
def test_a_buffer_for_one_process_is_for_no_other():
    async def stranger(end):
        handle = await end.find("inbox")
        with refused(SimulationError, "process 0"):
            await end.open(handle)

    async def friend(end):
        own = end.allocate(100)
        await end.write(await opened(end), own)
        return (await end.done()).ok

    async def owner(end):
        await end.register(end.allocate(100), only=1, name="inbox")
        await end.stored()

    assert results_of(Cluster(), (0, stranger), (0, friend), (1, owner))[1] is True


@pytest.mark.requirement("MI-2", "MI-3", "MI-4")
def test_handles_have_the_bits_of_the_paper():
    handle = BufferHandle(2**32 - 1, 2**16 - 1)

    assert handle.packed() == 2**48 - 1
    assert buffer_handle(handle.packed()) == handle
    assert memory_handle(0xABCD1234, 7) == 0xABCD1234_0007
    with pytest.raises(SimulationError, match="48 bits"):
        buffer_handle(2**48)
    with pytest.raises(SimulationError, match="32 bits"):
        memory_handle(2**32, 0)


@pytest.mark.requirement("MI-9")
def test_connecting_is_a_call_of_the_driver_and_no_packet_and_comes_before_what_is_packets():
    def sent():
        return cluster.report().nodes[0].sent.total

    async def guest(end):
        own = end.allocate(100)
        handle = await end.find("inbox")
        with refused(SimulationError, "opened"):
            await end.write(handle, own)
        packets, begun = sent(), end.now_us
        remote = await end.open(handle)
        assert (end.now_us - begun, sent()) == (pytest.approx(1.0), packets)  # a system call
        await end.write(remote, own, notify=False)
        assert (await end.done()).ok
        return sent() - packets

    async def owner(end):
        await end.register(end.allocate(100), name="inbox")

    cluster = Cluster()
    packets, _ = results_of(cluster, guest, owner)

    assert packets > 0


@pytest.mark.requirement("MI-9")
def test_opening_what_nobody_registered_says_so():
    async def guest(end):
        with refused(SimulationError, "process 0", "buffer 3"):
            await end.open(BufferHandle(3, 0))
        with refused(SimulationError, "process 9", "0 to 0"):
            await end.open(BufferHandle(0, 9))

    results_of(Cluster(), guest)


def test_bytes_beyond_the_own_buffer_are_not_written():
    async def owner(end):
        with refused(SimulationError, "bytes 4 to 14", "buffer of 10"):
            await end.write(await opened(end, "outbox"), end.allocate(10), 10, at=4)

    async def other(end):
        await end.register(end.allocate(100), name="outbox")

    results_of(Cluster(), owner, other)
