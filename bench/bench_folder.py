"""A folder of 64 files and 256 nodes replayed by one worker, by two, and by two of which one dies.

The files are made first (about 6 bytes a row, removed at the end).  Each node has four processes
whose requests follow a Zipf law over a million pages.  Efficiency is the time of one worker over
twice that of two; as others may keep the processors busy, the processors' time is told as well.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import tempfile
import time
from pathlib import Path

import compiled  # noqa: F401 - rates are those of compiled code
import numpy as np

from nicscope.studies.replaying import choose_subjects, compare
from nicscope.studies.workers.processes import LocalWorkers
from nicscope.traces.folders.reading import open_folder
from nicscope.traces.writer import TraceWriter

FILES = 64
NODES_EACH = 4
PROCESSES = 4
PAGES = 1 << 20
CHUNK = 1 << 20  # rows


def make(folder: Path, rows: int) -> None:
    """Write ``rows`` rows in all."""
    each = rows // FILES
    for number in range(FILES):
        rng = np.random.default_rng(number)
        with TraceWriter(folder / f"part-{number:02}.parquet") as trace:
            for begin in range(0, each, CHUNK):
                count = min(CHUNK, each - begin)
                ranks = np.exp(rng.random(count) * np.log(PAGES)).astype(np.uint64)
                pages = ranks * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(64 - 20)
                trace.write(
                    {
                        "time_ns": np.arange(begin, begin + count, dtype=np.int64) * 100,
                        "node": number * NODES_EACH + rng.integers(0, NODES_EACH, count),
                        "pid": rng.integers(0, PROCESSES, count, dtype=np.int32),
                        "op": rng.integers(0, 6, count).astype(np.uint8),
                        "address": pages << np.uint64(12),
                        "length": np.full(count, 4096, np.uint32),
                    }
                )


def replayed(folder: Path, design: str, hands: int, kill: bool = False) -> tuple[str, dict]:
    """What ``hands`` workers find, and what it took."""
    subjects = choose_subjects([design], None, [])
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    trace = open_folder(folder)
    killed: list[int] = []
    with LocalWorkers(hands) as workers:

        def watch(done: int, total: int) -> None:
            if kill and not killed and 2 * done > total:
                killed.append(workers.processes()[0])
                os.kill(killed[0], signal.SIGKILL)

        found = compare(trace, subjects, kinds=False, watch=watch, workers=workers)
        seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = {
        "workers": hands,
        "killed": len(killed),
        "seconds": round(seconds, 2),
        "processor_seconds": round(
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2
        ),
        "rows_per_s": round(trace.rows / seconds),
        "largest_worker_mb": round(after.ru_maxrss / 1024),
    }
    return json.dumps(found.to_json()), took


def main() -> None:
    """Make, replay, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=float, default=2e8)
    options.add_argument("--design", default="utlb")
    options.add_argument("--rounds", type=int, default=2)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        start = time.perf_counter()
        make(folder, int(chosen.rows))
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(f"made {size / 1e9:.2f} GB in {time.perf_counter() - start:.0f} s", flush=True)
        texts, times = set(), {1: [], 2: []}
        for _ in range(chosen.rounds):
            for hands, kill in ((1, False), (2, False), (2, True)):
                text, took = replayed(folder, chosen.design, hands, kill)
                texts.add(text)
                print(took, flush=True)
                if not kill:
                    times[hands].append(took["seconds"])
                else:
                    print(f"  with one killed: {min(times[1]) / 2 / took['seconds']:.3f}")
        print(
            f"efficiency {min(times[1]) / 2 / min(times[2]):.3f}; results differ: {len(texts) > 1}"
        )


if __name__ == "__main__":
    main()
