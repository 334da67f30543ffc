"""Raytrace's work pools: stacks of jobs, which lie in a heap of shared memory (SPLASH-2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from nicscope.apps.svm.memory import Layout, SharedArray
    from nicscope.apps.svm.process import Process


# Words of a piece's header; the fourth is a checksum in SPLASH-2.
NEXT, SIZE, FREE, CHECKSUM = range(4)
HEADER = 4
NIL = -1
SMALLEST = 8  # words of a rest that stays with its piece: a header and 16 bytes
FREE_LIST, STATUS = 5, 6  # in the state: the first free piece, and where the pools begin
PAD = 256  # between two pools' words
EMPTY, VALID = 0, 1
JOB, NEXT_JOB = 5, 4  # a job: row, column, rows, columns, and the job below it


class Piece(NamedTuple):
    """A piece of the heap; all in words of the heap."""

    place: int  # of its header
    following: int  # the next free piece, if it is free
    size: int  # without the header
    is_free: bool

    @property
    def end(self) -> int:
        """Where the next piece begins."""
        return self.place + HEADER + self.size


NOWHERE = Piece(NIL, NIL, -HEADER, False)


class Heap:
    """Pieces of shared memory that are allocated and freed under one lock.

    Allocating takes the first free piece that fits.  Freeing passes the headers of all pieces from
    the first free one to the next free one behind, and joins free neighbours (memory.C).
    """

    def __init__(self, layout: Layout, words: int, state: SharedArray) -> None:
        self.words = words
        self.array = layout.array("heap", words, np.int32)
        self._state = state

    def set_up(self, array_of: Callable[[SharedArray], NDArray[Any]]) -> None:
        """Make it one free piece."""
        array_of(self._state)[FREE_LIST] = 0
        array_of(self.array)[:FREE] = NIL, self.words - HEADER
        array_of(self.array)[FREE] = True

    async def allocate(self, me: Process, words: int) -> int:
        """The first word of a piece of so many words, rounded up to 8 bytes."""
        words += words % 2
        await me.acquire("heap")
        before, piece = NIL, await self._piece(me, await self._first_free(me))
        while piece.size < words:
            before, piece = piece.place, await self._piece(me, piece.following)
        following, size = piece.following, piece.size
        if size - words > SMALLEST:
            rest = Piece(piece.place + HEADER + words, following, size - words - HEADER, True)
            await self._write(me, rest)
            following, size = rest.place, words
        await self._link(me, before, following)
        await self._write(me, Piece(piece.place, NIL, size, False))
        await me.release("heap")
        return piece.place + HEADER

    async def free(self, me: Process, place: int) -> None:
        """Free the piece whose first word is at ``place``."""
        await me.acquire("heap")
        before = await self._last_free_before(me, place - HEADER)
        piece = await self._piece(me, place - HEADER)
        after = await self._first_free_from(me, piece.end)
        freed = piece._replace(following=after.place, is_free=True)
        if after.place == piece.end:
            freed = freed._replace(following=after.following, size=after.end - place)
        if before.end == piece.place:
            await self._write(me, piece._replace(is_free=True))
            freed = freed._replace(place=before.place, size=before.size + HEADER + freed.size)
        else:
            await self._link(me, before.place, piece.place)
        await self._write(me, freed)
        await me.release("heap")

    async def _last_free_before(self, me: Process, piece: int) -> Piece:
        last, passed = NOWHERE, await self._first_free(me)
        while NIL != passed < piece:
            found = await self._piece(me, passed)
            last = found if found.is_free else last
            passed = found.end
        return last

    async def _first_free_from(self, me: Process, place: int) -> Piece:
        while place < self.words:
            found = await self._piece(me, place)
            if found.is_free:
                return found
            place = found.end
        return NOWHERE

    async def _first_free(self, me: Process) -> int:
        return int((await me.read(self._state, FREE_LIST, FREE_LIST + 1))[0])

    async def _link(self, me: Process, before: int, following: int) -> None:
        """Make ``following`` the next free piece after ``before``, the first one after NIL."""
        array, place = (self._state, FREE_LIST) if before == NIL else (self.array, before + NEXT)
        (await me.write(array, place, place + 1))[0] = following

    async def _piece(self, me: Process, place: int) -> Piece:
        header = (await me.read(self.array, place, place + HEADER)).tolist()
        return Piece(place, header[NEXT], header[SIZE], bool(header[FREE]))

    async def _write(self, me: Process, piece: Piece) -> None:
        (await me.write(self.array, piece.place, piece.place + CHECKSUM))[:] = piece[1:]


class WorkPools:
    """A stack of jobs for each process, under its own lock (workpool.C).

    The first free piece, and the pools' status and top, lie in one structure of shared memory,
    each pool's 1,024 bytes from the next one's (rt.H).
    """

    def __init__(self, layout: Layout, processes: int, jobs: int) -> None:
        """``jobs``: of all processes."""
        self._tops = STATUS + PAD * processes
        self.state = layout.array("state", self._tops + PAD * processes, np.int32)
        piece = HEADER + JOB + JOB % 2
        self.heap = Heap(layout, (jobs + 1) * piece, self.state)  # one stays free

    async def fill(self, me: Process, jobs: Sequence[tuple[int, int, int, int]]) -> None:
        """Put jobs on the process's own, empty stack; a barrier has to follow."""
        await self._set(me, STATUS + PAD * me.number, VALID)
        top, below = self._tops + PAD * me.number, NIL
        await self._set(me, top, NIL)
        for job in jobs:
            place = await self.heap.allocate(me, JOB)
            (await me.write(self.heap.array, place, place + JOB))[:] = *job, below
            await self._set(me, top, place)
            below = place

    async def take(self, me: Process) -> list[int] | None:
        """A job: the process's own, else the next process's that has one; None if nobody has."""
        for step in range(me.processes):
            owner = (me.number + step) % me.processes
            # Once empty it stays so: who sees that, however late, needs no lock.
            if await self._get(me, STATUS + PAD * owner) == VALID:
                job = await self._take_of(me, owner)
                if job is not None:
                    return job
        return None

    async def _take_of(self, me: Process, owner: int) -> list[int] | None:
        top = self._tops + PAD * owner
        await me.acquire(("pool", owner))
        place = await self._get(me, top)
        if place == NIL:
            await self._set(me, STATUS + PAD * owner, EMPTY)
        else:
            below = await me.read(self.heap.array, place + NEXT_JOB, place + JOB)
            await self._set(me, top, int(below[0]))
        await me.release(("pool", owner))
        if place == NIL:
            return None
        job: list[int] = (await me.read(self.heap.array, place, place + NEXT_JOB)).tolist()
        await self.heap.free(me, place)
        return job

    async def _get(self, me: Process, place: int) -> int:
        return int((await me.read(self.state, place, place + 1))[0])

    async def _set(self, me: Process, place: int, value: int) -> None:
        (await me.write(self.state, place, place + 1))[0] = value
