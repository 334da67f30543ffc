"""A program trace made row by row, by what records or imports one."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from nicscope.traces.programs.schema import LIST_COLUMNS, NOBODY, OTHERS_COLUMNS, ProgramTrace
from nicscope.traces.programs.waits import (
    Lists,
    OtherLists,
    OthersOfRows,
    WaitsOfRows,
    places_of_rows,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nicscope.traces.programs.schema import Operation, Others, ProgramMetadata, Waits

_KINDS = {
    "operation": ("B", np.uint8),
    "peer": ("i", np.int32),
    "address": ("Q", np.uint64),
    "length": ("I", np.uint32),
    "name": ("q", np.int64),
    "duration_ns": ("Q", np.uint64),
}


class ProgramBuilder:
    """Takes rows of any process in the order in which that process asked."""

    def __init__(self, metadata: ProgramMetadata) -> None:
        self.metadata = metadata
        many = range(metadata.processes)
        self._columns = [{name: array(kind) for name, (kind, _) in _KINDS.items()} for _ in many]
        # Of each row's lists: the length plus one; 0: null.
        self._counts = [{name: array("I") for name in LIST_COLUMNS} for _ in many]
        self._others: dict[str, list[tuple[int, int, Sequence[tuple[int, int]]]]] = {
            name: [] for name in OTHERS_COLUMNS
        }
        self._places = [{name: array("I") for name in LIST_COLUMNS} for _ in many]

    def add(
        self,
        process: int,
        operation: Operation,
        *,
        peer: int = NOBODY,
        address: int = 0,
        length: int = 0,
        name: int = 0,
        duration_ns: int = 0,
        after: Sequence[int] | None = None,
        after_start: Sequence[int] | None = None,
        after_others: Sequence[tuple[int, int]] = (),
        after_start_others: Sequence[tuple[int, int]] = (),
    ) -> int:
        """Append a row to a process's; its place there.

        ``after``: None for the row before.  Rows of others: processes, and places there.
        Errors: ``OverflowError`` for a number that its column cannot hold.
        """
        columns = self._columns[process]
        place = len(columns["operation"])
        columns["operation"].append(operation)
        columns["peer"].append(peer)
        columns["address"].append(address)
        columns["length"].append(length)
        columns["name"].append(name)
        columns["duration_ns"].append(duration_ns)
        for called, places in (("after", after), ("after_start", after_start)):
            self._counts[process][called].append(0 if places is None else len(places) + 1)
            if places:
                self._places[process][called].extend(places)
        for called, others in (
            ("after_others", after_others),
            ("after_start_others", after_start_others),
        ):
            if others:
                self._others[called].append((process, place, others))
        return place

    def count(self, process: int) -> int:
        """How many rows a process has so far."""
        return len(self._columns[process]["operation"])

    def trace(self) -> ProgramTrace:
        """All rows so far, unchecked."""
        rows = [len(columns["operation"]) for columns in self._columns]
        first = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
        held = {
            name: np.concatenate([np.array(columns[name], kind) for columns in self._columns])
            for name, (_, kind) in _KINDS.items()
        }
        waits = {name: self._waits(name, first) for name in LIST_COLUMNS}
        others = {name: self._of_others(name, first) for name in OTHERS_COLUMNS}
        return ProgramTrace(self.metadata, first, **held, **waits, **others)  # type: ignore[arg-type]

    def _of_others(self, name: str, first: NDArray[np.int64]) -> Others | None:
        counts = np.zeros(int(first[-1]), np.int64)
        named: list[tuple[int, int]] = []
        for process, place, others in sorted(self._others[name], key=lambda each: each[:2]):
            counts[first[process] + place] = len(others)
            named += others
        columns = np.array(named, np.uint32).reshape(-1, 2)
        of_rows = OthersOfRows()
        of_rows.add(len(counts), OtherLists(counts, columns[:, 0], columns[:, 1]))
        return of_rows.others(first)

    def _waits(self, name: str, first: NDArray[np.int64]) -> Waits | None:
        told = np.concatenate([np.array(each[name], np.int64) for each in self._counts])
        named = np.concatenate([np.array(each[name], np.uint32) for each in self._places])
        waits = WaitsOfRows(name)
        places = places_of_rows(first, 0, len(told))
        waits.add(places, Lists(told == 0, np.maximum(told - 1, 0), named))
        return waits.waits(first)
