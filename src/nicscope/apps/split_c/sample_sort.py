"""Sample sort: keys between two splitters go to one process, which sorts them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.apps.split_c.keys import (
    KEY,
    SHORT,
    STORED,
    Landing,
    Tables,
    load,
    others,
    placed,
)
from nicscope.interfaces.unet.active_messages import HEADER, SLOT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.interfaces.ports.buffers import Buffer
    from nicscope.interfaces.unet import Process
    from nicscope.interfaces.unet.active_messages import ActiveMessages, Handler

SAMPLES = 64  # of each process
KEYS_OF_A_MESSAGE = (SLOT - HEADER.size) // KEY.itemsize


async def sample_sort(
    process: Process, messages: ActiveMessages, keys: NDArray[np.uint32], *, large: bool
) -> NDArray[np.uint32]:
    """Give the process its keys of all: those between its splitters, in order.

    ``large``: keys are put together by whom they go to, and stored from there; else they are sent
    as they come, up to twelve in a message of 64 bytes.
    """
    nodes = messages.nodes
    samples = Tables(messages, SAMPLES)
    await messages.barrier()
    drawn = np.sort(keys)[:: max(1, len(keys) // SAMPLES)][:SAMPLES]
    drawn = np.pad(drawn, (0, SAMPLES - len(drawn)), mode="edge")
    drawn = np.sort((await samples.exchange(drawn)).ravel())
    splitters = drawn[SAMPLES::SAMPLES][: nodes - 1]
    owner = np.searchsorted(splitters, keys, side="right")
    counts = np.zeros(SAMPLES, np.uint32)
    counts[:nodes] = np.bincount(owner, minlength=nodes)
    table = (await samples.exchange(counts)).astype(np.int64)[:, :nodes]
    expected = int(table[:, messages.node].sum())
    taken = process.allocate(max(1, expected) * KEY.itemsize)
    move = _by_large_messages if large else _by_small_messages
    await move(messages, taken, keys, owner, table)
    await messages.flush()
    await messages.barrier()
    found = np.sort(await load(taken, expected))
    await taken.write(found.tobytes())
    return await load(taken, expected)


async def _by_large_messages(
    messages: ActiveMessages,
    taken: Buffer,
    keys: NDArray[np.uint32],
    owner: NDArray[np.intp],
    table: NDArray[np.int64],
) -> None:
    me = messages.node
    landing = Landing(messages, [taken])
    ordered = messages.endpoint.allocate(len(keys) * KEY.itemsize)
    await ordered.write(keys[np.argsort(owner, kind="stable")].astype(KEY).tobytes())
    await messages.barrier()
    begins = np.concatenate([[0], np.cumsum(table[me])])
    for node in (me, *others(messages)):
        run = placed(ordered, int(begins[node]), int(table[me, node]))
        at = int(table[:me, node].sum()) * KEY.itemsize
        if node == me:
            await taken.write(await run.read(), at)
            landing.bytes_taken += len(run)
        else:
            await messages.store(node, STORED, at, run)
    await messages.wait_until(lambda: landing.bytes_taken == table[:, me].sum() * KEY.itemsize)


async def _by_small_messages(
    messages: ActiveMessages,
    taken: Buffer,
    keys: NDArray[np.uint32],
    owner: NDArray[np.intp],
    table: NDArray[np.int64],
) -> None:
    me = messages.node
    come = 0

    async def take(node: int, first: int, second: int, content: bytes) -> None:
        nonlocal come
        del node, first, second
        await taken.write(content, come)
        come += len(content)

    messages.on(SHORT, take)
    await messages.barrier()
    waiting: list[list[int]] = [[] for _ in range(messages.nodes)]
    for key, node in zip(keys.tolist(), owner.tolist(), strict=True):
        waiting[node].append(key)
        if len(waiting[node]) == KEYS_OF_A_MESSAGE:
            await _send_short(messages, take, node, waiting[node])
    for node in range(messages.nodes):
        await _send_short(messages, take, node, waiting[node])
    await messages.wait_until(lambda: come == table[:, me].sum() * KEY.itemsize)


async def _send_short(messages: ActiveMessages, take: Handler, node: int, keys: list[int]) -> None:
    content = np.array(keys, KEY).tobytes()
    keys.clear()
    if node == messages.node:
        await take(node, 0, 0, content)
    elif content:
        await messages.request(node, SHORT, 0, 0, content)
