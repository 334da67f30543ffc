"""Simulations as files: results.json, and of traces times.parquet, each whole or not there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nicscope.outputs import whole_file

if TYPE_CHECKING:
    from pathlib import Path

    from nicscope.studies.programs import ProgramRuns
    from nicscope.studies.simulating import TraceSimulation


def write_trace_simulation(found: TraceSimulation, folder: Path) -> list[Path]:
    """The files written to ``folder``; errors: ``OutputError`` for the first that cannot be."""
    return [_write_json(found.to_json(), folder), _write_times(found, folder / "times.parquet")]


def write_program_runs(found: ProgramRuns, folder: Path) -> list[Path]:
    """The file written to ``folder``; errors: ``OutputError``."""
    return [_write_json(found.to_json(), folder)]


def _write_json(plain: dict[str, Any], folder: Path) -> Path:
    path = folder / "results.json"
    with whole_file(path) as part:
        text = json.dumps(plain, indent=2, ensure_ascii=False) + "\n"
        part.write_text(text, encoding="utf-8")
    return path


def _write_times(found: TraceSimulation, path: Path) -> Path:
    """One row per design, node and part of its time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        (each.design.name, node.number, name, ps)
        for each in found.found
        for node in each.nodes
        for name, ps in node.times_ps.items()
    ]
    names = ("design", "node", "part", "ps")
    kinds = (pa.string(), pa.int32(), pa.string(), pa.int64())
    columns = zip(*rows, strict=True)
    table = pa.table(
        {
            name: pa.array(column, kind)
            for name, kind, column in zip(names, kinds, columns, strict=True)
        }
    )
    with whole_file(path) as part:
        pq.write_table(table, part)
    return path
