"""Times collectives and locks on every interface, next to a lower bound for any algorithm."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from nicscope.apps.collectives.operations import (
    ARRIVED,
    OPERATIONS,
    Arithmetic,
    BakeryLock,
    HostArray,
    ManagedLock,
    bounds,
    pairwise_all_to_all,
    ring_all_reduce,
    ring_broadcast,
    room_for,
    tree_all_reduce,
    tree_broadcast,
)
from nicscope.apps.collectives.running import run_ranks
from nicscope.errors import StudyError
from nicscope.interfaces.run_report import on_run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from nicscope.apps.collectives.operations import Lock
    from nicscope.apps.collectives.running import Machine, Party


def ring_reduced(inputs: Sequence[NDArray[Any]], operation: str) -> NDArray[Any]:
    """The reduction in the ring's order: part k is combined from rank k on."""
    combine, ranks = OPERATIONS[operation], len(inputs)
    ends = bounds(len(inputs[0]), ranks)
    parts = []
    for part in range(ranks):
        around = [
            inputs[(part + step) % ranks][ends[part] : ends[part + 1]] for step in range(ranks)
        ]
        parts.append(reduce(combine, around))
    return np.concatenate(parts)


def tree_reduced(inputs: Sequence[NDArray[Any]], operation: str) -> NDArray[Any]:
    """The reduction in the tree's order: ranks beyond a power of two first, then pairs."""
    combine, within = OPERATIONS[operation], 1 << (len(inputs).bit_length() - 1)
    level = [
        combine(one, inputs[rank + within]) if rank + within < len(inputs) else one
        for rank, one in enumerate(inputs[:within])
    ]
    while len(level) > 1:
        level = [combine(*level[at : at + 2]) for at in range(0, len(level), 2)]
    return np.array(level[0])


