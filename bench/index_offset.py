"""How far apart an index offset keeps the set indices of processes: python bench/index_offset.py.

UTLB adds a constant per process to its set indices and leaves the constant open.  A good step
spreads the offsets ``process * step`` over the sets whatever the number of sets and processes.
This prints how well ``OFFSET_STEP`` does, and searches again as it was found.
"""

from __future__ import annotations

import argparse

import numpy as np

from nicscope.drivers.translation import OFFSET_STEP

PROCESSES = (2, 3, 4, 5, 8, 16)
SET_BITS = range(6, 18)
DRAWS = 40_000
SEED = 1
BITS = 20  # steps are odd numbers below 2**BITS


def evenness(step: int, at_least: float = 0.0) -> float:
    """Smallest gap between offsets relative to an even spacing, in the worst of the cases.

    A case is a number of first processes in a number of sets; those with fewer than four sets per
    process are left out.  Stops at the first case below ``at_least``.
    """
    worst = 1.0
    for processes in PROCESSES:
        for bits in SET_BITS:
            sets = 1 << bits
            if 4 * processes > sets:
                continue
            worst = min(worst, smallest_gap(step, processes, sets) * processes / sets)
            if worst < at_least:
                return worst
    return worst


def smallest_gap(step: int, processes: int, sets: int) -> int:
    """Sets between the two closest offsets, around the end as well."""
    offsets = sorted(process * step % sets for process in range(processes))
    around = [*offsets[1:], offsets[0] + sets]
    return min(after - before for before, after in zip(offsets, around, strict=True))


def search(draws: int) -> tuple[int, float]:
    """The best of some random odd numbers: the step and its evenness."""
    rng = np.random.default_rng(SEED)
    best, best_evenness = 1, evenness(1)
    for _ in range(draws):
        step = int(rng.integers(1 << (BITS - 1))) * 2 + 1
        found = evenness(step, best_evenness)
        if found > best_evenness:
            best, best_evenness = step, found
    return best, best_evenness


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=DRAWS)
    draws = parser.parse_args().draws
    print(f"{OFFSET_STEP:#x}, in use: {evenness(OFFSET_STEP):.3f} of an even spacing")
    step, found = search(draws)
    print(f"{step:#x}, best of {draws:,} draws with seed {SEED}: {found:.3f}")


if __name__ == "__main__":
    main()
