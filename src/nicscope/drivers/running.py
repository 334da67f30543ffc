"""Which program goes on now: of all clusters that a thread runs, one at a time.

A library is asked by it, and by nobody else; so it can tell who calls.
"""

from __future__ import annotations

import threading
from typing import Any


class _Running(threading.local):
    """Of one thread: the program's side of its driver, or None between two of them."""

    program: Any = None


RUNNING = _Running()
