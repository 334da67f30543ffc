"""A program that writes its buffer in a given order, for the transactions that the order costs."""

from __future__ import annotations

from nicscope.drivers.coherent.machine import node_of
from nicscope.drivers.coherent.words import store_words
from nicscope.kernel.decorators import kernel

SEQUENTIAL = 0  # word after word
STRIDED = 1  # the first word of every block, then the second of every block, and so on


@kernel
def write_in_order(machine, n, order, shape, address, payload, pause, now):
    """When ``blocks`` blocks from ``address`` on have ``words`` words each (ps).

    ``shape`` is (blocks, words); the program pauses for ``pause`` ps after each word.  The words
    are those at the same places of ``payload``.  Source: EDT, 5.
    """
    node = node_of(machine, n)
    blocks, words = shape
    word = node.host.config[0].word
    block = node.nic.config[0].block
    for i in range(blocks * words):
        b = i // words if order == SEQUENTIAL else i % blocks
        w = i % words if order == SEQUENTIAL else i // blocks
        place = b * block + w * word
        now = store_words(node.host, node.agent, address + place, payload, place, word, now)
        now += pause
    return now
