"""What pinning and copying cost on this machine, as the ``[costs]`` of a platform file.

    python bench/host_costs.py > mine.toml
    python bench/host_costs.py copies        # the copies alone

Pins with ``mlock`` resident, unpinned pages that are not neighbours, as a user library pins
scattered buffers; unpins with ``munlock``.  Copies with ``memcpy`` between pieces at random places
of two arrays that grow until they are ``BEYOND`` times the last-level cache: a program's messages
were not just touched, so what counts is what memory costs beyond the caches.

Pins and unpins are the lower quartile over rounds of the mean over the calls of a round, copies
the median, with the quartiles beside it: the machine may be busy with other things.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import platform
import statistics
import sys
import time
from datetime import date
from pathlib import Path

import numpy as np

PAGE = mmap.PAGESIZE
PAGES_PER_CALL = (1, 2, 4, 8, 16, 32)
CALLS = 16  # per round: at most 16 x 32 pages are pinned at a time
ROUNDS = 1000
COPIED_BYTES = (64, 4096)  # the line through both is what a copy costs
BEYOND = 16  # caches' worth of memory that the copies of the result go through
LEAST_IN_USE = 1 << 15  # bytes, where the sizes begin
COPIED_AT_ONCE = 1 << 22  # bytes of a round, at least; all that is in use, at least once
COPY_ROUNDS = 101


def calls_in_loops():
    """Compiled loops over libc's ``mlock`` and ``munlock``: no interpreter between two calls."""
    import numba

    libc = ctypes.CDLL(None)
    loops = []
    for function in (libc.mlock, libc.munlock):
        function.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
        function.restype = ctypes.c_int

        @numba.njit
        def loop(start, stride, length, function=function):
            failures = 0
            for call in range(CALLS):
                failures += function(start + call * stride, length) != 0
            return failures

        loops.append(loop)
    return loops


def timed_us(loop, *arguments) -> float:
    began = time.perf_counter_ns()
    if loop(*arguments):
        sys.exit("host_costs: mlock was refused; raise the limit of `ulimit -l` to 8192")
    return (time.perf_counter_ns() - began) / CALLS / 1000


def quartile(times: list[float]) -> float:
    return statistics.quantiles(times, n=4)[0]


def pin_and_unpin(pages: int) -> tuple[float, float]:
    """Microseconds of one call on ``pages`` pages: pinning, unpinning."""
    lock, unlock = calls_in_loops()
    stride, length = 2 * pages * PAGE, pages * PAGE
    memory = mmap.mmap(-1, CALLS * stride, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)  # a huge page would pin many small ones at once
    resident = np.frombuffer(memory, np.uint8)
    resident[:] = 1
    start = resident.ctypes.data
    timed_us(lock, start, stride, length)  # compiles
    timed_us(unlock, start, stride, length)
    pinning, unpinning = [], []
    for _ in range(ROUNDS):
        pinning.append(timed_us(lock, start, stride, length))
        unpinning.append(timed_us(unlock, start, stride, length))
    return quartile(pinning), quartile(unpinning)


def last_level_cache() -> int:
    """Bytes of the largest cache that the first processor has."""
    folder = Path("/sys/devices/system/cpu/cpu0/cache")
    sizes = [file.read_text().strip() for file in folder.glob("index*/size")]
    if not sizes:
        sys.exit(f"host_costs: {folder} names no caches; copies beyond them cannot be told")
    return max(int(size.removesuffix("K")) << 10 for size in sizes)


def bytes_in_use(cache: int) -> list[int]:
    """How much memory copies go through, doubling from well within the caches to beyond."""
    sizes = [LEAST_IN_USE]
    while sizes[-1] < BEYOND * cache:
        sizes.append(4 * sizes[-1])
    return sizes


def places(length: int, in_use: int) -> np.ndarray:
    """Where the copies of a round begin: all pieces of one of two arrays, at random, at least once.

    Were some left out, the others would come again each round, and stay in the caches.
    """
    starts = np.random.default_rng(1).permutation(in_use // 2 // length) * length
    return np.resize(starts, max(COPIED_AT_ONCE // length, len(starts)))


def copy_ns(length: int, in_use: int) -> list[float]:
    """Nanoseconds of copying ``length`` bytes within ``in_use``, of each round, ascending.

    In processor time: what a round loses to others who run in between is not counted.
    """
    import numba

    copy = ctypes.CDLL(None).memcpy
    copy.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t]
    copy.restype = ctypes.c_size_t

    @numba.njit
    def loop(source, target, starts):
        for place in range(starts.size):
            copy(target + starts[place], source + starts[place], length)

    source, target = np.ones(in_use // 2, np.uint8), np.ones(in_use // 2, np.uint8)
    starts = places(length, in_use)
    loop(source.ctypes.data, target.ctypes.data, starts)
    took = []
    for _ in range(COPY_ROUNDS):
        began = time.thread_time_ns()
        loop(source.ctypes.data, target.ctypes.data, starts)
        took.append((time.thread_time_ns() - began) / len(starts))
    return sorted(took)


def copy_costs(where: str) -> list[str]:
    """Lines of the platform file, after remarks on what was found at other sizes."""
    cache = last_level_cache()
    sizes = bytes_in_use(cache)
    small, large = COPIED_BYTES
    lines = []
    for in_use in sizes:
        long = copy_ns(large, in_use)
        low, middle, high = (one / large for one in statistics.quantiles(long, n=4))
        lines.append(
            f"# {large}-byte copies within {in_use >> 10} KiB: {middle:.4f} ns/B, "
            f"quartiles {low:.4f} and {high:.4f}"
        )
    short = statistics.median(copy_ns(small, sizes[-1]))
    per_byte = (statistics.median(long) - short) / (large - small)
    start_us = max(round((short - small * per_byte) / 1000, 4), 0)
    source = json.dumps(
        f"python bench/host_costs.py copies, {where}; median of {COPY_ROUNDS}, {large}-byte copies "
        f"within {sizes[-1] >> 20} MiB, the last-level cache has {cache >> 20}; "
        f"quartiles {low:.3f} and {high:.3f} ns/B"
    )
    tail = f'evidence = "measured", source = {source} }}'
    return [
        *lines,
        f'copy_start = {{ value = {start_us}, unit = "us", {tail}',
        f'copy_per_byte = {{ value = {round(per_byte, 3)}, unit = "ns/B", {tail}',
    ]


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def pin_costs(where: str) -> list[str]:
    """Lines of the platform file."""
    measured = [pin_and_unpin(pages) for pages in PAGES_PER_CALL]
    source = json.dumps(f"python bench/host_costs.py, {where}")
    tail = f'evidence = "measured", source = {source} }}'
    lines = []
    for name, column in (("user_pin", 0), ("user_unpin", 1)):
        values = [round(times[column], 2) for times in measured]
        lines.append(
            f'{name} = {{ at = {list(PAGES_PER_CALL)}, value = {values}, unit = "us", {tail}'
        )
    return lines


def main() -> None:
    release = platform.release().partition("-")[0]
    machine = f"{processor()}, {os.cpu_count()} CPUs, Linux {release}, {PAGE}-byte pages"
    where = f"{date.today()}, on {machine}"
    print(f"title = {json.dumps(f'Present-day host: {machine}')}\n\n[costs]")
    if sys.argv[1:] != ["copies"]:
        print("\n".join(pin_costs(where)))
    print("\n".join(copy_costs(where)))


if __name__ == "__main__":
    main()
