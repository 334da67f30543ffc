"""Bells: processes of different nodes wake each other, at the same virtual time.

A process that waits for one does so at a completion queue of its own, into which no NIC writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.drivers.simulate.machine import AWAIT_QUEUE

if TYPE_CHECKING:
    from nicscope.interfaces.via.process import Process


class Bell:
    """Wakes those that wait for it when it rings."""

    def __init__(self) -> None:
        self._waiting: list[Process] = []

    def ring(self) -> None:
        """Wake all, now."""
        waiting, self._waiting = self._waiting, []
        for process in waiting:
            record = process._ports.work.queues[process.node, process.number]
            record["written"] += 1
            record["shown"] += 1
            process._driven.wake()

    async def hear(self, process: Process, latest: int | None) -> None:
        """Have ``process`` wait until it rings, or until ``latest`` (ps)."""
        self._waiting.append(process)
        try:
            await process.ask(AWAIT_QUEUE, peer=process.number, address=latest or 0)
        finally:
            if process in self._waiting:
                self._waiting.remove(process)
