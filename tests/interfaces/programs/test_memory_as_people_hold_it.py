"""Buffers: what is stored in them, seen of them, given again and given back."""

import contextlib
from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memories import MEMORIES, run

from nicscope.errors import SimulationError
from nicscope.interfaces import mini, trapeze, unet, via, vmmc
from nicscope.interfaces.ways import Way
from program_results import results_of
from refusals import refused
from suite import share

EVERY = pytest.mark.parametrize("name", MEMORIES)
CONTENTS = {
    "bytes": (b"12345678", b"12345678"),
    "bytearray": (bytearray(b"abc"), b"abc"),
    "array of doubles": (array("d", [1.5, -2]), array("d", [1.5, -2]).tobytes()),
    "memoryview of words": (memoryview(array("i", [1, 2, 3])), array("i", [1, 2, 3]).tobytes()),
    "every other byte": (memoryview(b"a.b.c.")[::2], b"abc"),
    "numpy": (np.arange(5, dtype=">u2"), np.arange(5, dtype=">u2").tobytes()),
    "numpy, turned": (np.arange(6).reshape(2, 3).T, np.arange(6).reshape(2, 3).T.tobytes()),
}


@EVERY
def test_a_write_takes_whatever_has_bytes_and_counts_bytes(name):
    async def program(allocate):
        found = []
        for content, _ in CONTENTS.values():
            buffer = allocate(64)
            await buffer.write(content, 3)
            found.append(buffer.array()[:64].tobytes())
        return found

    for found, (_, raw) in zip(run(name, program)[0], CONTENTS.values(), strict=True):
        assert found[3 : 3 + len(raw)] == raw
        assert set(found[:3] + found[3 + len(raw) :]) <= {0}


REFUSED = [
    (lambda allocate: allocate(64).write("text"), "'text'.encode()"),
    (lambda allocate: allocate(64).write(5), "got 5"),
    (lambda allocate: allocate(64).part(0, 8).free(), "8 bytes", "buffer of 64"),
    (lambda allocate: allocate(10).array("f8"), "10 bytes", "float64", "8"),
    (lambda allocate: allocate(16).array("nothing"), "'nothing'"),
    (lambda allocate: allocate(16).array("O"), "object"),
]


@EVERY
def test_what_memory_cannot_hold_or_give_is_refused_with_what_it_could(name):
    async def program(allocate):
        for act, *facts in REFUSED:
            with refused(SimulationError, *facts):
                await act(allocate)

    run(name, program)


@EVERY
def test_an_array_shows_memory_as_it_is_and_stores_at_once(name):
    async def program(allocate):
        buffer = allocate(6000)
        words = buffer.part(8, 4000).array("<i4")
        before = int(words[3])
        await buffer.write(array("i", [77]), 8 + 12)
        words[4], words[10:13] = -5, [1, 2, 3]
        words[np.array([20, 30])] = 9
        raw = buffer.array()
        return before, list(words[3:5]), list(words[9:14]), words[30], bytes(raw[8 + 16 : 8 + 20])

    assert run(name, program) == [
        (0, [77, -5], [0, 1, 2, 3, 0], 9, (-5).to_bytes(4, "little", signed=True))
    ]


@EVERY
def test_an_array_is_one_to_numpy(name):
    async def program(allocate):
        numbers = allocate(80).array("f8")
        numbers[:] = np.arange(10)
        return float(np.sum(numbers)), numbers.shape, (numbers == 3).sum(), len(numbers)

    assert run(name, program) == [(45.0, (10,), 1, 10)]


@EVERY
def test_memory_that_is_freed_is_given_out_again_and_empty(name):
    async def program(allocate):
        kept = allocate(100)
        await kept.write(b"kept")
        places = set()
        for _ in range(3):
            buffer = allocate(9000)
            places.add(buffer.address)
            await buffer.write(b"full" * 2250)
            await buffer.free()
        return len(places), bytes(kept.array()[:4])

    assert run(name, program) == [(1, b"kept")]


@pytest.mark.parametrize(
    "name", [name for name in MEMORIES if name not in ("Trapeze", "U-Net, pinned area")]
)
def test_what_is_given_out_again_is_zeros(name):
    async def program(allocate):
        first = allocate(5000)
        await first.write(b"x" * 5000)
        address = first.address
        await first.free()
        again = allocate(8192)
        return again.address == address, int(np.sum(again.array()))

    assert run(name, program) == [(True, 0)]


