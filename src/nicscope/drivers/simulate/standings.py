"""Where the programs of a run stand, all of them: said when it fails, stops or is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.drivers.simulate.standing import DOING, has_ended, put_note, stand_of, who
from nicscope.errors import WaitTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from nicscope.drivers.simulate.driven import Process
    from nicscope.drivers.simulate.machine import Machine
    from nicscope.drivers.simulate.tasks import Tasks


class Standings:
    """Of one run."""

    machine: Machine
    processes: list[Process]
    tasks: Tasks
    is_over: bool
    unclaimed: Callable[[], list[str]] = list  # what has come where no program is
    _actors: list[Process]
    _running: dict[int, Coroutine[Any, Any, object]]

    def stands(self) -> list[str]:
        """Where each program that has not ended stands, one line each."""
        lines = []
        for number, program in self._running.items():
            operation = self.machine.processes[number]
            since = int(operation["time"]) if operation["operation"] else None
            doing = DOING.get(int(operation["operation"]), "go on")
            task = self.tasks.by_row.get(number)
            name = None if task is None else task.name
            lines.append(stand_of(self._actors[number], program, since, doing, name))
        ended = [each for each in self.processes if each.number not in self._running]
        return [*lines, *filter(None, map(has_ended, ended)), *self.unclaimed()]

    def remarks(self) -> list[str]:
        """What its programs may not have noticed: where they stand, or what they sent in vain."""
        if not self.is_over:
            return self.stands()
        lost = [f"{who(each)}: {said}" for each in self.processes for said in each.lost()]
        return [*lost, *self.unclaimed()]

    def others_stand(self, process: Process) -> list[str]:
        """Where the programs of others stand."""
        own = f"{who(process)}"
        return [line for line in self.stands() if not line.startswith(own)]

    def silence_of(self, node: int) -> str:
        """Why nothing at all can come of ``node``, to put behind a message; or nothing."""
        if self.goes_on_at(node):
            return ""
        record = self.machine.nodes[node]
        has_any = int(record["last_process"]) > int(record["first_process"])
        return f"; {'its program has ended' if has_any else 'no program runs there'}"

    def goes_on_at(self, node: int) -> bool:
        """Whether a program of ``node`` has not ended."""
        return any(self._actors[number].node == node for number in self._running)

    def _note(self, error: BaseException, process: Process) -> None:
        """Have what leaves a program say whose it is, and a wait where the others stand."""
        put_note(error, process)
        if isinstance(error, WaitTimeoutError) and not error.stands:
            error.stands = self.stands()
