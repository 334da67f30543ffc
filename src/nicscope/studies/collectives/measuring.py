"""Collectives run and timed: the first call on new arrays, those after it, and what they give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from nicscope.apps.collectives.all_reduce import ring_all_reduce, room_for, tree_all_reduce
from nicscope.apps.collectives.all_to_all import pairwise_all_to_all
from nicscope.apps.collectives.arrays import Arithmetic, HostArray
from nicscope.apps.collectives.broadcast import ring_broadcast, tree_broadcast
from nicscope.apps.collectives.running import run_parties
from nicscope.errors import StudyError
from nicscope.interfaces.run_report import on_run
from nicscope.studies.collectives.expected import (
    exchanged,
    inputs_of,
    ring_reduced,
    tree_reduced,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nicscope.apps.collectives.running import Machine, Party

GUARD_US = 20.0  # at least, between the last that leaves a barrier and the common begin
ARRAYS = 4  # of the size of a call, that a process has at most
PAST = 40  # bytes between the begin of a page and an array: arrays lie anywhere


class Timed(msgspec.Struct, frozen=True):
    """Calls of a collective: how long they took, and what their NICs counted."""

    times_us: tuple[float, ...]  # of each call, from the common begin to the last process's end
    # Of all NICs during each call.  None: they translate nothing, or it was not counted.
    misses: tuple[int | None, ...]
    pins: tuple[int | None, ...]
    again: int  # packets that were sent again, in the whole run


class Clock:
    """What all processes know of the time: when calls begin and end, and what was counted by then.

    Virtual time is one for all nodes, as if their clocks agreed.
    """

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._entered: dict[int, list[float]] = {}
        self._left: dict[int, list[float]] = {}
        self._ended: dict[int, list[float]] = {}
        self._begins: dict[int, float] = {}
        self._counts: list[tuple[int, int] | None] = []
        self._longest = GUARD_US

    async def meet(self, party: Party, call: int) -> None:
        """Have all begin ``call`` at one moment, after a barrier."""
        self._entered.setdefault(call, []).append(party.wire.now_us)
        await party.barrier.meet()
        now = party.wire.now_us
        if call not in self._begins:  # the first that leaves: all have come
            self._begins[call] = now + 2 * self._longest
            self._counts.append(counts_of(party.cluster))
        self._left.setdefault(call, []).append(now)
        if len(self._left[call]) == self._ranks:
            self._longest = max(GUARD_US, self.barrier_us(call))
        if now < self._begins[call]:
            await party.wire.rest(self._begins[call] - now)

    def end(self, party: Party, call: int) -> None:
        """One process has ended ``call``."""
        ended = self._ended.setdefault(call, [])
        ended.append(party.wire.now_us)
        if len(ended) == self._ranks:
            self._counts.append(counts_of(party.cluster))

    def barrier_us(self, call: int) -> float:
        """From when the last came to the barrier before ``call`` until the last had left it."""
        return max(self._left[call]) - max(self._entered[call])

    def timed(self, calls: range, cluster: Any) -> Timed:
        """All calls of that range."""
        times = tuple(max(self._ended[call]) - self._begins[call] for call in calls)
        pairs = [self._counts[2 * call : 2 * call + 2] for call in calls]
        misses, pins = (
            tuple(
                None if before is None or after is None else after[which] - before[which]
                for before, after in pairs
            )
            for which in (0, 1)
        )
        return Timed(times, misses, pins, cluster.report().total.sent.again or 0)


def counts_of(cluster: Any) -> tuple[int, int] | None:
    """Misses and pins of all nodes so far; None where nothing is translated."""
    if not hasattr(cluster, "counts"):
        return None
    nodes = [cluster.counts(node) for node in range(cluster.topology.nodes)]
    return tuple(sum(one[name] or 0 for one in nodes) for name in ("ni_misses", "pins"))  # type: ignore[return-value]


class Data:
    """The arrays of one process, what stands in them, and what should in the end."""

    def __init__(self, party: Party, collective: str, algorithm: str, inputs: Inputs) -> None:
        self._party = party
        self._collective, self._algorithm = collective, algorithm
        self._inputs = inputs
        wire, count, ranks = party.wire, inputs.count, party.ranks
        self.array = HostArray(wire, count, inputs.dtype, PAST)
        if collective == "alltoall":
            self.other = HostArray(wire, ranks * -(-count // ranks), inputs.dtype, PAST)
        elif collective == "allreduce":
            self.other = HostArray(wire, room_for(algorithm, count, ranks), inputs.dtype, PAST)

    def fill(self) -> None:
        """Have the rank's input stand in its array; a broadcast's only at the root."""
        values, rank = self._inputs.values, self._party.rank
        begins = values[rank]
        if self._collective == "broadcast" and rank:
            begins = np.zeros_like(begins)
        self.array.fill(begins)
        if self._collective == "alltoall":
            self.other.fill(np.zeros(self.other.count, self._inputs.dtype))

    async def call(self) -> None:
        """Make one call."""
        messages, arithmetic = self._party.messages, self._inputs.arithmetic
        if self._collective == "broadcast":
            broadcast = tree_broadcast if self._algorithm == "tree" else ring_broadcast
            await broadcast(messages, self.array.all)
        elif self._collective == "allreduce":
            all_reduce = ring_all_reduce if self._algorithm == "ring" else tree_all_reduce
            await all_reduce(messages, self.array, self.other, arithmetic)
        else:
            await pairwise_all_to_all(messages, self.array, self.other)

    def check(self) -> None:
        """Errors: ``StudyError`` if another result stands there than NumPy has."""
        expected = self._inputs.expected(self._collective, self._algorithm, self._party.rank)
        result = self.other if self._collective == "alltoall" else self.array
        found = result.seen()[: len(expected)]
        wrong = np.flatnonzero(found.view("u1") != expected.view("u1"))
        if wrong.size:
            at = int(wrong[0]) // found.itemsize
            raise StudyError(
                f"the {self._algorithm} {self._collective} of {self._inputs.count:,} numbers gives "
                f"rank {self._party.rank} {found[at]!r} for number {at:,}, where NumPy has "
                f"{expected[at]!r}; this is a fault of nicscope's: please report it"
            )


class Inputs:
    """What all ranks begin with, and what NumPy makes of it."""

    def __init__(
        self, ranks: int, count: int, dtype: Any, seed: int, arithmetic: Arithmetic
    ) -> None:
        self.count, self.dtype, self.arithmetic = count, np.dtype(dtype), arithmetic
        self.values = inputs_of(ranks, count, dtype, seed)
        self._reduced: NDArray[Any] | None = None

    def expected(self, collective: str, algorithm: str, rank: int) -> NDArray[Any]:
        """The result of a rank."""
        if collective == "broadcast":
            return self.values[0]
        if collective == "alltoall":
            return exchanged(self.values, rank)
        if self._reduced is None:
            reduced = ring_reduced if algorithm == "ring" else tree_reduced
            self._reduced = reduced(self.values, self.arithmetic.operation)
        return self._reduced


def time_collective(
    machine: Machine,
    ranks: int,
    collective: str,
    algorithm: str,
    inputs: Inputs,
    repeat: int,
    watch: Callable[[], None] = lambda: None,
) -> Timed:
    """Make ``1 + repeat`` calls on arrays that nobody has used before, and check each.

    ``watch`` is told whenever one is over.
    Errors: ``StudyError`` for a wrong result, ``SimulationError`` for what does not get through.
    """
    clock = Clock(ranks)
    calls = range(1 + repeat)

    async def body(party: Party) -> None:
        data = Data(party, collective, algorithm, inputs)
        await party.barrier.meet()  # on connections that nobody has used
        for call in calls:
            data.fill()
            await clock.meet(party, call)
            await data.call()
            clock.end(party, call)
            data.check()
            if not party.rank:
                watch()

    memory = ARRAYS * (inputs.count * inputs.dtype.itemsize + PAST)
    _, cluster = quietly(lambda: run_parties(machine, ranks, memory, body))
    return clock.timed(calls, cluster)


def time_barrier(
    machine: Machine, ranks: int, repeat: int, watch: Callable[[], None] = lambda: None
) -> Timed:
    """A first barrier of processes that have just connected, and ``repeat`` more."""
    clock = Clock(ranks)
    calls = range(1, 1 + repeat)

    async def body(party: Party) -> None:
        await clock.meet(party, 0)
        clock.end(party, 0)
        for call in calls:
            await clock.meet(party, call)
            await party.barrier.meet()
            clock.end(party, call)
            if not party.rank:
                watch()

    _, cluster = quietly(lambda: run_parties(machine, ranks, 0, body))
    later = clock.timed(calls, cluster)
    return msgspec.structs.replace(
        later,
        times_us=(clock.barrier_us(0), *later.times_us),
        misses=(None, *later.misses),
        pins=(None, *later.pins),
    )


def quietly(run: Callable[[], Any]) -> Any:
    """What ``run`` returns; who watches is told of calls, not of virtual time."""
    with on_run(lambda _: None):
        return run()
