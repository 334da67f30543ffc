"""The programs of U-Net/MM's section 6.2, on Active Messages.

A blocked matrix multiply, a radix sort, and a sample sort by small messages or by large ones.
Each is a coroutine of one process on each node.  It returns what it made, as it then lies in the
process's memory; whoever runs it checks that.  What a CPU computes takes no time: only messages
and the copies of Active Messages do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.interfaces.active_messages import HEADER, SLOT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nicscope.interfaces.active_messages import ActiveMessages, Handler
    from nicscope.interfaces.ports.memory import Buffer
    from nicscope.interfaces.unet import Process


KEY = np.dtype("<u4")
TABLES = 16  # handlers
STORED = 17
SHORT = 18


async def load(memory: Buffer, count: int) -> NDArray[np.uint32]:
    """The first ``count`` keys of ``memory``."""
    return np.frombuffer(await memory.read(count * KEY.itemsize), KEY)


def placed(memory: Buffer, first: int, count: int) -> Buffer:
    """The address and bytes of ``count`` keys from the ``first`` on."""
    return memory.part(first * KEY.itemsize, count * KEY.itemsize)


class Tables:
    """Repeated all-to-all exchange of a table of numbers."""

    def __init__(self, messages: ActiveMessages, length: int) -> None:
        self._messages = messages
        self._bytes = length * KEY.itemsize
        self._mine = messages.endpoint.allocate(self._bytes)
        self._theirs: list[dict[int, bytearray]] = [{}, {}]  # those that come before their turn
        self._got = [0, 0]
        self._round = 0
        messages.on(TABLES, self._take)

    async def exchange(self, table: NDArray[Any]) -> NDArray[np.uint32]:
        """All processes' tables, a row each."""
        messages, turn = self._messages, self._round % 2
        await messages.flush()  # the last round's have been read
        await self._mine.write(table.astype(KEY).tobytes())
        for node in others(messages):
            await messages.store(node, TABLES, 0, self._mine, turn)
        await messages.wait_until(lambda: self._got[turn] == (messages.nodes - 1) * self._bytes)
        self._theirs[turn][messages.node] = bytearray(table.astype(KEY).tobytes())
        found = [
            np.frombuffer(bytes(self._theirs[turn][node]), KEY) for node in range(messages.nodes)
        ]
        self._theirs[turn], self._got[turn] = {}, 0
        self._round += 1
        return np.stack(found)

    async def _take(self, node: int, first: int, second: int, content: bytes) -> None:
        table = self._theirs[second].setdefault(node, bytearray(self._bytes))
        table[first : first + len(content)] = content
        self._got[second] += len(content)


class Landing:
    """Receive memory for keys: several stretches, one after the other."""

    def __init__(self, messages: ActiveMessages, stretches: Sequence[Buffer]) -> None:
        self.stretches = stretches
        self.bytes_taken = 0
        messages.on(STORED, self._take)

    async def _take(self, node: int, first: int, second: int, content: bytes) -> None:
        del node
        await self.stretches[second].write(content, first)
        self.bytes_taken += len(content)


def others(messages: ActiveMessages) -> list[int]:
    """All other nodes, starting with the next, so that sends spread out."""
    return [(messages.node + step) % messages.nodes for step in range(1, messages.nodes)]


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
    """Send a run, whose first key is the ``place``-th of all, to the owners of its keys."""
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


DOUBLE = 8  # bytes
LEFT, RIGHT = 0, 1  # what the factors are called


class Blocking(NamedTuple):
    """A matrix of ``blocks`` by ``blocks`` blocks of ``size`` by ``size`` doubles."""

    blocks: int
    size: int

    @property
    def block_bytes(self) -> int:
        """Bytes of a block."""
        return self.size * self.size * DOUBLE

    def owned(self, node: int, nodes: int) -> range:
        """Numbers, row by row, of the blocks that ``node`` has: every ``nodes``-th."""
        return range(node, self.blocks * self.blocks, nodes)

    def block(self, matrix: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        """Block ``number`` of ``matrix``, a view."""
        row, column = divmod(number, self.blocks)
        rows = slice(row * self.size, (row + 1) * self.size)
        return matrix[rows, column * self.size : (column + 1) * self.size]


async def multiply(
    process: Process,
    messages: ActiveMessages,
    blocking: Blocking,
    factors: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> dict[int, NDArray[np.float64]]:
    """Make the process's blocks of the product, by number.

    Of ``factors`` it puts its own blocks into its memory; all others it gets from their owners,
    each time that it needs one.
    """
    nodes, size = messages.nodes, blocking.block_bytes
    owned = blocking.owned(process.node, nodes)
    for name, factor in zip((LEFT, RIGHT), factors, strict=True):
        memory = process.allocate(max(1, len(owned)) * size)
        for place, number in enumerate(owned):
            await memory.write(blocking.block(factor, number).tobytes(), place * size)
        messages.show(name, memory)
    room = process.allocate(2 * size)
    rooms = (room.part(0, size), room.part(size, size))
    await messages.barrier()
    product = {}
    for number in owned:
        row, column = divmod(number, blocking.blocks)
        total = np.zeros((blocking.size, blocking.size))
        for inner in range(blocking.blocks):
            wanted = (row * blocking.blocks + inner, inner * blocking.blocks + column)
            pair = []
            for name, other, into in zip((LEFT, RIGHT), wanted, rooms, strict=True):
                await messages.get(other % nodes, name, other // nodes * size, into)
                pair.append(np.frombuffer(await into.read()).reshape(total.shape))
            total += pair[0] @ pair[1]
        product[number] = total
    await messages.barrier()
    return product
