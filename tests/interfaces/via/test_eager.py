"""What EDT does for a VIA program: random access, no copy, no DMA."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pairs import Cluster, idle, of_its_own_machine, on_ports, run_pair

from nicscope.interfaces.via.journal import Part
from nicscope.memory.coherence.layout import INVALID, SHARED

DMA = (Part.DMA_INIT, Part.DMA_EXEC, Part.DMA_INTERRUPT)


@pytest.mark.requirement("ED-47", "ED-47a", "ED-24")
@settings(max_examples=10)
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
        return None if on_ports() else descriptor.journal.parts

    async def second(end):
        await end.nic.recv_wait(end.vi)
        return await end.nic.read(end.into.address, size)

    parts, arrived = run_pair(first, second)
    assert arrived == whole
    if on_ports():
        return
    assert parts[Part.COPY] == 0
    assert not any(parts[part] for part in DMA)


@of_its_own_machine("its doorbell: the NIC of ports is written the descriptor itself")
@pytest.mark.requirement("ED-23")
def test_descriptors_reach_the_nic_as_messages_do():
    async def first(end):
        descriptor = end.send(0, 64)
        await end.nic.post_send(end.vi, descriptor)
        port = end.nic._agent.ni.port
        ((at, size),) = end.nic._space.runs(descriptor.address, 48)
        await end.nic.compute(1)
        return port.fetched(at, 20, 0).tobytes() == descriptor.encode()[:20], size

    assert run_pair(first, idle)[0] == (True, 48)


@of_its_own_machine("tags that are stretches")
@pytest.mark.requirement("ED-19")
@pytest.mark.parametrize(("initialisation", "state"), [(1, INVALID), (2, SHARED)])
def test_messaging_on_the_nic_sets_a_registration_up_without_the_program(initialisation, state):
    async def first(end):
        node = end.nic._agent.ni.port._node
        buffer = end.nic.allocate(1024)
        await end.nic.write(buffer.address, b"dirty in the host's caches")
        before = node.host.registers[0]["cpu_writes"], node.nic.registers[0]["doorbells"]
        region = await end.nic.register_mem(buffer, end.tag)
        ((at, size),) = end.nic._space.runs(region.address, 1024)
        after = node.host.registers[0]["cpu_writes"], node.nic.registers[0]["doorbells"]
        tags = [(int(t["host_start"]), int(t["host_end"])) for t in node.nic.tags if t["valid"]]
        homes = node.agent.home[at // 128 : (at + size) // 128]
        flushed = node.host.memory[at : at + 26].tobytes()
        states = {int(node.agent.copies[home]["state"]) for home in homes}
        return before == after, (at, at + size) in tags, states, flushed

    found = run_pair(first, idle, settings={"initialisation": initialisation})[0]
    assert found == (True, True, {state}, b"dirty in the host's caches")


@of_its_own_machine("receive_method 1, which ports do not take")
@pytest.mark.requirement("ED-32", "ED-33")
@pytest.mark.parametrize("method", [1, 2])
def test_a_receive_is_complete_only_when_every_block_may_be_read(method):
    size = 512

    async def first(end):
        await end.nic.write(end.out.address, bytes(range(256)) * 2)
        await end.nic.post_send(end.vi, end.send(0, size))
        await end.nic.send_wait(end.vi)

    async def second(end):
        memory = end.nic._agent.ni.port._node.host.memory
        done = await end.nic.recv_wait(end.vi)
        ((at, _),) = end.nic._space.runs(end.into.address, size)
        there = memory[at : at + size].tobytes() == bytes(range(256)) * 2
        return there, done.journal.parts, await end.nic.read(end.into.address, size)

    _, (there, parts, read) = run_pair(first, second, settings={"receive_method": method})
    assert read == bytes(range(256)) * 2
    assert parts[Part.COHERENCE] > 0
    # The DMA-like method, with which the paper measured, has put it in host memory.
    assert there == (method == 2)


@of_its_own_machine("its configuration")
@pytest.mark.requirement("ED-32")
def test_the_platform_receives_as_the_paper_measured():

    assert int(Cluster().machine.nics.config[0, 0]["receive_method"]) == 2
