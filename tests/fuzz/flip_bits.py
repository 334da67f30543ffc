"""How many flipped bits of a trace are noticed: python tests/fuzz/flip_bits.py [TRACE] [--flips N].

The trace is written anew first, with the checksums of today, and 1,500 of its bits are flipped one
at a time: read as ``replay`` does, and as ``trace convert`` does.
"""

import argparse
import random
import tempfile
from collections import Counter
from pathlib import Path

from nicscope.errors import NicscopeError
from nicscope.traces.bundled import bundled_traces
from nicscope.traces.formats import convert
from nicscope.traces.reader import open_trace


def as_replay(path):
    """What a replay reads."""
    trace = open_trace(path)
    return [column.tolist() for column in trace.read()], trace.metadata


def as_convert(path):
    """Everything."""
    trace = open_trace(path)
    return [batch.to_pydict() for _, batch in trace.record_batches()], trace.metadata


def flips(path, read, count, seed=1):
    """How many flips were refused, accepted with the same result, or accepted with another."""
    good, expected = path.read_bytes(), read(path)
    chance = random.Random(seed)
    found = Counter()
    with tempfile.TemporaryDirectory() as folder:
        flipped = Path(folder) / "flipped.parquet"
        for _ in range(count):
            bit = chance.randrange(8 * len(good))
            data = bytearray(good)
            data[bit // 8] ^= 1 << bit % 8
            flipped.write_bytes(data)
            try:
                found["the same" if read(flipped) == expected else "another"] += 1
            except NicscopeError:
                found["refused"] += 1
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("trace", nargs="?", default=bundled_traces()["rsync_transfer"])
    parser.add_argument("--flips", type=int, default=1500)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.parquet"
        convert(chosen.trace, path)
        for name, read in (("replay", as_replay), ("trace convert", as_convert)):
            found = flips(path, read, chosen.flips)
            print(
                f"{path.stat().st_size:,} bytes, {chosen.flips:,} flips, {name}: "
                f"{found['refused']:,} refused, {found['the same']:,} accepted with the same "
                f"result, {found['another']:,} with another"
            )


if __name__ == "__main__":
    main()
