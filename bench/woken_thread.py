"""How often a kernel thread that is woken has to wait for a processor, by Linux 2.2's rule.

    python bench/woken_thread.py

Two processors, a program on each, and a thread that sleeps between pieces of work (docs/mini.md).
``goodness`` and ``reschedule_idle`` of kernel/sched.c: a task has a counter, of which each tick
that finds it running takes one.  When a task has used its own up, every counter becomes its half
and PRIORITY: of two programs with a processor each, either's end is that of all that can run.
"""

from __future__ import annotations

import random

PRIORITY = 20  # ticks of a slice
SAME_PROCESSOR, SAME_MEMORY = 15, 1  # more for a task where it ran last, and for the same memory
TICK_US, WORK_US, BURST_US = 10_000, 50, 1000  # a piece of the thread's work, a program's burst
SECONDS = 200
SHARES = (0.02, 0.08, 0.2, 0.4, 0.5)  # of a processor, that the thread takes
BUSY = (1.0, 0.5, 0.2)  # share of the time in which each program computes


def waits(share: float, busy: float, seed: int = 1) -> float:
    """The share of wakes at which no processor is idle and both programs are preferred."""
    rng = random.Random(seed)
    pause = WORK_US / share - WORK_US
    counters, own = [PRIORITY, PRIORITY], PRIORITY
    ticks, changes, computes = [0.0, TICK_US / 2], [0.0, 0.0], [True, True]
    wake, until, processor = rng.expovariate(1 / pause), 0.0, 0
    wakes = refused = 0
    now = 0.0
    while now < SECONDS * 1e6:
        now = min(wake, *ticks)
        for p in range(2):
            while busy < 1 and changes[p] <= now:
                computes[p] = not computes[p]
                changes[p] += rng.expovariate(1 / BURST_US / (busy if computes[p] else 1 - busy))
        if now == wake:
            wakes += 1
            order = (processor, 1 - processor)
            idle = [p for p in order if not computes[p]]
            taken = [
                p for p in order if own and _goodness(own, p == processor) > _program(counters[p])
            ]
            refused += not idle and not taken
            processor = (*idle, *taken, processor)[0]
            until = now + WORK_US
            wake = until + rng.expovariate(1 / pause)
        for p in range(2):
            if now == ticks[p]:
                ticks[p] += TICK_US
                if now < until and processor == p:
                    own = max(0, own - 1)
                elif computes[p]:
                    counters[p] -= 1
                    if counters[p] == 0:
                        counters = [each // 2 + PRIORITY for each in counters]
                        own = own // 2 + PRIORITY
    return refused / wakes


def _goodness(counter: int, was_here: bool) -> int:
    return counter + PRIORITY + SAME_PROCESSOR * was_here


def _program(counter: int) -> int:
    return counter + PRIORITY + SAME_PROCESSOR + SAME_MEMORY if counter else 0


if __name__ == "__main__":
    print("% of wakes that wait  ", *(f"thread {share:4.0%}" for share in SHARES))
    for busy in BUSY:
        found = [100 * waits(share, busy) for share in SHARES]
        print(f"programs compute {busy:4.0%} ", *(f"{each:11.2g}" for each in found))
