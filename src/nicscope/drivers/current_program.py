"""Which program runs now: of all clusters of a thread, one at a time.

A library is asked by it, and by nobody else; so it can tell who calls.
"""

from __future__ import annotations

import threading
from typing import Any


class _Running(threading.local):
    """The running program of one thread, as its driver sees it; None between two programs."""

    program: Any = None


RUNNING = _Running()
