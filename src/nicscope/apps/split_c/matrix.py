"""Blocked matrix multiply: each process makes some blocks of the product from others' blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.interfaces.unet import Process
    from nicscope.interfaces.unet.active_messages import ActiveMessages

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
