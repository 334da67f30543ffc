"""Mutants' trials: of the tests that run the changed line the shortest first, until one fails.

The tests are loaded once.  A trial is a process forked from there that gets the changed body of
the function; a change outside of functions takes an interpreter of its own.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import itertools
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from footprints import Cabinet, Footprint, passes
from swapped import Broken, module_of, swap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from places import Mutant

TESTS = (
    *("nic", "memory", "drivers", "drivers_bus", "drivers_simulate", "drivers_traced"),
    *("ports", "interfaces", "oracle"),
    *("studies/test_paging_on_demand.py", "studies/test_shares_in_groups.py"),
)
SETTING = {
    "NUMBA_DISABLE_JIT": "1",  # with it go the examples of the gate's main way
    "PYTHONDONTWRITEBYTECODE": "1",
}
ARGUMENTS = ("-qq", "-s", "--no-header", "--no-summary", "-p", "no:cacheprovider",
             "-o", "timeout=0")  # fmt: skip
_PATIENCE = (3.0, 2.0)  # a test that takes longer, in s of work and in times, never ends
_WALL = 1800.0  # s: a trial that sleeps
_ON_IMPORT = "tests/nic/test_numbers_told_apart.py::"  # looks at what modules have, runs nothing
_ROOM = 4 << 30  # bytes that a trial may take: a mutant that asks for more never ends
CAUGHT, SURVIVED, NO_TEST, UNDECIDED = "caught", "survived", "not tested", "undecided"


def chosen_for(mutant: Mutant, original: str, footprints: Iterable[Footprint]) -> list[Footprint]:
    """The tests that come by the changed place, the shortest first."""
    path = mutant.path.as_posix()
    lines = _statement(original, mutant.line)
    if lines is None:  # worked out on import: by all that run any of the file
        meeting = [each for each in footprints if path in each.lines or _ON_IMPORT in each.test]
    else:
        meeting = [each for each in footprints if each.meets(path, lines)]
    return sorted(meeting, key=lambda each: each.seconds)


def _within(tests: list[Footprint], seconds: float) -> list[Footprint]:
    """The first of ``tests``, as many as take ``seconds``, and one at least."""
    ends = itertools.accumulate(each.seconds for each in tests)
    return [each for each, end in zip(tests, ends, strict=True) if end <= seconds] or tests[:1]


def _statement(code: str, line: int) -> range | None:
    """The lines of the innermost statement at ``line``, if it is within a function."""
    found: tuple[int, range] | None = None
    for function in ast.walk(ast.parse(code)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in (each for part in function.body for each in ast.walk(part)):
            if isinstance(node, ast.stmt):
                last = _last_line(node)
                if node.lineno <= line <= last and (not found or node.lineno >= found[0]):
                    found = node.lineno, range(node.lineno, last + 1)
    return found[1] if found else None


def _last_line(statement: ast.stmt) -> int:
    inner = [part.lineno for name in ("body", "cases") for part in getattr(statement, name, [])[:1]]
    return max(statement.lineno, inner[0] - 1) if inner else statement.end_lineno or 0


class Trials:
    """A plugin of pytest that has mutants tried by the tests that it collected."""

    def __init__(
        self,
        root: Path,
        cabinet: Cabinet,
        mutants: list[Mutant],
        workers: int,
        seconds: float,
        tell: Callable[[Mutant, str], None],
    ) -> None:
        self.root, self.cabinet, self.mutants = root, cabinet, mutants
        self.workers, self.seconds, self.tell = workers, seconds, tell
        self.footprints: list[Footprint] = []
        self.items: dict[str, pytest.Item] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In place of running the tests."""
        self.items = {item.nodeid: item for item in session.items}
        gc.collect()
        gc.freeze()
        self._take_footprints(session.items)
        print(f"{len(self.footprints)} tests pass and are used", flush=True)
        for (mutant, _), outcome in _forked(
            [(mutant, self._trial(mutant)) for mutant in self.mutants], self.workers
        ):
            self.tell(mutant, outcome)
        return True

    def _take_footprints(self, items: list[pytest.Item]) -> None:
        files: dict[Path, list[pytest.Item]] = {}
        for item in items:
            files.setdefault(item.path, []).append(item)
        new = [path for path in files if not self.cabinet.paper(path).exists()]
        if new:
            print(f"which test runs what, in {len(new)} files of tests", flush=True)
        jobs = [(path, lambda p=path: self.cabinet.take(p, files[p])) for path in new]  # type: ignore[misc]
        for (path, _), outcome in _forked(jobs, self.workers):
            if outcome != SURVIVED:
                print(f"{path.relative_to(self.root)}: not used, its tests end badly", flush=True)
        self.footprints = [each for path in files for each in self.cabinet.kept(path)]

    def _trial(self, mutant: Mutant) -> Callable[[], None]:
        def trial() -> None:
            original = (self.root / mutant.path).read_text()
            tests = _within(chosen_for(mutant, original, self.footprints), self.seconds)
            if not tests:
                os._exit(3)
            if swap(mutant, original):
                _run([(self.items[each.test], each.seconds) for each in tests])
            else:
                _alone(mutant, tests, self.root)

        return trial


