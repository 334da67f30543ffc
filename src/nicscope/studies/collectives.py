"""Collectives on every interface: how long they take, and whether their results are right."""

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
    Lock,
    ManagedLock,
    bounds,
    pairwise_all_to_all,
    ring_all_reduce,
    ring_broadcast,
    room_for,
    tree_all_reduce,
    tree_broadcast,
)
from nicscope.apps.collectives.running import DESIGNS, INTERFACES, Machine, Party, run_ranks
from nicscope.config.design import chosen_design, with_settings
from nicscope.config.quantities import BYTE_SPELLINGS, read_bytes
from nicscope.errors import StudyError, did_you_mean
from nicscope.interfaces import Design, Faults
from nicscope.interfaces.run_report import on_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray


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


# Of each collective its algorithms, the usual one first.
ALGORITHMS: dict[str, tuple[str, ...]] = {
    "broadcast": ("tree", "ring"),
    "allreduce": ("ring", "tree"),
    "alltoall": ("pairwise",),
    "barrier": ("dissemination",),
    "lock": ("manager", "remote"),
}
SIZED = ("broadcast", "allreduce", "alltoall")
ONE_SIDED = ("vmmc", "mini", "via")
TYPES = {"u1": "u1", "i4": "<i4", "i8": "<i8", "f4": "<f4", "f8": "<f8"}
ALL = "all"
MOST_NODES = 64
MOST_BYTES = 1 << 30
PS_PER_US = 1_000_000


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One run of ``nicscope apps collective``."""

    collectives: tuple[str, ...]
    algorithms: tuple[str, ...]  # that were asked for; none: the usual one of each
    machines: tuple[Machine, ...]
    nodes: int
    sizes: tuple[int, ...]  # bytes, ascending
    type: str
    operation: str
    repeat: int  # calls after the first
    seed: int
    add_ns_per_byte: float

    def jobs(self) -> Iterator[tuple[Machine, str, str, int | None]]:
        """Machine, collective, algorithm and bytes of each run, in the order of the tables."""
        for collective in self.collectives:
            for machine in self.machines:
                for algorithm in self._algorithms_of(collective, machine):
                    for size in self.sizes if collective in SIZED else (None,):
                        yield machine, collective, algorithm, size

    def _algorithms_of(self, collective: str, machine: Machine) -> list[str]:
        known = ALGORITHMS[collective]
        asked = [one for one in known if one in self.algorithms] or list(known[:1])
        if machine.interface not in ONE_SIDED:
            asked = [one for one in asked if one != "remote"]
        return asked


def ask(
    collectives: str,
    interfaces: str,
    *,
    nodes: int,
    sizes: str,
    algorithms: str | None,
    design: str | None,
    platform: str | None,
    way: str | None,
    assignments: Sequence[str],
    kind: str,
    operation: str,
    repeat: int,
    seed: int,
    faults: Faults,
    add_ns_per_byte: float,
) -> Question:
    """Parse and check the options.  Errors: ``StudyError`` for what makes no sense."""
    asked = _several("collective", collectives, tuple(ALGORITHMS))
    known = tuple(dict.fromkeys(name for one in asked for name in ALGORITHMS[one]))
    chosen = () if algorithms is None else _several("algorithm", algorithms, known)
    on = _several("interface", interfaces, INTERFACES)
    if len(on) > 1 and (design or platform or way or assignments):
        raise StudyError(
            "a design, platform, way or setting is of one interface; name that one with --on"
        )
    if not 1 <= nodes <= MOST_NODES:
        raise StudyError(f"nodes must be from 1 to {MOST_NODES}, got {nodes}")
    if repeat < 1:
        raise StudyError(f"repeat must be at least 1, got {repeat}")
    if add_ns_per_byte < 0:
        raise StudyError(f"an addition takes 0 ns a byte or more, got {add_ns_per_byte:g}")
    if kind not in TYPES:
        raise StudyError(f"no type {kind!r}{did_you_mean(kind, TYPES)}")
    if operation not in OPERATIONS:
        raise StudyError(f"no operation {operation!r}{did_you_mean(operation, OPERATIONS)}")
    for dead in (*faults.node_deaths,):
        if dead >= nodes:
            raise StudyError(f"no node {dead} dies: there are {nodes}, from 0 on")
    question = Question(
        collectives=asked,
        algorithms=chosen,
        machines=tuple(
            Machine(
                one,
                _set(design, one, assignments),
                platform,
                way,
                faults if faults.any else None,
            )
            for one in on
        ),
        nodes=nodes,
        sizes=sizes_of(sizes),
        type=kind,
        operation=operation,
        repeat=repeat,
        seed=seed,
        add_ns_per_byte=add_ns_per_byte,
    )
    if not list(question.jobs()):
        raise StudyError(
            f"{', '.join(on)} cannot read or write another's memory, which a lock by remote store "
            f"and fetch needs; take --algorithm manager, or one of {', '.join(ONE_SIDED)}"
        )
    return question


def sizes_of(text: str) -> tuple[int, ...]:
    """Parse sizes in bytes: ``8:1M``, by powers of two, ``8:1M:4``, by factors of four.

    Errors: ``StudyError``.
    """
    return tuple(sorted({size for one in text.split(",") for size in _range(one)}))


def _range(text: str) -> list[int]:
    """Parse one word of a list of sizes."""
    ends = [read_bytes(end) for end in text.split(":")]
    sizes = [end for end in ends if end is not None and end <= MOST_BYTES]
    if len(sizes) == len(ends) == 1:
        return sizes
    low, high, factor = (*sizes, 0, 0, 2)[:3] if len(sizes) < 2 else (*sizes, 2)[:3]
    if len(sizes) < len(ends) or len(ends) > 3 or not 1 <= low <= high or factor < 2:
        raise StudyError(
            f"sizes are bytes up to 1G, {BYTE_SPELLINGS}: a list such as 8,1500, a range such as "
            f"8:1M, which doubles each time, or 8:1M:4; not {text!r}"
        )
    found = []
    while low <= high:
        found.append(low)
        low *= factor
    return found


def dead_node(text: str) -> tuple[int, int]:
    """Parse ``2@500``: node and time (ps) of a node's failure.  Errors: ``StudyError``."""
    node, at, when = text.partition("@")
    if not (at and node.isdecimal() and when.isdecimal()):
        raise StudyError(f"who dies is NODE@US, such as 2@500, not {text!r}")
    return int(node), int(when) * PS_PER_US


