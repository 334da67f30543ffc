"""A message through every mechanism: its bytes, its time by component, its transactions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core import config

from nicscope.drivers.coherent.boundary import Boundary
from nicscope.drivers.coherent.exchange import ping_pong
from nicscope.drivers.coherent.machine import new_machine
from nicscope.errors import SimulationError
from nicscope.memory.coherence.layout import (
    COMBINED_WRITE,
    INTERVENTION,
    KINDS,
    READ_EXCLUSIVE,
    RETRY,
    UNCACHED_READ,
    UNCACHED_WRITE,
    WRITE_BACK,
)
from nicscope.nic.coherent.layout import Component
from nicscope.nic.coherent.mechanism import Mechanism

SEND, RECEIVE = 0, 1 << 17
LONGEST = 1 << 16
MECHANISMS = [pytest.param(int(m), id=m.name.lower()) for m in Mechanism]


class Pair:
    """Two nodes and a mechanism."""

    def __init__(self, mechanism, host=None, **nic):
        self.machine = new_machine(2, host, nic)
        self.mechanism = mechanism
        self.ends = [Boundary(self.machine, n, mechanism) for n in (0, 1)]
        self.now = 0
        for n in (0, 1) if mechanism == Mechanism.EDT else ():
            for start in (SEND, RECEIVE):
                became, self.now = self.ends[n].register(start, LONGEST, self.now)
                assert became == 0
        self.machine.hosts.counts[:] = 0
        self.machine.nics.times[:] = 0

    def send(self, data, source=SEND, target=RECEIVE):
        """The bytes that node 1 reads after node 0 wrote ``data``."""
        first, second = self.ends
        count = len(data)
        now = second.prepare(target, count, self.now)
        now = first.write(source, bytes(data), now)
        now = first.publish(source, count, 0, now)
        now = first.doorbell(source, now)
        now = first.fetch(source, count, 0, now)
        start = first.place_of(source, count, 0)
        memory = self.machine.agents.memory
        memory[1, :count] = memory[0, start : start + count]
        now = second.deliver(0, target, count, now)
        now = second.collect(0, target, count, now)
        read, self.now = second.read(target, count, now)
        return read

    def times(self):
        return {Component(c): int(t) for c, t in enumerate(self.machine.nics.times.sum(0)) if t}

    def count(self, kind):
        return int(self.machine.hosts.counts[:, :, kind].sum())


@pytest.mark.requirement("ED-72", "ED-64")
@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=4 if config.DISABLE_JIT else 15)
@given(
    sizes=st.lists(st.integers(0, 300) | st.integers(0, 9000), min_size=1, max_size=3),
    offset=st.integers(0, 200),
    seed=st.integers(0, 99),
)
def test_messages_arrive_unchanged_wherever_they_lie(mechanism, sizes, offset, seed):
    pair = Pair(mechanism)
    rng = np.random.default_rng(seed)
    for size in sizes:
        data = rng.bytes(size)
        assert pair.send(data, SEND + offset, RECEIVE + offset // 2) == data


@pytest.mark.requirement("ED-16")
@pytest.mark.parametrize("fill_then_invalidate", [0, 1])
def test_edt_follows_hosts_that_take_a_block_in_one_transaction_or_in_two(fill_then_invalidate):
    pair = Pair(Mechanism.EDT.value, {"fill_then_invalidate": fill_then_invalidate})
    messages = [bytes([number] * 700) for number in range(3)]

    assert [pair.send(one) for one in messages] == messages

    assert (pair.count(READ_EXCLUSIVE) == 0) == bool(fill_then_invalidate)
    assert Component.DMA_EXEC not in pair.times()


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("size", [0, 1, 5000 if config.DISABLE_JIT else LONGEST])
def test_the_shortest_and_the_longest_message_arrive(mechanism, size):
    data = np.random.default_rng(size).bytes(size)

    assert Pair(mechanism).send(data) == data


@pytest.mark.requirement("ED-30", "ED-31")
@pytest.mark.parametrize("method", [1, 2])
def test_bytes_beside_a_message_keep_what_the_host_wrote(method):
    pair = Pair(Mechanism.EDT.value, receive_method=method)
    before = bytes(number & 255 for number in range(600))
    pair.now = pair.ends[1].write(RECEIVE, before, pair.now)

    assert pair.send(b"x" * 200, SEND, RECEIVE + 100) == b"x" * 200
    after, _ = pair.ends[1].read(RECEIVE, 600, pair.now)

    assert after == before[:100] + b"x" * 200 + before[300:]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_parts_of_a_ping_pong_add_up_to_its_time(mechanism):
    pair = Pair(mechanism)
    payload = np.zeros(4096, np.uint8)
    began = pair.now

    layout = (SEND, RECEIVE, 0)
    end, wrong = ping_pong(pair.machine, mechanism, layout, payload, 1000, 6, began)

    assert wrong == 0
    assert end - began == pair.machine.nics.times.sum()


def warm(mechanism, size, **nic):
    """A pair that has exchanged such messages before, its counts and times at 0."""
    pair = Pair(mechanism, **nic)
    for _ in range(2):
        pair.send(b"a" * size)
    pair.machine.hosts.counts[:] = 0
    pair.machine.nics.times[:] = 0
    return pair


@pytest.mark.requirement("ED-70", "ED-71")
@pytest.mark.parametrize("size", [64, 256, 1024, 4096])
def test_intervention_spares_the_write_backs_and_retries(size):
    retry, intervention = (
        warm(m.value, size) for m in (Mechanism.DMA_RETRY, Mechanism.DMA_INTERVENTION)
    )
    blocks = -(-size // 128)

    retry.send(b"b" * size)
    intervention.send(b"b" * size)

    assert intervention.count(INTERVENTION) == blocks
    assert intervention.count(RETRY) == intervention.count(WRITE_BACK) == 0
    assert retry.count(WRITE_BACK) == blocks
    assert retry.count(RETRY) >= blocks
    assert retry.times()[Component.DMA_EXEC] > intervention.times()[Component.DMA_EXEC]


@pytest.mark.requirement("ED-73", "ED-85", "ED-82")
def test_only_the_execution_of_a_dma_grows_with_the_message():
    times = {}
    for size in (64, 4096):
        pair = warm(Mechanism.DMA_INTERVENTION.value, size)
        pair.send(b"c" * size)
        times[size] = pair.times()

    for part in (Component.DMA_INIT, Component.DMA_INTERRUPT):
        assert times[64][part] == times[4096][part]
    assert times[64][Component.DMA_EXEC] < times[4096][Component.DMA_EXEC]


@pytest.mark.requirement("ED-82")
@pytest.mark.parametrize("size", [64, 128, 512, 2048, 4096])
def test_edt_moves_data_faster_than_intervention_and_that_faster_than_retry(size):
    spent, written = [], []
    for m in (Mechanism.EDT, Mechanism.DMA_INTERVENTION, Mechanism.DMA_RETRY):
        pair = warm(m.value, size)
        pair.send(b"d" * size)
        times = pair.times()
        written.append(times.pop(Component.USER_WRITE))
        times.pop(Component.USER_READ)
        spent.append(sum(times.values()))

    assert spent[0] < spent[1] < spent[2]
    assert written[1] == written[2]
    assert abs(written[0] - written[1]) <= written[1] // 10  # contention on the bus is EDT's


@pytest.mark.requirement("ED-25")
def test_a_doorbell_does_not_overtake_the_last_block():
    # A slow NIC has not read the message when it is told to send it.
    slow = warm(Mechanism.EDT.value, 256, reaction=5_000_000)
    data = bytes(range(256))

    assert slow.send(data) == data
    assert slow.times()[Component.EDT_WAIT] > 4_000_000


@pytest.mark.requirement("ED-26", "ED-22")
def test_edt_sends_without_an_engine():
    pair = warm(Mechanism.EDT.value, 256)
    pair.send(b"e" * 256)

    assert not {Component.DMA_INIT, Component.DMA_EXEC, Component.DMA_INTERRUPT} & set(pair.times())


@pytest.mark.requirement("ED-72")
def test_pio_costs_a_transaction_for_eight_bytes_or_for_a_combined_burst():
    single = warm(Mechanism.PIO.value, 256)
    combined = warm(Mechanism.PIO_COMBINED.value, 256)
    single.send(b"f" * 256)
    combined.send(b"f" * 256)

    assert single.count(UNCACHED_WRITE) == 256 // 8 + 1  # and the doorbell
    assert single.count(UNCACHED_READ) == combined.count(UNCACHED_READ) == 256 // 8
    assert combined.count(COMBINED_WRITE) == 256 // 32
    assert combined.count(UNCACHED_WRITE) == 1


def test_what_is_left_in_combining_buffers_leaves_in_pieces():
    pair = warm(Mechanism.PIO_COMBINED.value, 45)

    assert pair.send(bytes(range(45))) == bytes(range(45))
    assert pair.count(COMBINED_WRITE) == 1
    assert pair.count(UNCACHED_WRITE) == 2 + 1  # 8 and 5 bytes, and the doorbell


@pytest.mark.requirement("ED-42", "ED-43", "ED-44", "ED-50")
@pytest.mark.parametrize("lazy", [0, 1])
@pytest.mark.parametrize("valid", [0, 1])
@pytest.mark.parametrize("sense", [0, 1])
@pytest.mark.parametrize("blocks", [2, 8])
def test_queues_carry_messages_longer_than_themselves_with_any_optimisations(
    lazy, valid, sense, blocks
):
    pair = Pair(
        Mechanism.CNI.value,
        queue_blocks=blocks,
        lazy_pointers=lazy,
        valid_bits=valid,
        sense_reverse=sense,
    )
    rng = np.random.default_rng(blocks)
    for size in (1, 124, 125, 3000, 248, 64):
        data = rng.bytes(size)
        assert pair.send(data) == data


@pytest.mark.requirement("ED-40")
def test_a_full_receive_queue_refuses_until_messages_are_collected():
    pair = Pair(Mechanism.CNI.value, queue_blocks=2)
    end = pair.ends[1]
    first = end.deliver(0, RECEIVE, 248, pair.now)
    assert first > pair.now

    assert end.deliver(0, RECEIVE + 248, 124, first) == -1
    then = end.collect(0, RECEIVE, 248, first)
    assert end.deliver(0, RECEIVE + 248, 124, then) > then


@pytest.mark.requirement("ED-72")
def test_dma_past_the_caches_reads_old_bytes_unless_they_are_flushed():
    # Data are real: without the flush that software owes, the wrong bytes show.
    pair = warm(Mechanism.DMA.value, 64)
    end = pair.ends[0]
    now = end.write(SEND, b"new!" * 16, pair.now)

    now = end.fetch(SEND, 64, 0, now)
    assert pair.machine.agents.memory[0, :64].tobytes() == b"a" * 64
    now = end.publish(SEND, 64, 0, now)
    end.fetch(SEND, 64, 0, now)
    assert pair.machine.agents.memory[0, :64].tobytes() == b"new!" * 16


def test_a_slower_engine_takes_longer_by_its_rate():
    spent = {}
    for rate in (1600, 800):
        pair = warm(Mechanism.DMA_INTERVENTION.value, 4096, dma_mbytes_s=rate)
        pair.send(b"g" * 4096)
        spent[rate] = pair.times()[Component.DMA_EXEC]

    # Each way 4096 bytes take 2.56 us at 1600 MB/s and 5.12 us at 800.
    assert spent[800] - spent[1600] >= 2 * 2_560_000 * 9 // 10


def test_every_transaction_has_a_kind():
    assert Pair(int(Mechanism.PIO)).machine.hosts.counts.shape[2] == KINDS


@pytest.mark.parametrize(
    ("host", "nic", "message"),
    [
        ({"l1_line": 48}, {}, "l1_line must be a power of two"),
        ({"sets": 3}, {}, "no parameter 'sets'"),
        ({"word": 16}, {}, "word must be at most 8"),
        ({"l1_line": 256}, {}, "l1_line must not exceed l2_line"),
        ({"bus_cycle": 0}, {}, "bus_cycle must be at least 1"),
        ({"snoop": -1}, {}, "snoop must not be negative"),
        ({"l1_bytes": 32}, {}, "l1_bytes is less than one set"),
        ({}, {"dma_window": 9}, "dma_window must be from 1 to 8"),
        ({}, {"queue_blocks": 3}, "queue_blocks must be even"),
        ({}, {"receive_method": 3}, "receive_method must be 1 or 2"),
        ({}, {"memory_bytes": 1000}, "no multiple of a block"),
        ({}, {"staging_bytes": 4 << 20}, "no room for staging"),
        ({}, {"valid_bits": 2}, "valid_bits must be 0 or 1"),
    ],
)
def test_a_machine_that_makes_no_sense_is_refused(host, nic, message):
    with pytest.raises(SimulationError, match=message):
        new_machine(1, host, nic)
