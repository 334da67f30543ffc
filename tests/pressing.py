"""A signal, such as Ctrl-C, to a command in a process of its own, once it is well under way."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

START_S = 240  # until the command has begun: a slow machine compiles for long
END_S = 240  # from the interrupt to the end: what the compiler is at cannot be cut short


def has_loaded(library: str, argument: object) -> bool:
    """Whether a process with ``argument`` on its command line has loaded ``library``."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(argument).encode() in (process / "cmdline").read_bytes().split(b"\0"):
                return library in (process / "maps").read_text()
    return False


def heeding() -> None:
    """In a command that begins: heed signals, though a shell had the tests begin without."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def interrupted(
    command: Sequence[str],
    begun: Callable[[], bool],
    more_s: float = 0.0,
    number: signal.Signals = signal.SIGINT,
) -> tuple[int, str, str]:
    """Exit status, output and errors of a command interrupted ``more_s`` after ``begun()``.

    Of the errors those lines are left out that say how far the command is.
    """
    running = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heeding,
    )
    try:
        deadline = time.monotonic() + START_S
        while not begun():
            assert running.poll() is None, running.communicate()
            assert time.monotonic() < deadline, "the command does not begin"
            time.sleep(0.02)
        time.sleep(more_s)
        assert running.poll() is None, running.communicate()
        running.send_signal(number)
        out, err = running.communicate(timeout=END_S)
    finally:
        running.kill()
    return running.returncode, out, re.sub(r"(?m)^nicscope: .* so far\n", "", err)
