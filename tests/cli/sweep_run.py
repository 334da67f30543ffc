"""A sweep in a process that was forked from one which has imported everything."""

import contextlib
import io
import os

import nicscope.reports.sweep
import nicscope.studies.sweep.table  # noqa: F401
from nicscope.cli.app import main


def run(trace, out):
    """Sweep 144 designs; ends the process with the command's status."""
    grid = ["entries=16,64", "ways=1,4", "prefetch=1,4", "replacement=lru,mru,lfu"]
    grid += ["pin_limit=4,6,8,10,12,none"]
    options = [word for axis in grid for word in ("--grid", axis)]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        os._exit(main(["sweep", str(trace), "--design", "utlb", *options, "--out", str(out)]))
