"""Bus transactions, counted: EDT and CNI as section 5 of EDT compares them."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core import config

from nicscope.drivers.coherent.boundary import Boundary
from nicscope.drivers.coherent.machine import new_machine
from nicscope.drivers.coherent.patterns import SEQUENTIAL, STRIDED, write_in_order
from nicscope.memory.coherence.layout import (
    CPU,
    DEVICE,
    INTERVENTION,
    READ,
    UPGRADE,
)
from nicscope.nic.coherent.layout import SEND
from nicscope.nic.coherent.mechanism import Mechanism

SOME = (1, 2, 17) if config.DISABLE_JIT else (1, 2, 3, 17, 64)
BLOCK = 128
PAYLOAD = np.arange(64 * BLOCK, dtype=np.int64).astype(np.uint8)
LONG = 1_000_000  # ps; longer than a block takes to reach the NIC
EDT, CNI = Mechanism.EDT, Mechanism.CNI
ENTRY = BLOCK - 4  # bytes of a message in a block of a queue


def transactions(machine):
    """All but interventions, which are answers."""
    return int(machine.hosts.counts[0].sum() - machine.hosts.counts[0, :, INTERVENTION].sum())


def warm(blocks, **nic):
    """A node whose host and NIC both hold the region, SHARED."""
    machine = new_machine(1, nic=nic)
    _, now = Boundary(machine, 0, EDT).register(0, blocks * BLOCK, 0)
    now = write_in_order(machine, 0, SEQUENTIAL, (blocks, 32), 0, PAYLOAD, 0, now)
    now = Boundary(machine, 0, EDT).fetch(0, blocks * BLOCK, 0, now)
    machine.hosts.counts[:] = 0
    return machine, now


def send_in_order(machine, order, blocks, words, pause, now):
    """Write other bytes than before; the NIC then has just these."""
    payload = np.random.default_rng(now % 1013).integers(0, 256, blocks * BLOCK, np.uint8)
    now = write_in_order(machine, 0, order, (blocks, words), 0, payload, pause, now)
    Boundary(machine, 0, EDT).fetch(0, blocks * BLOCK, 0, now)
    start = int(machine.nics.tags[0]["nic_start"][0])
    got = machine.agents.memory[0, start : start + blocks * BLOCK].reshape(blocks, BLOCK)
    assert (got[:, : 4 * words] == payload.reshape(blocks, BLOCK)[:, : 4 * words]).all()


def grid():
    """(blocks, words) of every message, and how to send it from one warm region."""
    machine, now = warm(64)
    for blocks in SOME if config.DISABLE_JIT else range(1, 65):
        for words in SOME[:-1] if config.DISABLE_JIT else range(1, 33):
            machine.hosts.counts[:] = 0
            yield machine, now, blocks, words
            now += 10**10


@pytest.mark.requirement("ED-45", "ED-22", "ED-24")
def test_a_block_written_in_order_costs_two_transactions():
    for machine, now, blocks, words in grid():
        send_in_order(machine, SEQUENTIAL, blocks, words, 0, now)

        assert machine.hosts.counts[0, CPU, UPGRADE] == blocks
        assert machine.hosts.counts[0, DEVICE, READ] == blocks
        assert transactions(machine) == 2 * blocks


@pytest.mark.requirement("ED-46")
def test_a_block_revisited_for_each_word_costs_two_transactions_a_word():
    for machine, now, blocks, words in grid():
        send_in_order(machine, STRIDED, blocks, words, LONG, now)

        assert machine.hosts.counts[0, CPU, UPGRADE] == blocks * words
        assert machine.hosts.counts[0, DEVICE, READ] == blocks * words
        assert transactions(machine) == 2 * blocks * words


@pytest.mark.requirement("ED-46")
def test_a_program_that_never_pauses_stays_below_the_worst_case():
    # It is back at a block before the NIC, whose reads queue up behind each other, has read it.
    for blocks in SOME[1:]:
        machine, now = warm(blocks)
        send_in_order(machine, STRIDED, blocks, 32, 0, now)
        count = transactions(machine)

        assert 2 * blocks < count < 2 * blocks * 32


@pytest.mark.requirement("ED-20")
@pytest.mark.parametrize(("fill_then_invalidate", "expected"), [(1, 3), (0, 2)])
def test_a_write_that_misses_fills_first_or_reads_exclusively(fill_then_invalidate, expected):
    machine = new_machine(1, {"fill_then_invalidate": fill_then_invalidate}, {"initialisation": 1})
    _, now = Boundary(machine, 0, EDT).register(0, 4 * BLOCK, 0)

    now = write_in_order(machine, 0, SEQUENTIAL, (4, 32), 0, PAYLOAD, 0, now)
    Boundary(machine, 0, EDT).fetch(0, 4 * BLOCK, 0, now)

    assert transactions(machine) == expected * 4


def send(machine, entries, now):
    """A message of so many entries through the send queue."""
    count = entries * ENTRY
    now = Boundary(machine, 0, CNI).publish(0, count, 0, now)
    return Boundary(machine, 0, CNI).fetch(0, count, 0, now)


def passes_of(machine, per_message, passes):
    """Counts of the passes around the send queue that follow a first one."""
    queue = int(machine.nics.config[0, 0]["queue_blocks"])
    now = send(machine, 1, 0)  # the buffer comes into the cache
    for _ in range(queue // per_message * 3):
        now = send(machine, per_message, now)
    machine.hosts.counts[:] = 0
    machine.nics.queues[0, SEND]["head_checks"] = 0
    for _ in range(queue // per_message * passes):
        now = send(machine, per_message, now)
    return machine.hosts.counts[0]


@pytest.mark.requirement("ED-41", "ED-45", "ED-42", "ED-43", "ED-44")
@pytest.mark.parametrize("per_message", [1, 2, 8, 32])
def test_a_pass_around_a_queue_costs_two_transactions_a_block_and_two_invalidations(per_message):
    machine = new_machine(1)

    counts = passes_of(machine, per_message, 3)

    blocks = 3 * 64
    assert counts[CPU, UPGRADE] == blocks
    assert counts[DEVICE, READ] == blocks
    # The head pointer: the NIC takes it back from the CPU, which looked, twice in a pass.
    assert counts[DEVICE, UPGRADE] == 2 * 3
    assert counts[CPU, READ] == 2 * 3
    assert machine.nics.queues[0, SEND]["head_checks"] == 2 * 3


@pytest.mark.requirement("ED-42", "ED-43", "ED-44")
def test_each_of_the_three_optimisations_saves_what_it_is_for():
    best = passes_of(new_machine(1), 1, 1)
    eager_head = passes_of(new_machine(1, nic={"lazy_pointers": 0}), 1, 1)
    with_tail = passes_of(new_machine(1, nic={"valid_bits": 0}), 1, 1)
    cleared = passes_of(new_machine(1, nic={"sense_reverse": 0}), 1, 1)

    # Without lazy pointers the head moves to and fro for every entry,
    assert eager_head[DEVICE, UPGRADE] == eager_head[CPU, READ] == 64
    # without valid bits the tail does,
    assert with_tail[CPU, UPGRADE] - best[CPU, UPGRADE] == 64
    assert with_tail[DEVICE, READ] - best[DEVICE, READ] == 64
    # and without sense reverse the NIC takes every entry to clear it, and the CPU misses it.
    assert cleared[DEVICE, UPGRADE] - best[DEVICE, UPGRADE] == 64
    assert cleared[CPU, READ] - best[CPU, READ] == 64
