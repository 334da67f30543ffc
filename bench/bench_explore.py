"""How long the explorer's answers take over 10 million lookups: python bench/bench_explore.py.

The command is started as anybody would, over 5 M requests of two pages each, of four processes on
two nodes.  ``first``: until the first numbers, and the first whole curve, are there, start and
reading included.  Then answers one after the other, over HTTP, of designs drawn with a fixed seed:
while the passes ahead are made, and after; of shapes and page sizes, which follow from these; and
of policies, each of which takes a pass of its own the first time: how long that is, apart.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import compiled  # noqa: F401 - rates are those of compiled code
import numpy as np

from nicscope.traces.writer import TraceWriter

if TYPE_CHECKING:
    from collections.abc import Callable

PAGES = 200_000
AGAIN_S = 0.15  # as the page asks again
QUIET_S = 2.0  # of little work: the passes ahead are made


def write(path: Path, requests: int) -> Path:
    drawn = np.random.default_rng(1)
    page = (drawn.zipf(1.2, requests) % PAGES).astype(np.uint64)
    pid = drawn.integers(0, 4, requests).astype(np.int32)
    columns = {
        "time_ns": np.arange(requests, dtype=np.int64),
        "node": pid % np.int32(2),
        "pid": pid + np.int32(7),
        "op": drawn.integers(0, 2, requests).astype(np.uint8),
        "address": page * np.uint64(4096),
        "length": np.full(requests, 8192, np.uint32),
    }
    with TraceWriter(path) as writer:
        for begin in range(0, requests, 1 << 18):
            writer.write({name: each[begin : begin + (1 << 18)] for name, each in columns.items()})
    return path


class Page:
    """What a browser would ask."""

    def __init__(self, address: str) -> None:
        self._address = address

    def ask(self, query: str) -> tuple[float, dict[str, Any]]:
        began = time.perf_counter()
        with urllib.request.urlopen(f"{self._address}answer?{query}") as answer:
            found = json.load(answer)
        return time.perf_counter() - began, found

    def until_there(self, query: str) -> tuple[float, bool, float]:
        """Seconds until the numbers are there, whether it was asked again, and until a sample's."""
        began = time.perf_counter()
        again, sample = False, 0.0
        while "working" in (answer := self.ask(query)[1]):
            again = True
            if "sample" in answer and not sample:
                sample = time.perf_counter() - began
            time.sleep(AGAIN_S)
        return time.perf_counter() - began, again, sample


def measure(page: Page, name: str, draw: Callable[[], str], count: int) -> None:
    answers = [page.until_there(draw()) for _ in range(count)]
    kinds = {
        "at once": [seconds for seconds, again, _ in answers if not again],
        "of a sample": [sample for _, again, sample in answers if again],
        "after a pass": [seconds for seconds, again, _ in answers if again],
    }
    for kind, found in kinds.items():
        times = sorted(1e3 * seconds for seconds in found)
        if times:
            median, most = times[len(times) // 2], times[int(len(times) * 0.95)]
            print(
                f"{name:32}{kind:14}{len(times):5} answers   p50 {median:8.1f} ms"
                f"   p95 {most:8.1f} ms   most {times[-1]:8.1f} ms",
                flush=True,
            )


def wait_until_quiet(process: int) -> None:
    def used() -> int:
        return sum(map(int, Path(f"/proc/{process}/stat").read_text().split()[13:15]))

    before = used()
    while True:
        time.sleep(QUIET_S)
        now = used()
        if now - before < 10:  # ticks, a hundredth of a second each
            return
        before = now


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=5_000_000)
    parser.add_argument("--answers", type=int, default=200)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trace = write(Path(folder) / "explored.parquet", asked.requests)
        command = [sys.executable, "-m", "nicscope", "explore", str(trace), "--no-browser"]
        began = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            match = re.search(r"http://\S+", running.stdout.readline())
            assert match
            try:
                measure_all(Page(match[0]), running.pid, began, asked.answers)
            finally:
                running.terminate()


def measure_all(page: Page, process: int, began: float, count: int) -> None:
    drawn = random.Random(1)
    page.until_there("design=utlb")
    print(f"first numbers {time.perf_counter() - began:.1f} s after the start", flush=True)
    while page.ask("design=utlb")[1]["curve"]["pending"]:
        time.sleep(AGAIN_S)
    print(f"first curve {time.perf_counter() - began:.1f} s after the start", flush=True)

    def shape() -> str:
        design = drawn.choice(["utlb", "vmmc-interrupt"])
        return (
            f"design={design}&entries={1 << drawn.randint(4, 16)}&ways={1 << drawn.randint(0, 4)}"
        )

    def larger() -> str:
        return f"{shape()}&page_size={drawn.choice([4096, 16384, 65536, 1 << 21])}"

    def policy() -> str:
        limit, fetched = 1 << drawn.randint(10, 14), 1 << drawn.randint(1, 4)
        return f"design=utlb&entries=4096&pin_limit={limit}&prefetch={fetched}"

    measure(page, "shapes, while passes are made", shape, count)
    wait_until_quiet(process)
    print(f"passes made ahead {time.perf_counter() - began:.1f} s after the start", flush=True)
    measure(page, "shapes", shape, count)
    measure(page, "shapes and page sizes", larger, count)
    measure(page, "policies", policy, max(count // 5, 1))


if __name__ == "__main__":
    main()
