"""A small trace as a table, and a grid of designs."""

import pyarrow as pa

from every_command import small_columns

COUNT = 60
COLUMNS = small_columns(COUNT) | {"time_ns": [0] * COUNT}
TABLE = pa.table(COLUMNS)  # every integer has 64 bits
GRID = {"entries": [4, 16], "pin_limit": [8, None]}
