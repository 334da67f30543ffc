"""Small reads and writes over many queue pairs: SMART's figures, and losses by connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.config.rdma_costs import load_nic_costs
from nicscope.studies.connections import FULL, Asked, measure

if TYPE_CHECKING:
    from nicscope.config.rdma_costs import NicCosts
    from nicscope.studies.reproduce.verdict import Item, Outcome

THREADS = 96
FIGURE_THREADS = (1, *range(8, 97, 8))  # of SMART's Figure 3
FIGURE_OUTSTANDING = (1, 4, 8, 16, 24, 32)  # of each thread, of its Figure 4
FACTOR = 1.5  # that the knee may be off
MANY = 16_384  # connections


def _smart(operation: str, threads: int, outstanding: int) -> Asked:
    return Asked(operation, threads, threads, outstanding, 16, "own", "random")


def _middle(asked: Asked, nic: NicCosts) -> float:
    """Million operations a second between both ends of the costs."""
    return (measure(asked, nic, 0).millions + measure(asked, nic, 1).millions) / 2


def t4(outcome: Outcome, item: Item) -> None:
    """SMART, Figure 4: 96 threads with a doorbell each, by what each has outstanding."""
    nic = load_nic_costs("connectx-6")
    low, high = item.printed["best_outstanding"]
    knees = {}
    for operation in ("read", "write"):
        rates = {
            outstanding: _middle(_smart(operation, THREADS, outstanding), nic)
            for outstanding in FIGURE_OUTSTANDING
        }
        for outstanding in item.printed["outstanding"]:
            outcome.point(operation, "M/s", rates[outstanding], outstanding=outstanding)
        full = FULL * max(rates.values())
        knees[operation] = max(
            outstanding * THREADS for outstanding, rate in rates.items() if rate >= full
        )
    outcome.shape(
        "knee",
        all(low / FACTOR <= knee <= high * FACTOR for knee in knees.values()),
        ", ".join(f"{operation}s: {knee:,}" for operation, knee in knees.items()),
    )


def t5(outcome: Outcome, item: Item) -> None:
    """SMART, Figure 3: 8 reads outstanding of each thread, by what threads share."""
    nic = load_nic_costs("connectx-6")
    peak_threads = item.printed["per_thread_peak_threads"]
    shared = {
        threads: _middle(_smart("read", threads, 8)._replace(doorbells="context"), nic)
        for threads in sorted({*FIGURE_THREADS, peak_threads})
    }
    peak = max(shared, key=lambda threads: shared[threads])
    own = _middle(_smart("read", THREADS, 8), nic)
    one = _middle(_smart("read", THREADS, 8)._replace(doorbells="context", queue_pairs=1), nic)
    outcome.point("per_thread_peak", "M/s", shared[peak])
    outcome.point("per_thread_peak_at", "threads", peak)
    outcome.point("per_thread_at_96", "M/s", shared[THREADS])
    outcome.point("own_doorbell", "M/s", own)
    outcome.point("shared_queue_pair", "M/s", one)
    outcome.shape(
        "order",
        own > shared[THREADS] > one,
        f"{own:.0f}, {shared[THREADS]:.1f} and {one:.2f} million/s",
    )


def t18(outcome: Outcome, item: Item) -> None:
    """Losses by connections: 16 threads with 32 reads outstanding each."""
    nic = load_nic_costs("connectx-6")
    few = item.printed["star_full_rate_connections"]
    losses: dict[int, list[float]] = {few: [], MANY: []}
    for end in (0, 1):
        asked = _smart("read", 16, 32)
        alone = measure(asked, nic, end).millions
        for connections, lost in losses.items():
            rate = measure(asked._replace(queue_pairs=connections), nic, end).millions
            lost.append(100 * (1 - rate / alone))
    told = {
        connections: f"{lost[0]:.0f} and {lost[1]:.0f} %" for connections, lost in losses.items()
    }
    most, *_, least = item.printed["storm_loss_percent"]
    outcome.shape(
        "full-up-to-some-hundreds",
        all(lost <= 100 * (1 - FULL) for lost in losses[few]),
        f"{few} connections lose {told[few]}",
    )
    outcome.shape(
        "less-with-thousands",
        all(least <= lost <= most for lost in losses[MANY]),
        f"{MANY:,} connections lose {told[MANY]}",
    )
