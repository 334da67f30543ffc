"""Locks run and timed: taken by one process alone, and by all in turn."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from nicscope.apps.collectives.locks import BakeryLock, ManagedLock
from nicscope.apps.collectives.running import run_parties
from nicscope.errors import StudyError
from nicscope.studies.collectives.measuring import Clock, Timed, counts_of, quietly

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.apps.collectives.locks import Lock
    from nicscope.apps.collectives.running import Machine, Party

TURNS = 4  # of each process, when all want it
HELD_US = 1.0  # so long each holds it then


class TimedLock(msgspec.Struct, frozen=True):
    """Times to acquire it, by the last rank while nobody else wants it, and what all take."""

    alone: Timed
    contended_us: float  # of each time that a process had it, when all wanted it


class Guarded:
    """What only the holder of a lock may change, so that it shows if two hold it."""

    def __init__(self) -> None:
        self.turns = 0

    async def change(self, party: Party) -> None:
        """Read, let time pass, and write."""
        seen = self.turns
        await party.wire.compute(HELD_US)
        self.turns = seen + 1


def time_lock(
    machine: Machine,
    ranks: int,
    algorithm: str,
    repeat: int,
    watch: Callable[[], None] = lambda: None,
) -> TimedLock:
    """Acquire and release a lock ``1 + repeat`` times, then have all do so at once.

    Errors: ``StudyError`` if two held it at a time.
    """
    clock, guarded = Clock(ranks), Guarded()
    times: list[float] = []
    counts: list[tuple[int, int] | None] = []

    async def body(party: Party) -> None:
        lock: Lock = (
            BakeryLock(party.messages) if algorithm == "remote" else ManagedLock(party.messages)
        )
        await lock.open()
        await party.barrier.meet()
        if party.rank == ranks - 1:
            counts.append(counts_of(party.cluster))
            for _ in range(1 + repeat):
                began = party.wire.now_us
                await lock.acquire()
                times.append(party.wire.now_us - began)
                await lock.release()
                counts.append(counts_of(party.cluster))
                watch()
        await clock.meet(party, 0)
        for _ in range(TURNS):
            await lock.acquire()
            await guarded.change(party)
            await lock.release()
        clock.end(party, 0)

    _, cluster = quietly(lambda: run_parties(machine, ranks, 1 << 14, body))
    if guarded.turns != ranks * TURNS:
        raise StudyError(
            f"the lock ({algorithm}) was held by two processes at a time: of {ranks * TURNS} turns "
            f"{guarded.turns} count; this is a fault of nicscope's: please report it"
        )
    all_of_it = clock.timed(range(1), cluster)
    misses, pins = (
        tuple(
            None if before is None or after is None else after[which] - before[which]
            for before, after in pairwise(counts)
        )
        for which in (0, 1)
    )
    alone = Timed(tuple(times), misses, pins, all_of_it.again)
    return TimedLock(alone, all_of_it.times_us[0] / (ranks * TURNS))