@EVERY
def test_what_is_freed_names_nothing(name):
    async def program(allocate):
        buffer = allocate(64)
        seen, part = buffer.array(), buffer.part(4, 8)
        await buffer.free()
        for use in (buffer, part):
            with refused(SimulationError, "freed already"):
                await use.write(b"x")
        for call in (lambda: seen[0], lambda: seen.__setitem__(0, 1), buffer.array):
            with refused(SimulationError, "freed already"):
                call()
        with refused(SimulationError, "freed already"):
            await buffer.free()

    run(name, program)


def test_vmmc_frees_nothing_that_is_exported_or_redirected_to():
    async def program(endpoint):
        buffer, other = endpoint.allocate(4096), endpoint.allocate(4096)
        exported = await endpoint.export(buffer, "x")
        with refused(SimulationError, "exported", "'x'", "unexport()"):
            await buffer.free()
        await endpoint.redirect(exported, other)
        with refused(SimulationError, "redirected"):
            await other.free()
        await endpoint.unexport(exported)
        await buffer.free()
        await other.free()
        return int(endpoint.cluster.memory.state.hosts["pinned"][0])

    assert results_of(vmmc.Cluster(), program)[0] == 0


def test_vmmc_frees_nothing_that_a_transfer_still_uses_and_its_pins_go_with_it():
    async def keeps(endpoint):
        await endpoint.export(endpoint.allocate(40_000), "x")
        await endpoint.sleep(50_000)

    async def stores(endpoint):
        there, buffer = await endpoint.import_buffer(0, "x"), endpoint.allocate(40_000)
        transfer = await endpoint.store(there, buffer)
        with refused(SimulationError, "not ended"):
            await buffer.free()
        assert (await endpoint.wait(transfer)).ok
        before = int(endpoint.cluster.memory.state.hosts["pinned"][1])
        await buffer.free()
        return before, int(endpoint.cluster.memory.state.hosts["pinned"][1])

    assert results_of(vmmc.Cluster(), keeps, stores)[1] == (10, 0)


async def registered_with_mini(endpoint):
    buffer = endpoint.allocate(4096)
    region = await endpoint.register(buffer)
    return buffer, lambda: endpoint.unregister(region)


async def registered_with_via(host):
    nic = await host.open_nic()
    tag, buffer = await nic.create_ptag(), nic.allocate(4096)
    region = await nic.register_mem(buffer, tag)
    return buffer, lambda: nic.deregister_mem(region)


async def in_a_free_queue(process):
    endpoint = await process.open()
    buffer = endpoint.allocate(4096)
    await endpoint.provide(buffer)
    return buffer, endpoint.close


@pytest.mark.parametrize(
    ("interface", "use", "fact"),
    [
        (mini, registered_with_mini, "unregister()"),
        (via, registered_with_via, "deregister_mem()"),
        (unet, in_a_free_queue, "free queue"),
    ],
)
def test_memory_that_is_in_use_is_not_freed_before_that_has_ended(interface, use, fact):
    async def program(given):
        buffer, end_use = await use(given)
        with refused(SimulationError, fact):
            await buffer.free()
        await end_use()
        await buffer.free()
        return True

    assert results_of(interface.Cluster(), program)[0]


@pytest.mark.parametrize("design", ["unet-mm-pca200", "unet"])
def test_what_a_message_filled_is_provided_again_as_it_is(design):
    async def sends(process):
        endpoint = await process.open("sends")
        tag, page = await endpoint.connect(1, "takes"), endpoint.allocate(1000)
        for number in range(9):
            await page.write(bytes([number + 1] * 1000))
            await endpoint.send(tag, page.part(0, 100 * (number + 1)))
            assert (await endpoint.sent()).ok
            await process.sleep(2000)

    async def takes(process):
        endpoint = await process.open("takes")
        await endpoint.provide(endpoint.allocate(4096))
        found = []
        for _ in range(9):
            message = await endpoint.receive()
            found.append(await message.read())
            await endpoint.provide(*message.buffers)
        return found

    cluster = unet.Cluster(design, buffer_bytes=4096)
    assert results_of(cluster, sends, takes)[1] == [
        bytes([number + 1]) * 100 * (number + 1) for number in range(9)
    ]


