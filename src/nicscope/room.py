"""Whether what is about to be allocated fits into this machine's memory.

Linux hands out more memory than there is, and ends a process, any process, when it is used.
"""

from __future__ import annotations

import contextlib
import re
import resource
from pathlib import Path

from nicscope.errors import RoomError

WORTH_ASKING = 1 << 28  # bytes; less is always there
GIB = 1 << 30


def free_bytes() -> int:
    """Bytes that this process can take without taking them from another one."""
    found = [_within_limit(), _within_group()]
    with contextlib.suppress(OSError, ValueError):
        text = Path("/proc/meminfo").read_text()
        found += [int(kib) << 10 for kib in re.findall(r"^MemAvailable: *(\d+) kB", text, re.M)]
    return min((count for count in found if count is not None), default=1 << 62)


def check_room(needed: int, what: str, advice: str) -> None:
    """Return if ``needed`` bytes are free.

    Errors: ``RoomError``: ``what`` needs so much, so much is free; ``advice``.
    """
    if needed < WORTH_ASKING:
        return
    free = free_bytes()
    if needed > free:
        raise RoomError(
            f"{what} needs {needed / GIB:.1f} GiB of memory and {free / GIB:.1f} GiB is free; "
            f"{advice}"
        )


def _within_limit() -> int | None:
    """What ``ulimit -v`` leaves."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return max(0, limit - pages * resource.getpagesize())
    return limit


def _within_group() -> int | None:
    """What the control group of a container leaves."""
    folder = Path("/sys/fs/cgroup")
    with contextlib.suppress(OSError, ValueError):
        most = int((folder / "memory.max").read_text())
        return max(0, most - int((folder / "memory.current").read_text()))
    return None
