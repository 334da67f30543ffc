"""``nicscope apps collective``: its options, runs and report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.apps.collectives.operations import OPERATIONS, Arithmetic
from nicscope.apps.collectives.running import DESIGNS, INTERFACES, Machine
from nicscope.config.design import chosen_design, with_settings
from nicscope.config.quantities import BYTE_SPELLINGS, read_bytes
from nicscope.errors import StudyError, did_you_mean
from nicscope.interfaces import Faults
from nicscope.studies.collectives.measuring import (
    AlphaBeta,
    Inputs,
    alpha_beta,
    bound_us,
    share_moved,
    time_barrier,
    time_collective,
    time_lock,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nicscope.interfaces import Design


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