def _run(tests: Iterable[tuple[pytest.Item, float]]) -> None:
    """Run ``tests`` and end the process with 1 as soon as one fails."""
    for item, seconds in tests:
        signal.setitimer(signal.ITIMER_VIRTUAL, _PATIENCE[0] + _PATIENCE[1] * seconds)
        if not passes(item):
            os._exit(1)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _alone(mutant: Mutant, tests: list[Footprint], root: Path) -> None:
    chosen = json.dumps(
        {
            "module": module_of(mutant),
            "code": mutant.code,
            "tests": [(each.test, each.seconds) for each in tests],
        }
    )
    done = subprocess.run([sys.executable, __file__], cwd=root, input=chosen, text=True)
    os._exit(0 if done.returncode == 0 else 1)


class Chosen:
    """A plugin of pytest that runs what it is told, in that order, until one fails."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In place of running the tests."""
        items = {item.nodeid: item for item in session.items}
        if not set(self.seconds) <= set(items):
            os._exit(1)  # the broken code changes even which tests there are
        _run((items[test], seconds) for test, seconds in self.seconds.items())
        os._exit(0)


def _forked(
    jobs: list[tuple[Any, Callable[[], None]]], workers: int
) -> Iterator[tuple[tuple[Any, Callable[[], None]], str]]:
    """Each job in a process of its own, ``workers`` at once, with how it ended."""
    running: dict[int, tuple[tuple[Any, Callable[[], None]], float]] = {}
    waiting = list(reversed(jobs))
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                job = waiting.pop()
                running[_fork(job[1])] = job, time.monotonic() + _WALL
            time.sleep(0.02)
            for process, (job, end) in list(running.items()):
                ended, status = os.waitpid(process, os.WNOHANG)
                if ended:
                    del running[process]
                    yield job, _outcome(status)
                elif time.monotonic() > end:
                    _kill(process)
                    del running[process]
                    yield job, UNDECIDED
    finally:
        for process in running:
            _kill(process)


def _fork(job: Callable[[], None]) -> int:
    process = os.fork()
    if process:
        return process
    os.setsid()
    for handled in (signal.SIGTERM, signal.SIGINT, signal.SIGVTALRM):
        signal.signal(handled, signal.SIG_DFL)
    quiet = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(quiet, standard)
    resource.setrlimit(resource.RLIMIT_AS, (_ROOM, _ROOM))
    try:
        job()
    except BaseException:
        os._exit(1)
    os._exit(0)


def _kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)


def _outcome(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return {0: SURVIVED, 3: NO_TEST}.get(code, CAUGHT)


def _of_one() -> None:
    told = json.load(sys.stdin)
    sys.meta_path.insert(0, Broken(told["module"], told["code"]))
    files = sorted({re.split("::", test)[0] for test, _ in told["tests"]})
    pytest.main([*ARGUMENTS, *files], plugins=[Chosen(dict(told["tests"]))])
    os._exit(1)  # what is broken cannot even be collected


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    _of_one()
