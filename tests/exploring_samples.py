"""A small trace that is explored, with its passes running."""

import contextlib
import json
import random

import pyarrow as pa
import pyarrow.parquet as pq

from nicscope.studies.exploring import Explorer
from nicscope.traces.reader import open_trace


def small_trace(folder, count=300):
    """A file of ``count`` requests of five processes on two nodes, over some 150 pages."""
    drawn = random.Random(7)
    rows = {
        "time_ns": pa.array(range(count), pa.int64()),
        "node": pa.array([i % 2 for i in range(count)], pa.int32()),
        "pid": pa.array([7 + drawn.randrange(5) for _ in range(count)], pa.int32()),
        "op": pa.array(
            [drawn.choice(["send", "recv"]) for _ in range(count)],
            pa.dictionary(pa.int32(), pa.string()),
        ),
        "address": pa.array(
            [0x10000 + 512 * int(drawn.paretovariate(0.5)) % (1 << 20) for _ in range(count)],
            pa.uint64(),
        ),
        "length": pa.array([1 + drawn.randrange(12000) for _ in range(count)], pa.uint32()),
        "peer": pa.array([None] * count, pa.int32()),
        "buffer": pa.array([None] * count, pa.int32()),
    }
    path = folder / "small.parquet"
    pq.write_table(pa.table(rows), path)
    return path


def own_design(folder, name="mine.toml", **settings):
    """A design file of a user's own, priced by a platform file beside it."""
    (folder / "cheap.toml").write_text('title = "Cheap"\n[costs]\nni_check = "2us"\n')
    told = {"scheme": "utlb", "title": "Ours", "platform": "cheap.toml", "entries": 64, **settings}
    path = folder / name
    path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in told.items()))
    return path


@contextlib.contextmanager
def explorer(path, designs=()):
    """Yield an explorer of the trace at ``path`` that counts."""
    found = Explorer(str(path), open_trace(path), designs)
    found.passes.start()
    try:
        yield found
    finally:
        found.passes.stop()
