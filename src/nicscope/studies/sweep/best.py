"""The best points of a finished table, by what the whole trace cost: misses and time in all.

Of one trace the totals of all points compare, whatever their pages or lines; rates do where they
are taken per the same number. A point that turns requests away comes after all that do not. What
has no whole price is a lower bound, so it is no candidate for the cheapest, and is told apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nicscope.studies.denominator import Denominator
from nicscope.studies.sweep.table import PER_LOOKUP

if TYPE_CHECKING:
    import io
    from pathlib import Path

_SIZE = "nic_memory_bytes"
_MISSES, _HIGH, _LOW = "ni_misses", "cost_us_high", "cost_us_low"
_UNPRICED = "cost_unpriced"
_KEYS = ["trace", "rejected", _MISSES, _LOW, _HIGH, "cost_is_lower_bound", _UNPRICED, _SIZE]


class Unpriced(NamedTuple):
    """Points of a trace of which some step that happened has no price."""

    points: int
    of: int  # points of the trace
    perhaps_cheaper: int  # of them: what is priced costs less than the cheapest point
    reasons: list[str]  # what is not stated; all that there are


class Table:
    """A sweep's table as far as points are compared; rows are read when they are asked for."""

    def __init__(self, file: Path | io.BufferedRandom) -> None:
        self._file = pq.ParquetFile(file)
        self._keys = self._file.read(columns=_KEYS)
        self.rows: int = self._file.metadata.num_rows
        self.columns: list[str] = list(self._file.schema_arrow.names)

    @property
    def denominator(self) -> Denominator:
        """What its rates are per."""
        shared = all(name in self.columns for name in PER_LOOKUP)
        return Denominator.LOOKUP if shared else Denominator.REQUEST

    def fewest_misses(self, trace: str, count: int) -> list[dict[str, Any]]:
        """Up to ``count`` rows of ``trace`` by misses in all; the smaller NIC memory first."""
        return self._best(self._of(trace), [_MISSES, _SIZE, _HIGH, _LOW], count)

    def cheapest(self, trace: str, count: int) -> list[dict[str, Any]]:
        """Up to ``count`` rows of ``trace`` by the upper end of what all cost; no lower bounds."""
        rows = self._of(trace)
        whole = rows.filter(pc.is_valid(rows[_HIGH]))
        return self._best(whole, [_HIGH, _LOW, _MISSES, _SIZE], count)

    def unpriced(self, trace: str) -> Unpriced | None:
        """What of ``trace`` has no whole price; None if all has, or there is no platform."""
        rows = self._of(trace)
        without = rows.filter(pc.is_valid(rows[_UNPRICED]))
        if not len(without):
            return None
        cheapest = self.cheapest(trace, 1)
        least = cheapest[0][_HIGH] if cheapest else None
        lows = without[_LOW].to_pylist()
        perhaps = [low for low in lows if low is None or least is None or low < least]
        reasons = sorted(pc.unique(without[_UNPRICED]).to_pylist())
        return Unpriced(len(without), len(rows), len(perhaps), reasons)

    def _of(self, trace: str) -> Any:
        rows = self._keys.append_column("row", pa.array(range(self.rows)))
        return rows.filter(pc.equal(rows["trace"], trace))

    def _best(self, rows: Any, keys: list[str], count: int) -> list[dict[str, Any]]:
        order = [(key, "ascending") for key in ("rejected", *keys, "row")]
        best = rows.take(pc.sort_indices(rows, order)[:count])["row"].to_pylist()
        return [self._row(row) for row in best]

    def _row(self, row: int) -> dict[str, Any]:
        group = 0
        while row >= (length := self._file.metadata.row_group(group).num_rows):
            row -= length
            group += 1
        found: dict[str, Any] = self._file.read_row_group(group).slice(row, 1).to_pylist()[0]
        return found
