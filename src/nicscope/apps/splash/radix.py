"""Radix: integer sort digit by digit, each key written to its global position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.apps.splash.program import SharedProgram, check_result
from nicscope.apps.svm.domain import Layout
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nicscope.apps.svm.domain import SharedArray
    from nicscope.apps.svm.process import Process, Run

MOST_KEY = 1 << 26  # keys are below; as the original has it
DIGITS = 1 << 10


def radix(keys: int, processes: int, seed: int = 0, digits: int = DIGITS) -> SharedProgram:
    """Sort ``keys`` random integers by digits of ``digits`` values."""
    if keys < processes:
        raise SimulationError(f"radix: {keys:,} keys are fewer than {processes} processes")
    bits = digits.bit_length() - 1
    passes = -(-(MOST_KEY.bit_length() - 1) // bits)
    layout = Layout()
    arrays = [layout.array(name, keys, np.uint32) for name in ("keys", "others")]
    counts = layout.array("counts", (processes, digits), np.uint32)
    given = np.random.default_rng(seed).integers(0, MOST_KEY, keys, np.uint32)

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
    order = np.argsort(digit, kind="stable")
    places = np.empty(len(digit), np.int64)
    own = counts[process]
    within = np.arange(len(digit)) - np.repeat(np.cumsum(own) - own, own)
    places[order] = before[digit[order]] + within
    return places
