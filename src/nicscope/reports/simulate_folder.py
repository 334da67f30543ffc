"""Simulations as a set of files: results.json, and of traces times.parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.reports.folder import write_json, write_parquet

if TYPE_CHECKING:
    from pathlib import Path

    from nicscope.outputs import OutputFolder
    from nicscope.studies.programs import ProgramRuns
    from nicscope.studies.simulating import TraceSimulation


def write_trace_simulation(found: TraceSimulation, folder: OutputFolder) -> list[Path]:
    """The files of ``folder``; errors: ``OutputError`` for the first that cannot be written."""
    results = write_json(folder, "results.json", found.to_json())
    return [results, write_parquet(folder, "times.parquet", _times(found))]


def write_program_runs(found: ProgramRuns, folder: OutputFolder) -> list[Path]:
    """The file of ``folder``; errors: ``OutputError``."""
    return [write_json(folder, "results.json", found.to_json())]


def _times(found: TraceSimulation) -> Any:
    """One row per design, node and part of its time."""
    import pyarrow as pa

    rows = [
        (each.design.name, node.number, name, ps)
        for each in found.found
        for node in each.nodes
        for name, ps in node.times_ps.items()
    ]
    names = ("design", "node", "part", "ps")
    kinds = (pa.string(), pa.int32(), pa.string(), pa.int64())
    columns = zip(*rows, strict=True)
    return pa.table(
        {
            name: pa.array(column, kind)
            for name, kind, column in zip(names, kinds, columns, strict=True)
        }
    )
