"""A small trace as a table, and a grid of designs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

COUNT = 60
COLUMNS = {
    "time_ns": np.zeros(COUNT, np.int64),
    "node": np.arange(COUNT) % 2,
    "pid": 7 + np.arange(COUNT) % 3,
    "op": ["recv" if place % 3 == 0 else "send" for place in range(COUNT)],
    "address": 0x10000 + 4096 * (np.arange(COUNT) ** 2 % 23),
    "length": 100 + 3000 * (np.arange(COUNT) % 4),
}
TABLE = pa.table(COLUMNS)  # every integer has 64 bits
GRID = {"entries": [4, 16], "pin_limit": [8, None]}
