"""Bus transactions, counted: EDT and CNI as section 5 of EDT compares them."""

import numpy as np
import pytest

from bus_by_hand import Bus
from nicscope.drivers.simulate.bus.bus_harness import asked
from nicscope.drivers.simulate.records import ACCESS, COMPUTE
from nicscope.memory.coherence.layout import CPU, DEVICE, READ, UPGRADE
from nicscope.memory.coherence.processor import STORE
from nicscope.nic.coherent import SEND, Mechanism
from suite import INTERPRETED

SOME = (1, 2, 17) if INTERPRETED else (1, 2, 3, 17, 64)
BLOCK, WORD = 128, 4
BUFFER = 1 << 13
LONG = 1_000_000  # ps; longer than a block takes to reach the NIC
EDT, CNI = int(Mechanism.EDT), int(Mechanism.CNI)
ENTRY = BLOCK - WORD  # bytes of a message in a block of a queue


def in_order(bus, blocks, words, raw):
    """Store words of one block after the other."""
    for b in range(blocks):
        bus.store(BUFFER + b * BLOCK, raw[b, : words * WORD].tobytes())


def by_strides(pause):
    """Store the first word of every block, then the second of every block, and so on."""

    def store(bus, blocks, words, raw):
        for w in range(words):
            for b in range(blocks):
                at = w * WORD
                bus.store(BUFFER + b * BLOCK + at, raw[b, at : at + WORD].tobytes())
                if pause:
                    bus.pause(pause)

    return store


def send(bus, store, blocks, words):
    """Transactions of a message of other bytes than before; the NIC then has just these."""
    bus.pause(LONG)
    bus.counts()[:] = 0
    raw = np.random.default_rng(bus.now % 1013).integers(0, 256, (blocks, BLOCK), np.uint8)
    store(bus, blocks, words, raw)
    bus.fetch(EDT, BUFFER, blocks * BLOCK, 0)
    got = np.frombuffer(bus.nic_bytes(bus.fetched_to(), blocks * BLOCK), np.uint8)
    assert (got.reshape(raw.shape)[:, : words * WORD] == raw[:, : words * WORD]).all()
    return bus.counts()


def warm(host=None, **nic):
    """A node whose host and NIC both hold the region, SHARED."""
    bus = Bus(host, nic)
    bus.register(BUFFER, 64 * BLOCK)
    send(bus, in_order, 64, 32)
    return bus


def grid():
    """(blocks, words) of every message."""
    for blocks in SOME:
        for words in SOME[:-1] if INTERPRETED else range(1, 33, 5):
            yield blocks, words


@pytest.mark.requirement("ED-45")
def test_a_block_written_in_order_costs_two_transactions():
    bus = warm()
    for blocks, words in grid():
        counts = send(bus, in_order, blocks, words)

        assert counts[CPU, UPGRADE] == counts[DEVICE, READ] == blocks
        assert bus.transactions() == 2 * blocks


@pytest.mark.requirement("ED-46")
def test_a_block_revisited_for_each_word_costs_two_transactions_a_word():
    bus = warm()
    for blocks, words in grid():
        counts = send(bus, by_strides(LONG), blocks, words)

        assert counts[CPU, UPGRADE] == counts[DEVICE, READ] == blocks * words
        assert bus.transactions() == 2 * blocks * words


@pytest.mark.requirement("ED-46")
def test_a_program_that_never_pauses_stays_below_the_worst_case():
    # It is back at a block before the NIC, whose reads queue up behind each other, has read it.
    bus = warm()
    for blocks in SOME[1:]:
        send(bus, by_strides(0), blocks, 32)

        assert 2 * blocks < bus.transactions() < 2 * blocks * 32


@pytest.mark.requirement("ED-20")
@pytest.mark.parametrize(("fill_then_invalidate", "expected"), [(1, 3), (0, 2)])
def test_a_write_that_misses_fills_first_or_reads_exclusively(fill_then_invalidate, expected):
    bus = Bus({"fill_then_invalidate": fill_then_invalidate}, {"initialisation": 1})
    bus.register(BUFFER, 4 * BLOCK)

    send(bus, in_order, 4, 32)

    assert bus.transactions() == expected * 4


def test_what_a_cpu_is_asked_for_at_once_it_does_as_if_asked_one_by_one():
    places = BUFFER + BLOCK * (np.arange(40) % 3)
    rows = np.repeat(asked(ACCESS, STORE, places, WORD), 2)
    rows[1::2] = asked(COMPUTE, duration=35_000)
    at_once, one_by_one = warm(), warm()
    before = at_once.counts()[CPU, UPGRADE]

    at_once.do(rows)
    for row in range(len(rows)):
        one_by_one.do(rows[row : row + 1])

    assert at_once.now == one_by_one.now
    assert (at_once.counts() == one_by_one.counts()).all()
    assert at_once.counts()[CPU, UPGRADE] - before > 3


def message(bus, entries):
    """One of so many entries through the send queue."""
    count = entries * ENTRY
    bus.publish(CNI, BUFFER, count, 0)
    bus.fetch(CNI, BUFFER, count, 0)


def passes_of(per_message, passes, **nic):
    """Counts of the passes around the send queue that follow a first one, and its heads read."""
    bus = Bus(None, nic)
    config = bus.bus.ways.nics.config[0, 0]
    queue = bus.bus.ways.nics.queues[0, SEND]
    turns = int(config["queue_blocks"]) // per_message
    message(bus, 1)  # the buffer comes into the cache
    for _ in range(turns * 3):
        message(bus, per_message)
    bus.counts()[:] = 0
    before = int(queue["head_checks"])
    for _ in range(turns * passes):
        message(bus, per_message)
    return bus.counts().copy(), int(queue["head_checks"]) - before


@pytest.mark.requirement("ED-41", "ED-45", "ED-42", "ED-43", "ED-44")
@pytest.mark.parametrize("per_message", [1, 2, 8, 32])
def test_a_pass_around_a_queue_costs_two_transactions_a_block_and_two_invalidations(per_message):
    counts, heads = passes_of(per_message, 3)

    blocks = 3 * 64
    assert counts[CPU, UPGRADE] == blocks
    assert counts[DEVICE, READ] == blocks
    # The head pointer: the NIC takes it back from the CPU, which looked, twice in a pass.
    assert counts[DEVICE, UPGRADE] == 2 * 3
    assert counts[CPU, READ] == 2 * 3
    assert heads == 2 * 3


@pytest.mark.requirement("ED-42", "ED-43", "ED-44")
def test_each_of_the_three_optimisations_saves_what_it_is_for():
    best, _ = passes_of(1, 1)
    eager_head, _ = passes_of(1, 1, lazy_pointers=0)
    with_tail, _ = passes_of(1, 1, valid_bits=0)
    cleared, _ = passes_of(1, 1, sense_reverse=0)

    # Without lazy pointers the head moves to and fro for every entry,
    assert eager_head[DEVICE, UPGRADE] == eager_head[CPU, READ] == 64
    # without valid bits the tail does,
    assert with_tail[CPU, UPGRADE] - best[CPU, UPGRADE] == 64
    assert with_tail[DEVICE, READ] - best[DEVICE, READ] == 64
    # and without sense reverse the NIC takes every entry to clear it, and the CPU misses it.
    assert cleared[DEVICE, UPGRADE] - best[DEVICE, UPGRADE] == 64
    assert cleared[CPU, READ] - best[CPU, READ] == 64
