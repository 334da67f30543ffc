"""Runs the tests in each of their ways: ``make test``, and with ``--long`` ``make test-long``.

Every way is a pytest run of its own with the tests that ``suite.py`` gives it.  Each ends with its
time; the whole fails if a way fails, or if some test was skipped wherever it was chosen although
nothing that it needs is missing on this machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from conftest import NEEDS
from suite import GATE, LONG, WAYS

ROOT = Path(__file__).parents[1]
NO_TESTS = 5  # pytest's exit status
COMPILE_S = 600.0  # at most for each of these
# What these programs enter is most of what all others do.
COMPILED_FIRST = ("vmmc_store_fetch", "ports_over_ways", "via_rdma_write", "mini_many_buffers")


def main() -> int:
    """Run the chosen ways; 0 if all passed and no test was left out of each."""
    parser = argparse.ArgumentParser(prog="python tests", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--long", action="store_true", help="what is long by nature, with new seeds"
    )
    parser.add_argument("--way", action="append", choices=WAYS, help="only this way")
    parser.add_argument("-n", "--workers", default="2", help="processes of pytest (2)")
    parser.add_argument("pytest", nargs="*", help="tests (all), and behind -- pytest's options")
    options = parser.parse_args()
    whole = not any(not one.startswith("-") for one in options.pytest)
    chosen = options.way or (LONG if options.long else GATE)

    # Hundreds of tests start nicscope, and each start would compile all that it imports anew.
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    outcomes: dict[str, dict[str, tuple[str, str]]] = {}
    summary, failed = [], False
    with tempfile.TemporaryDirectory() as folder:
        for number, way in enumerate(chosen, 1):
            print(f"{number} of {len(chosen)}: {WAYS[way].title}", flush=True)
            log = Path(folder) / way
            began = time.monotonic()
            environment = {**kept, **WAYS[way].environment}
            if whole and "compiled" in way:
                _compile_first(environment)
                took = f"{(time.monotonic() - began) / 60:.1f} min"
                print(f"{way}: compiled what most tests simulate in {took}", flush=True)
            status = subprocess.run(
                [
                    *(sys.executable, "-m", "pytest", "-q", "-n", options.workers),
                    *("--dist", "loadfile", "--no-loadscope-reorder"),
                    *(f"--way={way}", f"--outcomes={log}"),
                    *(["tests"] if whole else []),
                    *options.pytest,
                ],
                cwd=ROOT,
                env=environment,
                check=False,
            ).returncode
            failed |= status != 0 and (whole or status != NO_TESTS)
            outcomes[way] = _read(log)
            counts = Counter(outcome for outcome, _ in outcomes[way].values())
            took = f"{(time.monotonic() - began) / 60:.1f} min"
            summary.append((way, counts, took))
            print(f"{way}: {_spelt(counts)} in {took}\n", flush=True)

    idle = _skipped_everywhere(outcomes)
    for reason, tests in idle.items():
        excused = reason.startswith(NEEDS)
        failed |= not excused
        print(f"{len(tests)} ran in no way: {reason}")
        if not excused:
            print(*(f"  {test}" for test in tests), sep="\n")
    for way, counts, took in summary:
        print(f"{way:14} {_spelt(counts):48} {took:>9}")
    total = sum((counts for _, counts, _ in summary), Counter())
    print(f"tests: {_spelt(total)}")
    return int(failed)


def _compile_first(environment: dict[str, str]) -> None:
    """Share the kernels of most tests out between processes: each worker would compile them all.

    How far it is goes to standard error.  What this does not compile, the tests do.
    """
    for name in COMPILED_FIRST:
        example = str(ROOT / "examples" / f"{name}.py")
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [sys.executable, "-m", "nicscope", "compile", "simulate", example],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.DEVNULL,
                check=False,
                timeout=COMPILE_S,
            )


def _spelt(counts: Counter[str]) -> str:
    return f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"


def _read(log: Path) -> dict[str, tuple[str, str]]:
    """Outcome and reason of each test; one that passed and then failed on its way out failed."""
    found: dict[str, tuple[str, str]] = {}
    for line in log.read_text().splitlines() if log.exists() else ():
        test, outcome, reason = json.loads(line)
        if found.get(test, ("",))[0] != "failed":
            found[test] = outcome, reason.removeprefix("Skipped: ")
    return found


def _skipped_everywhere(
    outcomes: dict[str, dict[str, tuple[str, str]]],
) -> dict[str, list[str]]:
    """The tests that were chosen by some way and skipped by all that chose them, by reason."""
    idle: dict[str, list[str]] = {}
    every = {test for way in outcomes.values() for test in way}
    for test in sorted(every):
        its = [way[test] for way in outcomes.values() if test in way]
        if all(outcome == "skipped" for outcome, _ in its):
            idle.setdefault(its[0][1], []).append(test)
    return idle


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
