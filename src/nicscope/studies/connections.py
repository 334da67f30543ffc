"""``nicscope connections``: how many queue pairs and outstanding operations a NIC sustains."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nicscope.drivers.simulate.connections import Doorbells, new_traffic, run_traffic
from nicscope.errors import StudyError, did_you_mean
from nicscope.nic.context_cache import LRU, RANDOM
from nicscope.studies.sources import repeat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nicscope.config.costs import NicCosts

OPERATIONS = ("read", "write")
DOORBELLS = ("context", "own")
REPLACEMENTS = {"random": RANDOM, "lru": LRU}
MOST_THREADS, MOST_PAIRS, MOST_OUTSTANDING = 1024, 1 << 20, 1 << 12
MOST_RUNS = 1024
FULL = 0.95  # of the best rate: what is called full
NS = 1000  # ps
WARM_ROUNDS, ROUNDS = 4, 12  # of all that is outstanding
LEAST = 400  # operations that are timed
UNBOUNDED = 1 << 40
UNITS = ("executing", "refetching", "contexts")  # what the NIC is busy with
AGAIN = {"refetching": "work requests", "contexts": "contexts"}  # as tables call them
MUCH = 0.15  # of time
WAITED = 0.25  # of the time that operations are in the NIC
BUSY = 0.85  # what is left of time is waves: the NIC is idle while all threads wait


class Asked(NamedTuple):
    """One way to post: operation, threads, queue pairs, outstanding operations."""

    operation: str
    threads: int
    queue_pairs: int
    outstanding: int  # of each thread
    window: int  # reads of a queue pair on their way
    doorbells: str
    replacement: str


class Rate(NamedTuple):
    """The rate at one end of the cost ranges."""

    millions: float  # operations a second
    us: float  # from the doorbell to the completion, on the average
    work_request_misses: float  # per operation
    context_misses: float  # per operation
    shares: dict[str, float]  # of time: UNITS of the NIC; threads at locks; behind the window

    @property
    def bound_by(self) -> str:
        """The bottleneck of the rate."""
        again = max(AGAIN, key=lambda name: self.shares[name])
        if self.shares[again] > MUCH:
            return AGAIN[again]
        if sum(self.shares[name] for name in UNITS) >= BUSY:
            return "NIC"
        if self.shares["windowed"] > WAITED:
            return "read window"
        return "doorbells" if self.shares["locked"] > MUCH else "outstanding"


class Found(NamedTuple):
    """Both ends of a way's rate; the lower one has the higher costs and the smaller caches."""

    asked: Asked
    low: Rate
    high: Rate


class ConnectionReport(msgspec.Struct, frozen=True, kw_only=True):
    """All ways that were asked for."""

    nic: Any  # NicCosts
    found: list[Found]
    repeat: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "nic": self.nic.name,
            "evidence": {name: one.to_json() for name, one in self.nic.origins.items()},
            "runs": [
                {
                    **one.asked._asdict(),
                    **{
                        end: {**rate._asdict(), "bound_by": rate.bound_by}
                        for end, rate in (("low", one.low), ("high", one.high))
                    },
                }
                for one in self.found
            ],
            "repeat": self.repeat,
        }


def ways_to_post(
    operations: Sequence[str],
    threads: Sequence[int],
    queue_pairs: Sequence[int],
    outstanding: Sequence[int],
    windows: Sequence[int],
    doorbells: Sequence[str],
    replacements: Sequence[str],
) -> list[Asked]:
    """Every combination; writes have no window.

    Errors: ``StudyError`` naming the option whose value cannot be.
    """
    for option, names, known in (
        ("--operation", operations, OPERATIONS),
        ("--doorbells", doorbells, DOORBELLS),
        ("--replacement", replacements, REPLACEMENTS),
    ):
        for name in names:
            if name not in known:
                raise StudyError(f"{option}: no {name!r}{did_you_mean(name, known)}")
    for option, numbers, most in (
        ("--threads", threads, MOST_THREADS),
        ("--qps", queue_pairs, MOST_PAIRS),
        ("--outstanding", outstanding, MOST_OUTSTANDING),
        ("--read-window", windows, MOST_OUTSTANDING),
    ):
        for number in numbers:
            if not 1 <= number <= most:
                raise StudyError(f"{option} must be from 1 to {most}, got {number}")
    asked = [
        Asked(operation, many, pairs, each, window, registers, replacement)
        for operation, registers, replacement, window, many, each, pairs in itertools.product(
            operations, doorbells, replacements, windows, threads, outstanding, queue_pairs
        )
        if operation == "read" or window == windows[0]
    ]
    if len(asked) > MOST_RUNS:
        raise StudyError(f"that is {len(asked)} runs, and {MOST_RUNS} may be; ask for less at once")
    return asked


