"""Coherence is safe: whatever CPU, DMA engine and NIC do, every read returns the last write."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba.core import config
from random_program import (
    AGENT_READ,
    AGENT_WRITE,
    BYTES,
    CPU_READ,
    CPU_WRITE,
    DELIVER,
    DMA_FROM_HOST,
    DMA_TO_HOST,
    FINE,
    FLUSH,
    KINDS,
    REGISTER,
    STALE_IN_CACHE,
    STALE_IN_MEMORY,
    STALE_ON_NIC,
    TWO_OWNERS,
    WIDTH,
    perform,
    small_machine,
)

from nicscope.drivers.coherent.machine import node_view
from oracle.coherence import PlainMemory

STEPS = 2_000 if config.DISABLE_JIT else 1_000_000
READS = (CPU_READ, DMA_FROM_HOST, AGENT_READ)
WRITES = (CPU_WRITE, DMA_TO_HOST, AGENT_WRITE, DELIVER)

steps = st.lists(
    st.tuples(
        st.sampled_from((*range(KINDS), CPU_WRITE, CPU_WRITE, AGENT_READ)),
        st.integers(0, BYTES - 8 * WIDTH) | st.integers(0, 300),
        st.integers(1, WIDTH),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=60,
)
interfaces = st.fixed_dictionaries(
    {
        "reaction": st.sampled_from((0, 40_000, 500_000)),
        "read_window": st.integers(1, 3),
        "dma_window": st.integers(1, 3),
        "dma_mbytes_s": st.sampled_from((1600, 700)),
        "initialisation": st.integers(1, 2),
        "when_full": st.integers(1, 2),
        "fill_then_invalidate": st.integers(0, 1),
    }
)


def run(machine, program, data, every=1):
    """The failing step and what failed, the reads, and the sequential memory."""
    truth = np.zeros(BYTES, np.uint8)
    results = np.zeros(program.shape[0] * WIDTH, np.uint8)
    step, found, end = perform(machine, program, data, truth, results, every, 0)
    return (step, found), results.reshape(-1, WIDTH), truth, end


def bytes_for(program, seed):
    return np.random.default_rng(seed).integers(0, 256, (len(program), WIDTH), np.uint8)


@pytest.mark.requirement("SH-8", "ED-10", "ED-17", "ED-20", "ED-21", "ED-30", "ED-31")
@given(program=steps, nic=interfaces, seed=st.integers(0, 9))
def test_every_read_of_a_random_program_returns_the_last_write(program, nic, seed):
    data = bytes_for(program, seed)
    plain = PlainMemory()

    verdict, results, _, _ = run(small_machine(**nic), np.array(program, np.int64), data)

    assert verdict == (-1, FINE)
    for i, (kind, address, count, _) in enumerate(program):
        if kind in WRITES:
            plain.write(address, data[i, :count].tolist())
        elif kind in READS:
            assert results[i, :count].tobytes() == plain.read(address, count)


@pytest.mark.requirement("SH-8")
@pytest.mark.parametrize("fill_then_invalidate", [0, 1])
def test_a_million_steps_keep_every_copy_coherent(fill_then_invalidate):
    rng = np.random.default_rng(7 + fill_then_invalidate)
    rare = np.array([CPU_WRITE] * 8 + [CPU_READ] * 6 + [AGENT_READ] * 3 + list(range(KINDS)))
    count = STEPS
    program = np.column_stack(
        [
            rng.choice(rare, count),
            rng.integers(0, BYTES - 8 * WIDTH, count) >> rng.integers(0, 4, count),
            rng.integers(1, WIDTH + 1, count),
            rng.integers(0, 3, count),
        ]
    ).astype(np.int64)
    machine = small_machine(fill_then_invalidate=fill_then_invalidate)

    verdict, _, _, _ = run(machine, program, bytes_for(program, 1), every=5)

    assert verdict == (-1, FINE)
    node = node_view(machine, 0)
    counts = node.host.counts.sum(0)
    assert (counts[[0, 2, 3, 4, 5, 9]] > count // 100).all(), "every kind of traffic took part"
    assert node.nic.registers[0]["registrations"] > count // 1000
    assert node.host.registers[0]["evictions"] > count // 100


@pytest.mark.requirement("SH-8")
@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (lambda node: node.agent.memory.__setitem__(slice(None), 99), STALE_ON_NIC),
        (lambda node: node.host.l1_data.__setitem__(slice(None), 99), STALE_IN_CACHE),
        (lambda node: node.host.memory.__setitem__(slice(None), 99), STALE_IN_MEMORY),
        (lambda node: node.host.l2["state"].__setitem__(slice(None), 3), TWO_OWNERS),
    ],
)
def test_a_fault_in_any_copy_is_seen(spoil, found):
    # What the checks above would find, were something wrong: each is seen to fail here.
    machine = small_machine(initialisation=2)
    data = np.full((2, WIDTH), 5, np.uint8)
    setup = np.array([(REGISTER, 0, 16, 0), (CPU_READ, 0, 16, 0)], np.int64)
    assert run(machine, setup, data)[0] == (-1, FINE)

    spoil(node_view(machine, 0))
    verdict = run(machine, np.array([(FLUSH, 1500, 1, 0)], np.int64), data)[0]

    assert verdict == (0, found)


@pytest.mark.requirement("ED-20")
def test_nothing_dirty_is_lost_when_blocks_leave_the_caches():
    addresses = range(0, BYTES - 8 * WIDTH, 40)
    program = np.array([(CPU_WRITE, a, WIDTH, 0) for a in addresses], np.int64)
    flushes = np.array([(FLUSH, a, WIDTH, 0) for a in addresses], np.int64)
    machine = small_machine()
    data = bytes_for(program, 3)

    _, _, truth, end = run(machine, program, data)
    perform(machine, flushes, data, truth, np.zeros(flushes.shape[0] * WIDTH, np.uint8), 1, end)

    assert (machine.hosts.memory[0, :BYTES] == truth).all()
    assert truth.any()
