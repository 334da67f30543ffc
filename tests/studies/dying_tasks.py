"""Tasks for worker processes, which import this file by its name."""

import os
import signal
import time
from pathlib import Path

from nicscope.errors import TraceError


def times_ten(number, done):
    done(1)
    return number * 10


def dies_once(marker, number, done):
    """Kills its worker half-way, the first time."""
    done(1)
    try:
        Path(marker).touch(exist_ok=False)
        Path(marker).write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
    except FileExistsError:
        pass
    return number * 10, os.getpid()


def dies_always(done):  # noqa: ARG001
    os._exit(7)


def fails(done):  # noqa: ARG001
    raise TraceError("t.parquet: row 3: is odd")


def is_odd(done):  # noqa: ARG001
    raise ZeroDivisionError("x / 0")


def sleeps(marker, done):  # noqa: ARG001
    Path(marker).write_text(str(os.getpid()))
    time.sleep(600)
