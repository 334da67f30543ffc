"""A folder of 64 files and 256 nodes replayed by one worker, by two, and by two of which one dies.

The files are made first (about 6 bytes a row, removed at the end).  Each node has four processes
whose requests follow a Zipf law over a million pages.  Efficiency is the time of one worker over
twice that of two.  As others may keep the processors busy, it is told by the processors' time too:
of one worker, over that of two with all that they do besides.  What does not
grow with the rows, such as the start of a worker, is what as many files with few rows take.
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
from nicscope.studies.workers import LocalWorkers
from nicscope.traces.folders import open_folder
from nicscope.traces.writer import TraceWriter

FILES = 64
NODES_EACH = 4
PROCESSES = 4
PAGES = 1 << 20
CHUNK = 1 << 20  # rows
FEW = 64  # rows of a file that has next to none


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
    start, own = time.perf_counter(), time.process_time()
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
    own = time.process_time() - own
    took = {
        "workers": hands,
        "killed": len(killed),
        "seconds": round(seconds, 2),
        "processor_seconds": round(
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime + own, 2
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
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as other:
        folder, few = Path(made), Path(other)
        make(few, FILES * FEW)
        start = time.perf_counter()
        make(folder, int(chosen.rows))
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(f"made {size / 1e9:.2f} GB in {time.perf_counter() - start:.0f} s", flush=True)
        texts, times, processor = set(), {1: [], 2: []}, {1: [], 2: []}
        for _ in range(chosen.rounds):
            for hands, kill in ((1, False), (2, False), (2, True)):
                text, took = replayed(folder, chosen.design, hands, kill)
                texts.add(text)
                print(took, flush=True)
                if not kill:
                    times[hands].append(took["seconds"])
                    processor[hands].append(took["processor_seconds"])
                else:
                    by_clock = min(times[1]) / 2 / took["seconds"]
                    of_processor = min(processor[1]) / took["processor_seconds"]
                    print(f"  with one killed: {by_clock:.3f}, by processor {of_processor:.3f}")
        by_clock = min(times[1]) / 2 / min(times[2])
        of_processor = min(processor[1]) / min(processor[2])
        print(f"efficiency {by_clock:.3f}, by processor {of_processor:.3f}")
        for hands in (1, 2):
            took = replayed(few, chosen.design, hands)[1]["processor_seconds"]
            print(f"of few rows, by {hands}: {took:.2f} s of the processor")
        print(f"results differ: {len(texts) > 1}")


if __name__ == "__main__":
    main()
