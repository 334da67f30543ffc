"""Radix sort by large messages: digit by digit, each key to the place that it has among all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.apps.split_c.keys import KEY, STORED, Landing, Tables, load, placed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.interfaces.ports.buffers import Buffer
    from nicscope.interfaces.unet import Process
    from nicscope.interfaces.unet.active_messages import ActiveMessages


async def radix_sort(
    process: Process,
    messages: ActiveMessages,
    keys: NDArray[np.uint32],
    digits: int = 4,
    digit_bits: int = 8,
) -> NDArray[np.uint32]:
    """Give the process its share of all keys in order; every process brings as many.

    Of each key ``digits`` digits of ``digit_bits`` bits count.  For each, the process puts its
    keys in order of the digit, and stores each run to where it belongs.
    """
    many = len(keys)
    ordered = messages.endpoint.allocate(many * KEY.itemsize)  # from here keys are sent
    arrays = [process.allocate(many * KEY.itemsize) for _ in range(2)]
    landing = Landing(messages, arrays)
    tables = Tables(messages, 1 << digit_bits)
    await arrays[0].write(keys.astype(KEY).tobytes())
    await messages.barrier()
    expected = 0
    for turn in range(digits):
        mine = await load(arrays[turn % 2], many)
        digit = mine >> (turn * digit_bits) & ((1 << digit_bits) - 1)
        counts = await tables.exchange(np.bincount(digit, minlength=1 << digit_bits))
        await messages.flush()
        await ordered.write(mine[np.argsort(digit, kind="stable")].tobytes())
        expected += many * KEY.itemsize
        first = 0
        for value, place in enumerate(_places(counts, messages.node)):
            run = int(counts[messages.node, value])
            await _store(
                messages, landing, (turn + 1) % 2, many, place, placed(ordered, first, run)
            )
            first += run
        await messages.wait_until(lambda: landing.bytes_taken == expected)  # noqa: B023
    await messages.flush()
    await messages.barrier()
    return await load(arrays[digits % 2], many)


def _places(counts: NDArray[np.uint32], node: int) -> list[int]:
    """Where among all keys the node's run of each digit begins: after lower digits and nodes."""
    by_digit = counts.astype(np.int64)
    before = np.concatenate([[0], np.cumsum(by_digit.sum(axis=0))[:-1]])
    places: list[int] = (before + by_digit[:node].sum(axis=0)).tolist()
    return places


async def _store(
    messages: ActiveMessages, landing: Landing, stretch: int, many: int, place: int, run: Buffer
) -> None:
    """Send a run, whose first key is the ``place``-th of all, to whom its keys belong."""
    sent = 0
    while sent < len(run):
        node, at = divmod(place + sent // KEY.itemsize, many)
        part = run.part(sent, min(len(run) - sent, (many - at) * KEY.itemsize))
        if node == messages.node:
            await landing.stretches[stretch].write(await part.read(), at * KEY.itemsize)
            landing.bytes_taken += len(part)
        else:
            await messages.store(node, STORED, at * KEY.itemsize, part, stretch)
        sent += len(part)
