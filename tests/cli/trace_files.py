"""Trace files for the tests of this folder, believable or not."""

import pyarrow as pa
import pyarrow.parquet as pq

from every_command import small_columns
from nicscope.traces.columns import TYPES


def write(path, count=40, types=None, **columns):
    """A trace of ``count`` requests over few pages on two nodes, some columns replaced."""
    absent = {"peer": [None] * count, "buffer": [None] * count}
    kinds = TYPES | (types or {})
    rows = small_columns(count) | absent | columns
    table = pa.table({name: pa.array(list(v), kinds[name]) for name, v in rows.items()})
    pq.write_table(table, path)
    return path
