"""LU: a dense matrix factored in blocks, each of which lies in one piece at its owner's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.apps.splash.process_grid import plane
from nicscope.apps.splash.program import SharedProgram, check_result
from nicscope.apps.svm.layout import PAGE, Layout
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from nicscope.apps.svm.layout import SharedArray
    from nicscope.apps.svm.process import Process
    from nicscope.apps.svm.running import Run

BLOCK = 32  # rows: two pages, so each is fetched once, as UTLB's Table 3 has it (derived)
LARGEST_ERROR = 1e-9  # of L times U beside the matrix


def lu(side: int, processes: int, seed: int = 0, block: int = BLOCK) -> SharedProgram:
    """The factors of a random matrix of ``side`` rows, in blocks of ``block`` rows.

    Block (I, J) is its owner's in a grid of processes, (J mod columns) + (I mod rows) x columns;
    an owner's blocks lie one behind the other from a page's begin on.
    """
    if side % block:
        raise SimulationError(f"lu: a side of {side:,} is no multiple of {block}")
    blocks = side // block
    rows, columns = plane(processes)
    owners = np.add.outer(np.arange(blocks) % rows * columns, np.arange(blocks) % columns)
    places, room = _placed(owners, processes, block)
    layout = Layout()
    matrix = layout.array("matrix", (room, block * block), np.float64)
    rng = np.random.default_rng(seed)
    given = rng.standard_normal((side, side)) + side * np.eye(side)  # needs no pivots

    def set_up(array_of: Callable[[SharedArray], NDArray[Any]]) -> None:
        array_of(matrix)[places.ravel()] = _in_blocks(given, block)

    async def read(me: Process, of: Iterable[tuple[int, int]]) -> NDArray[np.float64]:
        """Copies of some blocks, touched in that order."""
        elements = [places[at] for at in of]
        found = await me.gather_rows(matrix, np.array(elements))
        return found.reshape(-1, block, block)  # type: ignore[no-any-return]

    async def body(me: Process) -> None:
        for k in range(blocks):
            if owners[k, k] == me.number:
                view = await me.write_row(matrix, int(places[k, k]))
                _factor(view.reshape(block, block))
                me.work(block**3 // 3)
            await me.barrier()
            await _divide(me, k)
            await me.barrier()
            await _update(me, k)

    async def _divide(me: Process, k: int) -> None:
        """The process's blocks below and right of the diagonal one are divided by it."""
        below = [i for i in range(k + 1, blocks) if owners[i, k] == me.number]
        right = [j for j in range(k + 1, blocks) if owners[k, j] == me.number]
        if not below and not right:
            return
        diagonal = (await read(me, [(k, k)]))[0]
        upper = np.linalg.inv(np.triu(diagonal))
        lower = np.linalg.inv(np.tril(diagonal, -1) + np.eye(block))
        for i in below:
            view = (await me.write_row(matrix, int(places[i, k]))).reshape(block, block)
            view[:] = view @ upper
            me.work(block**3)
        for j in right:
            view = (await me.write_row(matrix, int(places[k, j]))).reshape(block, block)
            view[:] = lower @ view
            me.work(block**3)

    async def _update(me: Process, k: int) -> None:
        """The process's blocks behind lose what those two of them make."""
        mine_i = [i for i in range(k + 1, blocks) if (owners[i, k + 1 :] == me.number).any()]
        mine_j = [j for j in range(k + 1, blocks) if (owners[k + 1 :, j] == me.number).any()]
        if not mine_i:
            return
        right = await read(me, [(k, j) for j in mine_j])
        for i in mine_i:
            left = (await read(me, [(i, k)]))[0]
            at = places[i, mine_j]
            own = await me.write_rows(matrix, at)
            own[at] -= (left @ right).reshape(len(at), -1)
            me.work(2 * block**3 * len(at))
        await me.compute()

    def check(run: Run) -> None:
        found = _in_one(run.array(matrix)[places.ravel()], blocks, block)
        lower, upper = np.tril(found, -1) + np.eye(side), np.triu(found)
        error = np.abs(lower @ upper - given).max() / side
        check_result(error < LARGEST_ERROR, "lu", f"L times U is off by {error:.1e}")

    return SharedProgram("lu", f"{side:,} x {side:,}", layout, set_up, body, check)


def _placed(owners: NDArray[np.int64], processes: int, block: int) -> tuple[NDArray[np.int64], int]:
    """Where each block lies, in blocks; and how much room all take."""
    of_page = max(1, PAGE // (block * block * 8))
    places = np.empty_like(owners)
    used = 0
    for process in range(processes):
        mine = np.argwhere(process == owners.T)  # column by column
        places[mine[:, 1], mine[:, 0]] = used + np.arange(len(mine))
        used += -(-len(mine) // of_page) * of_page
    return places, used


def _factor(block: NDArray[np.float64]) -> None:
    """L and U in place of one block."""
    for k in range(len(block) - 1):
        block[k + 1 :, k] /= block[k, k]
        block[k + 1 :, k + 1 :] -= np.outer(block[k + 1 :, k], block[k, k + 1 :])


def _in_blocks(matrix: NDArray[np.float64], block: int) -> NDArray[np.float64]:
    many = len(matrix) // block
    return matrix.reshape(many, block, many, block).swapaxes(1, 2).reshape(many * many, -1)


def _in_one(blocks: NDArray[np.float64], many: int, block: int) -> NDArray[np.float64]:
    return blocks.reshape(many, many, block, block).swapaxes(1, 2).reshape(many * block, -1)