@pytest.mark.parametrize("piece", [array("d", [1, 2]), np.arange(4, dtype="i4"), bytearray(9)])
def test_a_small_message_takes_whatever_has_bytes(piece):
    async def sends(process):
        endpoint = await process.open("sends")
        await endpoint.send(await endpoint.connect(1, "takes"), piece, b"!")

    async def takes(process):
        return await (await (await process.open("takes")).receive()).read()

    assert results_of(unet.Cluster(), sends, takes)[1] == memoryview(piece).tobytes() + b"!"


@share(2.5)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("take"), st.integers(1, 20_000)),
            st.tuples(st.just("free"), st.integers(0, 5)),
        ),
        max_size=30,
    ),
    st.sampled_from(list(MEMORIES)),
)
def test_nobody_is_given_memory_that_somebody_holds(steps, name):
    async def program(allocate):
        held = []
        for number, (what, size) in enumerate(steps):
            if what == "take":
                buffer = allocate(size)
                await buffer.write(bytes([number]) * size)
                held.append((number, buffer))
            elif held:
                await held.pop(size % len(held))[1].free()
            assert all((buffer.array() == mark).all() for mark, buffer in held)

    run(name, program)


@pytest.mark.parametrize("way", [way.value for way in Way if way is not Way.PCI])
def test_over_a_memory_bus_an_array_and_the_cpu_see_what_the_other_stored(way):
    async def program(host):
        nic = await host.open_nic()
        buffer = nic.allocate(5000)
        await buffer.write(b"abc", 4095)
        before = await buffer.read(6, 4094)
        seen = bytes(buffer.array()[4094:4100])
        buffer.array()[4096:4098] = 120, 121
        return before, seen, await buffer.read(6, 4094)

    found = results_of(via.Cluster(mechanism=way), program)[0]
    assert found == (b"\0abc\0\0",) * 2 + (b"\0axy\0\0",)


def natoma(**how):
    return trapeze.Cluster("p6-natoma", **how)


async def takes_one(endpoint):
    message = await endpoint.receive()
    found = bytes(message.payload)
    endpoint.release(message)
    return found


def test_trapeze_refuses_a_store_into_a_payload_that_is_not_read_yet_and_says_when_it_is():
    async def sends(endpoint):
        page = endpoint.allocate(4096)
        view = page.array()
        view[:] = 1
        sent = await endpoint.send(1, page)
        with refused(SimulationError, "still to read"):
            view[0] = 2
        with refused(SimulationError, "still to read"):
            await page.free()
        early = sent.was_read
        await sent.read()
        view[:] = 2
        await page.free()
        return early, sent.was_read, sent == 0

    found, content = results_of(natoma(), sends, takes_one)
    assert found == (False, True, True)
    assert content == bytes([1]) * 4096


def test_trapeze_refuses_the_payload_of_what_is_released():
    async def takes(endpoint):
        message = await endpoint.receive()
        endpoint.release(message)
        return message.payload

    async def sends(endpoint):
        await endpoint.send(1, endpoint.allocate(64))

    with refused(SimulationError, "released already"):
        results_of(natoma(), sends, takes)


def test_trapeze_refuses_what_others_overwrote_under_a_tag_and_counts_it():
    async def takes(endpoint):
        endpoint.map_payload(3, endpoint.allocate(4096))
        messages = [await endpoint.receive() for _ in range(50)]
        seen = 0
        for message in messages:
            with contextlib.suppress(SimulationError):
                assert (message.payload == 50).all()
                seen += 1
        with refused(SimulationError, "message 49", "node 0", "tag 3"):
            _ = messages[7].payload
        return seen, endpoint.overwritten

    async def sends(endpoint):
        page = endpoint.allocate(4096)
        for number in range(50):
            await page.write(bytes([number + 1] * 4096))
            await endpoint.send(1, page, tag=3)

    assert results_of(natoma(max_payload=4096), sends, takes)[1] == (1, 49)


def test_trapeze_frees_nothing_that_a_tag_leads_to():
    async def program(endpoint):
        buffer = endpoint.allocate(8192)
        endpoint.map_payload(3, buffer)
        with refused(SimulationError, "tag 3"):
            await buffer.free()
        endpoint.unmap_payload(3)
        await buffer.free()
        return True

    assert results_of(natoma(), program) == [True]
