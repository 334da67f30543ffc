"""The best points of a finished table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nicscope.studies.sweep.table import COST, MISS_RATIO

if TYPE_CHECKING:
    import io
    from pathlib import Path

_SIZE = "nic_memory_bytes"


class Table:
    """A sweep's table as far as points are compared; rows are read when they are asked for."""

    def __init__(self, file: Path | io.BufferedRandom) -> None:
        self._file = pq.ParquetFile(file)
        self._keys = self._file.read(
            columns=["trace", MISS_RATIO, COST, "cost_is_lower_bound", _SIZE]
        )
        self.rows: int = self._file.metadata.num_rows
        self.columns: list[str] = list(self._file.schema_arrow.names)

    def fewest_misses(self, trace: str, count: int) -> list[dict[str, Any]]:
        """Up to ``count`` rows of ``trace`` by miss ratio; the smaller NIC memory first."""
        return self._best(trace, [MISS_RATIO, _SIZE, COST], count)

    def cheapest(self, trace: str, count: int) -> list[dict[str, Any]]:
        """Up to ``count`` rows of ``trace`` by cost per lookup; lower bounds come last."""
        return self._best(trace, ["cost_is_lower_bound", COST, _SIZE], count)

    def _best(self, trace: str, keys: list[str], count: int) -> list[dict[str, Any]]:
        rows = self._keys.append_column("row", pa.array(range(self.rows)))
        rows = rows.filter(pc.equal(rows["trace"], trace))
        if MISS_RATIO not in keys:
            rows = rows.filter(pc.is_valid(rows[COST]))
        order = [(key, "ascending") for key in (*keys, "row")]
        best = rows.take(pc.sort_indices(rows, order)[:count])["row"].to_pylist()
        return [self._row(row) for row in best]

    def _row(self, row: int) -> dict[str, Any]:
        group = 0
        while row >= (length := self._file.metadata.row_group(group).num_rows):
            row -= length
            group += 1
        found: dict[str, Any] = self._file.read_row_group(group).slice(row, 1).to_pylist()[0]
        return found
