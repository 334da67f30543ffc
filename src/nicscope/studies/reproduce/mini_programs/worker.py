"""Runs of one program in processes of their own: a run keeps the interpreter to itself.

As a command it is such a process: it reads a design a line, and answers each with a line, until its
input ends.  ``python -m nicscope.studies.reproduce.mini_programs.worker PROGRAM``
"""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from nicscope import errors
from nicscope.studies.reproduce.mini_programs.runs import Timed
from nicscope.studies.threads import Stopped, threaded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from nicscope.studies.reproduce.traced.measuring import Spec


def timed_apart(program: Path, asked: Sequence[Spec], workers: int) -> Iterator[tuple[Spec, Timed]]:
    """Yield each design with what the run of ``program`` comes to, in the order of finishing.

    Errors: those of ``time_cache``.  Whatever ends it ends the processes.
    """
    with contextlib.ExitStack() as stack:
        idle: queue.SimpleQueue[subprocess.Popen[str]] = queue.SimpleQueue()
        for _ in range(min(workers, len(asked))):
            idle.put(stack.enter_context(_process(program)))

        def work(spec: Spec, stop: Callable[[], bool]) -> Timed:
            if stop():
                raise Stopped
            process = idle.get()
            try:
                return _ask(process, spec)
            finally:
                idle.put(process)

        yield from threaded(asked, work, workers)


@contextlib.contextmanager
def _process(program: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", __name__, str(program)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _ask(process: subprocess.Popen[str], spec: Spec) -> Timed:
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended: its answer says so
        print(json.dumps(spec), file=process.stdin, flush=True)
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"the process that timed {' '.join(spec)} ended")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        kind: type[Exception] = getattr(errors, answer["kind"])
        raise kind(answer["error"])
    return Timed.of_json(answer["timed"])


def answer_all(program: str) -> None:
    """Answer every line of standard input."""
    from nicscope.studies.reproduce.mini_programs.timing import time_cache
    from nicscope.studies.timing import program_of
    from nicscope.traces.programs.reader import read_program

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who asked ends this
    rows = program_of(read_program(program))
    for line in sys.stdin:
        try:
            answer: dict[str, Any] = {"timed": time_cache(rows, tuple(json.loads(line))).to_json()}
        except errors.NicscopeError as error:
            answer = {"error": str(error), "kind": type(error).__name__}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    answer_all(sys.argv[1])
