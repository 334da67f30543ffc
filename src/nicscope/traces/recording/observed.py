"""What a recording counts: what has a row, what has none, and what could not be seen."""

from __future__ import annotations

import errno
from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Observed:
    """Counts of one recording; the tracer adds to them as it goes."""

    rows: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    processes: int = 0
    threads: int = 0  # the first of each process among them
    programs: int = 0  # successful calls of exec
    moved: Counter[str] = field(default_factory=Counter)  # calls that gave rows, by name
    empty: int = 0  # calls that moved nothing, such as a read at the end of a stream
    failed: Counter[str] = field(default_factory=Counter)  # by name of the error
    interrupted: int = 0  # by a signal before anything moved; most are made again
    unfinished: int = 0  # the thread ended, or was let go, before the call did
    copies: Counter[str] = field(default_factory=Counter)  # sendfile and splice, by name
    copied_bytes: int = 0
    ring_calls: Counter[str] = field(default_factory=Counter)  # io_uring, by name
    foreign_calls: int = 0  # system calls of 32-bit code, of any kind
    hidden: int = 0  # calls whose descriptor or buffers this user may not look at
    not_sockets: int = 0  # reads and writes of files, pipes and terminals

    def fail(self, number: int) -> None:
        """Count a call that failed with errno ``number``."""
        self.failed[errno.errorcode.get(number, str(number))] += 1

    def as_json(self) -> dict[str, Any]:
        """All counts, by name."""
        return {
            name: dict(value) if isinstance(value, Counter) else value
            for name, value in vars(self).items()
        }