def exchanged(inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
    """The expected result of an all-to-all at ``rank``."""
    ends = bounds(len(inputs[0]), len(inputs))
    return np.concatenate([one[ends[rank] : ends[rank + 1]] for one in inputs])


def inputs_of(ranks: int, count: int, dtype: Any, seed: int) -> list[NDArray[Any]]:
    """The initial array of each rank: arbitrary integers, or reals around 0."""
    kind = np.dtype(dtype)
    generators = [np.random.default_rng((seed, rank)) for rank in range(ranks)]
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return [
            one.integers(limits.min, limits.max, count, dtype=kind, endpoint=True)
            for one in generators
        ]
    return [one.standard_normal(count).astype(kind) for one in generators]


GUARD_US = 20.0  # at least, between the last that leaves a barrier and the common begin
ARRAYS = 4  # of the size of a call, that a process has at most
PAST = 40  # bytes between the begin of a page and an array: arrays lie anywhere


class Timed(msgspec.Struct, frozen=True):
    """Durations of a collective's calls, and the NICs' counts."""

    times_us: tuple[float, ...]  # of each call, from the common begin to the last process's end
    # Of all NICs during each call.  None: they translate nothing, or it was not counted.
    misses: tuple[int | None, ...]
    pins: tuple[int | None, ...]
    again: int  # packets that were sent again, in the whole run


class Clock:
    """Synchronized start and end times of calls, with the counts at these times.

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
        """Start ``call`` at the same time in all processes, after a barrier."""
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
        """Note that one process has ended ``call``."""
        ended = self._ended.setdefault(call, [])
        ended.append(party.wire.now_us)
        if len(ended) == self._ranks:
            self._counts.append(counts_of(party.cluster))

    def barrier_us(self, call: int) -> float:
        """From the last arrival at the barrier before ``call`` to the last departure."""
        return max(self._left[call]) - max(self._entered[call])

    def timed(self, calls: range, cluster: Any) -> Timed:
        """The durations of all calls in that range."""
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
    """The arrays of one process, their content, and the expected result."""

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

    async def fill(self) -> None:
        """Store the rank's input into its array; of a broadcast only at the root."""
        values, rank = self._inputs.values, self._party.rank
        begins = values[rank]
        if self._collective == "broadcast" and rank:
            begins = np.zeros_like(begins)
        await self.array.fill(begins)
        if self._collective == "alltoall":
            await self.other.fill(np.zeros(self.other.count, self._inputs.dtype))

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
        """Errors: ``StudyError`` if the array differs from NumPy's result."""
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
    """The inputs of all ranks, and the results that NumPy computes of them."""

    def __init__(
        self, ranks: int, count: int, dtype: Any, seed: int, arithmetic: Arithmetic
    ) -> None:
        self.count, self.dtype, self.arithmetic = count, np.dtype(dtype), arithmetic
        self.values = inputs_of(ranks, count, dtype, seed)
        self._reduced: NDArray[Any] | None = None

    def expected(self, collective: str, algorithm: str, rank: int) -> NDArray[Any]:
        """The expected result at a rank."""
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
    """Time ``1 + repeat`` calls on fresh arrays, and check each result.

    ``watch`` is told whenever one is over.
    Errors: ``StudyError`` for a wrong result, ``SimulationError`` for what does not get through.
    """
    clock = Clock(ranks)
    calls = range(1 + repeat)

    async def body(party: Party) -> None:
        data = Data(party, collective, algorithm, inputs)
        await party.barrier.meet()  # on connections that nobody has used
        for call in calls:
            await data.fill()
            await clock.meet(party, call)
            await data.call()
            clock.end(party, call)
            data.check()
            if not party.rank:
                watch()

    memory = ARRAYS * (inputs.count * inputs.dtype.itemsize + PAST)
    _, cluster = without_progress(lambda: run_ranks(machine, ranks, memory, body))
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

    _, cluster = without_progress(lambda: run_ranks(machine, ranks, 0, body))
    later = clock.timed(calls, cluster)
    return msgspec.structs.replace(
        later,
        times_us=(clock.barrier_us(0), *later.times_us),
        misses=(None, *later.misses),
        pins=(None, *later.pins),
    )


def without_progress(run: Callable[[], Any]) -> Any:
    """Run ``run`` without progress: ``watch`` counts calls, not virtual time."""
    with on_run(lambda _: None):
        return run()


TURNS = 4  # of each process, when all want it
HELD_US = 1.0  # so long each holds it then


class TimedLock(msgspec.Struct, frozen=True):
    """Times to acquire a lock, uncontended by the last rank, and by all ranks at once."""

    alone: Timed
    contended_us: float  # of each time that a process had it, when all wanted it


class Guarded:
    """State that the lock protects, which shows if two processes hold it at once."""

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

    _, cluster = without_progress(lambda: run_ranks(machine, ranks, 1 << 14, body))
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


SIZES = (1 << 15, 1 << 17)  # bytes, between which a message's time is taken as a straight line
TRIPS = 8  # there and back
PING = ARRIVED + 1  # kind of note


class AlphaBeta(msgspec.Struct, frozen=True):
    """Latency and time per byte of a machine."""

    alpha_us: float  # of a note, one way
    beta_us: float  # of each byte that is in none
    note_bytes: int  # that a note carries at no more cost

    def message_us(self, size: int) -> float:
        """A lower bound on the time of a message of that size."""
        return self.alpha_us + (size * self.beta_us if size > self.note_bytes else 0.0)


def alpha_beta(machine: Machine) -> AlphaBeta:
    """Measure alpha and beta between two nodes: half of the shortest round trip."""
    notes: list[float] = []
    found: dict[int, float] = {}
    short: list[int] = []

    async def body(party: Party) -> None:
        heard = 0

        async def hear(_rank: int, _content: bytes) -> None:
            nonlocal heard
            heard += 1

        messages, other = party.messages, 1 - party.rank
        messages.on(PING, hear)
        await party.barrier.meet()
        for trip in range(TRIPS):
            began = party.wire.now_us
            if not party.rank:
                await messages.say(other, PING)
            await messages.wait_until(lambda: heard > trip)  # noqa: B023 - awaited
            if party.rank:
                await messages.say(other, PING)
            else:
                notes.append((party.wire.now_us - began) / 2)
        short.append(party.wire.short)
        for size in SIZES:
            array = HostArray(party.wire, size, "u1")
            for _ in range(TRIPS):
                began = party.wire.now_us
                if not party.rank:
                    await messages.send(other, array.all)
                await messages.came(await messages.receive(other, array.all))
                if party.rank:
                    await messages.send(other, array.all)
                took = (party.wire.now_us - began) / 2
                if not party.rank:
                    found[size] = min(took, found.get(size, took))
            await messages.settle()

    without_progress(lambda: run_ranks(machine._replace(faults=None), 2, 2 * SIZES[-1], body))
    low, high = SIZES
    return AlphaBeta(min(notes), (found[high] - found[low]) / (high - low), short[0])


def bound_us(
    collective: str, algorithm: str, ranks: int, count: int, size: int, machine: AlphaBeta
) -> float:
    """The time of an algorithm's longest chain of dependent messages.

    ``count`` numbers of ``size`` bytes each are in an array; 0 where there is none.
    """
    alpha = machine.alpha_us
    rounds = (ranks - 1).bit_length()
    if ranks == 1:
        return 0.0
    if collective == "barrier":
        return rounds * alpha
    if collective == "lock":
        return 2 * alpha  # the asking, and the answer
    if not count:
        return 0.0
    message, part = machine.message_us(count * size), machine.message_us(count // ranks * size)
    if algorithm == "pairwise":
        return (ranks - 1) * part if count >= ranks else alpha
    if collective == "allreduce" and algorithm == "ring":
        return 2 * (ranks - 1) * part if count >= ranks else alpha
    if collective == "allreduce":
        within = ranks.bit_length() - 1
        return (within + (2 if ranks > 1 << within else 0)) * message
    if algorithm == "ring":  # segments overlap
        return (ranks - 2) * alpha + message
    return max(rank.bit_count() for rank in range(ranks)) * message  # hops from the root


def share_moved(collective: str, ranks: int) -> float:
    """Bytes that each node must send or receive, per byte of the array (as nccl-tests).

    Bus bandwidth is algorithm bandwidth times this.
    """
    if ranks == 1:
        return 0.0
    return {
        "broadcast": 1.0,
        "allreduce": 2 * (ranks - 1) / ranks,
        "alltoall": (ranks - 1) / ranks,
    }.get(collective, 0.0)