def measure(
    asked: Asked,
    nic: NicCosts,
    end: int,
    contexts: int | None = None,
    work_requests: int | None = None,
) -> Rate:
    """The rate of one way at one end of the cost ranges: 0 the fastest, 1 the slowest.

    ``contexts`` and ``work_requests``: what the NIC keeps, instead of what its file says.
    """
    few = 1 - end  # of what a NIC keeps the most is fastest
    costs = _costs(asked, nic, end)
    registers = Doorbells(nic.count("own_doorbells", few), nic.count("shared_doorbells", few))
    traffic = new_traffic(
        costs,
        asked.threads,
        asked.queue_pairs,
        asked.outstanding,
        None if asked.doorbells == "own" else registers,
        nic.count("contexts", few) if contexts is None else contexts,
        nic.count("work_requests", few) if work_requests is None else work_requests,
        REPLACEMENTS[asked.replacement],
    )
    everything = asked.threads * asked.outstanding
    begin = max(WARM_ROUNDS * everything, 2 * asked.queue_pairs)
    run_traffic(traffic, begin)
    before = traffic.counts.copy()
    run_traffic(traffic, begin + max(ROUNDS * everything, 2 * asked.queue_pairs, LEAST))
    counts = {
        name: int((traffic.counts[name] - before[name])[0]) for name in before.dtype.names or ()
    }
    many, took = counts["operations"], counts["now_ps"]
    return Rate(
        millions=many / took * 1e6,
        us=counts["nic_ps"] / many / 1e6,
        work_request_misses=counts["work_request_misses"] / many,
        context_misses=counts["context_misses"] / many,
        shares={
            **{name: counts[f"{name}_ps"] / took for name in UNITS},
            "locked": counts["locked_ps"] / took / asked.threads,
            "windowed": counts["windowed_ps"] / max(counts["nic_ps"], 1),
        },
    )


def _costs(asked: Asked, nic: NicCosts, end: int) -> dict[str, int]:
    """Costs as the driver takes them, in ps."""
    told = {
        "post_ps": "post",
        "doorbell_ps": "doorbell",
        "moved_ps": "lock_moved",
        "waiter_ps": "lock_waiter",
        "completion_ps": "completion",
        "fetch_ps": "fetch",
        "context_ps": "context",
        "fetch_latency_ps": "fetch_latency",
        "execute_ps": f"execute_{asked.operation}",
        "answer_ps": "answer",
    }
    costs = {name: round(nic.cost(cost, end) * NS) for name, cost in told.items()}
    costs["waiters"] = nic.count("lock_waiters", end)
    costs["window"] = asked.window if asked.operation == "read" else UNBOUNDED
    return costs


def measure_all(
    every: Sequence[Asked],
    nic: NicCosts,
    command: Sequence[str] = (),
    watch: Callable[[int, int], None] = lambda _done, _all: None,
) -> ConnectionReport:
    """Measure both ends of every way; ``watch`` counts runs."""
    found = []
    for place, asked in enumerate(every):
        found.append(Found(asked, measure(asked, nic, 1), measure(asked, nic, 0)))
        watch(place + 1, len(every))
    return ConnectionReport(nic=nic, found=found, repeat=repeat(command))


def best_of(found: Sequence[Found]) -> Found:
    """The first way whose lower rate is within one percent of the highest."""
    top = max(one.low.millions for one in found)
    return next(one for one in found if one.low.millions >= 0.99 * top)


def cliff_of(along: Sequence[Found]) -> tuple[Found, Found | None]:
    """The last run at the full rate along an axis, and the first below it, if any.

    Full is ``FULL`` of the best; what comes before the best does not count.
    """
    best = max(range(len(along)), key=lambda place: along[place].low.millions)
    full = along[best].low.millions * FULL
    for place in range(best, len(along)):
        if along[place].low.millions < full:
            return along[place - 1], along[place]
    return along[-1], None
