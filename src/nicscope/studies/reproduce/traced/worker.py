"""A process that times one program's runs: it answers each line, a design, with a line.

``python -m nicscope.studies.reproduce.traced.worker PROGRAM``, until its input ends.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

import msgspec

from nicscope import errors
from nicscope.studies.reproduce.traced.timed_runs import time_cache
from nicscope.studies.timing import program_of
from nicscope.traces.programs.reader import read_program


def answer_all(program: str) -> None:
    """Answer every line of standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who asked ends this
    rows = program_of(read_program(program))
    for line in sys.stdin:
        try:
            timed = time_cache(rows, tuple(json.loads(line)))
            answer: dict[str, Any] = {"timed": msgspec.to_builtins(timed)}
        except errors.NicscopeError as error:
            answer = {"error": str(error), "kind": type(error).__name__}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    answer_all(sys.argv[1])
