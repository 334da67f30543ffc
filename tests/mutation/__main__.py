"""Breaks one place of the firmware at a time and sees whether a test fails: ``make mutants``.

A sample of the places is drawn anew each time, or by ``--seed``; what survives is printed with its
change as soon as it is found.  The checkout is not touched.  Exit status 1 if fewer are caught
than ``--at-least`` asks.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import sys
from pathlib import Path

import pytest
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

sys.path.insert(0, str(Path(__file__).parent))

from footprints import Cabinet
from judged import judged_equivalent
from places import Mutant, places_of
from trial import ARGUMENTS, CAUGHT, NO_TEST, SETTING, SURVIVED, TESTS, UNDECIDED, Trials

ROOT = Path(__file__).parents[2]
ROOMS = ("nic", "memory", "host", "drivers")
JUDGED = "changes nothing that can be seen"
_COLUMNS = (
    TextColumn("{task.description}"),
    BarColumn(),
    MofNCompleteColumn(),
    TimeRemainingColumn(),
)


def main() -> int:
    """Run the sample and print what survived."""
    options = _options()
    seed = options.seed if options.seed is not None else random.randrange(1 << 32)
    os.environ.update(SETTING)
    sys.dont_write_bytecode = True
    mutants = _sample(options.file, options.sample, seed)
    if options.at:
        at = tuple(f"/{each}" for each in options.at)
        mutants = [each for each in mutants if f"{each.path}:{each.line}".endswith(at)]
    print(f"{len(mutants)} mutants, seed {seed}", flush=True)
    ended = _tried(mutants, options)
    tried = sum(map(len, ended.values())) - len(ended[JUDGED])
    caught = len(ended[CAUGHT])
    share = caught / tried if tried else 1.0
    print(
        f"\n{caught} of {tried} mutants caught ({share:.1%}); {len(ended[SURVIVED])} survived, "
        f"{len(ended[NO_TEST])} more are where no test comes, {len(ended[UNDECIDED])} took too "
        f"long to tell; {len(ended[JUDGED])} change nothing that can be seen "
        "(tests/mutation/judged.toml) and do not count"
    )
    again = f"--seed {seed} --sample {options.sample} --seconds {options.seconds:g}"
    again += f" --file {options.file}" if options.file else ""
    again += f" --tests {' '.join(options.tests)}" if options.tests != TESTS else ""
    print(f"again: make mutants MUTANTS='{again}'")
    return int(share < options.at_least)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants MUTANTS='...'", description=__doc__)
    parser.add_argument("--sample", type=int, default=120, help="how many; 0 for all (120)")
    parser.add_argument("--seed", type=int, help="of the sample; printed, drawn anew by default")
    parser.add_argument("--file", default="", help="only in files whose path contains this")
    parser.add_argument(
        "--at", nargs="+", default=(), metavar="FILE:LINE", help="of the sample, only those here"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--seconds",
        type=float,
        default=120.0,
        help="of tests that each is tried by, the shortest that come by it (120)",
    )
    parser.add_argument("--tests", nargs="+", default=TESTS, help="folders or files in tests")
    parser.add_argument("--at-least", type=float, default=0.9, help="share to be caught (0.9)")
    return parser.parse_args()


def _firmware() -> list[Path]:
    source = ROOT / "src" / "nicscope"
    return [path for room in ROOMS for path in sorted((source / room).rglob("*.py"))]


def _sample(part: str, size: int, seed: int) -> list[Mutant]:
    places = [
        place
        for path in _firmware()
        if part in str(path.relative_to(ROOT))
        for place in places_of(path, path.relative_to(ROOT))
    ]
    generator = random.Random(seed)
    generator.shuffle(places)
    mutants = filter(None, (place.mutant(generator) for place in places))
    return list(itertools.islice(mutants, size or None))


def _tried(mutants: list[Mutant], options: argparse.Namespace) -> dict[str, list[Mutant]]:
    """The mutants by how their trials ended; one that is not caught is shown at once."""
    ended: dict[str, list[Mutant]] = {
        each: [] for each in (CAUGHT, SURVIVED, NO_TEST, UNDECIDED, JUDGED)
    }

    def tell(mutant: Mutant, outcome: str) -> None:
        alive = outcome in (SURVIVED, NO_TEST)
        ended[JUDGED if alive and judged_equivalent(mutant) else outcome].append(mutant)
        if outcome != CAUGHT and not judged_equivalent(mutant):
            change = f"  - {mutant.before}\n  + {mutant.after}"
            number = sum(map(len, ended.values()))
            print(f"\n{number}. {outcome}: {mutant.path}:{mutant.line}\n{change}", flush=True)
        progress.advance(task)

    cabinet = Cabinet(ROOT / ".mutation_cache", ROOT, _firmware())
    trials = Trials(ROOT, cabinet, mutants, options.workers, options.seconds, tell)
    folders = [str(ROOT / "tests" / name) for name in options.tests]
    with Progress(*_COLUMNS, disable=not sys.stdout.isatty()) as progress:
        task = progress.add_task("mutants", total=len(mutants))
        status = pytest.main([*ARGUMENTS, "--rootdir", str(ROOT), *folders], plugins=[trials])
    if status == pytest.ExitCode.INTERRUPTED:
        print("\nstopped: what follows is of those that were tried")
    elif status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        sys.exit("the tests do not run")
    return ended


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)  # no trial stays behind
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
