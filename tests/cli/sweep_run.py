"""The command in a process that is forked from one which has imported and compiled everything."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from trace_files import write

from nicscope.cli.app import main


def command(trace, out):
    grid = ["entries=16,64", "ways=1,4", "prefetch=1,4", "replacement=lru,mru,lfu"]
    grid += ["pin_limit=4,6,8,10,12,none"]
    options = [word for axis in grid for word in ("--grid", axis)]
    return ["sweep", str(trace), "--design", "utlb", *options, "--out", str(out)]


def run(trace, out):
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    os._exit(main(command(trace, out)))
