"""A worker process: performs tasks from its connection until that is closed."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from nicscope.errors import NicscopeError, RoomError, StudyError

if TYPE_CHECKING:
    from nicscope.studies.workers import Task

TELLING_S = 0.2  # between two words on how far it is


def main(number: int) -> None:
    """Serve over the descriptor ``number``; does not return."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from nicscope.traces.reader import decode_alone

    decode_alone()
    connection = Connection(number)
    tasks: queue.SimpleQueue[tuple[int, Task]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, tasks), daemon=True).start()
    while True:
        place, task = tasks.get()
        answer = _answer(connection, place, task)
        try:
            connection.send(answer)
        except OSError:
            os._exit(0)


def _listen(connection: Connection, tasks: queue.SimpleQueue[Any]) -> None:
    """Receive tasks; exit as soon as the connection is closed."""
    try:
        while True:
            tasks.put(connection.recv())
    except (EOFError, OSError):
        os._exit(0)


def _answer(connection: Connection, place: int, task: Task) -> tuple[str, int, Any]:
    counted, told = 0, time.monotonic()

    def done(rows: int) -> None:
        nonlocal counted, told
        counted += rows
        if time.monotonic() - told >= TELLING_S:
            connection.send(("rows", place, counted))
            counted, told = 0, time.monotonic()

    try:
        return "done", place, task.perform(done)
    except NicscopeError as error:
        return "failed", place, type(error)(str(error))
    except MemoryError:
        return "failed", place, RoomError("a worker has no memory left; use fewer --workers")
    except Exception as error:
        said = " ".join(repr(error).split())
        return "failed", place, StudyError(f"a worker failed: {said}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