def faults_of(
    seed: int,
    *,
    loss: float,
    duplication: float,
    corruption: float,
    deaths: Sequence[tuple[int, int]],
) -> Faults:
    """The faults to inject.  Errors: ``SimulationError`` for what is no share."""
    return Faults(
        seed=seed,
        loss=loss,
        duplication=duplication,
        corruption=corruption,
        node_deaths=dict(deaths),
    )


def _set(design: str | None, interface: str, assignments: Sequence[str]) -> str | Design | None:
    """The design with what is set of it.  Errors: ``DesignError``."""
    if not assignments or (interface == "trapeze" and design is None):
        if assignments:
            raise StudyError("Trapeze has no design of which anything can be set")
        return design
    return with_settings(chosen_design(design or DESIGNS[interface], {}), assignments)


def _several(what: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    if text == ALL:
        return known
    asked = tuple(dict.fromkeys(text.split(",")))
    for one in asked:
        if one not in known:
            raise StudyError(f"no {what} {one!r}{did_you_mean(one, [*known, ALL])}")
    return asked


class CollectiveRow(msgspec.Struct, frozen=True, kw_only=True):
    """One collective by one algorithm, on one machine, at one size."""

    interface: str
    collective: str
    algorithm: str
    bytes: int | None  # of each process's array; None: it has none
    type: str | None  # of its numbers
    first_us: float  # on arrays, or connections, that nobody has used before
    later_us: float  # the mean of the calls after that
    bound_us: float  # by alpha and beta
    algorithm_mbytes_s: float | None  # bytes / later_us
    bus_mbytes_s: float | None
    contended_us: float | None = None  # a lock that all want: of each turn
    misses_first: int | None  # of all NICs
    misses_later: float | None  # the mean
    pins_first: int | None
    pins_later: float | None
    again: int  # packets sent again


class CollectiveReport(msgspec.Struct, frozen=True, kw_only=True):
    """All rows."""

    nodes: int
    repeat: int
    operation: str
    seed: int
    rows: list[CollectiveRow]
    machines: dict[str, AlphaBeta]  # by interface
    command: list[str]

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


def measure(
    question: Question,
    command: list[str],
    watch: Callable[[int, int], None] = lambda _done, _total: None,
) -> CollectiveReport:
    """Run all that ``question`` asks for; ``watch``: calls that are over, of how many.

    Errors: ``StudyError`` for a wrong result, ``SimulationError`` for what cannot run.
    """
    jobs = list(question.jobs())
    total = len(jobs) * (1 + question.repeat)
    done = 0

    def over() -> None:
        nonlocal done
        done += 1
        watch(min(done, total), total)

    machines: dict[str, AlphaBeta] = {}
    rows = []
    for number, (machine, collective, algorithm, size) in enumerate(jobs):
        if machine.interface not in machines:
            machines[machine.interface] = alpha_beta(machine)
        rows.append(_row(question, machine, collective, algorithm, size, machines, over))
        done = (number + 1) * (1 + question.repeat)
        watch(done, total)
    return CollectiveReport(
        nodes=question.nodes,
        repeat=question.repeat,
        operation=question.operation,
        seed=question.seed,
        rows=rows,
        machines=machines,
        command=command,
    )


def _row(
    question: Question,
    machine: Machine,
    collective: str,
    algorithm: str,
    size: int | None,
    machines: dict[str, AlphaBeta],
    over: Callable[[], None],
) -> CollectiveRow:
    ranks, repeat = question.nodes, question.repeat
    kind, contended, count = None, None, 0
    if collective == "barrier":
        timed = time_barrier(machine, ranks, repeat, over)
    elif collective == "lock":
        lock = time_lock(machine, ranks, algorithm, repeat, over)
        timed, contended = lock.alone, lock.contended_us
    else:
        assert size is not None
        kind = question.type if size % int(question.type[1:]) == 0 else "u1"
        arithmetic = Arithmetic(question.operation, question.add_ns_per_byte)
        count = size // int(kind[1:])
        inputs = Inputs(ranks, count, TYPES[kind], question.seed, arithmetic)
        timed = time_collective(machine, ranks, collective, algorithm, inputs, repeat, over)
    later = sum(timed.times_us[1:]) / repeat
    bandwidth = size / later if size and later else None
    return CollectiveRow(
        interface=machine.interface,
        collective=collective,
        algorithm=algorithm,
        bytes=size,
        type=kind,
        first_us=timed.times_us[0],
        later_us=later,
        bound_us=bound_us(
            collective,
            algorithm,
            ranks,
            count,
            0 if kind is None else int(kind[1:]),
            machines[machine.interface],
        ),
        algorithm_mbytes_s=bandwidth,
        bus_mbytes_s=None if bandwidth is None else bandwidth * share_moved(collective, ranks),
        contended_us=contended,
        misses_first=timed.misses[0],
        misses_later=_mean(timed.misses),
        pins_first=timed.pins[0],
        pins_later=_mean(timed.pins),
        again=timed.again,
    )


def _mean(counts: tuple[int | None, ...]) -> float | None:
    """The mean over the calls after the first."""
    known = [count for count in counts[1:] if count is not None]
    return sum(known) / len(known) if known else None
