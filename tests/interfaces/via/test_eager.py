"""What EDT does for a VIA program: random access, no copy, no DMA."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pairs import run_pair

from suite import share


@pytest.mark.requirement("ED-47", "ED-47a", "ED-24")
@share(1)
@given(seed=st.integers(0, 999), size=st.integers(1, 900))
def test_a_message_written_in_any_order_in_its_registered_place_is_sent_from_there(seed, size):
    places = list(range(0, size, 8))
    random.Random(seed).shuffle(places)
    whole = bytes((seed + i) % 256 for i in range(size))

    async def first(end):
        for place in places:
            await end.nic.write(end.out.address + place, whole[place : place + 8])
        descriptor = end.send(0, size)
        await end.nic.post_send(end.vi, descriptor)
        await end.nic.send_wait(end.vi)

    async def second(end):
        await end.nic.recv_wait(end.vi)
        return await end.nic.read(end.into.address, size), end.nic.now_us

    # What an engine moved, or the host was interrupted for, would take at least that.
    slow = dict.fromkeys(("dma_init", "dma_interrupt", "interrupt"), 10_000_000_000)
    (_, arrived) = run_pair(first, second, settings=slow | {"retry_timeout": 100_000_000})
    assert arrived[0] == whole
    assert arrived[1] < 10_000
