"""FFT: the six-step algorithm on a matrix of complex numbers, with three transposes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.apps.splash.program import SharedProgram, check_result
from nicscope.apps.svm.domain import PAGE, Layout
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nicscope.apps.svm.domain import SharedArray
    from nicscope.apps.svm.process import Process, Run

ELEMENT = np.dtype(np.complex128)
LINE = 64  # bytes of a cache line, which rows are padded by so that columns spread over sets
LARGEST_ERROR = 1e-9  # beside the largest element


def fft(points: int, processes: int, seed: int = 0) -> SharedProgram:
    """The FFT of ``points`` random numbers, a square of whole rows for each process.

    Rows belong to processes in order.  The shares of processes begin with pages, and rows are
    padded, as the original has them: so a row's part for one node covers three pages, not two.
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
    x, trans, roots = (
        layout.array(name, (side, width), ELEMENT) for name in ("x", "trans", "roots")
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

    async def transform_rows(me: Process, array: SharedArray, *, twiddle: bool) -> None:
        for row in _share(me.number, each):
            first, last = row * width, row * width + side
            factors = (await me.read(roots, first, last)).copy() if twiddle else None
            values = await me.write(array, first, last)
            values[:] = np.fft.fft(values)
            if factors is not None:
                values *= factors
            me.work(2 * side * max(1, side.bit_length() - 1))

    async def body(me: Process) -> None:
        mine = _share(me.number, each)
        for array in (x, trans, roots):  # their homes are here
            await me.write(array, mine.start * width, mine.stop * width)
        await me.barrier()
        await transpose(me, x, trans)
        await transform_rows(me, trans, twiddle=True)
        await me.barrier()
        await transpose(me, trans, x)
        await transform_rows(me, x, twiddle=False)
        await me.barrier()
        await transpose(me, x, trans)

    def check(run: Run) -> None:
        wanted = np.fft.fft(given.ravel())
        found = run.array(trans)[:, :side].ravel()
        error = np.abs(found - wanted).max() / np.abs(wanted).max()
        check_result(
            error < LARGEST_ERROR, "fft", f"an element is off by {error:.1e} of the largest"
        )

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
