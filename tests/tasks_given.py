"""What is given to workers that are processes: two that get nothing would print the same as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.studies import workers

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from nicscope.studies.workers import Task


def rows_by_worker(monkeypatch: pytest.MonkeyPatch) -> dict[int, list[int]]:
    """For each process the rows of its tasks, from now on."""
    found: dict[int, list[int]] = {}
    give = workers.LocalWorkers._give

    def noted(self: Any, worker: Any, place: int, tasks: Sequence[Task]) -> None:
        found.setdefault(worker.process.pid, []).append(tasks[place].rows)
        give(self, worker, place, tasks)

    monkeypatch.setattr(workers.LocalWorkers, "_give", noted)
    return found
