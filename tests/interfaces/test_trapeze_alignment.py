"""Where Trapeze's payloads may lie in a host's memory, and how large they may be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trapeze_sizes import PLATFORM, SMALL

from nicscope.config.design import POLICIES
from nicscope.errors import SimulationError
from nicscope.interfaces.trapeze import Cluster
from program_results import results_of
from refusals import refused
from suite import share

WORD = 4  # bytes of the 32-bit bus
ROOM = 2000
KEPT = 0xEE  # what is around a payload's place

offsets = st.integers(0, 400)


def numbers(count):
    return np.random.default_rng(count).integers(0, 200, count, dtype=np.uint8)


def carried(source, place, count):
    """What the receiver's room holds after ``count`` bytes went from offset to offset."""

    async def sender(endpoint):
        room = endpoint.allocate(ROOM)
        await room.write(numbers(count), source)
        await endpoint.send(1, room.part(source, count), tag=5)

    async def receiver(endpoint):
        endpoint.allocate(3)  # so that what comes next would begin amid a word
        room = endpoint.allocate(ROOM)
        await room.write(bytes([KEPT]) * ROOM)
        endpoint.map_payload(5, room.part(place, SMALL.max_payload))
        await endpoint.receive()
        return room.bytes.copy()

    return results_of(Cluster(PLATFORM, policy=SMALL), sender, receiver)[1]


@pytest.mark.requirement("TR-2")
@given(source=offsets, place=offsets, count=st.integers(1, SMALL.max_payload))
@share(3)
def test_dma_begins_at_any_word_of_a_hosts_memory_and_nowhere_else(source, place, count):
    wrong = "a payload" if source % WORD else "a mapped buffer"
    if source % WORD or place % WORD:
        # The receiver runs first into its error if both are wrong: either is a line of its own.
        with refused(SimulationError, "multiple of 4 bytes") as told:
            carried(source, place, count)
        assert "\n" not in str(told.value)
        if place % WORD == 0:
            assert str(told.value).startswith(wrong)
        return

    came = carried(source, place, count)

    expected = np.full(ROOM, KEPT, np.uint8)
    expected[place : place + count] = numbers(count)
    assert np.array_equal(came, expected)


@pytest.mark.requirement("TR-2")
@given(counts=st.lists(st.integers(1, 70), min_size=2, max_size=8), power=st.integers(0, 12))
def test_what_is_allocated_is_aligned_as_asked_and_no_two_pieces_overlap(counts, power):
    async def program(endpoint):
        words = [endpoint.allocate(count) for count in counts]
        return words + [endpoint.allocate(count, align=1 << power) for count in counts]

    (buffers,) = results_of(Cluster(PLATFORM, policy=SMALL), program)

    ends = 0
    for number, buffer in enumerate(buffers):
        step = WORD if number < len(counts) else 1 << power
        assert buffer.address % step == 0
        assert buffer.address >= ends
        ends = buffer.address + len(buffer)


@pytest.mark.requirement("TR-2")
@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("largest", [61, 4096, 8192])
def test_the_largest_payload_is_the_networks_own_and_one_byte_more_is_refused(policy, largest):
    async def sender(endpoint):
        room = endpoint.allocate(largest + WORD)
        await room.write(numbers(largest))
        for _ in range(2):
            await endpoint.send(1, room.part(0, largest))
        with refused(SimulationError, f"at most {largest} bytes", f"got {largest + 1}"):
            await endpoint.send(1, room.part(0, largest + 1))

    async def receiver(endpoint):
        messages = [await endpoint.receive() for _ in range(2)]
        assert all(message.own for message in messages)
        return messages[1].address, messages[1].payload.copy()

    cluster = Cluster(PLATFORM, policy=policy, max_payload=largest)
    address, came = results_of(cluster, sender, receiver)[1]

    assert cluster.delivery.max_payload == largest
    assert address % (WORD if largest % 2 else largest) == 0  # pages off the ring lie as pages do
    assert np.array_equal(came, numbers(largest))
