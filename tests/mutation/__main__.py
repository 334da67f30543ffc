"""Breaks one place of the firmware at a time and sees whether a test fails: ``make mutants``.

A sample of the places is drawn anew each time, or by ``--seed``; what survives is printed with its
change.  The checkout is not touched: each worker mutates a copy of its own.  Exit status 1 if
fewer are caught than ``--at-least`` asks.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

sys.path.insert(0, str(Path(__file__).parent))

from judged import judged_equivalent
from places import Mutant, mutants_of
from trial import Trial, copied_tree, survives

ROOT = Path(__file__).parents[2]
ROOMS = ("nic", "memory", "host")


def main() -> int:
    """Run the sample and print what survived."""
    options = _options()
    seed = options.seed if options.seed is not None else random.randrange(1 << 32)
    mutants = _sample(options.file, options.sample, seed)
    print(f"{len(mutants)} mutants, seed {seed}", flush=True)
    survivors = _survivors(mutants, options.workers)
    judged = [each for each in survivors if judged_equivalent(each)]
    alive = [each for each in survivors if each not in judged]
    for mutant in alive:
        print(f"\nsurvived: {mutant.path}:{mutant.line}\n  - {mutant.before}\n  + {mutant.after}")
    tried = len(mutants) - len(judged)
    caught = tried - len(alive)
    share = caught / tried if tried else 1.0
    print(
        f"\n{caught} of {tried} mutants caught ({share:.1%}); {len(alive)} survived, "
        f"{len(judged)} more change nothing that can be seen (tests/mutation/judged.toml)"
    )
    print(f"again: make mutants MUTANTS='--seed {seed} --sample {options.sample}'")
    return int(share < options.at_least)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants MUTANTS='...'", description=__doc__)
    parser.add_argument("--sample", type=int, default=120, help="how many; 0 for all (120)")
    parser.add_argument("--seed", type=int, help="of the sample; printed, drawn anew by default")
    parser.add_argument("--file", default="", help="only in files whose path contains this")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--at-least", type=float, default=0.9, help="share to be caught (0.9)")
    return parser.parse_args()


def _sample(part: str, size: int, seed: int) -> list[Mutant]:
    source = ROOT / "src" / "nicscope"
    files = [path for room in ROOMS for path in sorted((source / room).rglob("*.py"))]
    generator = random.Random(seed)
    mutants = [
        mutant
        for path in files
        if part in str(path)
        for mutant in mutants_of(path, path.relative_to(ROOT), generator)
    ]
    generator.shuffle(mutants)
    return mutants[:size] if size else mutants


def _survivors(mutants: list[Mutant], workers: int) -> list[Mutant]:
    free: SimpleQueue[Trial] = SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for number in range(workers):
            free.put(copied_tree(ROOT, Path(folder) / str(number)))

        def try_one(mutant: Mutant) -> bool:
            trial = free.get()
            try:
                return survives(mutant, trial)
            finally:
                free.put(trial)

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns) as progress, ThreadPoolExecutor(workers) as pool:
            lived = progress.track(
                pool.map(try_one, mutants), total=len(mutants), description="mutants"
            )
            return [mutant for mutant, alive in zip(mutants, lived, strict=True) if alive]


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)  # no worker's tests stay behind
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except subprocess.SubprocessError as error:
        sys.exit(f"the tests do not run: {error}")
