"""What pinning and copying cost on this machine, as the ``[costs]`` of a platform file.

    python bench/host_costs.py > mine.toml

Pins with ``mlock`` resident, unpinned pages that are not neighbours, as a user library pins
scattered buffers; unpins with ``munlock``; copies with ``memcpy`` within the processor's cache.
Every figure is the lower quartile over rounds of the mean over the calls of a round: the machine
may be busy with other things.
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
COPIED_BYTES = (64, 4096)
COPIES = 1000


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


def copy_us(length: int) -> float:
    """Microseconds of copying ``length`` bytes between two arrays."""
    import numba

    copy = ctypes.CDLL(None).memcpy
    copy.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t]
    copy.restype = ctypes.c_size_t

    @numba.njit
    def loop(source, target):
        for _ in range(COPIES):
            copy(target, source, length)

    source, target = np.ones(length, np.uint8), np.ones(length, np.uint8)
    loop(source.ctypes.data, target.ctypes.data)
    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter_ns()
        loop(source.ctypes.data, target.ctypes.data)
        took.append((time.perf_counter_ns() - began) / COPIES / 1000)
    return quartile(took)


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def main() -> None:
    measured = [pin_and_unpin(pages) for pages in PAGES_PER_CALL]
    small, large = (copy_us(length) for length in COPIED_BYTES)
    per_byte_ns = round(1000 * (large - small) / (COPIED_BYTES[1] - COPIED_BYTES[0]), 3)
    start_us = round(small - COPIED_BYTES[0] * per_byte_ns / 1000, 3)
    release = platform.release().partition("-")[0]
    machine = f"{processor()}, {os.cpu_count()} CPUs, Linux {release}, {PAGE}-byte pages"
    command = "python bench/host_costs.py"
    source = json.dumps(f"{command}, {date.today()}, on {machine}")
    tail = f'evidence = "measured", source = {source} }}'
    print(f"title = {json.dumps(f'Present-day host: {machine}')}\n\n[costs]")
    for name, column in (("user_pin", 0), ("user_unpin", 1)):
        values = [round(times[column], 2) for times in measured]
        print(f'{name} = {{ at = {list(PAGES_PER_CALL)}, value = {values}, unit = "us", {tail}')
    print(f'copy_start = {{ value = {max(start_us, 0)}, unit = "us", {tail}')
    print(f'copy_per_byte = {{ value = {per_byte_ns}, unit = "ns/B", {tail}')


if __name__ == "__main__":
    main()
