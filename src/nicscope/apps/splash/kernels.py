"""SPLASH-2's kernels: FFT in six steps, radix sort digit by digit, LU factorization by blocks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.apps.splash.ocean import plane
from nicscope.apps.splash.program import SharedProgram, check_result
from nicscope.apps.svm.memory import PAGE, Layout, SharedArray
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nicscope.apps.svm.process import Process, Run


ELEMENT = np.dtype(np.complex128)
# Bytes of a cache line, which rows are padded by so that columns spread over sets: a Pentium Pro's.
LINE = 32
FFT_ERROR = 1e-9  # beside the largest element


def fft(points: int, processes: int, seed: int = 0, forth_and_back: int = 0) -> SharedProgram:
    """The FFT of ``points`` random numbers, a square of whole rows for each process.

    Rows belong to processes in order.  The shares of processes begin with pages, and rows are
    padded, as the original has them: so a row's part for one node covers three pages, not two.

    SPLASH-2's FFT1D transposes three times.  ``forth_and_back``, if not 0: the square is
    transformed in two dimensions and back again, by four transposes, which fetch every page twice.
    """
    side = math.isqrt(points)
    if side * side != points or side % processes:
        nearest = max(1, round(points**0.5 / processes)) * processes
        raise SimulationError(
            f"fft: {points:,} points are no square whose side {processes} processes can share; "
            f"{nearest**2:,} are"
        )
    each = side // processes
    width = side + _padding(side, each)
    layout = Layout()
    # The original asks for a page more of each, as it rounds their begins up to the next page's.
    x, trans, roots = (
        layout.array(name, (side, width), ELEMENT, pages_after=1)
        for name in ("x", "trans", "roots")
    )
    rng = np.random.default_rng(seed)
    given = rng.standard_normal((side, side)) + 1j * rng.standard_normal((side, side))

    def set_up(array_of: Callable[[SharedArray], NDArray[Any]]) -> None:
        array_of(x)[:, :side] = given
        index = np.arange(side)
        array_of(roots)[:, :side] = np.exp(-2j * np.pi / points * np.outer(index, index))

    async def transpose(me: Process, source: SharedArray, target: SharedArray) -> None:
        """The process's rows of ``target`` are its columns of ``source``, others' first."""
        mine = _share(me.number, each)
        for step in range(1, processes + 1):
            theirs = _share((me.number + step) % processes, each)
            block = (await me.read_block(source, theirs, mine)).T.copy()
            (await me.write_block(target, mine, theirs))[:] = block

    async def transform_rows(
        me: Process, array: SharedArray, *, twiddle: bool = False, back: bool = False
    ) -> None:
        for row in _share(me.number, each):
            first, last = row * width, row * width + side
            factors = (await me.read(roots, first, last)).copy() if twiddle else None
            values = await me.write(array, first, last)
            values[:] = np.fft.ifft(values) if back else np.fft.fft(values)
            if factors is not None:
                values *= factors
            me.work(2 * side * max(1, side.bit_length() - 1))

    async def body(me: Process) -> NDArray[Any] | None:
        mine = _share(me.number, each)
        for array in (x, trans, roots):  # their homes are here
            await me.write(array, mine.start * width, mine.stop * width)
        await me.barrier()
        if forth_and_back:
            await transform_columns_and_rows(me, back=False)
            first = mine.start * width
            found: NDArray[Any] = (await me.read(x, first, first + side)).copy()
            await transform_columns_and_rows(me, back=True)
            return found
        await transpose(me, x, trans)
        await transform_rows(me, trans, twiddle=True)
        await me.barrier()
        await transpose(me, trans, x)
        await transform_rows(me, x)
        await me.barrier()
        await transpose(me, x, trans)
        return None

    async def transform_columns_and_rows(me: Process, *, back: bool) -> None:
        for source, target in ((x, trans), (trans, x)):
            await transpose(me, source, target)
            await transform_rows(me, target, back=back)
            await me.barrier()

    def check(run: Run) -> None:
        if forth_and_back:  # of the transform each process tells its first row
            wanted = np.concatenate([np.fft.fft2(given)[::each], given]).ravel()
            rows = [np.asarray(row) for row in run.results]
            found = np.concatenate([*rows, run.array(x)[:, :side].ravel()])
        else:
            wanted = np.fft.fft(given.ravel())
            found = run.array(trans)[:, :side].ravel()
        error = np.abs(found - wanted).max() / np.abs(wanted).max()
        check_result(error < FFT_ERROR, "fft", f"an element is off by {error:.1e} of the largest")

    return SharedProgram("fft", f"{points:,} points", layout, set_up, body, check)


def _share(process: int, each: int) -> range:
    return range(process * each, (process + 1) * each)


def _padding(side: int, each: int) -> int:
    """Padding elements per row: a line, rounded up so that a process's rows are whole pages."""
    size = ELEMENT.itemsize
    if side * each * size < PAGE:
        return (PAGE - side * each * size) // (size * each)
    padding = LINE // size
    return -(-padding * size * each // PAGE) * PAGE // (size * each)


# Keys are below.  SPLASH-2's default is 2^19, which two digits sort: by that a process has two
# thirds of the pages that UTLB's Table 3 prints, and by three a seventh more.
MOST_KEY = 1 << 26
DIGITS = 1 << 10


def radix(keys: int, processes: int, seed: int = 0, digits: int = DIGITS) -> SharedProgram:
    """Sort ``keys`` random integers by digits of ``digits`` values.

    A key is the mean of four random numbers, as in SPLASH-2's radix.C: most are of middle size, so
    the middle values of the last digit have more keys than the first and the last.
    """
    if keys < processes:
        raise SimulationError(f"radix: {keys:,} keys are fewer than {processes} processes")
    bits = digits.bit_length() - 1
    passes = -(-(MOST_KEY.bit_length() - 1) // bits)
    layout = Layout()
    arrays = [layout.array(name, keys, np.uint32) for name in ("keys", "others")]
    counts = layout.array("counts", (processes, digits), np.uint32)
    drawn = np.random.default_rng(seed).random((4, keys))
    given = (drawn.mean(axis=0) * MOST_KEY).astype(np.uint32)

    def set_up(array_of: Callable[[SharedArray], NDArray[Any]]) -> None:
        array_of(arrays[0])[:] = given

    async def body(me: Process) -> None:
        first, last = (keys * each // processes for each in (me.number, me.number + 1))
        for turn in range(passes):
            source, target = arrays[turn % 2], arrays[(turn + 1) % 2]
            mine = (await me.read(source, first, last)).copy()
            digit = mine >> np.uint32(turn * bits) & np.uint32(digits - 1)
            me.work(2 * len(mine))
            row = await me.write(counts, me.number * digits, (me.number + 1) * digits)
            row[:] = np.bincount(digit, minlength=digits)
            await me.barrier()
            every = (await me.read(counts)).reshape(processes, digits).astype(np.int64)
            await me.scatter(target, _places(every, me.number, digit), mine)
            await me.barrier()

    def check(run: Run) -> None:
        found = run.array(arrays[passes % 2])
        check_result((found == np.sort(given)).all(), "radix", "the keys are not in order")

    return SharedProgram("radix", f"{keys:,} keys", layout, set_up, body, check)


def _places(
    counts: NDArray[np.int64], process: int, digit: NDArray[np.uint32]
) -> NDArray[np.int64]:
    """The position of each key of ``process``: after lower digits and lower processes."""
    before = np.concatenate([[0], np.cumsum(counts.sum(axis=0))[:-1]])
    before += counts[:process].sum(axis=0)
    # NumPy sorts numbers of 16 bits by counting.
    few = digit.astype(np.uint16) if counts.shape[1] <= 1 << 16 else digit
    order = np.argsort(few, kind="stable")
    places = np.empty(len(digit), np.int64)
    own = counts[process]
    within = np.arange(len(digit)) - np.repeat(np.cumsum(own) - own, own)
    places[order] = before[digit[order]] + within
    return places


BLOCK = 16  # rows
LU_ERROR = 1e-9  # of L times U beside the matrix
TRIED = 8  # vectors that both are multiplied by, as their product would take the run's time again


def lu(side: int, processes: int, seed: int = 0, block: int = BLOCK) -> SharedProgram:
    """Factor a random matrix of ``side`` rows, in blocks of ``block`` rows.

    Block (I, J) is its owner's in a grid of processes, (J mod columns) + (I mod rows) x columns;
    an owner's blocks lie row by row, one behind the other, from a page's begin on.  Which block
    lies where stands in a table, column by column.  The last blocks of a side that is no multiple
    are as large as the others, behind it ones on the diagonal.
    """
    if side < 1:
        raise SimulationError(f"lu: a matrix of {side} rows is none")
    blocks = -(-side // block)
    rows, columns = plane(processes)
    owners = np.add.outer(np.arange(blocks) % rows * columns, np.arange(blocks) % columns)
    places, room = _placed(owners, processes, block)
    layout = Layout()
    table = layout.array("table", blocks * blocks, np.int64)
    matrix = layout.array("matrix", (room, block * block), np.float64)
    rng = np.random.default_rng(seed)
    given = rng.standard_normal((side, side)) + side * np.eye(side)  # needs no pivots

    def set_up(array_of: Callable[[SharedArray], NDArray[Any]]) -> None:
        array_of(table)[:] = places.T.ravel()
        whole = np.eye(blocks * block)
        whole[:side, :side] = given
        parts = whole.reshape(blocks, block, blocks, block).swapaxes(1, 2)
        array_of(matrix)[places.ravel()] = parts.reshape(blocks * blocks, -1)

    async def find(me: Process, i: Any, j: Any) -> NDArray[np.int64]:
        """Where blocks lie."""
        return await me.gather(table, np.atleast_1d(j * blocks + i))  # type: ignore[no-any-return]

    async def read(me: Process, i: Any, j: Any) -> NDArray[np.float64]:
        """Copies of some blocks, touched in that order."""
        found = await me.gather_rows(matrix, await find(me, i, j))
        return found.reshape(-1, block, block)  # type: ignore[no-any-return]

    async def write(me: Process, i: int, j: int) -> Any:
        return (await me.write_row(matrix, int((await find(me, i, j))[0]))).reshape(block, block)

    async def body(me: Process) -> None:
        mine = np.argwhere(owners == me.number)
        if len(mine):  # their homes are here
            await me.write_rows(matrix, await find(me, *mine.T))
        await me.barrier()
        for k in range(blocks):
            if owners[k, k] == me.number:
                _factor(await write(me, k, k))
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
        diagonal = (await read(me, k, k))[0]
        upper = np.linalg.inv(np.triu(diagonal))
        lower = np.linalg.inv(np.tril(diagonal, -1) + np.eye(block))
        for i in below:
            view = await write(me, i, k)
            view[:] = view @ upper
            me.work(block**3)
        for j in right:
            view = await write(me, k, j)
            view[:] = lower @ view
            me.work(block**3)

    async def _update(me: Process, k: int) -> None:
        """The process's blocks behind lose what those two of them make."""
        grid_row, grid_column = divmod(me.number, columns)
        mine_i = np.arange(blocks)[k + 1 :][np.arange(k + 1, blocks) % rows == grid_row]
        mine_j = np.arange(blocks)[k + 1 :][np.arange(k + 1, blocks) % columns == grid_column]
        if not len(mine_i) or not len(mine_j):
            return
        left = [await read(me, mine_i[:1], k)]
        right = await read(me, k, mine_j)
        at = []
        for i in mine_i.tolist():
            if i > mine_i[0]:
                left.append(await read(me, np.array([i]), k))
            at.append(await find(me, i, mine_j))
            await me.write_rows(matrix, at[-1])
            me.work(2 * block**3 * len(mine_j))
        own = (await me.write_rows(matrix, np.concatenate(at))).reshape(-1, block, block)
        for part, places in zip(left, at, strict=True):  # of a row, one behind the other
            own[places[0] : places[-1] + 1] -= part @ right
        await me.compute()

    def check(run: Run) -> None:
        parts = run.array(matrix)[places.ravel()].reshape(blocks, blocks, block, block)
        found = parts.swapaxes(1, 2).reshape(blocks * block, -1)[:side, :side]
        lower, upper = np.tril(found, -1) + np.eye(side), np.triu(found)
        vectors = rng.standard_normal((side, TRIED))
        error = np.abs(lower @ (upper @ vectors) - given @ vectors).max() / side
        check_result(error < LU_ERROR, "lu", f"L times U is off by {error:.1e}")

    return SharedProgram("lu", f"{side:,} x {side:,}", layout, set_up, body, check)


def _placed(owners: NDArray[np.int64], processes: int, block: int) -> tuple[NDArray[np.int64], int]:
    """The position of each block, in blocks, and the size of all of them."""
    of_page = max(1, PAGE // (block * block * 8))
    places = np.empty_like(owners)
    used = 0
    for process in range(processes):
        mine = np.argwhere(process == owners)  # row by row
        places[mine[:, 0], mine[:, 1]] = used + np.arange(len(mine))
        used += -(-len(mine) // of_page) * of_page
    return places, used


def _factor(block: NDArray[np.float64]) -> None:
    """L and U in place of one block."""
    for k in range(len(block) - 1):
        block[k + 1 :, k] /= block[k, k]
        block[k + 1 :, k + 1 :] -= np.outer(block[k + 1 :, k], block[k, k + 1 :])
