"""A message over every way into the NIC: its bytes, its transactions, the time of each step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from message_pair import LONGEST, RECEIVE, SEND, WAYS, Pair, warm

from bus_by_hand import Bus
from nicscope.errors import SimulationError
from nicscope.memory.coherence.bus import ENGINE_IN
from nicscope.memory.coherence.layout import (
    COMBINED_WRITE,
    INTERVENTION,
    MOST_BACKGROUND,
    READ_EXCLUSIVE,
    RETRY,
    UNCACHED_READ,
    UNCACHED_WRITE,
    WRITE,
    WRITE_BACK,
)
from nicscope.nic.coherent import Mechanism
from nicscope.nic.ways.state import DELIVER
from suite import INTERPRETED, share

EACH_WAY = [pytest.param(way, id=name) for way, name in WAYS]
EDT, INTERVENING, RETRYING = Mechanism.EDT, Mechanism.DMA_INTERVENTION, Mechanism.DMA_RETRY


@pytest.mark.requirement("ED-72", "ED-64")
@pytest.mark.parametrize("way", EACH_WAY)
@share(0.4)
@given(
    sizes=st.lists(st.integers(1, 300) | st.integers(1, 9000), min_size=1, max_size=3),
    offset=st.integers(0, 200),
    seed=st.integers(0, 99),
)
def test_messages_arrive_unchanged_wherever_they_lie(way, sizes, offset, seed):
    pair = Pair(way)
    rng = np.random.default_rng(seed)
    for size in sizes:
        raw = rng.bytes(size)
        assert pair.send(raw, SEND + offset, RECEIVE + offset // 2) == raw


@pytest.mark.parametrize("way", EACH_WAY)
@pytest.mark.parametrize("size", [1, 5000 if INTERPRETED else LONGEST])
def test_the_shortest_and_the_longest_message_arrive(way, size):
    raw = np.random.default_rng(size).bytes(size)

    assert Pair(way).send(raw) == raw


@pytest.mark.requirement("ED-16")
@pytest.mark.parametrize("fill_then_invalidate", [0, 1])
def test_edt_follows_hosts_that_take_a_block_in_one_transaction_or_in_two(fill_then_invalidate):
    pair = Pair(EDT, {"fill_then_invalidate": fill_then_invalidate})
    messages = [bytes([number] * 700) for number in range(3)]

    assert [pair.send(one) for one in messages] == messages

    assert (pair.count(READ_EXCLUSIVE) == 0) == bool(fill_then_invalidate)
    assert pair.by_engine() == pair.count(WRITE) == 0


@pytest.mark.requirement("ED-30", "ED-31")
@pytest.mark.parametrize("method", [1, 2])
def test_bytes_beside_a_message_keep_what_the_host_wrote(method):
    # The NIC reads what the host writes so late that it has not when the message comes.
    bus = Pair(EDT, receive_method=method, reaction=50_000_000).bus
    before = bytes(number & 255 for number in range(600))
    bus.store(RECEIVE, before)
    bus.put_on_nic(0, b"x" * 200)

    bus.deliver(EDT, 0, RECEIVE + 100, 200)

    assert bus.load(RECEIVE, 600)[0] == before[:100] + b"x" * 200 + before[300:]


@pytest.mark.requirement("ED-30", "ED-31")
@pytest.mark.parametrize(("method", "kept"), [(1, False), (2, True)])
def test_what_has_come_is_read_out_of_the_nic_or_is_in_memory_already(method, kept):
    pair = warm(EDT, 512, receive_method=method)

    assert pair.send(b"y" * 512) == b"y" * 512

    # By the first method the host's misses are answered by the NIC, which wrote nothing back.
    assert pair.count(WRITE_BACK) == (4 if kept else 0)
    assert pair.bus.counts(1)[0, INTERVENTION] == (0 if kept else 4)


@pytest.mark.requirement("ED-70", "ED-71")
@pytest.mark.parametrize("size", [64, 256, 1024, 4096])
def test_intervention_spares_the_write_backs_and_retries(size):
    retry, intervention = (warm(way, size) for way in (RETRYING, INTERVENING))
    blocks = -(-size // 128)

    retry.send(b"b" * size)
    intervention.send(b"b" * size)

    assert intervention.count(INTERVENTION) == blocks
    assert intervention.count(RETRY) == intervention.count(WRITE_BACK) == 0
    assert retry.count(WRITE_BACK) == blocks
    assert retry.count(RETRY) >= blocks
    assert retry.spent["fetch"] > intervention.spent["fetch"]


@pytest.mark.requirement("ED-73")
def test_only_the_execution_of_a_dma_grows_with_the_message():
    spent = {}
    for size in (64, 4096):
        for init, interrupt in ((0, 0), (700_000, 900_000)):
            pair = warm(INTERVENING, size, dma_init=init, dma_interrupt=interrupt)
            pair.send(b"c" * size)
            spent[size, init] = pair.spent["fetch"], pair.spent["deliver"]

    for size in (64, 4096):
        around = np.subtract(spent[size, 700_000], spent[size, 0])
        assert (around == 1_600_000).all(), "set-up and interrupt are the same for any size"
    assert np.less(spent[64, 0], spent[4096, 0]).all()


@pytest.mark.requirement("ED-82")
@pytest.mark.parametrize("size", [64, 128, 512, 2048, 4096])
def test_edt_moves_data_faster_than_intervention_and_that_faster_than_retry(size):
    moved, written = [], []
    for way in (EDT, INTERVENING, RETRYING):
        pair = warm(way, size)
        pair.send(b"d" * size)
        written.append(pair.spent.pop("write"))
        pair.spent.pop("read")
        moved.append(sum(pair.spent.values()))

    assert moved[0] < moved[1] < moved[2]
    assert written[1] == written[2]
    assert abs(written[0] - written[1]) <= written[1] // 10  # contention on the bus is EDT's


@pytest.mark.requirement("ED-25")
def test_a_doorbell_does_not_overtake_the_last_block():
    # A slow NIC has not read the message when it is told to send it.
    slow = warm(EDT, 256, reaction=5_000_000)
    raw = bytes(range(256))

    assert slow.send(raw) == raw
    assert slow.spent["fetch"] > 4_000_000


@pytest.mark.requirement("ED-26", "ED-22")
def test_edt_sends_without_an_engine():
    pair = warm(EDT, 256)
    raw = bytes(range(256))
    bus = pair.bus
    bus.store(SEND, raw)
    bus.doorbell(SEND)
    before = bus.transactions()

    assert bus.fetch(EDT, SEND, 256, 0) == bus.now
    assert bus.nic_bytes(bus.fetched_to(), 256) == raw

    assert bus.transactions() == before, "the message was there when the doorbell rang"
    assert pair.by_engine() == 0


@pytest.mark.requirement("ED-72")
def test_pio_costs_a_transaction_for_eight_bytes_or_for_a_combined_burst():
    single = warm(Mechanism.PIO, 256)
    combined = warm(Mechanism.PIO_COMBINED, 256)
    single.send(b"f" * 256)
    combined.send(b"f" * 256)

    assert single.count(UNCACHED_WRITE) == 256 // 8 + 1  # and the doorbell
    assert single.count(UNCACHED_READ) == combined.count(UNCACHED_READ) == 256 // 8
    assert combined.count(COMBINED_WRITE) == 256 // 32
    assert combined.count(UNCACHED_WRITE) == 1


def test_what_is_left_in_combining_buffers_leaves_in_pieces():
    pair = warm(Mechanism.PIO_COMBINED, 45)

    assert pair.send(bytes(range(45))) == bytes(range(45))
    assert pair.count(COMBINED_WRITE) == 1
    assert pair.count(UNCACHED_WRITE) == 2 + 1  # 8 and 5 bytes, and the doorbell


@pytest.mark.requirement("ED-40")
def test_what_comes_to_a_full_receive_queue_waits_until_messages_are_collected():
    way = int(Mechanism.CNI)
    bus = Pair(way, queue_blocks=2).bus
    first, second = b"1" * 248, b"2" * 124  # two entries of 124 bytes, and a third
    bus.put_on_nic(0, first + second)
    bus.deliver(way, 0, RECEIVE, 248)
    bus.start(ENGINE_IN, way, DELIVER, RECEIVE + 248, 248, 124, bus.now)
    bus.settle()
    assert bus.bus.ways.moves[0, ENGINE_IN]["done"] == 0

    bus.collect(way, 0, RECEIVE, 248)
    bus.rest(ENGINE_IN)
    bus.collect(way, 0, RECEIVE + 248, 124)

    assert bus.load(RECEIVE, 372)[0] == first + second


@pytest.mark.requirement("ED-72")
def test_dma_past_the_caches_reads_old_bytes_unless_they_are_flushed():
    # Data are real: without the flush that software owes, the wrong bytes show.
    way = int(Mechanism.DMA)
    bus = warm(way, 64).bus
    bus.store(SEND, b"new!" * 16)

    bus.fetch(way, SEND, 64, 0)
    assert bus.nic_bytes(0, 64) == b"a" * 64
    bus.publish(way, SEND, 64, 0)
    bus.fetch(way, SEND, 64, 0)
    assert bus.nic_bytes(0, 64) == b"new!" * 16


def test_a_slower_engine_takes_longer_by_its_rate():
    spent = {}
    for rate in (1600, 800):
        pair = warm(INTERVENING, 4096, dma_mbytes_s=rate)
        pair.send(b"g" * 4096)
        spent[rate] = pair.spent["fetch"] + pair.spent["deliver"]

    # Each way 4096 bytes take 2.56 us at 1600 MB/s and 5.12 us at 800.
    assert spent[800] - spent[1600] >= 2 * 2_560_000 * 9 // 10


@pytest.mark.parametrize(
    ("host", "nic", "message"),
    [
        ({"l1_line": 48}, {}, "l1_line must be a power of two"),
        *[
            ({name: 0}, {}, f"{name} must be a power of two, got 0")
            for name in (
                "memory_bytes",
                "l1_bytes",
                "l1_line",
                "l1_ways",
                "l2_bytes",
                "l2_line",
                "l2_ways",
                "word",
                "bus_bytes",
                "combine_bytes",
            )
        ],
        *[
            ({name: 0}, {}, f"{name} must be at least 1, got 0")
            for name in (
                "arbitration",
                "address_phase",
                "combine_buffers",
                "retry_delay",
                "l1_latency",
            )
        ],
        ({"combine_bytes": 64}, {}, "combine_bytes must be at most 32"),
        ({"word": 8, "l1_line": 4}, {}, "word must not exceed l1_line"),
        ({"l2_bytes": 32}, {}, "l2_bytes is less than one set"),
        ({"memory_bytes": 16}, {}, "memory_bytes is less than a block"),
        ({"background_percent": MOST_BACKGROUND + 1}, {}, "background_percent must be at most"),
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
        Bus(host, nic)
