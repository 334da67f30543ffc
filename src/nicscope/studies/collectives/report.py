"""What collectives were found to take, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.apps.collectives.arrays import Arithmetic
from nicscope.studies.collectives.locking import time_lock
from nicscope.studies.collectives.lower_bounds import AlphaBeta, alpha_beta, bound_us, share_moved
from nicscope.studies.collectives.measuring import Inputs, time_barrier, time_collective
from nicscope.studies.collectives.question import TYPES

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.apps.collectives.running import Machine
    from nicscope.studies.collectives.question import Question


class CollectiveRow(msgspec.Struct, frozen=True, kw_only=True):
    """One collective by one algorithm, on one machine, of one size."""

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
    """All of them."""

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
    """Of the calls after the first."""
    known = [count for count in counts[1:] if count is not None]
    return sum(known) / len(known) if known else None
