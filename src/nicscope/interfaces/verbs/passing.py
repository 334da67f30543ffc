"""What processes of a program tell each other by: queues and pipes, whose items are copied."""

from __future__ import annotations

import pickle
import queue
from collections import deque
from typing import Any

from nicscope.interfaces.verbs.synchronizing import waited


class SimpleQueue:
    """Items, first in, first out."""

    def __init__(self, maxsize: int = 0, *, ctx: Any = None) -> None:  # noqa: ARG002
        self._items: deque[bytes] = deque()
        self._room = maxsize if maxsize > 0 else 1 << 62

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item.  Errors: ``queue.Full`` if there is no room in time."""
        copied = pickle.dumps(obj)
        if not waited("room in a Queue", self._has_room, timeout if block else 0):
            raise queue.Full
        self._items.append(copied)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take the first.  Errors: ``queue.Empty`` if none comes in time."""
        if not waited("an item of a Queue", lambda: bool(self._items), timeout if block else 0):
            raise queue.Empty
        # Programs of this very run have put these.
        return pickle.loads(self._items.popleft())

    def _has_room(self) -> bool:
        return len(self._items) < self._room

    def empty(self) -> bool:
        """Whether there is none."""
        return not waited("an item of a Queue", lambda: bool(self._items), 0)

    def close(self) -> None:
        """It needs none."""


class Queue(SimpleQueue):
    """Items, and what else can be asked of them."""

    def put_nowait(self, obj: Any) -> None:
        """Errors: ``queue.Full``."""
        self.put(obj, block=False)

    def get_nowait(self) -> Any:
        """Errors: ``queue.Empty``."""
        return self.get(block=False)

    def qsize(self) -> int:
        """How many there are."""
        return len(self._items)

    def full(self) -> bool:
        """Whether there is no room."""
        return not waited("room in a Queue", self._has_room, 0)

    def join_thread(self) -> None:
        """There is none."""

    def cancel_join_thread(self) -> None:
        """There is none."""


class JoinableQueue(Queue):
    """Items that are counted until somebody has seen to them."""

    _undone = 0

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item."""
        super().put(obj, block, timeout)
        self._undone += 1

    def task_done(self) -> None:
        """One has been seen to.  Errors: ``ValueError`` for one too many."""
        if not self._undone:
            raise ValueError("task_done() called too many times")
        self._undone -= 1

    def join(self) -> None:
        """Wait until all have."""
        waited("all items of a JoinableQueue to be done", lambda: not self._undone)


class Connection:
    """An end of a pipe."""

    def __init__(self, comes: Queue | None, goes: Queue | None) -> None:
        self._comes, self._goes = comes, goes
        self.readable, self.writable = comes is not None, goes is not None
        self.closed = False

    def send(self, obj: Any) -> None:
        """Have the other end receive it.  Errors: ``OSError`` at an end that only receives."""
        if self._goes is None:
            raise OSError("connection is read-only")
        self._goes.put(obj)

    def recv(self) -> Any:
        """What the other end has sent, waited for.  Errors: ``OSError`` at one that only sends."""
        return self._coming().get()

    def _coming(self) -> Queue:
        if self._comes is None:
            raise OSError("connection is write-only")
        return self._comes

    send_bytes, recv_bytes = send, recv

    def poll(self, timeout: float | None = 0.0) -> bool:
        """Whether something comes in time."""
        comes = self._coming()
        return waited("a Connection", lambda: bool(comes.qsize()), timeout)

    def close(self) -> None:
        """Be used no more here; other processes hold it still."""
        self.closed = True

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def pipe(duplex: bool = True) -> tuple[Connection, Connection]:
    """Two ends; unless ``duplex``, the first only receives and the second only sends."""
    one, two = Queue(), Queue() if duplex else None
    return Connection(one, two), Connection(two, one)
