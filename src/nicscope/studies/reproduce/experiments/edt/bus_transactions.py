"""Section 5: bus transactions of EDT and of coherent queues, counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.drivers.coherent.boundary import Boundary
from nicscope.drivers.coherent.machine import new_machine
from nicscope.drivers.coherent.patterns import SEQUENTIAL, STRIDED, write_in_order
from nicscope.memory.coherence.layout import CPU, DEVICE, INTERVENTION, READ, UPGRADE
from nicscope.nic.coherent.mechanism import Mechanism
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nicscope.nic.ways.hosts import AtBuses
    from nicscope.studies.reproduce.verdict import Item

BLOCK = 128
WORDS = 32  # of 4 bytes in a block
MOST_BLOCKS = 64
LONG = 1_000_000  # ps; longer than a block takes to reach the NIC
PASSES = 4


def run(item: Item) -> Outcome:  # noqa: ARG001 - every experiment is given its item
    """Count on a warm machine; a number that is not the same everywhere is shown as its mean."""
    outcome = Outcome()
    machine, now = _warm()
    best, worst = [], []
    for blocks in range(1, MOST_BLOCKS + 1):
        for words in range(2, WORDS + 1):
            now += LONG
            count, now = _count(machine, SEQUENTIAL, blocks, words, 0, now)
            best.append(count / blocks)
            now += LONG
            count, now = _count(machine, STRIDED, blocks, words, LONG, now)
            worst.append(count / (blocks * words))
    outcome.point("edt_best", "transactions/block", _agreed(best))
    outcome.point("edt_worst", "transactions/word", _agreed(worst))
    per_block, extra = _queue()
    outcome.point("cni_best", "transactions/block", per_block)
    outcome.point("cni_extra", "invalidations/pass", extra)
    return outcome


def _agreed(counts: Iterable[float]) -> float:
    """The one number of all, or else their mean, which then is not whole."""
    return float(np.mean(list(counts)))


def _transactions(machine: AtBuses) -> int:
    counts = machine.hosts.counts[0]
    return int(counts.sum() - counts[:, INTERVENTION].sum())


def _warm() -> tuple[AtBuses, int]:
    """A registered region of which host and NIC both have every block."""
    machine = new_machine(1)
    _, now = Boundary(machine, 0, Mechanism.EDT).register(0, MOST_BLOCKS * BLOCK, 0)
    _, now = _count(machine, SEQUENTIAL, MOST_BLOCKS, WORDS, 0, int(now))
    return machine, now


def _count(
    machine: AtBuses, order: int, blocks: int, words: int, pause: int, now: int
) -> tuple[int, int]:
    """Transactions of a message written in that order and fetched, and when it was."""
    payload = np.arange(blocks * BLOCK, dtype=np.int64).astype(np.uint8)
    machine.hosts.counts[:] = 0
    now = write_in_order(machine, 0, order, (blocks, words), 0, payload, pause, now)
    end = Boundary(machine, 0, Mechanism.EDT).fetch(0, blocks * BLOCK, 0, now)
    return _transactions(machine), end


def _queue() -> tuple[float, float]:
    """Transactions per block, pointers aside, and invalidations per pass beside the blocks'."""
    machine = new_machine(1)
    entries = int(machine.nics.config[0, 0]["queue_blocks"])
    node = Boundary(machine, 0, Mechanism.CNI)
    now = 0
    for _ in range(3 * entries):
        now = _send_entry(node, now)
    machine.hosts.counts[:] = 0
    for _ in range(PASSES * entries):
        now = _send_entry(node, now)
    counts = machine.hosts.counts[0]
    blocks = PASSES * entries
    extra = int(counts[:, UPGRADE].sum()) - blocks
    return (int(counts[CPU, UPGRADE]) + int(counts[DEVICE, READ])) / blocks, extra / PASSES


def _send_entry(node: Boundary, now: int) -> int:
    """A message that fills one entry, written and taken."""
    count = BLOCK - 4
    return node.fetch(0, count, 0, node.publish(0, count, 0, now))
