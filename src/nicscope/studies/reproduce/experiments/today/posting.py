"""What posting a work request takes, and what a small message does that programs of verbs post."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.studies.verbs_measures import all_latencies, ask

if TYPE_CHECKING:
    from nicscope.studies.reproduce.verdict import Item, Outcome

MESSAGES = 10


def t16(outcome: Outcome, item: Item) -> None:
    """A small write whose bytes stand in its doorbell spares a read of host memory."""
    for read, us in item.derived["read_us"].items():
        outcome.point("saved", "us", float(us), read=read)


def t21(outcome: Outcome, item: Item) -> None:
    """Small messages, one at a time, on the simulated NIC; the first finds no entry cached."""
    (group,) = item.points
    for operation in group.at["operation"]:
        question = ask(operation=operation, sizes="8", iterations=MESSAGES, designs=("rnic",))
        (row,) = all_latencies(question, [], lambda *_: None).rows
        outcome.point("latency", "us", row.typical / 1000, operation=operation)
